"""Hit density over a forest: what is worth least for its room goes, and children before their parents.

The idea is that of LHD (Beckmann, Chen, Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018):
learn when keys of a class are used again, by age, and rank by uses to be had for the room. Other than there, only keys
without children are ranked, all of them instead of a random sample, and the index looks ahead to the best time to give
up.

Why it helps: somebody who reads an answer does not come back within half a minute, most often does within five, and
whoever came back once comes back again. LRU knows none of it. docs/store-policies.md has the figures.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from standfast.store.policies.ages import CLASSES, SPANS, Ages, Table, span
from standfast.store.sketch import Sketch

K = TypeVar("K", bound=Hashable)

HORIZON = 16
"""Ages are learned up to so many calls for each key that is in."""
LEARN = 0.5
"""Calls between two learnings, for each key that is in; and never fewer than ``LEAST``."""
LEAST = 2048
GHOSTS = 2
"""The sketch remembers the uses of so many keys that left, for each that is in."""


class _Node(Generic[K]):
    __slots__ = ("cell", "children", "key", "last", "parent", "uses")

    def __init__(self, key: K, parent: _Node[K] | None, uses: int) -> None:
        self.key = key
        self.parent = parent
        self.children = 0
        self.uses = uses
        self.last = 0
        self.cell: OrderedDict[K, _Node[K]] | None = None
        """Where it waits to go; None while it has children."""


class Density(Generic[K]):
    """Keys without children lie in cells by uses and age; the oldest of the cell of least density goes.

    Time is counted in calls. Sizes and costs do not count: what is saved is taken to grow with the room it takes, as it
    does for blocks of tokens. Before it has learned, ages alone count, as in LRU.
    """

    def __init__(self) -> None:
        self._nodes: dict[K, _Node[K]] = {}
        self._cells: list[list[OrderedDict[K, _Node[K]]]] = [
            [OrderedDict() for _ in range(SPANS)] for _ in range(CLASSES)
        ]
        self._ages: Ages[K] = Ages()
        self._left = Sketch()
        self._now = 0
        self._aged = 0
        self._learned = 0
        self._rank(self._ages.learn(0, 1 << 32))

    def hit(self, key: K) -> None:
        node = self._nodes[key]
        node.uses += 1
        self._use(node)
        if node.cell is not None:
            del node.cell[key]
            self._place(node, 0)

    def insert(self, key: K, size: int, cost: float = 1.0, parent: K | None = None) -> None:
        above = None if parent is None else self._nodes.get(parent)
        node = self._nodes[key] = _Node(key, above, self._left.count(key) + 1)
        self._use(node)
        if above is not None:
            above.children += 1
            if above.cell is not None:
                del above.cell[above.key]
                above.cell = None
        self._place(node, 0)

    def _use(self, node: _Node[K]) -> None:
        self._now += 1
        node.last = self._now
        self._ages.use(node.key, node.uses, self._now)

    def victim(self) -> K:
        if self._now - self._aged > len(self._nodes) // SPANS:
            self._age()
        for cell in self._ranked:
            for key in cell:
                self._left.fit(GHOSTS * len(self._nodes))
                self._left.add(key)
                self.discard(key)
                return key
        raise KeyError("victim: no key is in")

    def discard(self, key: K) -> None:
        node = self._nodes.pop(key, None)
        if node is None:
            return
        if node.cell is not None:
            del node.cell[key]
        above = node.parent
        if above is not None:
            above.children -= 1
            if not above.children and self._nodes.get(above.key) is above:
                self._place(above, span(self._now - above.last))

    def _place(self, node: _Node[K], age: int) -> None:
        node.cell = self._cells[min(node.uses, CLASSES) - 1][age]
        node.cell[node.key] = node

    def _age(self) -> None:
        """Move on what has grown older than its cell, and learn if it is time to."""
        self._aged = self._now
        for cells in self._cells:
            for age in range(SPANS - 2, -1, -1):
                cell = cells[age]
                while cell:
                    node = next(iter(cell.values()))
                    now = span(self._now - node.last)
                    if now <= age:
                        break
                    del cell[node.key]
                    self._place(node, now)
        if self._now - self._learned > max(LEARN * len(self._nodes), LEAST):
            self._learned = self._now
            self._rank(self._ages.learn(self._now, HORIZON * len(self._nodes)))

    def _rank(self, density: Table) -> None:
        """The cells from the least density on; of equal ones the older."""
        ranked = sorted((density[c, s], -s, c) for c in range(CLASSES) for s in range(SPANS))
        self._ranked = [self._cells[c][-s] for _, s, c in ranked]

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: object) -> bool:
        return key in self._nodes
