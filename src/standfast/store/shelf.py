"""A medium as the store uses it: records go in sealed and come out checked, and a medium that fails is left alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from standfast.errors import MediumFailed, RecordBroken
from standfast.store.medium import Medium
from standfast.store.record import Record, Seal, pack, unpack

_PAUSE = 5.0
"""Seconds for which a medium that failed is left alone."""
_SMALL = 1 << 16


@dataclass(slots=True)
class Pace:
    """How long something takes, as seen lately."""

    wait: float
    """Seconds before the first byte."""
    rate: float
    """Bytes (of the engine: tokens) a second."""

    def seconds(self, size: float) -> float:
        return self.wait + size / self.rate

    def saw(self, size: int, seconds: float, small: int = _SMALL) -> None:
        """Learn: a large one tells the rate, a small one the wait."""
        if size < small:
            self.wait += 0.1 * (seconds - self.wait)
        elif seconds > self.wait:
            self.rate += 0.1 * (size / (seconds - self.wait) - self.rate)


class Shelf:
    """Records on a medium. Nothing here raises; what cannot be read is a miss."""

    def __init__(self, medium: Medium, clock: Callable[[], float] = time.monotonic) -> None:
        self.medium = medium
        self.pace = Pace(1e-4, 1e9)
        self.broken: Counter[str] = Counter()
        """Records that were dropped, by the check that they failed; ``medium``: failures of the medium itself."""
        self.on_lost: Callable[[bytes], object] = lambda key: None
        """Told of each key that turned out not to be there, or not to hold."""
        self._seal = Seal.DAMAGE if medium.trusted else Seal.FORGERY
        self._clock = clock
        self._asleep = 0.0

    @property
    def asleep(self) -> bool:
        """Whether the medium failed just now."""
        return self._clock() < self._asleep

    def publish(self, record: Record) -> bool:
        """Store a record. False: no room, or the medium failed."""
        if self.asleep:
            return False
        try:
            return self.medium.put_many([(record.run.key, pack(record, self._seal))])[0]
        except MediumFailed:
            self._fell()
            return False

    @contextmanager
    def read(self, namespace: bytes, keys: Sequence[bytes]) -> Iterator[list[Record | None]]:
        """The records, whole and sealed, bodies as they are stored; None for what is not there or does not hold."""
        if self.asleep:
            yield [None] * len(keys)
            return
        started = self._clock()
        lent = self.medium.get_many(keys)
        try:
            views = lent.__enter__()
        except MediumFailed:
            self._fell()
            yield [None] * len(keys)
            return
        try:
            records = [self._believed(namespace, key, view) for key, view in zip(keys, views, strict=True)]
            self.pace.saw(sum(r.nbytes for r in records if r is not None), self._clock() - started)
            yield records
        finally:
            lent.__exit__(None, None, None)

    def peek(self, keys: Sequence[bytes], size: int) -> list[bytes | None]:
        """The first bytes of each value."""
        if not self.asleep:
            try:
                return self.medium.peek_many(keys, size)
            except MediumFailed:
                self._fell()
        return [None] * len(keys)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete what is there."""
        if keys and not self.asleep:
            try:
                self.medium.delete_many(keys)
            except MediumFailed:
                self._fell()

    def reject(self, key: bytes, check: str) -> None:
        """A record did not hold: it is counted and deleted."""
        self.broken[check] += 1
        self.on_lost(key)
        self.delete([key])

    def _believed(self, namespace: bytes, key: bytes, view: memoryview | None) -> Record | None:
        if view is None:
            self.on_lost(key)
            return None
        try:
            return unpack(view, namespace, key)
        except RecordBroken as error:
            self.reject(key, error.check)
            return None

    def _fell(self) -> None:
        self.broken["medium"] += 1
        self._asleep = self._clock() + _PAUSE
