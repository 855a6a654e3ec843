"""The ledger in memory: everything a lookup needs, bounded in bytes, the least recently used forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import RLock

from standfast.ledger.chains import Chains, Entry, Newest
from standfast.ledger.holdings import Cell, Holdings
from standfast.prompt.model import Link, Tip

_TIP_COST = 700
_FIRST_COST = 350
_POINTER = 8


class _First:
    """Bytes kept under a name."""

    __slots__ = ("tick", "value")

    def __init__(self, value: bytes, tick: int) -> None:
        self.value = value
        self.tick = tick


class _Heads:
    """Entries by each of their names."""

    def __init__(self) -> None:
        self._named: dict[bytes, tuple[set[Entry], Newest]] = {}

    def newest(self, name: bytes) -> list[Entry]:
        found = self._named.get(name)
        return found[1] if found else []

    def add(self, entry: Entry) -> None:
        for name in entry.names:
            self._add(name, entry)

    def replace(self, old: Entry, entry: Entry) -> None:
        for name in old.names:
            entries, newest = self._named[name]
            if name in entry.names and newest.swap(old, entry):
                entries.remove(old)
                entries.add(entry)
                continue
            self._remove(name, old)
            if name in entry.names:
                self._add(name, entry)
        for name in entry.names:
            if name not in old.names:
                self._add(name, entry)

    def remove(self, entry: Entry) -> None:
        for name in entry.names:
            self._remove(name, entry)

    def _add(self, name: bytes, entry: Entry) -> None:
        entries, newest = self._named.setdefault(name, (set(), Newest()))
        entries.add(entry)
        newest.add(entry)

    def _remove(self, name: bytes, entry: Entry) -> None:
        entries, newest = self._named[name]
        entries.remove(entry)
        if not entries:
            del self._named[name]
        elif newest.take(entry):
            newest.refill(entries)


class MemoryLedger:
    """A Ledger that a restart forgets. Safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lock = RLock()
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._firsts: OrderedDict[bytes, _First] = OrderedDict()
        self._heads = _Heads()
        self._chains = Chains()
        self._holdings = Holdings()
        self._own_bytes = 0
        self._tick = 0

    @property
    def size(self) -> int:
        """Estimate of the memory in use, in bytes."""
        return self._own_bytes + self._chains.bytes + self._holdings.bytes

    def __len__(self) -> int:
        """Number of requests remembered."""
        return len(self._entries)

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def tips_at(self, links: Sequence[Link]) -> tuple[int, list[Tip]]:
        """See Ledger."""
        with self._lock:
            known = self._chains.known(links)
            return known, self._use(self._chains.newest(links[known - 1])) if known else []

    def tips_of_head(self, head: bytes) -> list[Tip]:
        """See Ledger."""
        with self._lock:
            return self._use(self._heads.newest(head))

    def tip(self, id: bytes) -> Tip | None:
        """See Ledger."""
        with self._lock:
            entry = self._entries.get(id)
            return self._use((entry,))[0] if entry is not None else None

    def first(self, name: bytes) -> bytes | None:
        """See Ledger."""
        with self._lock:
            found = self._firsts.get(name)
            if found is None:
                return None
            self._tick += 1
            found.tick = self._tick
            self._firsts.move_to_end(name)
            return found.value

    def keep_first(self, name: bytes, value: bytes) -> bytes:
        """See Ledger."""
        with self._lock:
            found = self.first(name)
            if found is not None:
                return found
            self.correct_first(name, value)
            return value

    def correct_first(self, name: bytes, value: bytes) -> None:
        """Set the value of a name, whatever is there: another process was first."""
        with self._lock:
            if name in self._firsts:
                self._drop_first(name)
            self._tick += 1
            self._firsts[name] = _First(value, self._tick)
            self._own_bytes += _FIRST_COST + len(name) + len(value)
            self._fit()

    def record(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        """See Ledger."""
        with self._lock:
            self._tick += 1
            old = self._entries.get(tip.id)
            known = self._chains.known(links)
            like = old or self._relative(links, known, head)
            held, cell = self._hold(tip, like)
            entry = Entry(held, (head, kin) if kin else (head,), (tip.at, self._tick))
            entry.cell, entry.tick = cell, self._tick
            entry.cost = _TIP_COST + len(tip.fingerprint) + _POINTER * len(tip.sent)
            self._own_bytes += entry.cost
            self._chains.insert(entry, links, known, old)
            if old is None:
                self._heads.add(entry)
            else:
                self._heads.replace(old, entry)
                self._let_go(old)
            self._entries[tip.id] = entry
            self._entries.move_to_end(tip.id)
            self._fit()

    def flush(self) -> None:
        """See Ledger. Nothing here survives the process."""

    def close(self) -> None:
        """See Ledger."""
        with self._lock:
            self.max_bytes = -1
            self._fit()

    def passes(self, link: Link) -> list[bytes]:
        """Ids of the newest requests that pass through a link. Not a use: nothing lives longer for it."""
        with self._lock:
            known = self._chains.known((link,))
            return [entry.tip.id for entry in self._chains.newest(link)] if known else []

    def _use(self, entries: Iterable[Entry]) -> list[Tip]:
        tips = []
        self._tick += 1
        for entry in entries:
            entry.tick = self._tick
            self._entries.move_to_end(entry.tip.id)
            tips.append(entry.tip)
        return tips

    def _relative(self, links: Sequence[Link], known: int, head: bytes) -> Entry | None:
        """The entry that a new one most likely shares its objects with."""
        near = self._chains.newest(links[known - 1]) if known else self._heads.newest(head)
        return near[0] if near else None

    def _hold(self, tip: Tip, like: Entry | None) -> tuple[Tip, Cell | None]:
        if like is None:
            return self._holdings.hold(tip, None, None)
        cell = like.cell
        assert cell is None or isinstance(cell, Cell)
        return self._holdings.hold(tip, like.tip, cell)

    def _let_go(self, entry: Entry) -> None:
        cell = entry.cell
        assert cell is None or isinstance(cell, Cell)
        self._holdings.release(entry.tip, cell)
        self._own_bytes -= entry.cost

    def _fit(self) -> None:
        """Forget the least recently used until it fits."""
        while self.size > self.max_bytes and (self._entries or self._firsts):
            entry = next(iter(self._entries.values()), None)
            name = next(iter(self._firsts), None)
            if name is not None and (entry is None or self._firsts[name].tick < entry.tick):
                self._drop_first(name)
            elif entry is not None:
                del self._entries[entry.tip.id]
                self._chains.remove(entry)
                self._heads.remove(entry)
                self._let_go(entry)

    def _drop_first(self, name: bytes) -> None:
        found = self._firsts.pop(name)
        self._own_bytes -= _FIRST_COST + len(name) + len(found.value)
