from __future__ import annotations

from pathlib import Path

import pytest
from kv_states import LAYOUT, NAMESPACE, body_of, states, tokens_of

from standfast.errors import MediumFailed
from standfast.store.check import check, repair
from standfast.store.codecs.raw import Raw
from standfast.store.copies import export, restore
from standfast.store.media.disk import DiskMedium
from standfast.store.media.ram import RamMedium
from standfast.store.policies.lru import LRU
from standfast.store.record import Kind
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier
from standfast.store.tiers import Store

TOKENS = tokens_of(range(50))


@pytest.fixture
def medium(tmp_path: Path) -> DiskMedium:
    """An archive with two contexts."""
    folder = tmp_path / "kv"
    store = Store(Shelf(RamMedium(1 << 30)), [Tier("l3", Shelf(DiskMedium(folder, 1 << 24)), LRU, Raw(), 1 << 24)])
    for n in range(2):
        tokens = tokens_of(range(40), [100 + n] * 10)
        store.keep(NAMESPACE, tokens, [(bytes([n]) * 32, 50)], LAYOUT, body_of(states(tokens)))
    store.close()
    return DiskMedium(folder, 1 << 24)


def blocks(medium: DiskMedium) -> list[bytes]:
    """Keys of blocks, first ones first."""
    keys = [key for key, _ in medium.keys()]  # noqa: SIM118
    heads = dict(zip(keys, medium.peek_many(keys, 16), strict=True))
    return sorted((k for k in keys if (heads[k] or b"")[5] == Kind.BLOCK), key=lambda k: (heads[k] or b"")[12:16])


def test_a_sound_archive(medium: DiskMedium) -> None:
    told = list[int]()
    report = check(medium, told.append)
    assert report.kinds == {Kind.BLOCK: 2 + 2 * 2, Kind.CONTEXT: 2}
    assert (report.broken, report.orphans, told[-1]) == ({}, [], 8)
    assert report.tokens == 32 + 2 * 18
    assert report.decoded == report.tokens * LAYOUT.token_bytes
    assert len(report.spaces) == 1
    assert NAMESPACE not in report.spaces


def test_damage_and_what_stood_on_it_go(medium: DiskMedium) -> None:
    first = blocks(medium)[0]
    with medium.get_many([first]) as (view,):
        value = bytearray(view or b"")
    value[-1] ^= 1
    medium.delete_many([first])
    medium.put_many([(first, [value])])
    report = check(medium)
    assert report.broken == {first: "seal"}
    assert len(report.orphans) == 1
    assert repair(medium, report) == 6
    assert check(medium).kinds == {Kind.CONTEXT: 2}


def test_a_record_under_another_s_name_is_found(medium: DiskMedium) -> None:
    one, other = blocks(medium)[-2:]
    with medium.get_many([one]) as (view,):
        value = bytes(view or b"")
    medium.delete_many([other])
    medium.put_many([(other, [value])])
    assert check(medium).broken == {other: "key"}


def test_an_export_comes_back_elsewhere_without_what_is_damaged(medium: DiskMedium, tmp_path: Path) -> None:
    path = tmp_path / "states.sfkv"
    assert export(medium, path) == 8
    assert path.stat().st_mode & 0o777 == 0o600
    there = DiskMedium(tmp_path / "there", 1 << 24)
    assert restore(there, path) == (8, 0)
    assert dict(there.keys()) == dict(medium.keys())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data[:-1])
    again = DiskMedium(tmp_path / "again", 1 << 24)
    assert restore(again, path) == (7, 1)
    path.write_bytes(b"something else")
    with pytest.raises(MediumFailed, match="no export"):
        restore(again, path)
    with pytest.raises(MediumFailed, match="written"):
        export(again, tmp_path / "no" / "folder")
