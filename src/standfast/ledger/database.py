"""The SQLite file: making it, opening it, putting a broken one aside."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from standfast.errors import LedgerError

log = logging.getLogger(__name__)

SCHEMA_VERSION = 2
_APPLICATION = 0x53464C47  # "SFLG"
_BUSY_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE blobs(digest BLOB PRIMARY KEY, kind INTEGER NOT NULL, refs INTEGER NOT NULL, size INTEGER NOT NULL,
    data BLOB NOT NULL);
CREATE TABLE lineages(num INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE);
CREATE TABLE tips(num INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, lineage INTEGER NOT NULL,
    head BLOB NOT NULL, kin BLOB NOT NULL, at REAL NOT NULL, record BLOB NOT NULL);
CREATE INDEX tips_by_lineage ON tips(lineage, at, num);
CREATE INDEX tips_by_head ON tips(head, at, num);
CREATE INDEX tips_by_kin ON tips(kin, at, num);
CREATE TABLE nodes(link BLOB NOT NULL, lineage INTEGER NOT NULL, refs INTEGER NOT NULL,
    PRIMARY KEY(link, lineage)) WITHOUT ROWID;
CREATE TABLE firsts(num INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, value BLOB NOT NULL, seal BLOB NOT NULL);
"""
_PROBES = (
    "SELECT digest, kind, refs, size, data FROM blobs LIMIT 1",
    "SELECT num, id FROM lineages LIMIT 1",
    "SELECT num, id, lineage, head, kin, at, record FROM tips ORDER BY num DESC LIMIT 1",
    "SELECT link, lineage, refs FROM nodes LIMIT 1",
    "SELECT num, name, value, seal FROM firsts LIMIT 1",
)


class Broken(Exception):
    """The file is damaged, or of a version that we do not know."""


def is_broken(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged (and not busy, full or the like)."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return True
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ:
        return True
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(("no such table", "no such column"))


def connect(path: Path, busy_seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
    """A connection in autocommit. Raises sqlite3.Error, Broken."""
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=busy_seconds, check_same_thread=False, cached_statements=256
    )
    try:
        connection.text_factory = bytes  # no column is text: one that is was damaged, and must not fail to decode
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=67108864")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == SCHEMA_VERSION:
            for probe in _PROBES:
                connection.execute(probe).fetchone()
        elif version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Broken(f"its schema version is {version}, this program writes {SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(path: Path) -> None:
    """Make sure that a good database is there. Raises LedgerError if that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(path):
            try:
                _create(path)
            except (Broken, sqlite3.Error) as error:
                if isinstance(error, sqlite3.Error) and not is_broken(error):
                    raise
                move_aside(path, str(error))
                _create(path)
    except (OSError, sqlite3.Error, Broken) as error:
        raise LedgerError(f"{path}: the ledger cannot be opened: {error}; is the folder writable?") from error


def replace_broken(path: Path, inode: int, why: str) -> None:
    """Put the file aside unless another process has done so, and make a new one. Raises LedgerError."""
    try:
        with _alone(path):
            if path.exists() and path.stat().st_ino == inode:
                move_aside(path, why)
    except OSError as error:
        raise LedgerError(f"{path}: the broken ledger cannot be moved aside: {error}") from error
    prepare(path)


def move_aside(path: Path, why: str) -> None:
    """Rename a broken database, with its log, so that a person can look at it."""
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    log.warning("%s: the ledger is broken (%s); moved to %s, starting a new one", path, why, aside.name)
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        extra = path.with_name(path.name + suffix)
        if extra.exists():
            extra.rename(aside.with_name(aside.name + suffix))


def _create(path: Path) -> None:
    # SQLite gives its -wal and -shm the mode of the database: make that first, for the owner only
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    connection = connect(path)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            return
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id={_APPLICATION};"
            f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT"
        )
    finally:
        connection.close()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time makes or moves the file."""
    handle = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
