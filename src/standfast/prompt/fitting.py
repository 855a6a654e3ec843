"""Putting an old item into the place of a new one: shape, cache markers, call ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from standfast.errors import Ambiguous
from standfast.prompt import canonical
from standfast.prompt.align import align
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import MARKERS, Dialect, marked_places, put_marks, suffix_of, unmark
from standfast.prompt.drift import meaning
from standfast.prompt.items import Items
from standfast.prompt.model import Item, Kind, Part, Tier

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
TWO_CALLS = ""
"""In place of an id that was sent for a later call too, so that a result could not say which it answers."""


def fitted_all(dialect: Dialect, sent: tuple[Item, ...], came: tuple[Item, ...], items: Items) -> tuple[Item, ...]:
    """Tools or system items, fitted to the places that the client has for them."""
    if sent is came:
        return sent
    if len(sent) != len(came):
        return in_place(dialect, [_as_listed(dialect, item, items) for item in sent], came, items)
    out = tuple(fitted(dialect, a, b, items) for a, b in zip(sent, came, strict=True))
    return out if sorted(map(meaning, out)) == sorted(map(meaning, sent)) else came


def _as_listed(dialect: Dialect, item: Item, items: Items) -> Item:
    """A system text that stood alone in its field, as one of several blocks."""
    if item.tier is not Tier.SYSTEM or item.wire[:1] != b'"' or dialect.is_leading_system("system"):
        return item
    return items.get(dialect, item.tier, canonical.key_form(dialect.as_element(canonical.decode(item.wire))))


def fitted(dialect: Dialect, old: Item, new: Item, items: Items, *, reshapes: bool = False) -> Item:
    """The item as it was sent, in the place of the new one, with the cache markers that the client sets now.

    The new one itself where that has no place for them; unless ``reshapes``: then the old text in the new one's shape.
    """
    alike = old.tier is Tier.TOOLS or old.wire[:1] == new.wire[:1]
    if old.wire == new.wire or (alike and not (old.marked or new.marked or dialect.own_fields)):
        return old
    value, now = canonical.decode(old.wire), canonical.decode(new.wire)
    if not alike:  # one stood alone in its field, as a string, the other in a list
        value = dialect.as_element(value) if isinstance(value, str) else dialect.as_text(value)
        if value is None:
            return new
    elif reshapes and new.marked and isinstance(value, dict):
        value = _with_room(value, now)
    if not _takes_marks(value, now):
        return new
    if old.tier is Tier.MESSAGES and isinstance(value, dict) and isinstance(now, dict):
        value = {k: v for k, v in value.items() if k not in dialect.own_fields}
        value.update({k: v for k, v in now.items() if k in dialect.own_fields})
    return items.get(dialect, old.tier, canonical.key_form(value))


def _takes_marks(value: Json, now: Json) -> bool:
    """Whether a value has a place for each marker that stands on another; they are put there, in place."""
    wanted = {position: {k: v for k, v in block.items() if k in MARKERS} for position, block in marked_places(now)}
    unmark(value)
    for position, block in marked_places(value):
        block.update(wanted.pop(position, {}))
    return not any(wanted.values())


def in_first_form(dialect: Dialect, old: Item, new: Item, items: Items) -> Item:
    """An item as it came, with those of its parts that say what they said as they were sent.

    Calls have the ids by which they went out first; results answer the ids that they answer in the new item.
    """
    if meaning(old) == meaning(new):
        value = canonical.decode(fitted(dialect, old, new, items, reshapes=True).wire)
        pairs = [*zip(old.parts, new.parts, strict=True)]
    else:
        value = canonical.decode(new.wire)
        pairs = _alike(old, new)
        for a, b in pairs:
            part, now = value_at(old.wire, a.suffix), value_at(new.wire, b.suffix)
            if a.key != b.key and type(part) is type(now) and _takes_marks(part, now):
                put_at(value, b.suffix, part)
    answered = {a.call_id: b.call_id for a, b in pairs if a.kind is Kind.RESULT and a.call_id and b.call_id}
    out = items.get(dialect, new.tier, canonical.key_form(dialect.rename(value, answered)))
    return new if out.key == new.key or meaning(out) != meaning(new) else out


def _alike(old: Item, new: Item) -> list[tuple[Part, Part]]:
    """Parts of two items that say the same; of results those that answer the same call."""
    pairs = align([p.meaning for p in old.parts], [p.meaning for p in new.parts], lambda i, j: 0)
    found = [(old.parts[i], new.parts[j]) for i, j in pairs if i is not None and j is not None]
    same = [(a, b) for a, b in found if a.meaning == b.meaning]
    return [(a, b) for a, b in same if a.kind is not Kind.RESULT or a.call_id == b.call_id]


def value_at(wire: bytes, suffix: str) -> Json:
    """What stands in an item at the suffix of a part."""
    value = canonical.decode(wire)
    for name, index in _STEP.findall(suffix):
        value = value[int(index)] if index else value[name]
    return value


def put_at(value: Json, suffix: str, part: Json) -> None:
    """Exchange what stands at a suffix, in place."""
    *way, last = [int(index) if index else name for name, index in _STEP.findall(suffix)]
    for step in way:
        value = value[step]
    value[last] = part


def _with_room(value: dict[str, Json], now: Json) -> dict[str, Json]:
    """A message whose text stood alone, with that text in a list as the client has it now: there a marker may stand."""
    text, blocks = value.get("content"), now.get("content") if isinstance(now, dict) else None
    if not isinstance(text, str) or not isinstance(blocks, list) or len(blocks) != 1:
        return value
    return {**value, "content": [{**blocks[0], "text": text}]}


def in_place(dialect: Dialect, sent: Sequence[Item], came: Sequence[Item], items: Items) -> tuple[Item, ...]:
    """Items as they were sent where the client now has others: with its markers, on the parts that say the same.

    A marker on a part that was not sent goes to the end of what was.
    """
    if not any(item.marked for item in (*sent, *came)):
        return tuple(sent)
    rows = [(n, part) for n, item in enumerate(sent) for part in item.parts]
    able = [row for row in rows if row[1].kind not in (Kind.THINKING, Kind.OTHER)] or rows
    wanted: dict[int, list[tuple[str, dict[str, Json]]]] = {}
    for item in came:
        for suffix, marks in _marks(item):
            meant = next((part.meaning for part in item.parts if part.suffix == suffix), None)
            n, part = next((row for row in reversed(able) if row[1].meaning == meant), able[-1])
            wanted.setdefault(n, []).append((part.suffix if suffix else "", marks))
    return tuple(
        _marked(dialect, item, wanted.get(n, []), items) if item.marked or n in wanted else item
        for n, item in enumerate(sent)
    )


def _marks(item: Item) -> Iterable[tuple[str, dict[str, Json]]]:
    """The markers on an item: the suffix of the part that bears each, or of none."""
    if item.marked:
        for position, block in marked_places(canonical.decode(item.wire)):
            if found := {k: v for k, v in block.items() if k in MARKERS}:
                yield suffix_of(position), found


def unmarked(item: Item) -> bytes:
    """An item without its markers, as JSON."""
    value = canonical.decode(item.wire)
    unmark(value)
    return canonical.key_form(value)


def _marked(dialect: Dialect, item: Item, wanted: Iterable[tuple[str, dict[str, Json]]], items: Items) -> Item:
    value = canonical.decode(unmarked(item))
    for suffix, marks in wanted:
        value = put_marks(value, suffix, marks, dialect.text_part)
    return items.get(dialect, item.tier, canonical.key_form(value))


def renamed(dialect: Dialect, item: Item, ids: Mapping[str, str], items: Items) -> Item:
    """The item with the ids of old calls as they were sent. Raises Ambiguous where one was sent for two calls."""
    named = [ids[p.call_id] for p in item.parts if p.call_id is not None and p.call_id in ids]
    if not named:
        return item
    if TWO_CALLS in named:
        raise Ambiguous("a result answers a call whose id was sent for another call too")
    value = dialect.rename(canonical.decode(item.wire), ids)
    return items.get(dialect, item.tier, canonical.key_form(value))
