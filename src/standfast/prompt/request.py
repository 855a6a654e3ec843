"""A body, read: where each field lies, its head, its history and the chain over it.

Reading is incremental. An agent sends its history again with every request, so a body mostly begins with the bytes of
the one before. A ``Bookmark`` keeps what was read of such a beginning; if the next body starts with it (one memcmp),
only the rest is parsed: the tail ``,{…}],"model":…}`` becomes a document of its own by putting ``{"…":[null`` in front.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec
from msgspec import Raw

from standfast.errors import Ambiguous
from standfast.prompt import canonical
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import Dialect, Param
from standfast.prompt.drift import texts_of
from standfast.prompt.fingerprint import Calls, Chain, link, root, system_text, tool_set
from standfast.prompt.items import Items
from standfast.prompt.model import Head, Item, Link, Tier, Unit
from standfast.prompt.volatile import TOKEN_HINT, billing_token

Range = tuple[int, int]
"""Half-open [start, end) in a body."""

_SPACE = rb"[ \t\n\r]*"
_NAME = re.compile(_SPACE + rb"[{,]" + _SPACE + rb'("(?:[^"\\]|\\.)*")' + _SPACE + rb":" + _SPACE)
_ELEMENT = re.compile(_SPACE + rb"[\[,]" + _SPACE)
_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_OPENING = b'{"\\u0000":[null'


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a body was read, to go on from there when another body begins with the same bytes."""

    prefix: bytes
    """The body up to the end of a unit."""
    rest: bytes
    """What followed the history in it."""
    request: Request
    """The request without its body."""
    items: int
    units: int
    links: int
    calls: Calls
    """As they stood after the last of these units."""


@dataclass(slots=True)
class Request:
    """One body, read."""

    body: bytes
    dialect: Dialect
    fields: dict[str, Range]
    head: Head
    items: list[Item]
    """Elements of the history in wire order, leading system messages not among them."""
    ranges: list[Range]
    """Where each of them lies in the body."""
    first: int
    """Index of the first of them in its array: the number of leading system messages."""
    units: list[Unit]
    links: list[Link]
    """All links of the history chain, part by part."""
    root: Link
    calls: Calls
    token: str
    """The per-request token of its billing block, or empty."""
    anchored: bool = False
    """Its history goes on from one that the provider stores, so it shares no beginning with other bodies."""
    sizes: list[int] = field(default_factory=lambda: [0])
    """Rendered bytes of the first n items of the history, for each n."""
    resumed: int = 0
    """Units that were taken over from the bookmark."""

    @property
    def end(self) -> Link:
        return self.links[-1] if self.links else self.root

    def field(self, name: str) -> Json:
        """Value of a top-level field; None if it is null or not there."""
        where = self.fields.get(name)
        return canonical.decode(self.body[slice(*where)]) if where else None


def read(body: bytes, dialect: Dialect, key: bytes, items: Items, bookmark: Bookmark | None = None) -> Request:
    """Read a body. Raises BrokenBody if it is not a JSON object, Ambiguous if parsers may read it differently."""
    try:
        if bookmark is not None:
            with suppress(msgspec.DecodeError):  # the prefix may end within a longer number
                return _resume(body, dialect, key, items, bookmark)
        body.decode()
        return _read(body, dialect, key, items)
    except UnicodeDecodeError as error:
        raise canonical.broken(body) or Ambiguous("the body is not UTF-8") from error
    except msgspec.DecodeError as error:
        raise canonical.broken(body) or Ambiguous(f"a strict JSON parser refuses the body: {error}") from error
    except RecursionError as error:
        raise Ambiguous("the body is nested too deep") from error


