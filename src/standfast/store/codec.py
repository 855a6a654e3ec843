"""How the body of a block is written: one protocol, and the table of codecs (docs/format/kv-codecs.md)."""

from __future__ import annotations

from typing import Protocol

from standfast.store.layout import Layout
from standfast.store.record import Buffer


class Codec(Protocol):
    """Writes states smaller, and reads them back. Stateless; may be called from several threads."""

    @property
    def id(self) -> int:
        """Number in the record."""
        ...

    @property
    def name(self) -> str:
        """For people and settings."""
        ...

    @property
    def lossless(self) -> bool:
        """Whether the very bytes come back."""
        ...

    def fits(self, layout: Layout) -> bool:
        """Whether it understands the layout."""
        ...

    def encode(self, body: memoryview, layout: Layout, tokens: int, exact: int = 0) -> Buffer:
        """The state of ``tokens`` tokens, the first ``exact`` of which must come back bit for bit."""
        ...

    def decode(self, body: memoryview, layout: Layout, tokens: int, out: memoryview) -> None:
        """Write the decoded state to ``out``, which has just its length. Raises RecordBroken("body")."""
        ...
