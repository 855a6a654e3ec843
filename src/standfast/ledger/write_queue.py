"""The thread that writes, and the queue in front of it."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread

from standfast.errors import LedgerError
from standfast.ledger import database
from standfast.ledger.writing import Writer
from standfast.prompt.model import Link, Tip

log = logging.getLogger(__name__)

_WAITING_AT_MOST = 1024
_BUSY_SECONDS = 0.02
_PATIENCE_SECONDS = 0.05
_TRIES = 3
_PRUNE_TO = 0.9
_VACUUM_PAGES = 2048


@dataclass(slots=True)
class _Batch:
    """What one transaction writes."""

    tips: dict[bytes, tuple[Tip, Sequence[Link], bytes, bytes]] = field(default_factory=dict)
    """By id: of a request whose response comes before it was written, the later version only."""
    firsts: dict[bytes, bytes] = field(default_factory=dict)
    damaged: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tips) + len(self.firsts) + len(self.damaged)


class WriteQueue:
    """Takes writes without waiting for the disk.

    If the disk falls so far behind that the queue is full, the caller waits a moment; then the write is dropped (memory
    has it) and the next flush says so.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        gather_seconds: float,
        *,
        written: Callable[[bytes, int], None],
        corrected: Callable[[bytes, bytes], None],
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._gather_seconds = gather_seconds
        self._tell_written = written
        self._tell_corrected = corrected
        self._changed = Condition()
        self._waiting = _Batch()
        self._at_work = _Batch()
        self._hurry = 0
        self._asked = self._taken = self._done = 0
        """Writes queued, taken over by the thread, committed (or lost) so far."""
        self._lost = 0
        self._closing = False
        self._broken: str | None = None
        self.generation = 0
        """Grows when the file was replaced: connections to the old one are of no use."""
        self._open()
        self._thread = Thread(target=self._run, name="standfast-ledger", daemon=True)
        self._thread.start()

    def put_tip(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        """Queue a request."""
        with self._changed:
            if self._has_room():
                self._waiting.tips.pop(tip.id, None)  # rows are numbered in the order of recording
                self._waiting.tips[tip.id] = (tip, tuple(links), head, kin)
                self._queued()

    def put_first(self, name: bytes, value: bytes) -> None:
        """Queue a value under a name."""
        with self._changed:
            if self._has_room():
                self._waiting.firsts.setdefault(name, value)
                self._queued()

    def drop_damaged(self, number: int, digests: Iterable[bytes]) -> None:
        """Queue the removal of a request that cannot be read."""
        with self._changed:
            self._waiting.damaged.append((number, tuple(digests)))
            self._queued()

    def report_broken(self, why: str) -> None:
        """A reader found that the file is damaged."""
        with self._changed:
            self._broken = why
            self._changed.notify_all()

    def holds(self, id: bytes) -> bool:
        """Whether a request waits to be written."""
        return id in self._waiting.tips or id in self._at_work.tips

    def flush(self) -> None:
        """Return once everything queued is committed. Raises LedgerError if something was not."""
        with self._changed:
            asked = self._asked
            self._hurry += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._done >= asked or not self._thread.is_alive())
            finally:
                self._hurry -= 1
            lost, self._lost = self._lost, 0
        if lost:
            raise LedgerError(f"{self._path}: {lost} records could not be written; is the disk full or too slow?")

    def close(self) -> None:
        """Flush, and end the thread."""
        try:
            if self._thread.is_alive():
                self.flush()
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            self._connection.close()

    def _queued(self) -> None:
        self._asked += 1
        if len(self._waiting) == 1:
            self._changed.notify_all()

    def _has_room(self) -> bool:
        if self._closing:
            raise LedgerError(f"{self._path}: the ledger is closed")
        if len(self._waiting) < _WAITING_AT_MOST:
            return True
        if self._changed.wait_for(lambda: len(self._waiting) < _WAITING_AT_MOST, _PATIENCE_SECONDS):
            return True
        self._lost += 1
        return False

    def _open(self) -> None:
        self._connection = database.connect(self._path)
        self._writer = Writer(self._connection)
        self._inode = os.stat(self._path).st_ino
        self.generation += 1

    def _run(self) -> None:
        while self._gather():
            lost = 0
            try:
                if self._broken is not None:
                    self._replace(self._broken)
                self._write(self._at_work)
            except Exception:  # the thread must live: the next batch may fare better
                lost = len(self._at_work)
                log.exception("%s: %d records could not be written", self._path, lost)
            finally:
                with self._changed:
                    self._at_work, self._done = _Batch(), self._taken
                    self._lost += lost
                    self._changed.notify_all()

    def _gather(self) -> bool:
        """Wait for work and take it over; False when there will be none."""
        changed = self._changed
        with changed:
            changed.wait_for(lambda: self._waiting or self._closing or self._broken is not None)
            # soon more may come, and a transaction costs the same for all
            changed.wait_for(lambda: self._hurry or self._closing, self._gather_seconds)
            if not self._waiting and self._broken is None:
                return not self._closing
            self._at_work, self._waiting, self._taken = self._waiting, _Batch(), self._asked
            changed.notify_all()
            return True

    def _write(self, batch: _Batch) -> None:
        failure: sqlite3.Error | None = None
        for _ in range(_TRIES):
            try:
                if self._moved():
                    self._reopen()
                self._commit(batch)
                self._prune()
                return
            except sqlite3.Error as error:
                failure = error
                if database.is_broken(error):
                    self._replace(str(error))
                elif _is_busy(error):
                    time.sleep(_BUSY_SECONDS)
                else:
                    break
        assert failure is not None
        raise failure

    def _commit(self, batch: _Batch) -> None:
        writer, numbers, kept = self._writer, {}, {}
        with _Transaction(self._connection):
            for number, digests in batch.damaged:
                writer.drop_damaged(number, digests)
            for name, value in batch.firsts.items():
                kept[name] = writer.put_first(name, value)
            for id, (tip, links, head, kin) in batch.tips.items():
                try:
                    numbers[id] = writer.put_tip(tip, links, head, kin)
                except UnicodeEncodeError:  # a lone surrogate: such text cannot be stored
                    log.warning("%s: a request with broken Unicode is kept in memory only", self._path)
        for id, written in numbers.items():
            self._tell_written(id, written)
        for name, value in batch.firsts.items():
            if kept[name] != value:
                self._tell_corrected(name, kept[name])

    def _prune(self) -> None:
        if self._writer.used_bytes() <= self._max_bytes:
            return
        more = True
        while more and self._writer.used_bytes() > self._max_bytes * _PRUNE_TO:
            with _Transaction(self._connection):
                more = self._writer.prune(self._max_bytes)
        self._connection.executescript(
            f"PRAGMA incremental_vacuum({_VACUUM_PAGES})"
        )  # execute() would stop at one page

    def _moved(self) -> bool:
        try:
            return os.stat(self._path).st_ino != self._inode
        except FileNotFoundError:
            return True

    def _replace(self, why: str) -> None:
        database.replace_broken(self._path, self._inode, why)
        self._broken = None
        self._reopen(prepared=True)

    def _reopen(self, *, prepared: bool = False) -> None:
        """Another process put the file aside, or we did."""
        if not prepared:
            database.prepare(self._path)
        self._connection.close()
        self._open()


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
