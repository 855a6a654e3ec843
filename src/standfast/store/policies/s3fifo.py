"""S3-FIFO: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from standfast.store.policies.queue import Queue

K = TypeVar("K", bound=Hashable)

SMALL = 0.1
"""Share of the bytes that newcomers have."""
MOST = 3
"""Uses counted: two bits."""


class S3FIFO(Generic[K]):
    """A small queue for newcomers, a main one for what was used twice in it, a ghost for what was not.

    As published, with queues measured in bytes; the ghost holds keys of as many bytes as the main queue may have. The
    capacity is what is in.
    """

    def __init__(self) -> None:
        self._small: Queue[K] = Queue()
        self._main: Queue[K] = Queue()
        self._ghost: Queue[K] = Queue()
        self._uses: dict[K, int] = {}

    def hit(self, key: K) -> None:
        uses = self._uses[key]
        if uses < MOST:
            self._uses[key] = uses + 1

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        self._uses[key] = 0
        if key in self._ghost:
            self._ghost.take(key)
            self._main.push(key, size)
        else:
            self._small.push(key, size)

    def victim(self) -> K:
        small, main, uses = self._small, self._main, self._uses
        room = small.size + main.size
        while small and (small.size >= SMALL * room or not main):
            key, size = small.pop()
            if uses[key] > 1:
                uses[key] = 0
                main.push(key, size)
            else:
                self._ghost.push(key, size)
                self._ghost.trim(int((1 - SMALL) * room))
                del uses[key]
                return key
        while True:
            key, size = main.pop()
            if not uses[key]:
                del uses[key]
                return key
            uses[key] -= 1
            main.push(key, size)

    def discard(self, key: K) -> None:
        if self._uses.pop(key, None) is not None:
            (self._small if key in self._small else self._main).take(key)

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, key: object) -> bool:
        return key in self._uses
