"""LRU over a forest: children go before their parents."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Node(Generic[K]):
    __slots__ = ("key", "newer", "older", "parent")

    def __init__(self, key: K | None, parent: K | None) -> None:
        self.key = key
        self.parent = parent
        self.older: _Node[K] = self
        self.newer: _Node[K] = self


class PrefixLRU(Generic[K]):
    """Of the keys that have no child, the one whose last use lies longest ago goes; of a chain, its end.

    The leaves of a radix tree in LRU order, as in Zheng et al., "SGLang: Efficient Execution of Structured Language
    Model Programs", NeurIPS 2024, without its heap: a key that is used is put right behind its parent, or at the young
    end if its parent is not in, so that every key stands nearer to the exit than its parent.
    """

    def __init__(self) -> None:
        self._nodes: dict[K, _Node[K]] = {}
        self._ends: _Node[K] = _Node(None, None)
        """Between the newest and the oldest: its ``newer`` is the oldest node."""

    def hit(self, key: K) -> None:
        node = self._nodes[key]
        node.older.newer, node.newer.older = node.newer, node.older
        self._link(node)

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        node = self._nodes[key] = _Node(key, parent)
        self._link(node)

    def _link(self, node: _Node[K]) -> None:
        before = self._ends if node.parent is None else self._nodes.get(node.parent, self._ends)
        older = before.older
        node.older, node.newer = older, before
        older.newer = before.older = node

    def victim(self) -> K:
        node = self._ends.newer
        if node.key is None:
            raise KeyError("victim: no key is in")
        self.discard(node.key)
        return node.key

    def discard(self, key: K) -> None:
        node = self._nodes.pop(key, None)
        if node is not None:
            node.older.newer, node.newer.older = node.newer, node.older

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: object) -> bool:
        return key in self._nodes