def _read(body: bytes, dialect: Dialect, key: bytes, items: Items) -> Request:
    fields = _fields(body)
    where = fields.get(dialect.history)
    if where is None:
        raise Ambiguous(f"the body has no {dialect.history}")
    ranges = elements(body, where)
    read_items = [items.get(dialect, Tier.MESSAGES, body[a:b]) for a, b in ranges]
    first = 0
    while first < len(read_items) and dialect.is_leading_system(read_items[first].role):
        first += 1
    head = _head(body, dialect, fields, read_items[:first], items)
    anchor = _anchor(body, fields)
    start = root(key, dialect.name, anchor)
    request = Request(
        body, dialect, fields, head, read_items[first:], ranges[first:], first, [], [], start, Calls({}), _billing(head)
    )
    request.anchored = bool(anchor)
    _add_sizes(request)
    _fold(request, key, 0)
    return request


def _resume(body: bytes, dialect: Dialect, key: bytes, items: Items, mark: Bookmark) -> Request:
    """Read only what follows the bookmark's prefix."""
    old, end = mark.request, len(mark.prefix)
    document = _OPENING + body[end:]
    document.decode()
    values = _object.decode(document)
    shift = end - len(_OPENING)
    tail_fields = {name: (a + shift, b + shift) for name, (a, b) in _locate(document, values).items()}
    _, list_end = tail_fields.pop("\0")
    fields = {name: r for name, r in old.fields.items() if r[1] <= end}
    if not fields.keys().isdisjoint(tail_fields) or dialect.history in tail_fields:
        raise Ambiguous("the body names a field twice")
    fields[dialect.history] = (old.fields[dialect.history][0], list_end)
    fields.update(tail_fields)
    start = len(_OPENING) - len(b"[null")
    new = [(a + shift, b + shift) for a, b in elements(document, (start, list_end - shift))[1:]]
    request = Request(
        body,
        dialect,
        fields,
        old.head,
        old.items[: mark.items] + [items.get(dialect, Tier.MESSAGES, body[a:b]) for a, b in new],
        old.ranges[: mark.items] + new,
        old.first,
        old.units[: mark.units],
        [],
        old.root,
        mark.calls.copy(),
        old.token,
        old.anchored,
        old.sizes[: mark.items + 1],
        mark.units,
    )
    if body[list_end:] != mark.rest:
        leading = list(old.head.system[len(old.head.system) - old.first :])
        request.head = _head(body, dialect, fields, leading, items)
        anchor = _anchor(body, fields)
        request.root, request.anchored = root(key, dialect.name, anchor), bool(anchor)
        request.token = _billing(request.head)
        if (request.root, request.token) != (old.root, old.token):
            request.units, request.calls, request.resumed = [], Calls({}), 0
    _add_sizes(request)
    request.links = old.links[: mark.links] if request.resumed else []
    _fold(request, key, mark.items if request.resumed else 0)
    return request


def _add_sizes(request: Request) -> None:
    new = request.items[len(request.sizes) - 1 :]
    request.sizes += accumulate((item.size for item in new[1:]), initial=request.sizes[-1] + new[0].size) if new else ()


def _fold(request: Request, key: bytes, at: int) -> None:
    """Gather the items from ``at`` on into units and chain them."""
    chain = Chain(key, request.end, request.calls, request.token)
    items = request.items
    while at < len(items):
        end = at + 1
        if items[at].is_result and request.dialect.results_stand_alone:
            while end < len(items) and items[end].is_result:
                end += 1
        unit = chain.fold(tuple(items[at:end]), at)
        request.units.append(unit)
        request.links.extend(unit.links)
        at = end


def elements(body: bytes, where: Range) -> list[Range]:
    """Where the elements of a list lie; anything that is no list stands for itself."""
    start, end = where
    if body[start : start + 1] != b"[":
        return [where]
    return _walk(body, start, _array.decode(memoryview(body)[start:end]))


def bookmark(request: Request) -> Bookmark | None:
    """Remember a request for the next body; None if there is nothing worth it.

    The last unit is left out if it is a run of results: the next body may make it longer.
    """
    start = request.fields[request.dialect.history][0]
    units = len(request.units) if request.body[start : start + 1] == b"[" else 0
    links = len(request.links)
    if units and request.units[-1].answers and request.dialect.results_stand_alone:
        units -= 1
        links -= len(request.units[-1].links)
    if not units:
        return None
    last = request.units[units - 1]
    count = last.first + len(last.items)
    prefix = request.body[: request.ranges[count - 1][1]]
    rest = request.body[request.fields[request.dialect.history][1] :]
    return Bookmark(prefix, rest, _without_body(request), count, units, links, request.calls)


