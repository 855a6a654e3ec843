"""Requests as bytes on disk. The format is described in docs/format/ledger.md; change neither without the other.

Everything is content-addressed: a *blob* is named by the BLAKE3 of its kind and its content, so a blob that was
damaged is noticed on load. The wire of an item is a blob; a page of units refers to items; a request refers to pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import lz4.block
import msgspec
from blake3 import blake3

from standfast.prompt.model import Entry, Item, Link, Tier, Tip

VERSION = 2
UNITS_A_PAGE = 16
LINKS_A_PAGE = 64
LINK_SIZE = 32

_SEAL_SIZE = 16
_LZ4_AT_MOST = 255  # LZ4 expands no byte to more: a larger claim is damage, not to be allocated
_COMPRESS_FROM = 64

TIERS = (Tier.MODEL, Tier.TOOLS, Tier.SYSTEM, Tier.PARAMS, Tier.MESSAGES, Tier.ROUTE)
"""Written as an index: append only."""
_TIER_INDEX = {tier: bytes([index]) for index, tier in enumerate(TIERS)}

Parse = Callable[[str, Tier, bytes], Item]


class Damaged(Exception):
    """Something stored is not what was written, or gone. ``digests`` are the blobs that stand in the way."""

    def __init__(self, *digests: bytes) -> None:
        super().__init__("damaged or missing")
        self.digests = digests


class BlobKind(IntEnum):
    """What a blob holds."""

    ITEM = 0
    LINKS = 1
    UNITS = 2
    HEAD = 3


class UnitRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One Sent."""

    items: list[bytes]
    """References: one byte tier index, then the digest of the wire."""
    links: list[bytes]
    ours: bool


class HeadRecord(msgspec.Struct, array_like=True, frozen=True):
    """One Head."""

    model: str
    tools: list[bytes]
    system: list[bytes]
    params: dict[str, bytes]
    routes: dict[str, bytes]


class TipRecord(msgspec.Struct, array_like=True, frozen=True):
    """One Tip, with its links and the name of its head."""

    version: int
    id: bytes
    lineage: bytes
    at: float
    dialect: str
    head_name: bytes
    head: bytes
    sent: list[bytes]
    produced: list[bytes]
    links: list[bytes]
    link_count: int
    fingerprint: bytes
    kin_name: bytes
    entries: list[Entry]
    response_id: str

    def pages(self) -> Iterator[bytes]:
        """Digests of all blobs that it refers to itself."""
        yield self.head
        yield from self.sent
        yield from self.produced
        yield from self.links


@dataclass(frozen=True, slots=True)
class Stored:
    """A request read back."""

    tip: Tip
    links: tuple[Link, ...]
    head: bytes
    kin: bytes


_encode = msgspec.msgpack.Encoder().encode
_units_decoder = msgspec.msgpack.Decoder(list[UnitRecord])
_head_decoder = msgspec.msgpack.Decoder(HeadRecord)
_tip_decoder = msgspec.msgpack.Decoder(TipRecord)

_T = TypeVar("_T")


def digest(kind: BlobKind, content: bytes) -> bytes:
    """The name of a blob."""
    return blake3(_KIND_BYTE[kind]).update(content).digest()


_KIND_BYTE = {kind: bytes([kind]) for kind in BlobKind}


def pack(content: bytes) -> bytes:
    """LZ4, or the content itself where that is no shorter. The length tells which."""
    if len(content) < _COMPRESS_FROM:
        return content
    packed: bytes = lz4.block.compress(content, store_size=False)
    return packed if len(packed) < len(content) else content


def unpack(name: bytes, kind: int, size: int, data: bytes) -> bytes:
    """The content of a blob. Raises Damaged if it is not what the name says."""
    try:
        content = data
        if len(data) != size:
            if not 0 <= size <= len(data) * _LZ4_AT_MOST:
                raise Damaged(name)
            content = lz4.block.decompress(data, uncompressed_size=size)
        if digest(BlobKind(kind), content) != name:
            raise Damaged(name)
    except (lz4.block.LZ4BlockError, ValueError, TypeError) as error:
        raise Damaged(name) from error
    return content


def seal(record: TipRecord) -> bytes:
    """A request's row, with a checksum."""
    body = _encode(record)
    return blake3(body).digest(_SEAL_SIZE) + body


def unseal(row: bytes) -> TipRecord:
    """Reverse of seal. Raises Damaged."""
    body = row[_SEAL_SIZE:]
    if blake3(body).digest(_SEAL_SIZE) != row[:_SEAL_SIZE]:
        raise Damaged
    record: TipRecord = _decode(_tip_decoder, body)
    if record.version != VERSION:
        raise Damaged
    return record


def check_value(name: bytes, value: bytes) -> bytes:
    """Checksum of a value kept under a name."""
    return blake3(len(name).to_bytes(8, "little") + name + value).digest(_SEAL_SIZE)


def reference(item: Item) -> bytes:
    """How a page refers to an item."""
    return _TIER_INDEX[item.tier] + digest(BlobKind.ITEM, item.wire)


def encode_units(units: Sequence[UnitRecord]) -> bytes:
    return _encode(list(units))


def decode_units(content: bytes) -> list[UnitRecord]:
    units: list[UnitRecord] = _decode(_units_decoder, content)
    return units


def encode_head(head: HeadRecord) -> bytes:
    return _encode(head)


def decode_head(content: bytes) -> HeadRecord:
    head: HeadRecord = _decode(_head_decoder, content)
    return head


def link_pages(links: Sequence[Link]) -> list[bytes]:
    """Links in pages of LINKS_A_PAGE, the last one shorter."""
    return [b"".join(links[i : i + LINKS_A_PAGE]) for i in range(0, len(links), LINKS_A_PAGE)]


def split_links(content: bytes) -> list[Link]:
    return [Link(content[i : i + LINK_SIZE]) for i in range(0, len(content), LINK_SIZE)]


def children(kind: int, content: bytes) -> list[bytes]:
    """Digests of the blobs that a blob refers to, once for each time."""
    if kind == BlobKind.UNITS:
        return [item[1:] for unit in decode_units(content) for item in unit.items]
    if kind == BlobKind.HEAD:
        head = decode_head(content)
        return [item[1:] for item in head.tools + head.system]
    return []


def _decode(decoder: Any, content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged from error
