"""Everything that changes the database. One thread of each process writes, in transactions that it opens itself."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from operator import is_

from standfast.ledger.chains import longest_known
from standfast.ledger.records import (
    UNITS_A_PAGE,
    VERSION,
    BlobKind,
    Damaged,
    HeadRecord,
    TipRecord,
    UnitRecord,
    check_value,
    children,
    digest,
    encode_head,
    encode_units,
    link_pages,
    pack,
    reference,
    seal,
    split_links,
    unpack,
    unseal,
)
from standfast.prompt.model import Head, Link, Sent, Tip

_LINEAGES_KEPT = 32  # it keeps their units alive beyond the bound of the memory ledger
_PRUNE_BATCH = 32


class Writer:
    """Changes over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = connection.execute
        self._latest: OrderedDict[bytes, tuple[tuple[Sent, ...], list[bytes]]] = OrderedDict()
        """lineage → what was sent last, and its pages: a page whose units are the same objects is not made again."""

    def put_tip(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> int:
        """Write a request, in place of one of the same id. Returns its number.

        Raises UnicodeEncodeError, with nothing written, if a text in it is broken Unicode.
        """
        "".join((tip.dialect, tip.head.model, tip.response_id, *tip.head.params, *tip.head.routes)).encode()
        old = self._sql("SELECT num, lineage, record FROM tips WHERE id=?", (tip.id,)).fetchone()
        lineage = self._lineage(tip.lineage)
        record = TipRecord(
            version=VERSION,
            id=tip.id,
            lineage=tip.lineage,
            at=tip.at,
            dialect=tip.dialect,
            head_name=head,
            head=self._put_head(tip.head),
            sent=self._put_sent(tip),
            produced=[self._put_units(tip.produced)] if tip.produced else [],
            links=[self._put(BlobKind.LINKS, page, {}) for page in link_pages(links)],
            link_count=len(links),
            fingerprint=tip.fingerprint,
            kin_name=kin,
            entries=list(tip.entries),
            response_id=tip.response_id,
        )
        self._put_nodes(links, lineage)
        if old is not None:
            self._sql("DELETE FROM tips WHERE num=?", (old[0],))
        row = (tip.id, lineage, head, kin, tip.at, seal(record))
        number = self._sql("INSERT INTO tips(id, lineage, head, kin, at, record) VALUES(?,?,?,?,?,?)", row).lastrowid
        if old is not None:
            self._release(old[1], old[2])
        assert number is not None
        return number

    def drop_tip(self, number: int) -> None:
        """Delete a request with all that only it used."""
        row = self._sql("SELECT lineage, record FROM tips WHERE num=?", (number,)).fetchone()
        if row is not None:
            self._sql("DELETE FROM tips WHERE num=?", (number,))
            self._release(row[0], row[1])

    def drop_damaged(self, number: int, digests: Iterable[bytes]) -> None:
        """Delete a request that could not be read, and the blobs in the way, so that they are written anew."""
        for name in digests:
            self._discard(name)
        self._latest.clear()
        self.drop_tip(number)

    def put_first(self, name: bytes, value: bytes) -> bytes:
        """Write a value unless one is there; returns what is there. One that is damaged is not there."""
        row = (name, value, check_value(name, value))
        self._sql("INSERT OR IGNORE INTO firsts(name, value, seal) VALUES(?,?,?)", row)
        found, mark = self._sql("SELECT value, seal FROM firsts WHERE name=?", (name,)).fetchone()
        if isinstance(found, bytes) and check_value(name, found) == mark:
            return found
        self._sql("UPDATE firsts SET value=?, seal=? WHERE name=?", (value, row[2], name))
        return value

    def used_bytes(self) -> int:
        """Size of the database without its free pages."""
        pages, free, size = (
            self._sql(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def prune(self, limit: int) -> bool:
        """Delete some of what is oldest; False when nothing is left to delete. In a transaction of the caller."""
        self._latest.clear()
        size = self._sql("SELECT coalesce(sum(length(name) + length(value) + 64), 0) FROM firsts").fetchone()[0]
        if size > limit // 4:
            self._sql(
                "DELETE FROM firsts WHERE num IN (SELECT num FROM firsts ORDER BY num LIMIT"
                " (SELECT count(*) / 2 + 1 FROM firsts))"
            )
            return True
        rows = self._sql("SELECT num FROM tips ORDER BY num LIMIT ?", (_PRUNE_BATCH,)).fetchall()
        for (number,) in rows:
            self.drop_tip(number)
        if rows:
            return True
        # nothing refers to these any more: left over from damage
        left = sum(self._sql(f"DELETE FROM {table}").rowcount for table in ("blobs", "nodes", "lineages"))
        return left > 0

    def _lineage(self, id: bytes) -> int:
        found = self._sql("SELECT num FROM lineages WHERE id=?", (id,)).fetchone()
        if found is None:
            found = (self._sql("INSERT INTO lineages(id) VALUES(?)", (id,)).lastrowid,)
        return int(found[0])

    def _put(self, kind: BlobKind, content: bytes, items: dict[bytes, list[bytes]]) -> bytes:
        """Count one more reference to a blob, writing it if it is not there. items: what it refers to, by digest."""
        name = digest(kind, content)
        if self._sql("UPDATE blobs SET refs=refs+1 WHERE digest=?", (name,)).rowcount:
            return name
        self._insert(name, kind, content, 1)
        for child, wires in items.items():
            if not self._sql("UPDATE blobs SET refs=refs+? WHERE digest=?", (len(wires), child)).rowcount:
                self._insert(child, BlobKind.ITEM, wires[0], len(wires))
        return name

    def _insert(self, name: bytes, kind: BlobKind, content: bytes, refs: int) -> None:
        row = (name, int(kind), refs, len(content), pack(content))
        self._sql("INSERT INTO blobs(digest, kind, refs, size, data) VALUES(?,?,?,?,?)", row)

    def _put_head(self, head: Head) -> bytes:
        tools, system = [reference(item) for item in head.tools], [reference(item) for item in head.system]
        items: dict[bytes, list[bytes]] = {}
        for name, item in zip(tools + system, head.tools + head.system, strict=True):
            items.setdefault(name[1:], []).append(item.wire)
        return self._put(
            BlobKind.HEAD, encode_head(HeadRecord(head.model, tools, system, head.params, head.routes)), items
        )

    def _put_sent(self, tip: Tip) -> list[bytes]:
        units, known = self._latest.get(tip.lineage, ((), []))
        shared = sum(takewhile(bool, map(is_, tip.sent, units)))
        pages = []
        for start in range(0, len(tip.sent), UNITS_A_PAGE):
            page, name = tip.sent[start : start + UNITS_A_PAGE], None
            if len(page) == UNITS_A_PAGE and start + UNITS_A_PAGE <= shared:
                name = known[start // UNITS_A_PAGE]
                if not self._sql("UPDATE blobs SET refs=refs+1 WHERE digest=?", (name,)).rowcount:
                    name = None
            pages.append(name or self._put_units(page))
        self._latest[tip.lineage] = (tip.sent, pages)
        self._latest.move_to_end(tip.lineage)
        if len(self._latest) > _LINEAGES_KEPT:
            self._latest.popitem(last=False)
        return pages

    def _put_units(self, units: Sequence[Sent]) -> bytes:
        records, items = [], dict[bytes, list[bytes]]()
        for unit in units:
            names = [reference(item) for item in unit.items]
            for name, item in zip(names, unit.items, strict=True):
                items.setdefault(name[1:], []).append(item.wire)
            records.append(UnitRecord(names, list(unit.links), unit.ours))
        return self._put(BlobKind.UNITS, encode_units(records), items)

    def _put_nodes(self, links: Sequence[Link], lineage: int) -> None:
        """Count one more request behind the last link: a node counts the nodes and requests that hang on it."""
        has = "SELECT 1 FROM nodes WHERE link=? AND lineage=?"
        known = longest_known(links, lambda link: self._sql(has, (link, lineage)).fetchone() is not None)
        if known:
            self._sql("UPDATE nodes SET refs=refs+1 WHERE link=? AND lineage=?", (links[known - 1], lineage))
        rows = [(link, lineage) for link in links[known:]]
        self._connection.executemany("INSERT INTO nodes(link, lineage, refs) VALUES(?,?,1)", rows)

    def _release(self, lineage: int, row: bytes) -> None:
        last = self._sql("SELECT 1 FROM tips WHERE lineage=? LIMIT 1", (lineage,)).fetchone() is None
        if last:
            self._sql("DELETE FROM lineages WHERE num=?", (lineage,))
        try:
            record = unseal(row)
            self._release_nodes(record.links, lineage)
        except Damaged:  # which nodes were its own cannot be told; what else it used stays until all is pruned
            if last:
                self._sql("DELETE FROM nodes WHERE lineage=?", (lineage,))
            return
        for name in record.pages():
            self._unref(name)

    def _release_nodes(self, pages: Sequence[bytes], lineage: int) -> None:
        for page in reversed(pages):
            found = self._read(page)
            if found is None:
                raise Damaged(page)
            for link in reversed(split_links(found[1])):
                if self._hanging(link, lineage):
                    return

    def _hanging(self, link: Link, lineage: int) -> bool:
        """Count one less on a node, deleting it at zero; whether something hangs on it still."""
        key = (link, lineage)
        left = self._sql("UPDATE nodes SET refs=refs-1 WHERE link=? AND lineage=? RETURNING refs", key).fetchone()
        if left is None or left[0] > 0:
            return True
        self._sql("DELETE FROM nodes WHERE link=? AND lineage=?", key)
        return False

    def _unref(self, name: bytes) -> None:
        left = self._sql("UPDATE blobs SET refs=refs-1 WHERE digest=? RETURNING refs", (name,)).fetchone()
        if left is not None and left[0] <= 0:
            self._delete(name)

    def _delete(self, name: bytes) -> None:
        """Delete a blob, and let go of what it refers to."""
        try:
            found = self._read(name)
            below = children(*found) if found else []
        except Damaged:
            below = []
        self._sql("DELETE FROM blobs WHERE digest=?", (name,))
        for child in below:
            self._unref(child)

    def _discard(self, name: bytes) -> None:
        """Delete a blob that stands in the way of a reading: one that is damaged, or a page that refers to one."""
        try:
            found = self._read(name)
            if found is None or found[0] not in (BlobKind.UNITS, BlobKind.HEAD):
                return
        except Damaged:
            pass
        self._delete(name)

    def _read(self, name: bytes) -> tuple[int, bytes] | None:
        row = self._sql("SELECT kind, size, data FROM blobs WHERE digest=?", (name,)).fetchone()
        return (row[0], unpack(name, *row)) if row is not None else None
