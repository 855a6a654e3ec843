"""A folder on disk, as an LMDB environment: read without a copy, shared by processes, never torn.

Each ``put_many`` is one transaction and is on the disk when it returns (data is synced, the meta page with the next
transaction): a killed process loses nothing that was put, a power cut at most the last transaction. A reader keeps the
pages that it sees alive; a reader that died is cleared away when the folder is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from standfast.errors import MediumFailed
from standfast.store.medium import Stats
from standfast.store.record import Buffer

_ROOM = 1.25
"""Pages for what is being replaced, beside the values."""
_LEAST = 16 << 20


class DiskMedium:
    """Values in one B-tree by key. ``capacity``: bytes that the values may fill."""

    name = "disk"
    shared = True
    trusted = True

    def __init__(self, folder: Path, capacity: int) -> None:
        self._capacity = capacity
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._env = lmdb.open(
                str(folder), map_size=max(_LEAST, int(capacity * _ROOM)), mode=0o600, metasync=False, readahead=False,
                max_readers=256,
            )  # fmt: skip
            self._env.reader_check()
        except (OSError, lmdb.Error) as error:
            raise MediumFailed(f"{folder}: the KV archive cannot be opened: {error}") from error

    @contextmanager
    def get_many(self, keys: Sequence[bytes]) -> Iterator[list[memoryview | None]]:
        """Views of the mapped file."""
        with self._reading() as txn:
            found: list[Any] = [txn.get(key) for key in keys]
            yield found

    def peek_many(self, keys: Sequence[bytes], size: int) -> list[bytes | None]:
        """The first bytes of each value."""
        with self.get_many(keys) as views:
            return [None if view is None else bytes(view[:size]) for view in views]

    def put_many(self, values: Sequence[tuple[bytes, Sequence[Buffer]]]) -> list[bool]:
        """Store values, all in one transaction or, if there is no room for all, none."""
        try:
            with self._env.begin(write=True) as txn:
                for key, pieces in values:
                    if txn.get(key) is None:
                        txn.put(key, b"".join(pieces))
        except lmdb.MapFullError:
            return [False] * len(values)
        except lmdb.Error as error:
            raise MediumFailed(f"the KV archive cannot be written: {error}") from error
        return [True] * len(values)

    def delete_many(self, keys: Sequence[bytes]) -> int:
        """Delete what is there."""
        try:
            with self._env.begin(write=True) as txn:
                return sum(txn.delete(key) for key in keys)
        except lmdb.Error as error:
            raise MediumFailed(f"the KV archive cannot be written: {error}") from error

    def keys(self) -> Iterator[tuple[bytes, int]]:
        """All keys, as they were when it began."""
        with self._reading() as txn:
            found = [(bytes(key), len(value)) for key, value in txn.cursor()]
        return iter(found)

    def stats(self) -> Stats:
        """What it holds; used are the pages in use, of which a value fills its last only in part."""
        try:
            found = self._env.stat()
        except lmdb.Error as error:
            raise MediumFailed(f"the KV archive cannot be read: {error}") from error
        pages = found["leaf_pages"] + found["branch_pages"] + found["overflow_pages"]
        return Stats(found["entries"], pages * found["psize"], self._capacity)

    def close(self) -> None:
        """Sync and release."""
        self._env.sync(True)
        self._env.close()

    @contextmanager
    def _reading(self) -> Iterator[lmdb.Transaction]:
        try:
            txn = self._env.begin(buffers=True)
        except lmdb.Error as error:
            raise MediumFailed(f"the KV archive cannot be read: {error}") from error
        try:
            yield txn
        finally:
            txn.abort()
