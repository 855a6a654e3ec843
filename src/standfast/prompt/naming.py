"""Naming what differs in one item of the history (H).

Equal meaning in another form is lossless by nature: ``item_form`` names it. Another meaning is a change:
``item_change`` names it as closely as the table of causes allows, and as C1 if it does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from standfast.prompt import canonical, volatile
from standfast.prompt.causes import CAUSES, Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift, text_in, text_of, texts_of
from standfast.prompt.fitting import unmarked
from standfast.prompt.items import build
from standfast.prompt.model import Item, Kind, Part, Tier

_BRACKETS = ("<", "[", "(")
_ATTACHES = re.compile(r"[<\[(](?:attach|file|document|paste|image|skill|mcp|upload|content)", re.IGNORECASE)


def item_forms(before: Item, after: Item, dialect: Dialect, path: str) -> list[Drift]:
    """Two items of equal meaning and other bytes: each cause once, where it shows first."""
    found: dict[str, str] = {}
    for old, new in zip(before.parts, after.parts, strict=True):
        if old.key != new.key:
            for cause, suffix in _part_forms(before, after, old, new, dialect):
                found.setdefault(cause, suffix)
    if not found:
        found["H2"] = ".content" if any(p.suffix.startswith(".content") for p in after.parts) else ""
    return [Drift(cause, path + suffix, Tier.MESSAGES, before.wire, after.wire) for cause, suffix in found.items()]


def _part_forms(before: Item, after: Item, old: Part, new: Part, dialect: Dialect) -> list[tuple[str, str]]:
    """Why one part differs in form: cause and suffix."""
    if volatile.TOKEN_HINT in after.wire and _masked(before) == _masked(after):
        return [("H9", new.suffix)]
    if old.kind is Kind.MEDIA and old.meaning != new.meaning:
        return [("H8", new.suffix)]
    if old.meaning != new.meaning or same_ids([before], [after]):
        return [("H5", new.suffix)]
    found = []
    if old.call_id != new.call_id:
        found.append(("H3", new.suffix + (dialect.call_id_path if new.kind is Kind.CALL else dialect.result_id_path)))
        if not _more_than_id(before, after, old, new, dialect):
            return found
    if new.kind is Kind.CALL:
        return [*found, ("H4", new.suffix + dialect.arguments_path)]
    if new.kind is Kind.RESULT:
        return [*found, (_result_form(before, after), new.suffix)]
    return [*found, ("H2", new.suffix)]


def _more_than_id(before: Item, after: Item, old: Part, new: Part, dialect: Dialect) -> bool:
    """Whether a call or a result differs in more than its id."""
    ids = {new.call_id or "": old.call_id or ""}
    named = build(dialect, Tier.MESSAGES, canonical.key_form(dialect.rename(canonical.decode(after.wire), ids)))
    same = [part.key for part in named.parts if part.suffix == new.suffix]
    return same != [old.key]


def _masked(item: Item) -> bytes:
    """An item without its marks, and with whatever stands for a per-request token blanked."""
    return volatile.mask_any_token(unmarked(item).wire)


def _result_form(before: Item, after: Item) -> str:
    """A result that differs at its edges only (H2), or one that was serialised again (H4)."""
    old, new = ([text.strip() for text in texts_of(item)] for item in (before, after))
    return "H2" if old == new else "H4"


def same_ids(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether two runs of results answer the same call ids, in another order."""
    old, new = ([p.call_id for item in items for p in item.parts if p.kind is Kind.RESULT] for items in (before, after))
    return old != new and sorted(map(str, old)) == sorted(map(str, new))


def item_change(before: Item, after: Item, path: str) -> Drift:
    """An old item whose meaning is another now."""
    cause, suffix = _part_change(before, after)
    at_most = Repair.REPORT if CAUSES[cause].repair is Repair.LOSSLESS else None
    return Drift(cause, path + suffix, Tier.MESSAGES, before.wire, after.wire, at_most=at_most)


def _part_change(before: Item, after: Item) -> tuple[str, str]:
    if before.role != after.role:
        return "C1", ""
    place = _first_part(before.parts, after.parts)
    old, new = [p.meaning for p in before.parts], [p.meaning for p in after.parts]
    if _is_subsequence(new, old):
        dropped = [p for p in before.parts if p.meaning not in new]
        if dropped and all(p.kind is Kind.THINKING for p in dropped):
            return "H6", place
        if dropped and all(p.kind is Kind.MEDIA for p in dropped):
            return "H8", place
        if before.role == "user" and (new == old[: len(new)] or _all_decorate(before, dropped)):
            return "H1", place
        return "H10", place
    i = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if i is None:
        return "C1", place
    if sorted(old) == sorted(new):
        return ("C1" if before.parts[i].kind in (Kind.RESULT, Kind.CALL) else "H10"), place
    if before.role == "user" and before.parts[i].kind is Kind.TEXT and _lost_decoration(before, after):
        return "H1", place
    return _changed_part(before.parts[i], after.parts[i]), place


def _lost_decoration(before: Item, after: Item) -> bool:
    """Whether a user's text lost what stood before or behind it, a paragraph or a tagged block."""
    old, new = text_of(before).strip(), text_of(after).strip()
    behind, ahead = old.removeprefix(new), old.removesuffix(new)
    if not new or len(new) == len(old):
        return False
    if behind != old:
        return behind[:1] in ("\n", "<", " ") and _decorates(behind)
    return ahead != old and ahead[-1:] in ("\n", ">", " ") and _decorates(ahead)


def _decorates(text: str) -> bool:
    """Whether a text is a passing remark of the client: a tagged block, or one in brackets, that attaches nothing."""
    return text.lstrip()[:1] in _BRACKETS and not _ATTACHES.match(text.lstrip())


def _all_decorate(item: Item, parts: Sequence[Part]) -> bool:
    """Whether these parts of an item are texts that no user wrote."""
    content = canonical.decode(item.wire).get("content")
    places = [p.suffix for p in parts]
    if not isinstance(content, list) or not all(place.startswith(".content[") for place in places):
        return False
    return all(_decorates(text_in(content[int(place[9:-1])])) for place in places)


def _changed_part(before: Part, after: Part) -> str:
    if before.kind is Kind.MEDIA and after.kind in (Kind.MEDIA, Kind.TEXT):
        return "H8"  # another picture, or a word in place of one
    if before.kind is Kind.RESULT and after.kind is Kind.RESULT and after.size < before.size:
        return "H7"
    return "C1"


def _first_part(before: Sequence[Part], after: Sequence[Part]) -> str:
    """Suffix of the first part whose bytes differ."""
    for old, new in zip(before, after, strict=False):
        if old.key != new.key:
            return new.suffix
    longer = before if len(before) > len(after) else after
    return longer[min(len(before), len(after))].suffix if len(before) != len(after) else ""


def _is_subsequence(part: Sequence[bytes], whole: Sequence[bytes]) -> bool:
    rest = iter(whole)
    return len(part) < len(whole) and all(p in rest for p in part)
