"""Is what a medium holds what it should be? Verified from the records themselves, without any secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from standfast.errors import RecordBroken
from standfast.store.medium import Medium
from standfast.store.record import Kind, Peeked, verify

_BATCH = 64


@dataclass(slots=True)
class Report:
    """What was found."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    """Sound records, by kind."""
    spaces: Counter[bytes] = field(default_factory=Counter)
    """Their bytes, by the id of their namespace."""
    tokens: int = 0
    size: int = 0
    """Bytes of sound records."""
    decoded: int = 0
    """Bytes of their states when decoded."""
    broken: dict[bytes, str] = field(default_factory=dict)
    """Records that do not hold, and the check that they failed."""
    orphans: list[bytes] = field(default_factory=list)
    """Blocks whose parent is not there: nobody can reach them. They come of eviction, and do no harm."""


def check(medium: Medium, seen: Callable[[int], object] = lambda count: None) -> Report:
    """Read every record. ``seen`` is told how many have been. Raises MediumFailed."""
    report, parents = Report(), dict[bytes, tuple[bytes, bytes]]()
    for key, record, decoded in _records(medium, report, seen):
        report.kinds[record.kind] += 1
        report.spaces[record.space] += record.nbytes
        report.size += record.nbytes
        if record.kind is not Kind.CONTEXT:
            report.tokens += record.length
            report.decoded += decoded
            parents[key] = record.run.parent, record.space
    for key in parents:
        parent, space = parents[key]
        if parent != space and parent not in parents:
            report.orphans.append(key)
    return report


def repair(medium: Medium, report: Report) -> int:
    """Delete what does not hold and what nobody can reach; returns how many were deleted."""
    gone = 0
    while dead := [*report.broken, *report.orphans]:
        gone += medium.delete_many(dead)
        report = check(medium)  # who stood on an orphan is one now
    return gone


def _records(medium: Medium, report: Report, seen: Callable[[int], object]) -> Iterator[tuple[bytes, Peeked, int]]:
    batch, count = list[bytes](), 0
    for key, _ in medium.keys():  # noqa: SIM118
        batch.append(key)
        if len(batch) == _BATCH:
            yield from _batch(medium, batch, report)
            count += len(batch)
            seen(count)
            batch = []
    yield from _batch(medium, batch, report)
    seen(count + len(batch))


def _batch(medium: Medium, keys: list[bytes], report: Report) -> Iterator[tuple[bytes, Peeked, int]]:
    with medium.get_many(keys) as views:
        for key, view in zip(keys, views, strict=True):
            if view is None:
                continue  # it went meanwhile
            try:
                record = verify(view)
                if record.run.key != key:
                    raise RecordBroken("key")
            except RecordBroken as error:
                report.broken[key] = error.check
                continue
            yield key, record, int.from_bytes(view[16:24], "little")
