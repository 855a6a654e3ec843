"""ARC: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from standfast.store.policies.queue import Queue

K = TypeVar("K", bound=Hashable)


class ARC(Generic[K]):
    """Two LRU queues, of keys used once and more often, and a ghost of each; hits in the ghosts move the border.

    As published, but for two things. The paper knows the newcomer when it looks for a victim, and moves the border
    before; here it moves after, and acts from the next victim on. And lengths are in bytes: the border moves by the
    published step times the size of the key. The capacity is what is in.
    """

    def __init__(self) -> None:
        self._once: Queue[K] = Queue()
        """T1 in the paper."""
        self._often: Queue[K] = Queue()
        """T2."""
        self._once_gone: Queue[K] = Queue()
        """B1."""
        self._often_gone: Queue[K] = Queue()
        """B2."""
        self._aim = 0.0
        """Bytes that T1 should have: p."""

    def hit(self, key: K) -> None:
        if key in self._often:
            self._often.renew(key)
        else:
            self._often.push(key, self._once.take(key))

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        once, often = self._once_gone, self._often_gone
        room = self._once.size + self._often.size + size
        if key in once:
            self._aim = min(self._aim + size * max(often.size / once.size, 1.0), room)
            once.take(key)
            self._often.push(key, size)
        elif key in often:
            self._aim = max(self._aim - size * max(once.size / often.size, 1.0), 0.0)
            often.take(key)
            self._often.push(key, size)
        else:
            self._once.push(key, size)
            once.trim(max(room - self._once.size, 0))
            often.trim(max(2 * room - self._once.size - once.size - self._often.size, 0))

    def victim(self) -> K:
        """REPLACE in the paper; a key that its case IV drops without a ghost leaves the ghost in ``insert``."""
        from_once = self._once and (self._once.size > self._aim or not self._often)
        queue, ghost = (self._once, self._once_gone) if from_once else (self._often, self._often_gone)
        key, size = queue.pop()
        ghost.push(key, size)
        return key

    def discard(self, key: K) -> None:
        for queue in (self._once, self._often):
            if key in queue:
                queue.take(key)

    def __len__(self) -> int:
        return len(self._once) + len(self._often)

    def __contains__(self, key: object) -> bool:
        return key in self._once or key in self._often