def _without_body(r: Request) -> Request:
    return Request(
        b"",
        r.dialect,
        r.fields,
        r.head,
        r.items,
        r.ranges,
        r.first,
        r.units,
        r.links,
        r.root,
        r.calls,
        r.token,
        r.anchored,
        r.sizes,
    )


def _billing(head: Head) -> str:
    """The per-request token of this request's billing block, if it has one."""
    for item in head.system:
        if TOKEN_HINT in item.wire:
            for text in texts_of(item):
                if token := billing_token(text):
                    return token
    return ""


def _fields(body: bytes) -> dict[str, Range]:
    return _locate(body, _object.decode(body))


def _locate(body: bytes, values: Mapping[str, Raw]) -> dict[str, Range]:
    """Where the values of an object lie. Its keys are walked in order; one that comes twice is found out by that."""
    fields: dict[str, Range] = {}
    position = 0
    for name, raw in values.items():
        match = _NAME.match(body, position)
        if match is None or _text.decode(match[1]) != name:
            raise Ambiguous("the body names a field twice")
        position = match.end() + len(memoryview(raw))
        fields[name] = (match.end(), position)
    if _NAME.match(body, position):
        raise Ambiguous("the body names a field twice")
    return fields


def _walk(body: bytes, position: int, values: list[Raw]) -> list[Range]:
    ranges = []
    for raw in values:
        match = _ELEMENT.match(body, position)
        assert match is not None  # the list was decoded from here
        position = match.end() + len(memoryview(raw))
        ranges.append((match.end(), position))
    return ranges


def _head(body: bytes, dialect: Dialect, fields: Mapping[str, Range], leading: list[Item], items: Items) -> Head:
    def each(name: str, tier: Tier) -> list[Item]:
        where = fields.get(name) if name else None
        if where is None or body[where[0] : where[1]] == b"null":
            return []
        return [items.get(dialect, tier, body[a:b]) for a, b in elements(body, where)]

    model = fields.get("model")
    tools, system = tuple(each(dialect.tools, Tier.TOOLS)), (*each(dialect.system, Tier.SYSTEM), *leading)
    return Head(
        _string(body, model) if model else "",
        tools,
        system,
        _params(body, dialect, fields),
        {name: body[slice(*fields[name])] for name in dialect.routes if name in fields},
        tool_set(tools),
        system_text(system),
    )


def _string(body: bytes, where: Range) -> str:
    try:
        return _text.decode(body[where[0] : where[1]])
    except msgspec.ValidationError:
        return ""


def _params(body: bytes, dialect: Dialect, fields: Mapping[str, Range]) -> dict[str, bytes]:
    params: dict[str, bytes] = {}
    for param in dialect.params:
        name, _, inner = param.path.partition(".")
        where = fields.get(name)
        if where is None:
            continue
        form = _param(body[where[0] : where[1]], param, inner)
        if form is not None:
            params[param.path] = form
    return params


def _param(raw: bytes, param: Param, inner: str) -> bytes | None:
    value = canonical.decode_values(raw)
    if canonical.has_duplicate_keys(raw, value):
        return raw
    if inner:
        value = value.get(inner) if isinstance(value, dict) else None
    if param.harmless and isinstance(value, dict) and value.get("type") == param.harmless:
        return None
    form = canonical.meaning_form(value)
    return None if form in (b"null", param.default) else form


def _anchor(body: bytes, fields: Mapping[str, Range]) -> bytes:
    """What the history hangs on if it began elsewhere: a stored response or conversation."""
    anchors = [body[slice(*fields[n])] for n in ("previous_response_id", "conversation") if n in fields]
    return b"\0".join(a for a in anchors if a != b"null")


def scope(tenant: bytes, upstream: str) -> bytes:
    """The key of one tenant's requests to one upstream: 32 bytes."""
    return link(tenant, b"upstream\0", upstream.encode())
