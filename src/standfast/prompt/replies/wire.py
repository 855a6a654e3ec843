"""Pieces of JSON kept as they came: joined, never re-encoded.

A string that arrives in pieces is joined *between its quotes*, escapes and all. So the bytes stay those of the
model, nothing is decoded that nobody reads, and a surrogate pair that was torn apart between two pieces is whole again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw

Bytes = bytes | bytearray
T = TypeVar("T")

LIMIT = 32 * 1024 * 1024
"""Bytes that one reader keeps at most."""

ABSENT = Raw(b"")
NULL = b"null"

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)
_escape = re.compile(rb"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_MARK = b"\x7fsurrogate\x7f"


class Malformed(Exception):
    """Bytes that do not follow the dialect. Never leaves this package."""


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode, or raise Malformed. Half surrogate pairs pass, marked: see ``unmark``."""
    try:
        return decoder.decode(data)
    except (RecursionError, UnicodeDecodeError):
        raise Malformed from None
    except msgspec.DecodeError:
        marked = _escape.sub(_mark, data) if b"\\u" in data else data
        if marked == data:
            raise Malformed from None
    try:
        return decoder.decode(marked)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Malformed from None


def _mark(match: re.Match[bytes]) -> bytes:
    return _MARK + match[1] if match[1] else match[0]


def fields(raw: Raw | bytes) -> dict[str, bytes]:
    """The fields of an object in the order given, values as they came."""
    return {name: bytes(value) for name, value in decode(_fields, bytes(raw)).items()}


def inner(raw: Bytes | Raw) -> bytes:
    """What stands between the quotes of a JSON string."""
    text = bytes(raw)
    if text[:1] != b'"':
        raise Malformed
    return text[1:-1]


def text_of(raw: Bytes) -> str:
    """The value of a JSON string."""
    return decode(_string, bytes(raw))


def quoted(inside: Bytes) -> bytes:
    """The JSON string with that between its quotes."""
    return b'"' + inside + b'"'


def told(raw: Bytes | Raw | None) -> bool:
    """Whether a field is there and not null."""
    return raw is not None and bytes(raw) not in (b"", NULL)


def json_object(values: Mapping[str, Bytes]) -> bytes:
    """An object of raw values."""
    return b"{" + b",".join(_encode(name) + b":" + value for name, value in values.items()) + b"}"


def json_array(values: Iterable[Bytes]) -> bytes:
    """An array of raw values."""
    return b"[" + b",".join(values) + b"]"


def is_object(data: bytes) -> bool:
    """Whether data is one whole JSON object."""
    try:
        fields(data)
    except Malformed:
        return False
    return True


def unmark(text: Bytes) -> bytes:
    """Undo the marks of ``decode``; two halves that were joined are a pair now."""
    return bytes(text).replace(_MARK, b"\\u")


def checked(produced: Iterable[bytes]) -> tuple[bytes, ...]:
    """What was produced, unmarked. Empty if it is not JSON in UTF-8."""
    whole = tuple(produced)
    try:
        for item in whole:
            item.decode()
            if _MARK in item:
                json.loads(unmark(item))
    except (ValueError, RecursionError):
        return ()
    return tuple(unmark(item) if _MARK in item else item for item in whole)


class Budget:
    """Counts the bytes that a reader keeps, so that no response can fill the memory."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.exceeded = False

    def take(self, size: int) -> bool:
        """Whether that much more may be kept. Once it may not, nothing more may."""
        self._left -= size
        if self._left < 0:
            self.exceeded = True
        return not self.exceeded
