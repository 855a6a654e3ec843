"""What requests are made of, held once and counted once.

Consecutive requests of a lineage share the objects of their common history. They are held as paths of *cells* in a
tree (one cell a unit sent), so that a request costs its new cells only. Items are interned by their bytes: where
equal bytes come as another object, the object already held takes their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from operator import eq, is_

from standfast.prompt.model import Head, Item, Sent, Tip

_ITEM_COST = 450
_PART_COST = 350
_SENT_COST = 250
_HEAD_COST = 500


class Cell:
    """One unit in the history of one or more requests."""

    __slots__ = ("parent", "refs", "sent")

    def __init__(self, parent: Cell | None, sent: Sent) -> None:
        self.parent = parent
        self.sent = sent
        self.refs = 0
        """Cells behind it, and requests that end with it."""


def _cost(item: Item) -> int:
    plain = sum(len(part.plain) for part in item.parts if part.plain is not None)
    return _ITEM_COST + len(item.wire) + _PART_COST * len(item.parts) + plain


def _shared(ours: Sequence[Sent], theirs: Sequence[Sent]) -> int:
    """Length of the common head."""
    if ours[: len(theirs)] == theirs:  # the usual case; compares identities first
        return len(theirs)
    same: int = sum(takewhile(bool, map(is_, ours, theirs)))
    equal: int = sum(takewhile(bool, map(eq, ours[same:], theirs[same:])))
    return same + equal


class Holdings:
    """Items, heads and cells with their counts. Not thread-safe."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str, bytes], tuple[Item, list[int]]] = {}
        self._heads: dict[int, tuple[Head, list[int]]] = {}
        self.bytes = 0

    def hold(self, tip: Tip, like: Tip | None, cell: Cell | None) -> tuple[Tip, Cell | None]:
        """Take a request in. like and cell are of a request that it probably extends.

        Returns it with what was known already in the place of its equals, and its last cell.
        """
        head = self._hold_head(tip, like)
        units = tip.sent + tip.produced
        shared = 0
        if like is not None and like.dialect == tip.dialect:
            theirs = like.sent + like.produced
            shared = _shared(units, theirs)
            for _ in range(len(theirs) - shared):
                assert cell is not None
                cell = cell.parent
            known = theirs[:shared]
        if not shared:
            cell, known = None, ()
        fresh = tuple(self._intern(tip.dialect, sent) for sent in units[shared:])
        for sent in fresh:
            parent, cell = cell, Cell(cell, sent)
            if parent is not None:
                parent.refs += 1
        if cell is not None:
            cell.refs += 1
        held, count = known + fresh, len(tip.sent)
        if head is not tip.head or not all(map(is_, units, held)):
            tip = replace(tip, head=head, sent=held[:count], produced=held[count:])
        return tip, cell

    def release(self, tip: Tip, cell: Cell | None) -> None:
        """Let go of a request that hold() returned."""
        while cell is not None:
            cell.refs -= 1
            if cell.refs:
                break
            self.bytes -= _SENT_COST
            self._drop(tip.dialect, cell.sent.items)
            cell = cell.parent
        head, count = self._heads[id(tip.head)]
        count[0] -= 1
        if not count[0]:
            del self._heads[id(tip.head)]
            self.bytes -= _HEAD_COST
            self._drop(tip.dialect, head.tools + head.system)

    def _hold_head(self, tip: Tip, like: Tip | None) -> Head:
        head = tip.head
        if like is not None and like.head is not head and like.dialect == tip.dialect and like.head == head:
            head = like.head
        held = self._heads.get(id(head))
        if held is None:
            tools, system = self._keep(tip.dialect, head.tools), self._keep(tip.dialect, head.system)
            if tools is not head.tools or system is not head.system:
                head = replace(head, tools=tools, system=system)
            held = self._heads[id(head)] = (head, [0])
            self.bytes += _HEAD_COST
        held[1][0] += 1
        return head

    def _intern(self, dialect: str, sent: Sent) -> Sent:
        self.bytes += _SENT_COST
        items = self._keep(dialect, sent.items)
        return sent if items is sent.items else Sent(items, sent.links, sent.ours)

    def _keep(self, dialect: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
        kept = []
        for item in items:
            key = (dialect, item.tier, item.wire)
            held = self._items.get(key)
            if held is None:
                held = self._items[key] = (item, [0])
                self.bytes += _cost(item)
            held[1][0] += 1
            kept.append(held[0])
        return items if all(map(is_, kept, items)) else tuple(kept)

    def _drop(self, dialect: str, items: tuple[Item, ...]) -> None:
        for item in items:
            key = (dialect, item.tier, item.wire)
            held, count = self._items[key]
            count[0] -= 1
            if not count[0]:
                del self._items[key]
                self.bytes -= _cost(held)
