"""Where records lie: one protocol for memory, shared memory, disk, Redis, object stores and peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from standfast.store.record import Buffer


@dataclass(frozen=True, slots=True)
class Stats:
    """What a medium holds."""

    entries: int
    used: int
    """Bytes, with the medium's own overhead where it is known."""
    capacity: int
    """Bytes; 0 where there is no bound of ours."""


class Medium(Protocol):
    """Values under 32-byte keys. Calls block, and may come from several threads at once.

    A value never changes: one key means one state. It is published whole or not at all, whatever dies in between.
    Which entries must go when there is no room is not the medium's to decide; it says no. All methods raise
    MediumFailed if the medium cannot be reached or is broken; a value that is damaged is not its concern (records
    are sealed).
    """

    @property
    def name(self) -> str:
        """For people: ``ram``, ``shm``, ``disk``, ``redis``, ``objects``."""
        ...

    @property
    def shared(self) -> bool:
        """Whether others than this process may write here."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether only this user can write here."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> AbstractContextManager[list[memoryview | None]]:
        """The values, or None, in the order of the keys. Where the medium can, views of its own memory: they hold
        until the ``with`` block ends, whoever deletes the keys meanwhile, and must not be used after it.
        """
        ...

    def peek_many(self, keys: Sequence[bytes], size: int) -> list[bytes | None]:
        """The first ``size`` bytes of each value (fewer if it is shorter)."""
        ...

    def put_many(self, values: Sequence[tuple[bytes, Sequence[Buffer]]]) -> list[bool]:
        """Store values given in pieces. True: it is there now, or was there already; False: no room for it."""
        ...

    def delete_many(self, keys: Sequence[bytes]) -> int:
        """Delete what is there; returns how many were."""
        ...

    def keys(self) -> Iterator[tuple[bytes, int]]:
        """All keys with the bytes of their values, in no order. What comes or goes meanwhile may be seen or not."""
        ...

    def stats(self) -> Stats:
        """What it holds now."""
        ...

    def close(self) -> None:
        """Release everything; what was put stays where the medium outlives the process."""
        ...
