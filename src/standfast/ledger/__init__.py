"""What was sent before, and the bytes it was sent in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from standfast.prompt.model import Link, Tip


class Ledger(Protocol):
    """Memory of requests. All keys are digests keyed by tenant, so that tenants cannot meet.

    Bounded: the least recently used requests are forgotten first. Forgetting costs a hit, never an error.
    """

    def tips_at(self, links: Sequence[Link]) -> tuple[int, list[Tip]]:
        """The longest known head of a chain, and the requests that pass through its end, newest first (at most 8).

        links[i] names the head of i + 1 parts. Returns (number of links known, tips); (0, []) if none is. A head is
        known only if every shorter one was recorded too, so implementations may search by bisection.
        """
        ...

    def tips_of_head(self, head: bytes) -> list[Tip]:
        """Requests recorded with this name as head or kin, newest first, at most 8."""
        ...

    def tip(self, id: bytes) -> Tip | None:
        """One request by id."""
        ...

    def first(self, name: bytes) -> bytes | None:
        """The bytes first recorded under a name."""
        ...

    def keep_first(self, name: bytes, value: bytes) -> bytes:
        """Record value under name unless something is there; returns what is there now."""
        ...

    def record(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        """Remember a request. links are all links of its chain (as passed to tips_at); head names its head,
        and kin, if given, is another name under which tips_of_head finds it.

        Recording a tip of the same id again replaces it (its response has come).
        """
        ...

    def flush(self) -> None:
        """Return once everything recorded so far would survive a crash of this process."""
        ...

    def close(self) -> None:
        """Flush and release. The ledger cannot be used afterwards."""
        ...
