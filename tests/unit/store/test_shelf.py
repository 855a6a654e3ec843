from __future__ import annotations

import pytest
from kv_states import NAMESPACE, record

from standfast.store.media.ram import RamMedium
from standfast.store.shelf import Pace, Shelf


def test_what_is_lost_or_broken_is_told() -> None:
    shelf, lost = Shelf(RamMedium(1 << 20)), list[bytes]()
    shelf.on_lost = lost.append
    a, b = record(1), record(2)
    assert shelf.publish(a)
    shelf.medium.put_many([(b.run.key, [b"noise" * 100])])
    with shelf.read(NAMESPACE, [a.run.key, b.run.key, b"k" * 32]) as found:
        assert [r is not None for r in found] == [True, False, False]
    assert lost == [b.run.key, b"k" * 32]
    assert shelf.broken == {"magic": 1}
    assert shelf.peek([b.run.key], 9) == [None]


def test_no_room_is_told() -> None:
    assert not Shelf(RamMedium(100)).publish(record(1))


def test_paces_are_learned() -> None:
    pace = Pace(0.0, 1e6)
    for _ in range(200):
        pace.saw(100, 0.01)
        pace.saw(1 << 20, 0.01 + (1 << 20) / 1e9)
    assert pace.seconds(0) == pytest.approx(0.01, rel=0.01)
    assert pace.seconds(1 << 20) == pytest.approx(0.01 + (1 << 20) / 1e9, rel=0.01)
