"""The bytes that go out: the client's body with some pieces exchanged in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from standfast.prompt import canonical
from standfast.prompt.fingerprint import system_text
from standfast.prompt.mended import Mended
from standfast.prompt.model import Head, Item
from standfast.prompt.request import Range, Request, elements

Edit = tuple[Range, bytes]


def render(request: Request, mended: Mended) -> bytes:
    """The outgoing body. With nothing to exchange it is the client's, the very object."""
    edits = [*_tools(request, mended), *_system(request, mended), *_history(request, mended)]
    new: list[bytes] = []  # a body that was read has at least the history's field, so a comma goes before each
    for name, value in mended.fields.items():
        if name not in request.fields:
            new.append(b'"%s":%s' % (name.encode(), value))
        elif request.body[slice(*request.fields[name])] != value:
            edits.append((request.fields[name], value))
    if new:
        last = request.body.rindex(b"}")
        edits.append(((last, last), b"".join(b"," + text for text in new)))
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


def head_sent(request: Request, mended: Mended) -> Head:
    """The head as it goes out; the client's own if nothing in it was changed, so that sessions share it."""
    head = request.head
    names = [name for name in request.dialect.routes if name in head.routes or name in mended.fields]
    routes = {name: mended.fields.get(name) or head.routes[name] for name in names}
    model = canonical.decode(mended.fields["model"]) if "model" in mended.fields else head.model
    if mended.tools is head.tools and mended.system is head.system and (model, routes) == (head.model, head.routes):
        return head
    text = head.system_text if mended.system is head.system else system_text(mended.system)
    return replace(head, model=str(model), tools=mended.tools, system=mended.system, routes=routes, system_text=text)


def _tools(request: Request, mended: Mended) -> list[Edit]:
    came = request.head.tools
    if mended.tools is came:
        return []
    if not came:
        mended.fields[request.dialect.tools] = b"[%s]" % b",".join(tool.wire for tool in mended.tools)
        return []
    return _exchange(elements(request.body, request.fields[request.dialect.tools]), came, mended.tools)


def _system(request: Request, mended: Mended) -> list[Edit]:
    dialect, came = request.dialect, request.head.system
    if mended.system is came:
        return []
    ranges = elements(request.body, request.fields[dialect.system]) if dialect.system in request.fields else []
    if request.first:
        ranges = ranges + elements(request.body, request.fields[dialect.history])[: request.first]
    if len(mended.system) == len(came):
        return _exchange(ranges, came, mended.system)
    if not dialect.is_leading_system("system"):  # all of it stands in its field
        mended.fields[dialect.system] = b"[%s]" % b", ".join(item.wire for item in mended.system)
        return []
    own, start = len(came) - request.first, request.fields[dialect.history][0] + 1
    leading = b"".join(item.wire + b", " for item in mended.system[own:])
    return [*_exchange(ranges[:own], came[:own], mended.system[:own]), ((start, request.ranges[0][0]), leading)]


def _exchange(ranges: Sequence[Range], old: Sequence[Item], new: Sequence[Item]) -> list[Edit]:
    """Each element in its place; a list of another length as a whole."""
    if len(old) == len(new):
        return [(where, b.wire) for where, a, b in zip(ranges, old, new, strict=True) if a.wire != b.wire]
    return [((ranges[0][0], ranges[-1][1]), b",".join(item.wire for item in new))]


def _history(request: Request, mended: Mended) -> list[Edit]:
    edits: list[Edit] = []
    for unit, sent in zip(request.units, mended.sent, strict=True):
        if sent.items is unit.items:
            continue
        if len(sent.items) < len(unit.items):  # what stood in several elements goes out in fewer
            return [
                (
                    (request.ranges[0][0], request.ranges[-1][1]),
                    b", ".join(i.wire for s in mended.sent for i in s.items),
                )
            ]
        last = len(unit.items) - 1
        for i, old in enumerate(unit.items):
            new = sent.items[i:] if i == last else sent.items[i : i + 1]
            wire = b", ".join(item.wire for item in new)
            if wire != old.wire:
                edits.append((request.ranges[unit.first + i], wire))
    return edits
