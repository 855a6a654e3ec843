from __future__ import annotations

from dataclasses import replace

import pytest
from kv_states import LAYOUT, record

from standfast.store.codecs.raw import Raw
from standfast.store.media.ram import RamMedium
from standfast.store.policies.lru import LRU
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier


def tier(capacity: int, medium: int = 1 << 20, quota: float = 1.0) -> Tier:
    return Tier("l3", Shelf(RamMedium(medium)), LRU, Raw(), capacity, quota=quota)


SIZE = record(1).nbytes


def test_the_policy_makes_room() -> None:
    t, gone = tier(2 * SIZE), list[bytes]()
    t.on_gone = gone.append
    a, b, c = record(1), record(2), record(3)
    assert t.put(a, LAYOUT)
    assert t.put(b, LAYOUT)
    t.hit([a.run.key, b"unknown"])
    assert t.put(c, LAYOUT)
    assert gone == [b.run.key]
    assert (len(t), t.used) == (2, 2 * SIZE)
    assert {key for key, _ in t.shelf.medium.keys()} == {a.run.key, c.run.key}  # noqa: SIM118


def test_what_is_too_large_is_refused() -> None:
    t = tier(SIZE - 1)
    assert not t.put(record(1), LAYOUT)
    assert t.refused == 1


def test_a_tenant_over_its_quota_makes_room_for_itself_and_whoever_has_most_for_others() -> None:
    t = tier(4 * SIZE, quota=0.5)
    mine = [replace(record(n), namespace=b"m" * 32) for n in range(3)]
    theirs = [replace(record(n), namespace=b"t" * 32) for n in range(10, 12)]
    others = [replace(record(n), namespace=b"o" * 32) for n in range(20, 21)]
    assert all(t.put(one, LAYOUT) for one in (theirs[0], *mine, theirs[1], others[0]))
    assert [one.run.key in t for one in (*theirs, *mine, *others)] == [False, True, False, True, True, True]


def test_a_medium_with_less_room_than_it_was_said_to_have() -> None:
    t = tier(10 * SIZE, medium=2 * SIZE)
    assert [t.put(record(n), LAYOUT) for n in range(4)] == [True] * 4
    assert len(t) == 2


def test_a_bound_that_was_another_before_is_kept() -> None:
    t = tier(2 * SIZE)
    for n in range(4):
        one = record(n)
        t.shelf.publish(one)
        t.note(one.run.key, one.nbytes, bytes(32), one.run.parent)
    t.trim()
    assert (t.used, len(t), t.shelf.medium.stats().entries) == (2 * SIZE, 2, 2)


@pytest.mark.parametrize("known", [True, False])
def test_what_is_discarded_is_gone(known: bool) -> None:
    t = tier(9 * SIZE)
    one = record(1)
    if known:
        t.put(one, LAYOUT)
    t.discard([one.run.key])
    assert (one.run.key in t, t.used, t.size(one.run.key)) == (False, 0, 0)
