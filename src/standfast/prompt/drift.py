"""Naming a difference: which cause, at which path.

A difference comes in two kinds. Equal meaning in another form is lossless by nature: ``*_form`` names it. Another
meaning is a change: ``*_change`` names it as closely as the table of causes allows, and as C1 if it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from standfast.prompt import canonical, volatile
from standfast.prompt.canonical import Json
from standfast.prompt.causes import CAUSES, Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.fingerprint import meanings
from standfast.prompt.model import Item, Kind, Part, Tier

_QUOTE = 6  # characters that make a text worth looking for in another


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between a request and what was sent before."""

    cause: str
    path: str
    tier: Tier
    before: bytes
    """The piece as it was sent."""
    after: bytes
    """The piece as it came."""
    repaired: bool = False

    @property
    def repair(self) -> Repair:
        return CAUSES[self.cause].repair


def meaning(item: Item) -> bytes:
    """The whole meaning of one item, its call ids aside."""
    return meanings([item])


def text_of(item: Item) -> str:
    """The plain text of an item."""
    return "\n".join(texts_of(item))


def texts_of(item: Item) -> list[str]:
    """The plain texts in an item."""
    return list(_texts(canonical.decode(item.wire)))


def _texts(value: Json) -> Iterable[str]:
    match value:
        case str():
            yield value
        case {"text": str(text)}:
            yield text
        case {"content": inner} | {"output": inner}:
            yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


def first_difference(before: Json, after: Json) -> tuple[str, Json, Json]:
    """Where two JSON values first differ, the order of keys included: the path there, and both values at it."""
    if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
        for name, left in before.items():
            if not _identical(left, after[name]):
                return _under(f".{name}", first_difference(left, after[name]))
    if isinstance(before, list) and isinstance(after, list):
        for i, (left, right) in enumerate(zip(before, after, strict=False)):
            if not _identical(left, right):
                return _under(f"[{i}]", first_difference(left, right))
    return "", before, after


def _under(name: str, found: tuple[str, Json, Json]) -> tuple[str, Json, Json]:
    return name + found[0], found[1], found[2]


def _identical(left: Json, right: Json) -> bool:
    return canonical.key_form(left) == canonical.key_form(right)


# Whole requests


