"""W-TinyLFU: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS 2017."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from standfast.store.policies.queue import Queue
from standfast.store.sketch import Sketch

K = TypeVar("K", bound=Hashable)

WINDOW = 0.01
"""Share of the bytes for newcomers."""
PROTECTED = 0.8
"""Share of the rest for what was used again."""


class WTinyLFU(Generic[K]):
    """An LRU window for newcomers; what leaves it stays if it was seen more often than what a segmented LRU lets go.

    As published (window of 1 %, protected part of 80 %), measured in bytes. The sketch has no doorkeeper. The border
    between the parts is kept when a victim is wanted: as long as there is room, all that was not used again is window.
    """

    def __init__(self) -> None:
        self._window: Queue[K] = Queue()
        self._probation: Queue[K] = Queue()
        self._protected: Queue[K] = Queue()
        self._sketch = Sketch()

    def hit(self, key: K) -> None:
        self._sketch.add(key)
        if key in self._window:
            self._window.renew(key)
        elif key in self._protected:
            self._protected.renew(key)
        else:
            self._protected.push(key, self._probation.take(key))
            most = PROTECTED * (self._probation.size + self._protected.size)
            while self._protected.size > most and len(self._protected) > 1:
                self._probation.push(*self._protected.pop())

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        self._sketch.fit(len(self))
        self._sketch.add(key)
        self._window.push(key, size)

    def victim(self) -> K:
        window, probation = self._window, self._probation
        most = WINDOW * (window.size + probation.size + self._protected.size)
        candidate: K | None = None
        while len(window) > 1 and window.size > most:
            candidate, size = window.pop()
            probation.push(candidate, size)
        source = probation or self._protected or window
        key = source.oldest()
        if candidate is not None and self._sketch.count(candidate) <= self._sketch.count(key):
            key = candidate
        source.take(key)
        return key

    def discard(self, key: K) -> None:
        for queue in (self._window, self._probation, self._protected):
            if key in queue:
                queue.take(key)

    def __len__(self) -> int:
        return len(self._window) + len(self._probation) + len(self._protected)

    def __contains__(self, key: object) -> bool:
        return key in self._window or key in self._probation or key in self._protected
