"""Putting an old item into the place of a new one: shape, cache markers, call ids."""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from standfast.errors import Ambiguous
from standfast.prompt import canonical
from standfast.prompt.dialects.base import MARKERS, Dialect, marked_places
from standfast.prompt.drift import meaning
from standfast.prompt.items import Items
from standfast.prompt.model import Item, Meaning, Tier

TWO_CALLS = ""
"""In place of an id that was sent for a later call too, so that a result could not say which it answers."""


def fitted_all(dialect: Dialect, sent: tuple[Item, ...], came: tuple[Item, ...], items: Items) -> tuple[Item, ...]:
    """Tools or system items, fitted to the places that the client has for them."""
    if sent is came or len(sent) != len(came):
        return sent
    out = tuple(fitted(dialect, a, b, items) for a, b in zip(sent, came, strict=True))
    return out if sorted(map(meaning, out)) == sorted(map(meaning, sent)) else came


def fitted(dialect: Dialect, old: Item, new: Item, items: Items) -> Item:
    """The item as it was sent, in the place of the new one, with the cache markers that the client sets now.

    The new one itself where that has no place for them.
    """
    alike = old.tier is Tier.TOOLS or old.wire[:1] == new.wire[:1]
    if old.wire == new.wire or (alike and not (old.marked or new.marked or dialect.own_fields)):
        return old
    value, now = canonical.decode(old.wire), canonical.decode(new.wire)
    if not alike:  # one stood alone in its field, as a string, the other in a list
        value = dialect.as_element(value) if isinstance(value, str) else dialect.as_text(value)
        if value is None:
            return new
    wanted = {position: {k: v for k, v in block.items() if k in MARKERS} for position, block in marked_places(now)}
    for position, block in marked_places(value):
        for name in MARKERS & block.keys():
            del block[name]
        block.update(wanted.pop(position, {}))
    if any(wanted.values()):
        return new  # the old shape has no place for a marker that the client sets
    if old.tier is Tier.MESSAGES and isinstance(value, dict) and isinstance(now, dict):
        value = {k: v for k, v in value.items() if k not in dialect.own_fields}
        value.update({k: v for k, v in now.items() if k in dialect.own_fields})
    return items.get(dialect, old.tier, canonical.key_form(value))


def unmarked(item: Item) -> Item:
    """The item without its cache markers."""
    if not item.marked:
        return item
    value = canonical.decode(item.wire)
    for _, block in marked_places(value):
        for name in MARKERS & block.keys():
            del block[name]
    return msgspec.structs.replace(item, wire=canonical.key_form(value), marked=False)


def without(dialect: Dialect, item: Item, moved: Set[Meaning], items: Items) -> Item:
    """The item without these parts, unless nothing else would be left. A marker on one of them moves to the last."""
    kept = {part.suffix for part in item.parts if part.meaning not in moved}
    value = canonical.decode(item.wire)
    if not kept or len(kept) == len(item.parts) or not isinstance(value, dict):
        return item
    blocks = [dict(block) for n, block in enumerate(value["content"]) if f".content[{n}]" in kept]
    lost = [block for n, block in enumerate(value["content"]) if f".content[{n}]" not in kept]
    blocks[-1].update({name: block[name] for block in lost for name in MARKERS & block.keys()})
    return items.get(dialect, item.tier, canonical.key_form(value | {"content": blocks}))


def renamed(dialect: Dialect, item: Item, ids: Mapping[str, str], items: Items) -> Item:
    """The item with the ids of old calls as they were sent. Raises Ambiguous where one was sent for two calls."""
    named = [ids[p.call_id] for p in item.parts if p.call_id is not None and p.call_id in ids]
    if not named:
        return item
    if TWO_CALLS in named:
        raise Ambiguous("a result answers a call whose id was sent for another call too")
    value = dialect.rename(canonical.decode(item.wire), ids)
    return items.get(dialect, item.tier, canonical.key_form(value))
