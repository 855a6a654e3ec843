"""Least recently used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class LRU(Generic[K]):
    """The key whose last use lies longest ago goes. Sizes and costs do not count."""

    def __init__(self) -> None:
        self._order: OrderedDict[K, None] = OrderedDict()

    def hit(self, key: K) -> None:
        self._order.move_to_end(key)

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        self._order[key] = None

    def victim(self) -> K:
        return self._order.popitem(last=False)[0]

    def discard(self, key: K) -> None:
        self._order.pop(key, None)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, key: object) -> bool:
        return key in self._order
