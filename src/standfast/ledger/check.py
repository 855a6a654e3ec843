"""The checker: every invariant of the database, verified from the rows."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from standfast.ledger import database
from standfast.ledger.records import Damaged, TipRecord, check_value, children, split_links, unpack, unseal

_Nodes = dict[tuple[bytes, int], set[bytes]]
_K = TypeVar("_K")


def check(path: Path) -> list[str]:
    """What is wrong with a ledger's file; empty if nothing is. Raises sqlite3.Error or Broken if it cannot be read."""
    connection = database.connect(path)
    try:
        connection.execute("PRAGMA query_only=1")
        connection.execute("BEGIN")
        return _Check(connection).run()
    finally:
        connection.close()


class _Check:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection.execute
        self._contents: dict[bytes, tuple[int, bytes]] = {}
        self._refs: Counter[bytes] = Counter()
        self._nodes: _Nodes = {}
        self._wrong: list[str] = []

    def run(self) -> list[str]:
        for (line,) in self._sql("PRAGMA integrity_check"):
            if line not in (b"ok", "ok"):
                self._wrong.append(f"SQLite: {line!r}")
        stored = self._blobs()
        self._tips()
        self._compare("blob", stored, dict(self._refs))
        nodes = {(link, lineage): refs for link, lineage, refs in self._sql("SELECT link, lineage, refs FROM nodes")}
        self._compare("node", nodes, {key: len(below) for key, below in self._nodes.items()})
        for name, value, mark in self._sql("SELECT name, value, seal FROM firsts"):
            if check_value(name, value) != mark:
                self._wrong.append(f"first {name.hex()}: damaged")
        return self._wrong

    def _blobs(self) -> dict[bytes, int]:
        stored = {}
        for name, kind, refs, size, data in self._sql("SELECT digest, kind, refs, size, data FROM blobs"):
            stored[name] = refs
            try:
                content = unpack(name, kind, size, data)
                self._contents[name] = (kind, content)
                self._refs.update(children(kind, content))
            except Damaged:
                self._wrong.append(f"blob {name.hex()}: damaged")
        return stored

    def _tips(self) -> None:
        for number, id, lineage, head, kin, record in self._sql("SELECT num, id, lineage, head, kin, record FROM tips"):
            try:
                tip = unseal(record)
            except Damaged:
                self._wrong.append(f"request {id.hex()}: damaged")
                continue
            if (tip.id, tip.head_name, tip.kin_name) != (id, head, kin):
                self._wrong.append(f"request {id.hex()}: its record is of another")
            self._refs.update(tip.pages())
            self._hang(number, lineage, tip)

    def _hang(self, number: int, lineage: int, tip: TipRecord) -> None:
        """Count what hangs on each node of a request's path: the next node, or the request itself."""
        links = [link for page in tip.links for link in split_links(self._contents.get(page, (0, b""))[1])]
        if len(links) != tip.link_count:
            self._wrong.append(f"request {tip.id.hex()}: {len(links)} links of {tip.link_count}")
        for link, following in zip(links, [*links[1:], b"request %d" % number], strict=False):
            self._nodes.setdefault((link, lineage), set()).add(following)

    def _compare(self, what: str, stored: Mapping[_K, int], counted: Mapping[_K, int]) -> None:
        for key in stored.keys() | counted.keys():
            if stored.get(key) != counted.get(key):
                self._wrong.append(
                    f"{what} {_named(key)}: {stored.get(key)} references stored, {counted.get(key)} counted"
                )


def _named(key: object) -> str:
    if isinstance(key, bytes):
        return key.hex()
    return " of lineage ".join(map(_named, key)) if isinstance(key, tuple) else str(key)
