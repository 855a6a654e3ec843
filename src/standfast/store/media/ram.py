"""Memory of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from standfast.store.medium import Stats
from standfast.store.record import Buffer


class RamMedium:
    """Values as bytes objects: a view keeps its value alive, whoever deletes the key."""

    name = "ram"
    shared = False
    trusted = True

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[bytes, bytes] = {}
        self._used = 0
        self._lock = threading.Lock()

    @contextmanager
    def get_many(self, keys: Sequence[bytes]) -> Iterator[list[memoryview | None]]:
        """Views of the values."""
        found = [self._values.get(key) for key in keys]
        yield [None if value is None else memoryview(value) for value in found]

    def peek_many(self, keys: Sequence[bytes], size: int) -> list[bytes | None]:
        """The first bytes of each value."""
        found = [self._values.get(key) for key in keys]
        return [None if value is None else value[:size] for value in found]

    def put_many(self, values: Sequence[tuple[bytes, Sequence[Buffer]]]) -> list[bool]:
        """Store values; False for each that there is no room for."""
        return [self._put(key, pieces) for key, pieces in values]

    def delete_many(self, keys: Sequence[bytes]) -> int:
        """Delete what is there."""
        with self._lock:
            gone = [value for value in (self._values.pop(key, None) for key in keys) if value is not None]
            self._used -= sum(map(len, gone))
        return len(gone)

    def keys(self) -> Iterator[tuple[bytes, int]]:
        """All keys, as they were when it began."""
        with self._lock:
            found = [(key, len(value)) for key, value in self._values.items()]
        return iter(found)

    def stats(self) -> Stats:
        """What it holds."""
        return Stats(len(self._values), self._used, self._capacity)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._used = 0

    def _put(self, key: bytes, pieces: Sequence[Buffer]) -> bool:
        size = sum(memoryview(piece).nbytes for piece in pieces)
        with self._lock:
            if key in self._values:
                return True
            if self._used + size > self._capacity:
                return False
            self._used += size  # before the copy, which others need not wait for
        value = b"".join(pieces)
        with self._lock:
            if self._values.setdefault(key, value) is not value:
                self._used -= size
        return True
