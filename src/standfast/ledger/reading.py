"""Questions to the database, over a connection that only reads."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import NamedTuple

from standfast.ledger.chains import NEWEST
from standfast.ledger.records import (
    LINK_SIZE,
    LINKS_A_PAGE,
    TIERS,
    Damaged,
    Parse,
    Stored,
    TipRecord,
    check_value,
    decode_head,
    decode_units,
    split_links,
    unpack,
    unseal,
)
from standfast.prompt.model import Head, Item, Link, Sent, Tip

_PROBES = 32
_LINEAGES_SEEN = 256
_LINEAGES_READ = 16
_SCAN_AT_MOST = 64
_ITEM_OVERHEAD = 1000
_UNIT_OVERHEAD = 300


class Row(NamedTuple):
    """A request in the database: its number grows with every writing."""

    number: int
    id: bytes


class Cache:
    """Objects made from blobs, by digest, bounded by an estimate of their size. Safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        self._items: OrderedDict[bytes, tuple[int, object]] = OrderedDict()

    def get(self, key: bytes) -> object:
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[1]

    def put(self, key: bytes, value: object, cost: int) -> None:
        with self._lock:
            if key in self._items:
                return
            self._items[key] = (cost, value)
            self._bytes += cost
            while self._bytes > self._max_bytes:
                _, (freed, _) = self._items.popitem(last=False)
                self._bytes -= freed


