"""Which entry goes when there is no room: one protocol for the tiers, for their ghosts and for the lab."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Policy(Protocol[K]):
    """An order of keys. It holds no values and knows no capacity: who owns the room asks for victims until a newcomer
    fits, then inserts it.

    Each key is in at most once. Of a chain that is used the parents are told first. All calls take constant time,
    amortised (logarithmic where a policy keeps a heap).
    """

    def hit(self, key: K) -> None:
        """The key, which is in, was used."""
        ...

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        """The key comes in. size: bytes; cost: seconds to make it again; parent: the key it is worthless without.

        If the parent is not in, the key counts as the first of a chain.
        """
        ...

    def victim(self) -> K:
        """Take out the key that should go, and return it. Raises KeyError if none is in."""
        ...

    def discard(self, key: K) -> None:
        """The key is gone for another reason; nothing happens if it is not in."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...
