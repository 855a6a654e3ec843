"""What requests cost, what they would have cost, and to what the rest was lost: sums, kept in a file of their own.

An observer of ``Judged``. Verdicts are added up in memory and written every few seconds by a thread, so that a request
waits for no disk; a crash loses the last seconds of sums and nothing else. Rows are sums by day, upstream, model,
tenant, session and cause; ``totals`` adds them up further. The file holds no prompt text and no credential.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from standfast.errors import ConfigError, place
from standfast.events import Event, Judged

logger = logging.getLogger("standfast.bills")

KEEP_DAYS = 90
_FLUSH_SECONDS = 2.0
_AT_ONCE = 10_000  # rows in memory at most: what cannot be written is dropped, and told
GROUPS = ("day", "upstream", "model", "tenant", "session", "cause")
"""What sums can be told apart by."""
SUMS = (
    "requests", "hits", "prompt_tokens", "attainable_tokens", "cached_tokens", "lost_tokens",
    "paid", "without_cache", "perfect", "lost_money", "asked", "agreed",
)  # fmt: skip
_KEY = (*GROUPS, "currency")
_TABLE = f"CREATE TABLE IF NOT EXISTS bills({', '.join(f'{n} TEXT NOT NULL' for n in _KEY)}, " + (
    f"{', '.join(f'{n} REAL NOT NULL' for n in SUMS)}, PRIMARY KEY({', '.join(_KEY)})) WITHOUT ROWID"
)
_ADD = (
    f"INSERT INTO bills VALUES({', '.join('?' * (len(_KEY) + len(SUMS)))}) "
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{n} = {n} + excluded.{n}' for n in SUMS)}"
)

_Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """One row of a bill. Money is in ``currency``; empty: in uncached input tokens, for want of a price."""

    group: str
    currency: str
    requests: float
    hits: float
    """Requests that hit all they could."""
    prompt_tokens: float
    attainable_tokens: float
    cached_tokens: float
    lost_tokens: float
    paid: float
    without_cache: float
    perfect: float
    lost_money: float
    asked: float
    """Requests on which the provider gave a diagnosis of its own that says where the prefix broke…"""
    agreed: float
    """… and those of them where it named the same place as we did."""


class Bills:
    """The observer. One per process; several may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sums: dict[_Row, list[float]] = defaultdict(lambda: [0.0] * len(SUMS))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="standfast-bills", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Judged):
            return
        with self._lock:
            if len(self._sums) >= _AT_ONCE:
                logger.error("bills cannot be written fast enough: %d sums are dropped", len(self._sums))
                self._sums.clear()
            sums = self._sums[_key(event)]
            for i, value in enumerate(_values(event)):
                sums[i] += value

    def flush(self) -> None:
        """Write what was added up so far. Raises sqlite3.Error, OSError."""
        with self._lock:
            taken, self._sums = self._sums, defaultdict(lambda: [0.0] * len(SUMS))
        if not taken:
            return
        try:
            with contextlib.closing(_connect(self._path)) as connection, connection:
                connection.executemany(_ADD, [(*key, *sums) for key, sums in taken.items()])
        except (sqlite3.Error, OSError):
            with self._lock:
                for key, sums in taken.items():
                    self._sums[key] = [a + b for a, b in zip(self._sums[key], sums, strict=True)]
            raise

    def close(self) -> None:
        """Write the rest."""
        self._stop.set()
        self._thread.join()

    def _write_on(self) -> None:
        ended = False
        while not ended:
            ended = self._stop.wait(_FLUSH_SECONDS)
            try:
                self.flush()
            except (sqlite3.Error, OSError) as error:
                logger.error("bills cannot be written: %s", place(error))


def totals(path: Path, by: str, since: str = "") -> list[Total]:
    """The sums by one of GROUPS, dearest first. ``since``: first day, YYYY-MM-DD. Raises ConfigError."""
    if by not in GROUPS:
        raise ConfigError(f"a bill is told by one of {', '.join(GROUPS)}, not by {by!r}")
    if not path.is_file():
        return []
    query = (
        f"SELECT {by}, currency, {', '.join(f'sum({n})' for n in SUMS)} FROM bills WHERE day >= ? "
        f"GROUP BY {by}, currency ORDER BY sum(paid) DESC, {by}"
    )
    try:
        with contextlib.closing(_connect(path)) as connection:
            return [Total(*row) for row in connection.execute(query, (since,))]
    except sqlite3.Error as error:
        raise ConfigError(f"{path}: cannot be read: {error}; move it away to begin anew") from error


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=5.0)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_TABLE)
        oldest = time.strftime("%Y-%m-%d", time.gmtime(time.time() - KEEP_DAYS * 86_400))
        connection.execute("DELETE FROM bills WHERE day < ?", (oldest,))
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def _key(event: Judged) -> _Row:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    cause = "none" if event.hit or event.cause is None else event.cause
    return day, event.upstream, event.model, event.tenant, event.session, cause, event.currency


def _values(event: Judged) -> Sequence[float]:
    return (
        1, event.hit, event.prompt_tokens or 0, event.attainable_tokens, event.cached_tokens or 0, event.lost_tokens,
        event.paid, event.without_cache, event.perfect, event.lost_money,
        event.agrees is not None, event.agrees is True,
    )  # fmt: skip
