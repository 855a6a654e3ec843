"""Keys in order, with the sum of their bytes: what policies with several queues are made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Queue(Generic[K]):
    """From the oldest to the newest. ``size`` is the sum of the keys' bytes."""

    __slots__ = ("keys", "size")

    def __init__(self) -> None:
        self.keys: OrderedDict[K, int] = OrderedDict()
        self.size = 0

    def push(self, key: K, size: int) -> None:
        self.keys[key] = size
        self.size += size

    def take(self, key: K) -> int:
        """Take out a key; its bytes."""
        size = self.keys.pop(key)
        self.size -= size
        return size

    def pop(self) -> tuple[K, int]:
        """Take out the oldest key. Raises KeyError if there is none."""
        key, size = self.keys.popitem(last=False)
        self.size -= size
        return key, size

    def oldest(self) -> K:
        """The oldest key. Raises KeyError if there is none."""
        for key in self.keys:
            return key
        raise KeyError("no key is in")

    def renew(self, key: K) -> None:
        self.keys.move_to_end(key)

    def trim(self, size: int) -> None:
        """Let the oldest go until no more than ``size`` bytes are in."""
        while self.size > size:
            self.pop()

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: object) -> bool:
        return key in self.keys
