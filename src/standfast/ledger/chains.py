"""Which requests pass through which head: a radix tree over links.

A link names a whole head, so equal links have equal heads: the links of all requests form a tree. A *run* is a piece
of it without a branch: every request that passes through one of its links passes through all of them. Requests end
only at the end of a run; a run is split where one ends or branches off inside it. So inserting costs the new links
plus one step per run on the path (about two a turn), not one per link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest

from standfast.prompt.model import Link, Tip

NEWEST = 8
"""How many requests a lookup answers at most."""

_LINK_COST = 180  # the bytes object, its slot in the dict and in its run
_RUN_COST = 600
_MERGE_AT_MOST = 64  # links to label again; without a merge a path is a step longer, no more


def longest_known(links: Sequence[Link], is_known: Callable[[Link], bool]) -> int:
    """How many links are known, if none is known behind one that is not.

    Probes from the end, where the new ones are, in steps that double, then bisects.
    """
    low = high = len(links)  # links[:low] are known, links[high:] are not
    step = 1
    while low and not is_known(links[low - 1]):
        high = low - 1
        low = max(0, len(links) - step)
        step *= 2
    while low < high:
        middle = (low + high + 1) // 2
        if is_known(links[middle - 1]):
            low = middle
        else:
            high = middle - 1
    return low


class Entry:
    """A recorded request."""

    __slots__ = ("cell", "cost", "end", "names", "order", "tick", "tip")

    def __init__(self, tip: Tip, names: tuple[bytes, ...], order: tuple[float, int]) -> None:
        self.tip = tip
        self.names = names
        self.order = order
        """Greater is newer: its time, then the order of recording."""
        self.end: Run | None = None
        self.cell: object = None
        self.cost = 0
        self.tick = 0


def _order(entry: Entry) -> tuple[float, int]:
    return entry.order


class Newest(list[Entry]):
    """The newest few of a set of entries, newest first.

    Invariant: it holds min(NEWEST, size of the set) entries. Taking one out of a full list therefore wants a refill.
    """

    __slots__ = ()

    def add(self, entry: Entry) -> None:
        order, place = entry.order, 0
        while place < len(self) and self[place].order > order:
            place += 1
        self.insert(place, entry)
        if len(self) > NEWEST:
            self.pop()

    def swap(self, old: Entry, new: Entry) -> bool:
        """Put new in the place of old; False if old is not in, or a third one may belong there (refill then)."""
        if self and self[0] is old and new.order >= old.order:
            self[0] = new
            return True
        if old not in self or (new.order < old.order and len(self) == NEWEST):
            return False
        self.remove(old)
        self.add(new)
        return True

    def take(self, entry: Entry) -> bool:
        """Take entry out; True if a refill is wanted."""
        if entry not in self:
            return False
        full = len(self) == NEWEST
        self.remove(entry)
        return full

    def refill(self, candidates: Iterable[Entry]) -> None:
        self[:] = nlargest(NEWEST, candidates, key=_order)


class Run:
    """Links without a branch between them."""

    __slots__ = ("children", "ends", "links", "newest", "parent", "stamp")

    def __init__(self, parent: Run | None, links: list[Link]) -> None:
        self.parent = parent
        self.links = links
        self.children: set[Run] = set()
        self.ends: set[Entry] = set()
        self.newest = Newest()
        self.stamp = 0
        """Number of the last replacement that passed through."""

    def refill(self) -> None:
        found = list(self.ends)
        for child in self.children:
            found += child.newest
        self.newest.refill(found)


class Chains:
    """The tree. Not thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[Link, Run] = {}
        self._stamp = 0
        self.bytes = 0

    def known(self, links: Sequence[Link]) -> int:
        """How many links are known."""
        return longest_known(links, self._runs.__contains__)

    def newest(self, link: Link) -> list[Entry]:
        """The newest entries that pass through a known link."""
        return self._runs[link].newest

    def insert(self, entry: Entry, links: Sequence[Link], known: int, old: Entry | None = None) -> None:
        """Add an entry in place of old. known is what ``known`` says of links."""
        self._stamp += 1
        run = self._upto(links[known - 1]) if known else None
        if known < len(links):
            run = self._grow(run, list(links[known:]))
        entry.end = run
        if run is not None:
            run.ends.add(entry)
        if old is None:
            self._add(run, entry)
        else:
            self._replace(run, entry, old)

    def remove(self, entry: Entry) -> None:
        """Forget an entry and the links that only it passed through."""
        self._remove(entry, -1)

    @staticmethod
    def _add(run: Run | None, entry: Entry) -> None:
        order = entry.order
        while run is not None:
            newest = run.newest
            if newest and newest[0].order > order:
                newest.add(entry)
            else:
                newest.insert(0, entry)
                if len(newest) > NEWEST:
                    newest.pop()
            run = run.parent

    def _replace(self, end: Run | None, entry: Entry, old: Entry) -> None:
        self._part(end, old)
        run = end
        while run is not None:
            newest = run.newest
            if not newest.swap(old, entry):
                if newest.take(old):
                    run.refill()
                if entry not in newest:
                    newest.add(entry)
            run = run.parent
        if old.end is not None:
            self._merge(old.end)

    def _part(self, end: Run | None, old: Entry) -> None:
        """Take old out of the runs that lie on its path only, not on the one to end."""
        run = end
        while run is not old.end and run is not None:
            run = run.parent
        if run is not None:  # the usual case: old's path is the head of the new one
            run.ends.discard(old)
            return
        run = end
        while run is not None:
            run.stamp = self._stamp
            run = run.parent
        self._remove(old, self._stamp)

    def _merge(self, run: Run) -> None:
        """Join a run with its only child where nothing ends between them: a reply joins its request."""
        if run.ends or len(run.children) != 1:
            return
        (child,) = run.children
        if len(child.links) > len(run.links) + _MERGE_AT_MOST:
            return
        self._runs.update(dict.fromkeys(child.links, run))
        run.links += child.links
        run.ends, run.children = child.ends, child.children
        for entry in run.ends:
            entry.end = run
        for grandchild in run.children:
            grandchild.parent = run
        child.links = []
        self.bytes -= _RUN_COST

    def _grow(self, parent: Run | None, links: list[Link]) -> Run:
        run = Run(parent, links)
        if parent is not None:
            parent.children.add(run)
        self._runs.update(dict.fromkeys(links, run))
        self.bytes += _RUN_COST + _LINK_COST * len(links)
        return run

    def _upto(self, link: Link) -> Run:
        """The run that ends at a known link, split off if need be."""
        back = self._runs[link]
        if back.links[-1] == link:
            return back
        cut = back.links.index(link) + 1
        front = Run(back.parent, back.links[:cut])
        front.newest = Newest(back.newest)
        front.children.add(back)
        if back.parent is not None:
            back.parent.children.remove(back)
            back.parent.children.add(front)
        back.parent, back.links = front, back.links[cut:]
        self._runs.update(dict.fromkeys(front.links, front))
        self.bytes += _RUN_COST
        return front

    def _remove(self, entry: Entry, stop: int) -> None:
        run = entry.end
        if run is not None:
            run.ends.discard(entry)
        while run is not None and run.stamp != stop:
            parent = run.parent
            if run.ends or run.children:
                if run.newest.take(entry):
                    run.refill()
            else:
                self._cut(run)
            run = parent

    def _cut(self, run: Run) -> None:
        for link in run.links:
            del self._runs[link]
        if run.parent is not None:
            run.parent.children.remove(run)
        self.bytes -= _RUN_COST + _LINK_COST * len(run.links)
