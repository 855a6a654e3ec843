"""The KV record (docs/format/block-record.md): packed in pieces without a copy, believed only after every check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import numpy as np
from blake3 import blake3
from xxhash import xxh3_128

from standfast.errors import RecordBroken
from standfast.store.names import Run, space_id

Buffer = bytes | bytearray | memoryview

_HEAD = Struct("<4sBBBBIIQQ32s32s32s")
_HALF = 16
_SEAL = 2 * _HALF
TOKENS_AT = _HEAD.size + _SEAL
_MAGIC, _VERSION, _ALIGN = b"SFKV", 1, 64


class Kind(IntEnum):
    """What a record holds."""

    BLOCK = 1
    WHOLE = 2
    CONTEXT = 3


class Seal(IntEnum):
    """How damage is found."""

    DAMAGE = 1
    """By XXH3, which anybody can compute: for memory that nobody else writes."""
    FORGERY = 2
    """By BLAKE3 keyed by the namespace as well."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, its body where it was read."""

    kind: Kind
    codec: int
    namespace: bytes
    run: Run
    decoded: int
    """Bytes of the body when decoded."""
    body: memoryview

    @property
    def nbytes(self) -> int:
        """Bytes of the whole record."""
        return body_at(len(self.run.tokens)) + self.body.nbytes


def body_at(tokens: int) -> int:
    """Offset of the body in a record of so many tokens."""
    end = TOKENS_AT + 4 * tokens
    return end + -end % _ALIGN


def pack(record: Record, seal: Seal) -> list[Buffer]:
    """The record in pieces, to be written one behind the other; the body is not copied."""
    run = record.run
    head = _HEAD.pack(
        _MAGIC, _VERSION, record.kind, record.codec, seal, len(run.tokens), run.start, record.decoded,
        record.body.nbytes, space_id(record.namespace), run.parent, run.key,
    )  # fmt: skip
    tokens = run.tokens.tobytes()
    tokens += bytes(body_at(len(run.tokens)) - TOKENS_AT - len(tokens))
    return [head + _sealed(seal, record.namespace, [head, tokens, record.body]), tokens, record.body]


def unpack(data: Buffer, namespace: bytes, key: bytes) -> Record:
    """The record that a medium has under ``key``, checked throughout but for its place and tokens: see ``expect``.

    Raises RecordBroken, whose ``check`` names what did not hold.
    """
    view = memoryview(data).cast("B")
    seen = peek(view)
    seal, codec, decoded = view[7], view[6], int.from_bytes(view[16:24], "little")
    checks = {
        "length": view.nbytes == seen.nbytes,
        "seal": seal in _SEALS,
        "namespace": seen.space == space_id(namespace),
        "key": seen.run.key == key,
    }
    for check, holds in checks.items():
        if not holds:
            raise RecordBroken(check)
    parts = [view[: _HEAD.size], view[TOKENS_AT:]]
    if bytes(view[_HEAD.size : TOKENS_AT]) != _sealed(Seal(seal), namespace, parts):
        raise RecordBroken("seal")
    return Record(seen.kind, codec, namespace, seen.run, decoded, view[body_at(seen.length) :])


def verify(data: Buffer) -> Peeked:
    """What can be checked of a record by who does not know its namespace: its form, and that nothing is damaged.

    Raises RecordBroken.
    """
    view = memoryview(data).cast("B")
    seen = peek(view)
    if view.nbytes != seen.nbytes:
        raise RecordBroken("length")
    if bytes(view[_HEAD.size : _HEAD.size + _HALF]) != _digest([view[: _HEAD.size], view[TOKENS_AT:]]):
        raise RecordBroken("seal")
    return seen


def expect(record: Record, run: Run) -> Record:
    """The record, if it is of just this run. Raises RecordBroken."""
    own = record.run
    checks = {
        "key": own.key == run.key,
        "parent": own.parent == run.parent,
        "position": own.start == run.start,
        "tokens": np.array_equal(own.tokens, run.tokens),
    }
    for check, holds in checks.items():
        if not holds:
            raise RecordBroken(check)
    return record


class Peeked(NamedTuple):
    """What the first bytes of a record say, unchecked: to learn what a medium holds."""

    kind: Kind
    space: bytes
    """Id of its namespace."""
    run: Run
    """Its tokens as far as they were given."""
    length: int
    """Tokens of the record."""
    nbytes: int
    """Bytes of the record."""


def peek(data: Buffer) -> Peeked:
    """Read the first bytes of a record. Raises RecordBroken if they are of none."""
    view = memoryview(data).cast("B")
    if view.nbytes < TOKENS_AT:
        raise RecordBroken("length")
    magic, version, kind, _, _, n, start, _, size, namespace, parent, key = _HEAD.unpack_from(view)
    if magic != _MAGIC or version != _VERSION or kind not in _KINDS:
        raise RecordBroken("magic")
    tokens = np.frombuffer(view, "<u4", min(n, (view.nbytes - TOKENS_AT) // 4), TOKENS_AT)
    return Peeked(Kind(kind), namespace, Run(key, parent, start, tokens), n, body_at(n) + size)


_KINDS, _SEALS = frozenset(Kind), frozenset(Seal)


def _sealed(seal: Seal, namespace: bytes, parts: Sequence[Buffer]) -> bytes:
    if seal is Seal.DAMAGE:
        return _digest(parts) + bytes(_HALF)
    keyed = blake3(key=namespace)
    for part in parts:
        keyed.update(part)
    return _digest(parts) + keyed.digest(_HALF)


def _digest(parts: Sequence[Buffer]) -> bytes:
    hasher = xxh3_128()
    for part in parts:
        hasher.update(part)
    return hasher.digest()
