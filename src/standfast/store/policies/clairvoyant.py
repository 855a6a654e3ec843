"""The optimum, which knows the future.

Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 1966.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Clairvoyant(Generic[K]):
    """The key whose next use is farthest goes. For the lab: with equal sizes nothing has more hits.

    ``future``: the key of every call of ``hit`` and ``insert`` to come, in order. Of a chain that will be used again
    the blocks go from the last on, since each is used after its parent.
    """

    def __init__(self, future: Iterable[K]) -> None:
        order = list(future)
        self._next = [0] * len(order)
        """For each call, the number of the next one with the same key; for the last of them, beyond the end."""
        later: dict[K, int] = {}
        for call in range(len(order) - 1, -1, -1):
            self._next[call] = later.get(order[call], len(order))
            later[order[call]] = call
        self._call = 0
        self._in: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []

    def hit(self, key: K) -> None:
        again = self._in[key] = self._next[self._call]
        heappush(self._heap, (-again, self._call, key))
        self._call += 1

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        self._in[key] = 0
        self.hit(key)

    def victim(self) -> K:
        while self._heap:
            again, _, key = heappop(self._heap)
            if self._in.get(key) == -again:
                del self._in[key]
                return key
        raise KeyError("victim: no key is in")

    def discard(self, key: K) -> None:
        self._in.pop(key, None)

    def __len__(self) -> int:
        return len(self._in)

    def __contains__(self, key: object) -> bool:
        return key in self._in
