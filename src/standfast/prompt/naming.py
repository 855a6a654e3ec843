"""Naming what differs in one item of the history (H).

Equal meaning in another form is lossless by nature: ``forms`` names it. Another meaning is a change: ``changes`` names
each part of it as closely as the table of causes allows, and as C1 if it does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from standfast.prompt import canonical, fitting, volatile
from standfast.prompt.align import align
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift, meaning, texts_of
from standfast.prompt.items import build
from standfast.prompt.model import SYSTEM_ROLES, Item, Kind, Part, Tier

_NOTE = re.compile(
    r"\W*\w*.{,60}(remov|omit|truncat|clear|prun|elid|compact|trim|snip|collaps|as above|…)", re.I | re.S
)
_FEW = 120  # characters that a note has at most which stands for what was cut
_MARKUP = ("<", "[", "(")
_ATTACHED = re.compile(r"\W*(attach|file|document|skill|contents|mcp|resource|upload)", re.I)


# Equal meaning


def forms(before: Sequence[Item], after: Sequence[Item], dialect: Dialect, paths: Sequence[str]) -> list[Drift]:
    """Items of equal meaning and other bytes (several: a run of parallel results). One drift for each cause."""
    found: dict[str, Drift] = {}
    for old, new, path in zip(before, after, paths, strict=False):
        if old.key == new.key:
            continue
        if len(after) > 1 and (meaning(old) != meaning(new) or same_ids(before, after)):
            return [Drift("H5", path, Tier.MESSAGES, old.wire, new.wire)]
        for cause, suffix in _item_forms(old, new, dialect):
            found.setdefault(cause, Drift(cause, path + suffix, Tier.MESSAGES, old.wire, new.wire))
    return list(found.values())


def _item_forms(before: Item, after: Item, dialect: Dialect) -> list[tuple[str, str]]:
    """Cause and suffix of each part in another form; what surrounds them if none is."""
    found: list[tuple[str, str]] = []
    for n, (old, new) in enumerate(zip(before.parts, after.parts, strict=True)):
        if old.key == new.key:
            continue
        if old.meaning != new.meaning or same_ids([before], [after]):
            return [("H5", new.suffix)]
        found += _part_forms(before, after, n, dialect)
    is_content = any(part.suffix.startswith(".content") for part in after.parts)
    return found or [("H2", ".content" if is_content else "")]


def _part_forms(before: Item, after: Item, n: int, dialect: Dialect) -> list[tuple[str, str]]:
    old, new = before.parts[n], after.parts[n]
    if volatile.TOKEN_HINT in after.wire and _masked(before) == _masked(after):
        return [("H9", new.suffix)]
    renamed: list[tuple[str, str]] = []
    if old.call_id != new.call_id:
        renamed = [("H3", new.suffix + (dialect.call_id_path if new.kind is Kind.CALL else dialect.result_id_path))]
        if _same_but_ids(before, after, n, dialect):
            return renamed
    if new.kind is Kind.CALL:
        return [*renamed, ("H4", new.suffix + dialect.arguments_path)]
    if new.kind is Kind.RESULT:
        return [*renamed, (_result_form(before, after), new.suffix)]
    return [*renamed, ("H2", new.suffix)]


def _masked(item: Item) -> bytes:
    """An item without its marks, and with whatever stands for a per-request token blanked."""
    return volatile.mask_any_token(fitting.unmarked(item))


def _same_but_ids(before: Item, after: Item, n: int, dialect: Dialect) -> bool:
    """Whether a part would be the same but for the ids of calls."""
    pairs = zip(before.parts, after.parts, strict=True)
    ids = {old.call_id: new.call_id for old, new in pairs if old.call_id and new.call_id}
    wire = before.wire
    for old, new in ids.items():
        wire = wire.replace(b'"%s"' % old.encode(), b'"%s"' % new.encode())
    if wire == after.wire:
        return True
    value = dialect.rename(canonical.decode(before.wire), ids)
    return build(dialect, before.tier, canonical.key_form(value)).parts[n].key == after.parts[n].key


def _result_form(before: Item, after: Item) -> str:
    """A result that differs at its edges only (H2), or one that was serialised again (H4)."""
    old, new = ([text.strip() for text in texts_of(item)] for item in (before, after))
    return "H2" if old == new else "H4"


def same_ids(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether two runs of results answer the same call ids, in another order."""
    old, new = ([p.call_id for item in items for p in item.parts if p.kind is Kind.RESULT] for items in (before, after))
    return old != new and sorted(map(str, old)) == sorted(map(str, new))


# Another meaning


class Change(NamedTuple):
    """One part of an item that means something else now, is gone, or is new."""

    cause: str
    suffix: str
    """Its place in the item."""
    before: Part | None = None
    after: Part | None = None


