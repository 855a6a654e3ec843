"""From wire bytes to items, each distinct element read once.

An element of a history is sent again with every later request; ``Items`` remembers what it was made of, by its bytes.
"""

from __future__ import annotations

import msgspec

from standfast.prompt import canonical
from standfast.prompt.canonical import digest, key_form, meaning_form
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.dialects.base import MARKERS, Described, Dialect, is_marked
from standfast.prompt.model import Item, Key, Kind, Meaning, Part, Tier
from standfast.prompt.volatile import TOKEN_HINT, mask_any_token

_MARKER_HINTS = tuple(f'"{name}"'.encode() for name in sorted(MARKERS))
_OVERHEAD = 600  # bytes of objects around an item, for the bound


def build(dialect: Dialect, tier: Tier, wire: bytes) -> Item:
    """Read one element. Raises msgspec.DecodeError if it is not JSON, RecursionError if it is nested too deep."""
    value, by_value = canonical.decode_both(wire)
    if canonical.has_duplicate_keys(wire, value):
        return _opaque(tier, wire)
    keyed = dialect.describe(tier, value)
    meant = keyed if by_value is value else dialect.describe(tier, by_value)
    marked = any(hint in wire for hint in _MARKER_HINTS) and is_marked(value)
    return _digested(tier, wire, keyed, meant, marked)


def _digested(tier: Tier, wire: bytes, keyed: Described, meant: Described, marked: bool) -> Item:
    parts, keys = [], [key_form([keyed.role, keyed.frame_key])]
    for key, meaning in zip(keyed.pieces, meant.pieces, strict=True):
        form, plain = key_form(key.key), meaning_form([meaning.kind, meaning.meaning])
        if key.kind is Kind.RESULT and TOKEN_HINT in plain:
            plain = mask_any_token(plain)  # a client that replaces its token everywhere hits results too (H9)
        keys.append(form)
        parts.append(
            Part(
                key.suffix,
                key.kind,
                Meaning(digest(plain)),
                Key(digest(form)),
                len(form),
                key.call_id,
                plain if TOKEN_HINT in plain and key.kind is not Kind.RESULT else None,
            )
        )
    frame = Meaning(digest(meaning_form([meant.role, meant.frame])))
    size = sum(part.size for part in parts) + len(keys[0])
    return Item(wire, tier, keyed.role, frame, tuple(parts), Key(digest(b"\0".join(keys))), marked, size)


def _opaque(tier: Tier, wire: bytes) -> Item:
    """An element whose meaning parsers disagree on: it is equal only to the same bytes."""
    name = digest(b"opaque\0" + wire)
    part = Part("", Kind.OTHER, Meaning(name), Key(name), len(wire))
    return Item(wire, tier, "", Meaning(name), (part,), Key(name), False, len(wire))


class Items:
    """Memory of items by wire bytes, in two generations: what was not used for a whole one is forgotten."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._limit = max_bytes // 2
        self._young: dict[tuple[str, Tier, bytes], Item] = {}
        self._old: dict[tuple[str, Tier, bytes], Item] = {}
        self._bytes = 0

    def get(self, dialect: Dialect, tier: Tier, wire: bytes) -> Item:
        """The item of these bytes."""
        name = (dialect.name, tier, wire)
        item = self._young.get(name)
        if item is None:
            item = self._old.get(name) or build(dialect, tier, wire)
            self._keep(name, item)
        return item

    def _keep(self, name: tuple[str, Tier, bytes], item: Item) -> None:
        self._bytes += len(item.wire) + _OVERHEAD
        if self._bytes > self._limit:
            self._old, self._young, self._bytes = self._young, {}, len(item.wire) + _OVERHEAD
        self._young[name] = item


def item(dialect: str, tier: Tier, wire: bytes) -> Item:
    """Read one element of a dialect given by name (for a ledger that loads it from disk)."""
    try:
        return build(DIALECTS[dialect], tier, wire)
    except (msgspec.DecodeError, RecursionError):
        return _opaque(tier, wire)