def quotes(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether a request carries the words of another's history inside a text of its own (X1)."""
    told = "\n".join(text_of(item) for item in after)
    words = [text for item in before if len(text := text_of(item).strip()) >= _QUOTE]
    return bool(words) and all(text in told for text in words)


# Tools


def tools_form(before: Sequence[Item], after: Sequence[Item]) -> list[Drift]:
    """The same set of tools, in another order (T1) or other bytes (T2) or both."""
    drifts = []
    if [meaning(tool) for tool in before] != [meaning(tool) for tool in after]:
        i = _first(before, after, lambda a, b: meaning(a) != meaning(b))
        drifts.append(Drift("T1", f"tools[{i}]{_name_path(after[i])}", Tier.TOOLS, before[i].wire, after[i].wire))
    known = {meaning(tool): tool for tool in before}
    for i, tool in enumerate(after):
        if (old := known[meaning(tool)]).key != tool.key:
            path, _, _ = first_difference(canonical.decode(old.wire), canonical.decode(tool.wire))
            drifts.append(Drift("T2", f"tools[{i}]{path}", Tier.TOOLS, old.wire, tool.wire))
            break
    return drifts


def _name_path(tool: Item) -> str:
    value = canonical.decode(tool.wire)
    return ".function.name" if isinstance(value, dict) and "function" in value else ".name"


def tools_change(before: Sequence[Item], after: Sequence[Item]) -> Drift:
    """Another set of tools: one came or went (T4), or a definition changed (T3, C1). ``after`` is in sent order."""
    names_before, names_after = [t.role for t in before], [t.role for t in after]
    if sorted(names_before) != sorted(names_after):
        i = _first(before, after, lambda a, b: a.role != b.role)
        old, new = (tools[i].wire if i < len(tools) else b"" for tools in (before, after))
        return Drift("T4", f"tools[{i}]", Tier.TOOLS, old, new)
    i = _first(before, after, lambda a, b: meaning(a) != meaning(b))
    path, left, right = first_difference(canonical.decode(before[i].wire), canonical.decode(after[i].wire))
    cause = "C1"
    if isinstance(left, str) and isinstance(right, str):
        is_id = path.endswith("description") and _one_word(left, right)
        cause = "T3" if is_id or volatile.looks_volatile(left, right) else "C1"
    return Drift(cause, f"tools[{i}]{path}", Tier.TOOLS, before[i].wire, after[i].wire)


def _one_word(before: str, after: str) -> bool:
    """Whether two texts differ within one word."""
    start, end_before, end_after = volatile.changed_span(before, after)
    return not any(c.isspace() for c in before[start:end_before] + after[start:end_after])


def _first(before: Sequence[Item], after: Sequence[Item], differ: Callable[[Item, Item], bool]) -> int:
    for i, (a, b) in enumerate(zip(before, after, strict=False)):
        if differ(a, b):
            return i
    return min(len(before), len(after))


# System


def system_form(before: Item, after: Item, path: str) -> Drift:
    """The same system text in another form: a billing block (S2), or shape and white space (H2)."""
    cause = "S2" if volatile.billing_token(text_of(after)) is not None else "H2"
    return Drift(cause, path, Tier.SYSTEM, before.wire, after.wire)


def system_change(before: str, after: str, path: str) -> Drift:
    """Another system text."""
    cause = volatile.cause_of_change(before, after) or "C1"
    return Drift(cause, path, Tier.SYSTEM, before.encode(), after.encode())


# History


def item_form(before: Item, after: Item, dialect: Dialect, path: str) -> Drift:
    """Two items of equal meaning and other bytes."""
    cause, suffix = _part_form(before, after, dialect)
    return Drift(cause, path + suffix, Tier.MESSAGES, before.wire, after.wire)


def _part_form(before: Item, after: Item, dialect: Dialect) -> tuple[str, str]:
    for old, new in zip(before.parts, after.parts, strict=True):
        if old.key == new.key:
            continue
        if volatile.TOKEN_HINT in after.wire and volatile.mask_any_token(before.wire) == volatile.mask_any_token(
            after.wire
        ):
            return "H9", new.suffix
        if old.meaning != new.meaning or same_ids([before], [after]):
            return "H5", new.suffix
        if old.call_id != new.call_id:
            id_path = dialect.call_id_path if new.kind is Kind.CALL else dialect.result_id_path
            return "H3", new.suffix + id_path
        if new.kind is Kind.CALL:
            return "H4", new.suffix + dialect.arguments_path
        if new.kind is Kind.RESULT:
            return _result_form(before, after), new.suffix
        return "H2", new.suffix
    return "H2", ".content" if any(p.suffix.startswith(".content") for p in after.parts) else ""


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
    return Drift(cause, path + suffix, Tier.MESSAGES, before.wire, after.wire)


def _part_change(before: Item, after: Item) -> tuple[str, str]:
    if before.role != after.role:
        return "C1", ""
    place = _first_part(before.parts, after.parts)
    old, new = [p.meaning for p in before.parts], [p.meaning for p in after.parts]
    if _is_subsequence(new, old):
        dropped = [p for p in before.parts if p.meaning not in new]
        if dropped and all(p.kind is Kind.THINKING for p in dropped):
            return "H6", place
        if before.role == "user" and new == old[: len(new)]:
            return "H1", place
        return "H10", place
    i = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if i is None:
        return "C1", place
    if sorted(old) == sorted(new):
        return ("C1" if before.parts[i].kind in (Kind.RESULT, Kind.CALL) else "H10"), place
    if before.role == "user" and before.parts[i].kind is Kind.TEXT and _lost_its_end(before, after):
        return "H1", place
    return _changed_part(before.parts[i], after.parts[i]), place


def _lost_its_end(before: Item, after: Item) -> bool:
    """Whether a user's text lost what had been appended to it, a paragraph or a tagged block."""
    old, new = text_of(before).strip(), text_of(after).strip()
    rest = old.removeprefix(new)
    return bool(new) and rest != old and rest[:1] in ("\n", "<", " ") and rest.lstrip()[:1] in ("<", "[", "(")


def _changed_part(before: Part, after: Part) -> str:
    if before.kind is Kind.MEDIA and after.kind is Kind.MEDIA:
        return "H8"
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
