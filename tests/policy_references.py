"""Policies as their papers write them down, with plain lists, for keys of size 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reference(Protocol):
    def hit(self, key: int) -> None: ...
    def insert(self, key: int, size: int, cost: float) -> None: ...
    def victim(self) -> int: ...


class LRU:
    def __init__(self, room: int) -> None:
        self.time = 0
        self.used: dict[int, int] = {}

    def hit(self, key: int) -> None:
        self.time += 1
        self.used[key] = self.time

    def insert(self, key: int, size: int, cost: float) -> None:
        self.hit(key)

    def victim(self) -> int:
        key = min(self.used, key=lambda k: self.used[k])
        del self.used[key]
        return key


class Sieve:
    """A list from tail (old) to head; the hand is a key."""

    def __init__(self, room: int) -> None:
        self.queue: list[int] = []
        self.visited: set[int] = set()
        self.hand: int | None = None

    def hit(self, key: int) -> None:
        self.visited.add(key)

    def insert(self, key: int, size: int, cost: float) -> None:
        self.queue.append(key)

    def victim(self) -> int:
        at = 0 if self.hand is None else self.queue.index(self.hand)
        while self.queue[at] in self.visited:
            self.visited.remove(self.queue[at])
            at = (at + 1) % len(self.queue)
        self.hand = self.queue[at + 1] if at + 1 < len(self.queue) else None
        return self.queue.pop(at)


class S3FIFO:
    def __init__(self, room: int) -> None:
        self.room = room
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: list[int] = []
        self.freq: dict[int, int] = {}

    def hit(self, key: int) -> None:
        self.freq[key] = min(self.freq[key] + 1, 3)

    def insert(self, key: int, size: int, cost: float) -> None:
        self.freq[key] = 0
        if key in self.ghost:
            self.ghost.remove(key)
            self.main.append(key)
        else:
            self.small.append(key)

    def victim(self) -> int:
        if 10 * len(self.small) >= self.room or not self.main:
            while self.small:
                key = self.small.pop(0)
                if self.freq[key] <= 1:
                    self.ghost = [*self.ghost, key][-int(self.room * 0.9) or len(self.ghost) + 1 :]
                    return key
                self.freq[key] = 0
                self.main.append(key)
                if 10 * len(self.small) < self.room:
                    break
        while self.freq[self.main[0]] > 0:
            key = self.main.pop(0)
            self.freq[key] -= 1
            self.main.append(key)
        return self.main.pop(0)


class ARC:
    """The paper's cases II to IV. The border moves after REPLACE: the newcomer is not known before."""

    def __init__(self, room: int) -> None:
        self.c = room
        self.p = 0.0
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.b1: list[int] = []
        self.b2: list[int] = []

    def hit(self, key: int) -> None:
        (self.t1 if key in self.t1 else self.t2).remove(key)
        self.t2.append(key)

    def insert(self, key: int, size: int, cost: float) -> None:
        b1, b2 = len(self.b1), len(self.b2)
        if key in self.b1:
            self.p = min(self.p + max(b2 / b1, 1), self.c)
            self.b1.remove(key)
            self.t2.append(key)
        elif key in self.b2:
            self.p = max(self.p - max(b1 / b2, 1), 0)
            self.b2.remove(key)
            self.t2.append(key)
        else:
            if len(self.t1) + len(self.b1) == self.c:
                self.b1 = self.b1[1:]
            elif len(self.t1) + len(self.t2) + len(self.b1) + len(self.b2) == 2 * self.c:
                self.b2 = self.b2[1:]
            self.t1.append(key)

    def victim(self) -> int:
        if self.t1 and (len(self.t1) > self.p or not self.t2):
            self.b1.append(self.t1[0])
            return self.t1.pop(0)
        self.b2.append(self.t2[0])
        return self.t2.pop(0)


class GDSF:
    def __init__(self, room: int) -> None:
        self.clock = 0.0
        self.time = 0
        self.known: dict[int, tuple[float, int]] = {}
        self.uses: dict[int, int] = {}
        self.value: dict[int, float] = {}

    def hit(self, key: int) -> None:
        self.time += 1
        self.uses[key] += 1
        self.known[key] = self.clock + self.uses[key] * self.value[key], self.time

    def insert(self, key: int, size: int, cost: float) -> None:
        self.uses[key], self.value[key] = 0, cost / size
        self.hit(key)

    def victim(self) -> int:
        key = min(self.known, key=lambda k: self.known[k])
        self.clock = self.known.pop(key)[0]
        return key


REFERENCES: dict[str, Callable[[int], Reference]] = {
    "lru": LRU,
    "sieve": Sieve,
    "s3-fifo": S3FIFO,
    "arc": ARC,
    "gdsf": GDSF,
}
