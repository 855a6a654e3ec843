"""SIEVE: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is Simpler than LRU", NSDI 2024."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Node(Generic[K]):
    __slots__ = ("key", "newer", "older", "visited")

    def __init__(self, key: K, older: _Node[K] | None) -> None:
        self.key = key
        self.older = older
        self.newer: _Node[K] | None = None
        self.visited = False


class Sieve(Generic[K]):
    """First in, first out, with a hand that walks from old to new, spares what was used and takes the first other.

    As published. Sizes and costs do not count.
    """

    def __init__(self) -> None:
        self._nodes: dict[K, _Node[K]] = {}
        self._oldest: _Node[K] | None = None
        self._newest: _Node[K] | None = None
        self._hand: _Node[K] | None = None
        """Where the search goes on; None: at the oldest."""

    def hit(self, key: K) -> None:
        self._nodes[key].visited = True

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        node = self._nodes[key] = _Node(key, self._newest)
        if self._newest is None:
            self._oldest = node
        else:
            self._newest.newer = node
        self._newest = node

    def victim(self) -> K:
        if self._oldest is None:
            raise KeyError("victim: no key is in")
        node = self._hand or self._oldest
        while node.visited:
            node.visited = False
            node = node.newer or self._oldest
        self.discard(node.key)
        self._hand = node.newer
        return node.key

    def discard(self, key: K) -> None:
        node = self._nodes.pop(key, None)
        if node is None:
            return
        if self._hand is node:
            self._hand = node.newer
        if node.older is None:
            self._oldest = node.newer
        else:
            node.older.newer = node.newer
        if node.newer is None:
            self._newest = node.older
        else:
            node.newer.older = node.older

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: object) -> bool:
        return key in self._nodes
