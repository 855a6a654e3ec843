"""JSON by value: when do two texts mean the same?

Three forms of one JSON text matter here:

* the *wire*: the bytes as they came;
* the *key form*: what a provider's cache sees after it has parsed the body and rendered it again. White space and
  escapes between tokens are gone, the order of keys and the spelling of numbers are kept;
* the *meaning form*: JSON by value. Keys sorted, numbers by exact decimal value, arrays never touched.

A number is equal to another only where that can be proven on the literals: ``1``, ``1.0`` and ``10e-1`` are, while
two literals that merely round to the same double are not. ``-0.0`` stays as written.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from standfast.errors import BrokenBody

Json = Any
"""A decoded JSON value: dict, list, str, int, bool, None, or Raw for a number kept as a literal."""

_MAX_EXPONENT = 40  # larger exponents stay literals: 1e999999 must not become a million digits
_LITERAL = re.compile(r"(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


class _FloatsSeen:
    """Counts the literals with a fraction or an exponent, so that a caller can tell whether a text held any.

    A count that another thread raises at the same time costs a second look at the text, nothing else.
    """

    count = 0


def _as_written(literal: str) -> Raw:
    _FloatsSeen.count += 1
    return Raw(literal.encode())


def _by_value(literal: str) -> int | Raw:
    """The exact decimal value of a literal with a fraction or an exponent, as an int or a normal literal."""
    match = _LITERAL.fullmatch(literal)
    assert match is not None  # the decoder has read it as a number
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    digits = (whole + fraction).lstrip("0")
    exponent -= len(fraction)
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    if not stripped:
        return Raw(literal.encode()) if sign else 0
    if 0 <= exponent <= _MAX_EXPONENT:
        return int(sign + stripped + "0" * exponent)
    return Raw(f"{sign}{stripped}e{exponent}".encode())


_key_decoder = msgspec.json.Decoder(float_hook=_as_written)
_value_decoder = msgspec.json.Decoder(float_hook=_by_value)
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def decode(text: bytes | str) -> Json:
    """Decode with numbers as written. Raises msgspec.DecodeError on broken JSON."""
    return _key_decoder.decode(text)


def decode_values(text: bytes | str) -> Json:
    """Decode with numbers by exact value. Raises msgspec.DecodeError on broken JSON."""
    return _value_decoder.decode(text)


def decode_both(text: bytes) -> tuple[Json, Json]:
    """Decode once with numbers as written, once by exact value; the same object twice if it makes no difference."""
    seen = _FloatsSeen.count
    written = _key_decoder.decode(text)
    return written, written if _FloatsSeen.count == seen else _value_decoder.decode(text)


def key_form(value: Json) -> bytes:
    """Compact JSON, keys in the order given, numbers as they were decoded."""
    return _encode(value)


def meaning_form(value: Json) -> bytes:
    """Compact JSON, keys sorted at every depth."""
    return _encode_sorted(value)


def digest(data: bytes) -> bytes:
    """32-byte BLAKE3 of data, without a key: names a content, proves nothing about who sent it."""
    return blake3(data).digest()


def json_text(text: str) -> bytes | None:
    """The meaning form of a string that is itself a JSON object or array; None if it is neither."""
    if text[:1] not in ("{", "[") and text.lstrip()[:1] not in ("{", "["):
        return None
    raw = text.encode("utf-8", "surrogatepass")
    try:
        value = _value_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if has_duplicate_keys(raw, value) else _encode_sorted(value)


def has_duplicate_keys(raw: bytes, value: Json) -> bool:
    """Whether an object in raw names a key twice; value is raw decoded.

    Such a text has no meaning that all parsers share. The cheap test comes first: if encoding what was decoded gives
    the compacted text again, nothing was dropped.
    """
    if b'"' not in raw:
        return False
    if _encode(value) == msgspec.json.format(raw, indent=-1):
        return False
    return _finds_duplicate(raw)


class _DuplicateKey(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _DuplicateKey
    return unique


_strict_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=str)


def _finds_duplicate(raw: bytes) -> bool:
    try:
        _strict_decoder.decode(raw.decode("utf-8", "surrogatepass"))
    except _DuplicateKey:
        return True
    return False


def broken(raw: bytes) -> BrokenBody | None:
    """The error to report for a body that is not a JSON object; None if a lenient parser still takes it.

    A text that only a strict parser refuses (a lone surrogate, NaN) is the upstream's to judge: it passes untouched.
    """
    try:
        value = json.loads(raw)
    except UnicodeDecodeError as error:
        return BrokenBody(f"the body is not UTF-8: bad byte at {error.start}", error.start)
    except json.JSONDecodeError as error:
        position = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        return BrokenBody(f"the body is not valid JSON: {error.msg} at byte {position}", position)
    except (RecursionError, ValueError):  # too deep, or a number with more digits than Python converts
        return None
    if not isinstance(value, dict):
        return BrokenBody("the body must be a JSON object", 0)
    return None
