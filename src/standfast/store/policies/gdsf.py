"""GDSF.

Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", HP Labs HPL-98-69, 1998.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class _Entry(NamedTuple):
    priority: float
    stamp: int
    uses: int
    value: float
    """Seconds to make the key again, a byte of it."""


class GDSF(Generic[K]):
    """The key of least priority goes: clock + uses × cost ÷ size; the clock is the priority of the last that went.

    As published; of equal priorities the one that was used longest ago goes. Logarithmic time.
    """

    def __init__(self) -> None:
        self._in: dict[K, _Entry] = {}
        self._heap: list[tuple[float, int, K]] = []
        """With entries that hold no more, known by their stamp."""
        self._clock = 0.0
        self._stamp = 0

    def hit(self, key: K) -> None:
        entry = self._in[key]
        self._put(key, entry.uses + 1, entry.value)

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        self._put(key, 1, cost / max(size, 1))

    def _put(self, key: K, uses: int, value: float) -> None:
        self._stamp += 1
        entry = self._in[key] = _Entry(self._clock + uses * value, self._stamp, uses, value)
        heappush(self._heap, (entry.priority, self._stamp, key))
        if len(self._heap) > 4 * len(self._in) + 64:
            self._heap = [(e.priority, e.stamp, k) for k, e in self._in.items()]
            heapify(self._heap)

    def victim(self) -> K:
        while self._heap:
            priority, stamp, key = heappop(self._heap)
            entry = self._in.get(key)
            if entry is not None and entry.stamp == stamp:
                del self._in[key]
                self._clock = priority
                return key
        raise KeyError("victim: no key is in")

    def discard(self, key: K) -> None:
        self._in.pop(key, None)

    def __len__(self) -> int:
        return len(self._in)

    def __contains__(self, key: object) -> bool:
        return key in self._in
