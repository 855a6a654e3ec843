"""The bytes that go out: the client's body with some pieces exchanged in place."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.prompt.mended import Mended
from standfast.prompt.model import Item
from standfast.prompt.request import Range, Request, elements

Edit = tuple[Range, bytes]


def render(request: Request, mended: Mended) -> bytes:
    """The outgoing body. With nothing to exchange it is the client's, the very object."""
    edits = [*_head(request, mended), *_history(request, mended)]
    for name, value in mended.routes.items():
        if request.head.routes.get(name) != value:
            edits.append((request.fields[name], value))
    if not edits:
        return request.body
    edits.sort()
    pieces: list[bytes] = []
    position = 0
    for (start, end), value in edits:
        pieces += (request.body[position:start], value)
        position = end
    pieces.append(request.body[position:])
    return b"".join(pieces)


def _head(request: Request, mended: Mended) -> list[Edit]:
    dialect, head = request.dialect, request.head
    edits: list[Edit] = []
    if mended.tools is not head.tools:
        edits += _exchange(elements(request.body, request.fields[dialect.tools]), head.tools, mended.tools)
    if mended.system is not head.system:
        ranges = elements(request.body, request.fields[dialect.system]) if dialect.system in request.fields else []
        if request.first:
            ranges = ranges + elements(request.body, request.fields[dialect.history])[: request.first]
        edits += _exchange(ranges, head.system, mended.system)
    return edits


def _exchange(ranges: Sequence[Range], old: Sequence[Item], new: Sequence[Item]) -> list[Edit]:
    return [(where, b.wire) for where, a, b in zip(ranges, old, new, strict=True) if a.wire != b.wire]


def _history(request: Request, mended: Mended) -> list[Edit]:
    edits: list[Edit] = []
    for unit, sent in zip(request.units, mended.sent, strict=True):
        if sent.items is unit.items:
            continue
        last = len(unit.items) - 1
        for i, old in enumerate(unit.items):
            new = sent.items[i:] if i == last else sent.items[i : i + 1]
            wire = b", ".join(item.wire for item in new)
            if wire != old.wire:
                edits.append((request.ranges[unit.first + i], wire))
    return edits