class Reader:
    """Lookups over one connection. Not thread-safe."""

    def __init__(self, connection: sqlite3.Connection, parse: Parse, cache: Cache) -> None:
        self._sql = connection.execute
        self._parse = parse
        self._cache = cache
        self._in = ",".join("?" * _PROBES)

    def known(self, links: Sequence[Link], from_: int) -> int:
        """How many links are known, if from_ are. One query for each factor of 32 in the number of the others."""
        low, high = from_, len(links)  # links[:low] are known; links[high:] are not
        while low < high:
            count = min(_PROBES, high - low)
            ends = [low + (high - low) * (i + 1) // count for i in range(count)]
            asked = [links[end - 1] for end in ends]
            rows = self._sql(
                f"SELECT DISTINCT link FROM nodes WHERE link IN ({self._in})", asked + asked[-1:] * (_PROBES - count)
            )
            found = {row[0] for row in rows}
            last = max((i for i in range(count) if asked[i] in found), default=-1)
            low, high = (ends[last] if last >= 0 else low), (ends[last + 1] - 1 if last + 1 < count else ends[last])
        return low

    def newest_at(self, link: Link, depth: int, passing: Collection[bytes], fresh: Callable[[Row], bool]) -> list[Row]:
        """The newest requests through a link, newest first.

        passing are ids known to pass through it; a row that is fresh (in memory, as it is here) is not read.
        """
        found: list[Row] = []
        for scanned, (number, id, record) in enumerate(self._candidates(link), 1):
            row = Row(number, id)
            if id in passing or (not fresh(row) and self._passes(record, link, depth)):
                found.append(row)
            if len(found) == NEWEST or (found and scanned >= _SCAN_AT_MOST):
                break
        return found

    def newest_of_head(self, head: bytes) -> list[Row]:
        """The newest requests with a name, newest first."""
        sql = "SELECT num, id FROM tips WHERE head=?1 OR kin=?1 ORDER BY at DESC, num DESC LIMIT ?2"
        return [Row(*row) for row in self._sql(sql, (head, NEWEST))]

    def row(self, id: bytes) -> Row | None:
        """Where a request is."""
        found = self._sql("SELECT num, id FROM tips WHERE id=?", (id,)).fetchone()
        return Row(*found) if found else None

    def first(self, name: bytes) -> bytes | None:
        """The value of a name, None if it is damaged."""
        found = self._sql("SELECT value, seal FROM firsts WHERE name=?", (name,)).fetchone()
        if found is None or not isinstance(found[0], bytes) or check_value(name, found[0]) != found[1]:
            return None
        return found[0]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is of one moment: what another process prunes meanwhile is no damage."""
        self._sql("BEGIN")
        try:
            yield
        finally:
            self._sql("COMMIT")

    def load(self, row: Row) -> Stored | None:
        """A request; None if it is gone. Raises Damaged."""
        found = self._sql("SELECT record FROM tips WHERE num=?", (row.number,)).fetchone()
        if found is None:
            return None
        record = unseal(_bytes(found[0]))
        if record.id != row.id:
            raise Damaged
        links = [link for page in record.links for link in split_links(self._blob(page))]
        if len(links) != record.link_count:
            raise Damaged(*record.links)
        tip = Tip(
            id=record.id,
            lineage=record.lineage,
            at=record.at,
            dialect=record.dialect,
            head=self._head(record),
            sent=tuple(sent for page in record.sent for sent in self._units(record.dialect, page)),
            produced=tuple(sent for page in record.produced for sent in self._units(record.dialect, page)),
            fingerprint=record.fingerprint,
            entries=tuple(record.entries),
            response_id=record.response_id,
        )
        return Stored(tip, tuple(links), record.head_name, record.kin_name)

    def _candidates(self, link: Link) -> Iterator[tuple[int, bytes, bytes]]:
        seen = self._sql(
            "SELECT lineage FROM nodes WHERE link=? ORDER BY lineage DESC LIMIT ?", (link, _LINEAGES_SEEN)
        ).fetchall()
        lineages = [row[0] for row in seen]
        if len(lineages) > _LINEAGES_READ:
            sql = "SELECT max(at) FROM tips WHERE lineage=?"
            at = {lineage: self._sql(sql, (lineage,)).fetchone()[0] or 0.0 for lineage in lineages}
            lineages = sorted(lineages, key=lambda lineage: -at[lineage])[:_LINEAGES_READ]
        marks = ",".join("?" * len(lineages))
        sql = f"SELECT num, id, record FROM tips WHERE lineage IN ({marks}) ORDER BY at DESC, num DESC"
        return iter(self._sql(sql, lineages)) if lineages else iter(())

    def _passes(self, row: bytes, link: Link, depth: int) -> bool:
        """Whether links[depth] of a request is this one. One that cannot be read may: loading it will tell."""
        try:
            record = unseal(_bytes(row))
            if depth >= record.link_count:
                return False
            page, place = divmod(depth, LINKS_A_PAGE)
            start = place * LINK_SIZE
            return self._blob(record.links[page])[start : start + LINK_SIZE] == link
        except Damaged:
            return True

    def _blob(self, name: bytes) -> bytes:
        found = self._sql("SELECT kind, size, data FROM blobs WHERE digest=?", (name,)).fetchone()
        if found is None:
            raise Damaged(name)
        return unpack(name, *found)

    def _head(self, record: TipRecord) -> Head:
        key = record.head + record.dialect.encode()
        head = self._cache.get(key)
        if isinstance(head, Head):
            return head
        stored = decode_head(self._blob(record.head))
        items = self._items(record.dialect, record.head, stored.tools + stored.system)
        tools, system = items[: len(stored.tools)], items[len(stored.tools) :]
        head = Head(stored.model, tools, system, stored.params, stored.routes)
        self._cache.put(key, head, _UNIT_OVERHEAD + _size(items))
        return head

    def _units(self, dialect: str, page: bytes) -> tuple[Sent, ...]:
        key = page + dialect.encode()
        held = self._cache.get(key)
        if isinstance(held, tuple):
            return held
        stored = decode_units(self._blob(page))
        items = iter(self._items(dialect, page, [name for unit in stored for name in unit.items]))
        units = tuple(Sent(tuple(islice(items, len(u.items))), tuple(map(Link, u.links)), u.ours) for u in stored)
        self._cache.put(key, units, sum(_UNIT_OVERHEAD + _size(unit.items) for unit in units))
        return units

    def _items(self, dialect: str, page: bytes, names: list[bytes]) -> tuple[Item, ...]:
        """The items that a page refers to. Raises Damaged, naming the page too."""
        suffix = dialect.encode()
        items = {name: self._cache.get(name + suffix) for name in names}
        missing = [name for name, item in items.items() if item is None]
        wires = self._blobs(page, [name[1:] for name in missing])
        for name in missing:
            wire = wires[name[1:]]
            made = self._parse(dialect, TIERS[name[0]], wire)
            items[name] = made
            self._cache.put(name + suffix, made, _size((made,)))
        return tuple(item for name in names if isinstance(item := items[name], Item))

    def _blobs(self, page: bytes, names: list[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(names), _PROBES):
            asked = names[start : start + _PROBES]
            rows = self._sql(
                f"SELECT digest, kind, size, data FROM blobs WHERE digest IN ({self._in})",
                asked + asked[-1:] * (_PROBES - len(asked)),
            )
            for name, *row in rows:
                try:
                    found[name] = unpack(name, *row)
                except Damaged as error:
                    raise Damaged(page, *error.digests) from error
        if lost := [name for name in names if name not in found]:
            raise Damaged(page, *lost)
        return found


def _size(items: Sequence[Item]) -> int:
    return sum(_ITEM_OVERHEAD + len(item.wire) for item in items)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise Damaged
    return value