def changes(before: Item, after: Item, moved: Collection[bytes] = (), *, newest: bool = False) -> list[Change]:
    """What makes an old item another now, part by part; never empty.

    ``moved``: meanings of parts that stand elsewhere in the history now. ``newest``: it was the user's newest turn.
    """
    if before.frame != after.frame:
        return [Change("C1", "")]
    old, new = before.parts, after.parts
    if sorted(p.meaning for p in old) == sorted(p.meaning for p in new):
        answers = any(part.kind in (Kind.CALL, Kind.RESULT) for part in old)
        return [Change("C1" if answers else "H10", _first_part(old, new))]
    new = _results_as_in(old, new)
    pairs = align([p.meaning for p in old], [p.meaning for p in new], lambda i, j: int(old[i].kind is new[j].kind) + 1)
    found = []
    for i, j in pairs:
        a, b = old[i] if i is not None else None, new[j] if j is not None else None
        if a is None or b is None or a.meaning != b.meaning:
            found.append(Change(_cause(before, after, a, b, moved, newest), (b or a or old[0]).suffix, a, b))
    if found[0].after is None:  # what is gone has no place of its own any more
        found[0] = found[0]._replace(suffix=_first_part(old, new))
    return found


def _results_as_in(old: Sequence[Part], new: Sequence[Part]) -> tuple[Part, ...]:
    """Parts of an item, with results that others gave too in their order: parallel ones may come in any."""
    given: list[bytes | None] = [part.meaning if part.kind is Kind.RESULT else None for part in old]
    found = []
    for n, part in enumerate(new):
        if part.kind is Kind.RESULT and part.meaning in given:
            found.append((given.index(part.meaning), n))
            given[found[-1][0]] = None
    ordered = list(new)
    for (_, place), (_, n) in zip(found, sorted(found), strict=True):
        ordered[place] = new[n]
    return tuple(ordered)


def _cause(before: Item, after: Item, a: Part | None, b: Part | None, moved: Collection[bytes], newest: bool) -> str:
    if a is not None and b is not None:
        return _replaced(before, after, a, b)
    gone = a or b
    if gone is not None and gone.meaning in moved:
        return "H10"
    if a is None:
        return "C1"
    if a.kind is not Kind.TEXT:
        return _GONE.get(a.kind, "H10")
    return "H1" if before.role == "user" and _is_decoration(before, a, newest) else "H10"


_GONE = {Kind.THINKING: "H6", Kind.MEDIA: "H8", Kind.RESULT: "H7", Kind.CALL: "H7"}


def _is_decoration(item: Item, part: Part, newest: bool) -> bool:
    """Whether a text is told with a turn only while that is the newest: marked up, or last in it; no attachment."""
    text = str(value_at(item, part.suffix, "text")).lstrip()
    is_last = newest and part.suffix == item.parts[-1].suffix
    return not _ATTACHED.match(text) and (is_last or text.startswith(_MARKUP))


def is_marked_up(item: Item, part: Part) -> bool:
    """Whether a text is set off from what a user writes: in tags or brackets, or headed as an attachment."""
    text = str(value_at(item, part.suffix, "text")).lstrip()
    return text.startswith(_MARKUP) or bool(_ATTACHED.match(text))


def _replaced(before: Item, after: Item, a: Part, b: Part) -> str:
    if a.kind is Kind.MEDIA and b.kind in (Kind.MEDIA, Kind.TEXT):
        return "H8"
    if before.role in SYSTEM_ROLES:
        return volatile.cause_of_change(*("\n".join(texts_of(item)) for item in (before, after))) or "C1"
    if b.size < a.size and a.kind is b.kind:
        if a.kind is Kind.RESULT:
            return "H7"
        old, new = (str(value_at(item, p.suffix, "text")) for item, p in ((before, a), (after, b)))
        if before.role == "user" and a.kind is Kind.TEXT and _lost_its_edge(old.strip(), new.strip()):
            return "H1"
        if len(new) <= _FEW and _NOTE.match(new):
            return "H7"
    return "C1"


def _lost_its_edge(old: str, new: str) -> bool:
    """Whether a text lost what had been put behind it or before it: a paragraph or a tagged block."""
    behind, front = old.removeprefix(new), old.removesuffix(new)
    if not new or new == old:
        return False
    if behind != old:
        return behind[:1] in ("\n", "<", " ") and behind.lstrip().startswith(_MARKUP)
    return front != old and front[-1:] in ("\n", ">", " ") and front.startswith(_MARKUP)


def value_at(item: Item, suffix: str, field: str = "") -> Json:
    """What stands in an item at the suffix of a part; its field of that name, where it is an object with one."""
    value = fitting.value_at(item.wire, suffix)
    return value.get(field, value) if field and isinstance(value, dict) else value


def _first_part(before: Sequence[Part], after: Sequence[Part]) -> str:
    """Suffix of the first part whose bytes differ."""
    for old, new in zip(before, after, strict=False):
        if old.key != new.key:
            return new.suffix
    longer = before if len(before) > len(after) else after
    return longer[min(len(before), len(after))].suffix if len(before) != len(after) else ""


def drifts(found: Sequence[Change], before: Item, after: Item, path: str) -> list[Drift]:
    """Changes of one item as drifts: one for each cause, where it first shows."""
    first: dict[str, Change] = {}
    for change in found:
        first.setdefault(change.cause, change)
    return [Drift(c.cause, path + c.suffix, Tier.MESSAGES, before.wire, after.wire) for c in first.values()]
