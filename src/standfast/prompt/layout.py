"""A prompt as caches see it: a row of blocks, and the marks on them.

A block is a part of an item: a tool, a system text, one piece of a message. Blocks are numbered from 0 in render order.
A mark stands on a block and tells the provider to keep the prompt up to there.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from standfast.prompt import canonical
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import Dialect, is_marked, marked_places, put_marks, suffix_of
from standfast.prompt.mended import Mended
from standfast.prompt.model import SYSTEM_ROLES, Item, Kind, Part, Sent

_UNMARKABLE = (Kind.THINKING, Kind.OTHER)
_DEFERRED = b'"defer_loading"'
_INPUT_ROLES = frozenset((*SYSTEM_ROLES, "user"))


class Layout(NamedTuple):
    """All items of a prompt, as they go out."""

    items: list[Item]
    tools: int
    """How many of them are tools."""
    system: int
    """How many are tools or system items."""
    firsts: list[int]
    """firsts[i]: number of the first block of item i; the number of all blocks behind the last."""

    @property
    def blocks(self) -> int:
        return self.firsts[-1]

    def item_of(self, block: int) -> int:
        """Index of the item that holds a block."""
        return bisect_right(self.firsts, block) - 1

    def part(self, block: int) -> Part:
        """One block."""
        i = self.item_of(block)
        return self.items[i].parts[block - self.firsts[i]]

    def sizes(self) -> list[int]:
        """Rendered bytes of each block; what frames an item counts for its first."""
        sizes: list[int] = []
        for item in self.items:
            if len(item.parts) == 1:
                sizes.append(item.size)
            elif item.parts:
                inner = [part.size for part in item.parts]
                sizes += (inner[0] + item.size - sum(inner), *inner[1:])
        return sizes


def lay_out(tools: Sequence[Item], system: Sequence[Item], sent: Iterable[Sent]) -> Layout:
    """The row of blocks of one prompt."""
    items = [*tools, *system]
    for unit in sent:
        items += unit.items
    firsts = [0, *accumulate(len(item.parts) for item in items)]
    return Layout(items, len(tools), len(tools) + len(system), firsts)


def shared_blocks(old: Layout, new: Layout) -> int:
    """How many leading blocks two prompts share."""
    if (old.tools, old.system) != (new.tools, new.system):  # a tool or a system block more: what follows is elsewhere
        reach = min(old.tools, new.tools) if old.tools != new.tools else min(old.system, new.system)
    else:
        reach = min(len(old.items), len(new.items))
    for i in range(reach):
        a, b = old.items[i], new.items[i]
        if a is not b and a.key != b.key:
            return new.firsts[i] + _shared_parts(a, b)
    return new.firsts[reach]


def _shared_parts(old: Item, new: Item) -> int:
    if old.role != new.role:
        return 0
    for i, (a, b) in enumerate(zip(old.parts, new.parts, strict=False)):
        if a.key != b.key:
            return i
    return min(len(old.parts), len(new.parts))


def markable(layout: Layout, dialect: Dialect) -> frozenset[int]:
    """The blocks on which a mark may stand."""
    found: list[int] = []
    for i, item in enumerate(layout.items):
        first = layout.firsts[i]
        if i < layout.tools:
            if dialect.marks_tools and _DEFERRED not in item.wire:
                found.append(first)
        elif dialect.marks_tools:
            found += [first + n for n, part in enumerate(item.parts) if part.kind not in _UNMARKABLE and part.size]
        elif item.role in _INPUT_ROLES:
            found += [first + n for n, part in enumerate(item.parts) if _bears_mark(part, i < layout.system)]
    return frozenset(found)


def _bears_mark(part: Part, is_system: bool) -> bool:
    """Whether an input part of a dialect with marks on texts and media alone has room for one."""
    in_list = part.suffix.startswith(".content[") or (is_system and part.suffix == ".content")
    return in_list and part.kind in (Kind.TEXT, Kind.MEDIA)


def marks_on(layout: Layout, field: str) -> dict[int, Json]:
    """The marks that stand on a prompt: block → what the field says."""
    found: dict[int, Json] = {}
    for i, item in enumerate(layout.items):
        if item.marked:
            for suffix, mark in _marks(canonical.decode(item.wire), field):
                found[layout.firsts[i] + _part_at(item, suffix)] = mark
    return found


def _marks(value: Json, field: str) -> Iterable[tuple[str, Json]]:
    for position, block in marked_places(value):
        if block.get(field):
            yield suffix_of(position), block[field]


def _part_at(item: Item, suffix: str) -> int:
    places = [part.suffix for part in item.parts]
    return places.index(suffix) if suffix in places else len(places) - 1


def remark(mended: Mended, layout: Layout, dialect: Dialect, field: str, marks: Mapping[int, Json]) -> Mended:
    """The same prompt with these marks, and no others, in that field."""
    wanted: dict[int, dict[str, Json]] = {i: {} for i, item in enumerate(layout.items) if item.marked}
    for block, mark in marks.items():
        wanted.setdefault(layout.item_of(block), {})[layout.part(block).suffix] = mark
    changed = {i: _marked(layout.items[i], dialect, field, places) for i, places in wanted.items()}
    tools = _exchanged(mended.tools, changed, 0)
    system = _exchanged(mended.system, changed, layout.tools)
    sent, first = list(mended.sent), layout.system
    for n, unit in enumerate(sent):
        items = _exchanged(unit.items, changed, first)
        first += len(items)
        if items is not unit.items:
            sent[n] = Sent(items, unit.links, unit.ours)
    return dataclasses.replace(mended, tools=tools, system=system, sent=sent)


def _exchanged(items: tuple[Item, ...], changed: Mapping[int, Item], first: int) -> tuple[Item, ...]:
    """The items with those that changed in their place; the very tuple if none did."""
    places = range(first, first + len(items))
    if changed.keys().isdisjoint(places):
        return items
    out = tuple(changed.get(i, item) for i, item in zip(places, items, strict=True))
    return items if all(a is b for a, b in zip(out, items, strict=True)) else out


def _marked(item: Item, dialect: Dialect, field: str, places: Mapping[str, Json]) -> Item:
    value = canonical.decode(item.wire)
    before = canonical.key_form(value)
    for _, block in marked_places(value):
        block.pop(field, None)
    for suffix, life in places.items():
        value = put_marks(value, suffix, {field: life}, dialect.text_part)
    after = canonical.key_form(value)
    still = bool(places) or is_marked(value)
    return item if after == before else msgspec.structs.replace(item, wire=after, marked=still)
