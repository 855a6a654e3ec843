"""As it is."""

from __future__ import annotations

from standfast.errors import RecordBroken
from standfast.store.layout import Layout
from standfast.store.record import Buffer


class Raw:
    """The planes, one behind the other."""

    id = 0
    name = "raw"
    lossless = True

    def fits(self, layout: Layout) -> bool:
        """Every layout."""
        return True

    def encode(self, body: memoryview, layout: Layout, tokens: int, exact: int = 0) -> Buffer:
        """The body itself."""
        return body

    def decode(self, body: memoryview, layout: Layout, tokens: int, out: memoryview) -> None:
        """Copy it. Raises RecordBroken if it has another length."""
        if body.nbytes != out.nbytes:
            raise RecordBroken("body")
        out[:] = body
