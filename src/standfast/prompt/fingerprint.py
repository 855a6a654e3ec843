"""The fingerprint: a chain of keyed digests over the segments of a request.

Link i names the whole head of i + 1 segments: equal links, equal heads. The key is the tenant's, so two tenants that
send the same text share no link. BLAKE3 is the digest: a keyed mode of its own, and the speed of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blake3 import blake3

from standfast.prompt import fingerprint_pb2 as pb
from standfast.prompt.canonical import digest
from standfast.prompt.model import Head, Item, Kind, Link, Part, Unit
from standfast.prompt.volatile import mask_token

VERSION = 2
_ROOT = b"standfast/history/1\0"


def link(key: bytes, previous: bytes, payload: bytes) -> Link:
    """The chain one step on."""
    return Link(blake3(previous + payload, key=key).digest())


def root(key: bytes, dialect: str, anchor: bytes = b"") -> Link:
    """Start of a history. anchor tells histories apart whose beginning lies elsewhere (previous_response_id)."""
    return link(key, _ROOT, dialect.encode() + b"\0" + anchor)


@dataclass(slots=True)
class Calls:
    """Which call an id names, as a history is read from the front."""

    ordinals: dict[str, int]
    count: int = 0

    def copy(self) -> Calls:
        return Calls(dict(self.ordinals), self.count)

    def introduce(self, call_id: str) -> None:
        self.ordinals[call_id] = self.count
        self.count += 1

    def answered(self, call_id: str) -> int:
        """Ordinal of the latest call with this id, -1 if there is none."""
        return self.ordinals.get(call_id, -1)


class Chain:
    """Folds the history of one request, unit by unit."""

    def __init__(self, key: bytes, start: Link, calls: Calls, token: str = "") -> None:
        self._key = key
        self._token = token
        self.end = start
        self.calls = calls

    def fold(self, items: tuple[Item, ...], first: int) -> Unit:
        """One more unit."""
        links: list[Link] = []
        end = self.end
        for item, parts in self._canonical(items):
            payload: bytes = item.frame  # goes into the link of the first part
            for part in parts:
                end = link(self._key, end, payload + self._payload(part))
                links.append(end)
                payload = b""
        if not links:
            end = link(self._key, end, b"".join(item.frame for item in items))
            links.append(end)
        answers = tuple(self.calls.answered(p.call_id or "") for i in items for p in i.parts if p.kind is Kind.RESULT)
        for item in items:
            for part in item.parts:
                if part.kind is Kind.CALL and part.call_id is not None:
                    self.calls.introduce(part.call_id)
        self.end = end
        return Unit(items, first, tuple(links), answers)

    def _canonical(self, items: tuple[Item, ...]) -> Iterable[tuple[Item, Sequence[Part]]]:
        """Items and parts with results in the order of the calls that they answer."""
        if len(items) > 1:
            items = tuple(sorted(items, key=lambda item: self._ordinal(item.parts[0])))
        for item in items:
            yield item, self._sorted(item.parts)

    def _sorted(self, parts: tuple[Part, ...]) -> Sequence[Part]:
        places = [i for i, part in enumerate(parts) if part.kind is Kind.RESULT]
        if len(places) < 2:
            return parts
        results = sorted((parts[i] for i in places), key=self._ordinal)
        ordered = list(parts)
        for place, part in zip(places, results, strict=True):
            ordered[place] = part
        return ordered

    def _ordinal(self, part: Part) -> int:
        return self.calls.answered(part.call_id or "")

    def _payload(self, part: Part) -> bytes:
        meaning: bytes = part.meaning
        if part.plain is not None and self._token:
            meaning = blake3(mask_token(part.plain, self._token)).digest()
        if part.kind is not Kind.RESULT:
            return meaning
        ordinal = self._ordinal(part)
        return meaning + (ordinal.to_bytes(4, "big") if ordinal >= 0 else b"?" + (part.call_id or "").encode())


def meanings(items: Iterable[Item]) -> bytes:
    """The meanings of a list of items, one after the other."""
    return b"".join(item.frame + b"".join(part.meaning for part in item.parts) for item in items)


def tool_set(tools: Sequence[Item]) -> bytes:
    """Digest of a set of tools, whatever their order."""
    return digest(b"".join(sorted(meanings([tool]) for tool in tools)))


def system_text(system: Iterable[Item]) -> bytes:
    """Digest of the meaning of system items, in their order."""
    return digest(meanings(system))


def record(key: bytes, dialect: str, head: Head, history: Link, segments: int) -> bytes:
    """The Request Fingerprint as docs/format/fingerprint.md defines it: the same request, the same bytes."""
    message = pb.RequestFingerprint(
        version=VERSION,
        dialect=dialect,
        model=head.model,
        tool_set=link(key, b"tools\0", head.tool_set),
        tool_order=link(key, b"order\0", b"".join(item.role.encode() + b"\0" for item in head.tools)),
        system=link(key, b"system\0", head.system_text),
        parameters=link(key, b"parameters\0", _fields(head.params)),
        history=history,
        segments=segments,
    )
    return message.SerializeToString(deterministic=True)


def _fields(fields: Mapping[str, bytes]) -> bytes:
    return b"".join(
        len(part).to_bytes(4, "big") + part for name in sorted(fields) for part in (name.encode(), fields[name])
    )
