"""What the provider itself says of its cache, where it was asked.

Anthropic: ``diagnostics.cache_miss_reason``; OpenAI: ``prompt_cache_diagnostics``. Both compare the request with an
earlier one that it names.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct

from standfast.prompt.replies.wire import told


@dataclass(frozen=True, slots=True)
class Finding:
    """The provider's own verdict."""

    reason: str
    """As the provider writes it: ``tools_changed``, ``input_changed``, ``cache_hit``, ``unavailable``…"""


class _Miss(Struct):
    type: str
    reason: str | None = None


class _Diagnostics(Struct):
    cache_miss_reason: _Miss | None = None


_diagnostics = msgspec.json.Decoder(_Diagnostics)
_miss = msgspec.json.Decoder(_Miss)


def anthropic(raw: Raw) -> Finding | None:
    """The ``diagnostics`` of a message; None where there are none yet."""
    try:
        miss = _diagnostics.decode(bytes(raw)).cache_miss_reason if told(raw) else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return Finding(miss.type) if miss else None


def openai(raw: Raw) -> Finding | None:
    """The ``prompt_cache_diagnostics`` of a response."""
    try:
        miss = _miss.decode(bytes(raw)) if told(raw) else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return Finding(miss.reason or miss.type) if miss else None
