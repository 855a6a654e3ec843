"""The ledger on disk: memory in front, one SQLite file behind, shared by the workers.

Lookups are answered by the memory ledger. Before that, whatever the database holds for the question that memory does
not (written by another worker, or before a restart) is brought in. Writing is the work of one thread; ``record``
and ``keep_first`` only queue.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeVar

from standfast.errors import LedgerError
from standfast.ledger import database
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.reading import Cache, Reader, Row
from standfast.ledger.records import Damaged, Parse, Stored
from standfast.ledger.write_queue import WriteQueue
from standfast.prompt.items import item
from standfast.prompt.model import Link, Tip

_T = TypeVar("_T")
log = logging.getLogger(__name__)

_READ_BUSY_SECONDS = 0.05
_NUMBERS_KEPT = 100_000
_DEPTHS_TRIED = 4
_GATHER_ALONE, _GATHER_SHARED = 0.25, 0.02
"""Seconds that the first write of a batch waits for more."""


class SqliteLedger:
    """A Ledger that a restart does not forget. Safe to use from several threads and processes."""

    def __init__(
        self,
        path: Path,
        max_disk_bytes: int,
        memory: MemoryLedger,
        *,
        parse: Parse | None = None,
        alone: bool = False,
    ) -> None:
        """Open or make the file. Raises LedgerError if it cannot be written; a broken one is put aside.

        ``alone``: no other process writes to the file now. Then what memory knows is the newest there is, the database
        is asked only for what memory has forgotten, and writing may wait until there is more of it.
        """
        self._alone = alone
        self._path = path
        self._memory = memory
        self._parse = parse or item
        self._cache = Cache(memory.max_bytes // 8)
        self._numbers: dict[bytes, int] = {}
        """id → number of the row that memory holds: a row of a greater number is a later version."""
        self._lock = Lock()  # of the reader
        database.prepare(path)
        gather = _GATHER_ALONE if alone else _GATHER_SHARED
        self._queue = WriteQueue(path, max_disk_bytes, gather, written=self._written, corrected=memory.correct_first)
        self._reader: Reader | None = None
        self._connection: sqlite3.Connection | None = None
        self._generation = -1

    def tips_at(self, links: Sequence[Link]) -> tuple[int, list[Tip]]:
        """See Ledger."""
        known, tips = self._memory.tips_at(links)
        if known and self._alone:
            return known, tips
        brought = self._bring(lambda reader: self._rows_at(reader, links, known))
        if not brought:
            return known, tips
        depth, tips = self._memory.tips_at(links)
        if depth >= known and tips:
            return depth, tips
        return self._without_memory(links, brought)

    def tips_of_head(self, head: bytes) -> list[Tip]:
        """See Ledger."""
        if self._alone and (tips := self._memory.tips_of_head(head)):
            return tips
        brought = self._bring(lambda reader: reader.newest_of_head(head))
        return self._memory.tips_of_head(head) or [stored.tip for stored in brought]

    def tip(self, id: bytes) -> Tip | None:
        """See Ledger."""
        brought = self._bring(lambda reader: [row] if (row := reader.row(id)) else [])
        found = self._memory.tip(id)
        return found if found is not None or not brought else brought[0].tip

    def first(self, name: bytes) -> bytes | None:
        """See Ledger."""
        found = self._memory.first(name)
        if found is not None:
            return found
        found = self._ask(lambda reader: reader.first(name))
        return self._memory.keep_first(name, found) if found is not None else None

    def keep_first(self, name: bytes, value: bytes) -> bytes:
        """See Ledger.

        Where two processes name the same within moments, each may answer its own value once; then the database's
        value holds in both.
        """
        found = self.first(name)
        if found is not None:
            return found
        kept = self._memory.keep_first(name, value)
        self._queue.put_first(name, kept)
        return kept

    def record(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        """See Ledger."""
        self._memory.record(tip, links, head, kin)
        self._queue.put_tip(tip, links, head, kin)

    def flush(self) -> None:
        """See Ledger. Raises LedgerError if something could not be written."""
        self._queue.flush()

    def close(self) -> None:
        """See Ledger."""
        try:
            self._queue.close()
        finally:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                self._reader = self._connection = None
                self._generation = -2
            self._memory.close()

    def _written(self, id: bytes, number: int) -> None:
        if len(self._numbers) > _NUMBERS_KEPT:
            self._numbers.clear()
        self._numbers[id] = number

    def _fresh(self, row: Row) -> bool:
        """Whether memory holds this version of a request, or a later one that is still to be written."""
        held = row.id in self._memory and self._numbers.get(row.id, -1) >= row.number
        return held or self._queue.holds(row.id)

    def _rows_at(self, reader: Reader, links: Sequence[Link], known: int) -> list[Row]:
        depth = reader.known(links, known)
        for _ in range(_DEPTHS_TRIED):
            if not depth:
                break
            link = links[depth - 1]
            rows = reader.newest_at(link, depth - 1, self._memory.passes(link), self._fresh)
            if rows or depth <= known:
                return rows
            depth = reader.known(links[: depth - 1], known)  # only damage leaves a link that nobody passes
        return []

    def _bring(self, find: Callable[[Reader], list[Row]]) -> list[Stored]:
        """Load the rows that memory does not hold, into memory too; newest first."""

        def load(reader: Reader) -> list[Stored]:
            rows = [row for row in find(reader) if not self._fresh(row)]
            if not rows:
                return []
            found = []
            with reader.snapshot():
                for row in rows:
                    if (stored := self._load(reader, row)) is not None:
                        found.append((row, stored))
            for row, stored in reversed(found):
                self._memory.record(stored.tip, stored.links, stored.head, stored.kin)
                self._written(row.id, row.number)
            return [stored for _, stored in found]

        return self._ask(load) or []

    def _load(self, reader: Reader, row: Row) -> Stored | None:
        try:
            return reader.load(row)
        except Damaged as error:
            log.warning("%s: request %s is damaged and is forgotten", self._path, row.id.hex())
            self._queue.drop_damaged(row.number, error.digests)
            return None

    def _without_memory(self, links: Sequence[Link], brought: list[Stored]) -> tuple[int, list[Tip]]:
        """The answer where memory is too small to hold what was brought in."""

        def shared(stored: Stored) -> int:
            pairs = zip(links, stored.links, strict=False)
            return next(
                (i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(links), len(stored.links))
            )

        depth = max(map(shared, brought))
        return depth, [stored.tip for stored in brought if shared(stored) == depth] if depth else []

    def _ask(self, question: Callable[[Reader], _T]) -> _T | None:
        """Ask the database; None if it cannot answer: then memory has to do."""
        with self._lock:
            try:
                return question(self._connected())
            except sqlite3.Error as error:
                if database.is_broken(error):
                    self._queue.report_broken(str(error))
                log.warning("%s: cannot be read: %s", self._path, error)
            except LedgerError:
                raise
            except Exception:  # whatever a damaged row makes us do, the request goes on without it
                log.exception("%s: reading failed", self._path)
            return None

    def _connected(self) -> Reader:
        if self._generation == -2:
            raise LedgerError(f"{self._path}: the ledger is closed")
        if self._reader is None or self._generation != self._queue.generation:
            if self._connection is not None:
                self._connection.close()
            self._generation = self._queue.generation
            self._connection = database.connect(self._path, _READ_BUSY_SECONDS)
            self._connection.execute("PRAGMA query_only=1")
            self._reader = Reader(self._connection, self._parse, self._cache)
        return self._reader
