"""The tools of a request: naming what differs in them (T), and the order and bytes in which they go out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from standfast.policy import Leave, Option
from standfast.prompt import canonical, offered, volatile
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import without_markers
from standfast.prompt.drift import Drift, first_difference, keys, meaning
from standfast.prompt.fingerprint import system_text
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Head, Item, Tier
from standfast.prompt.request import Request

_ID = re.compile(r"\S*[\d/\\_@=#%]\S*")
_Named = Mapping[tuple[str, int], Item]
"""Tools by name, in their order; the second one of a name is another tool."""


def tools_to_send(
    request: Request, old: Head | None, leave: Leave, result: Mended, firsts: Firsts, *, continues: bool
) -> tuple[Item, ...]:
    """The tools in the order and the bytes in which they go out. ``continues``: old is of the same session."""
    new, before = request.head.tools, old.tools if old else ()
    if keys(new) == keys(before):
        offered.may_tell(request, before, new, (), leave, result)
        return new
    continues = continues or old is None or not _same_system(request.head, old)
    if not before:
        if old is not None:
            settle(result.drifts, [_came_or_went({}, _named(new), continues=continues)], repaired=False)
        return _as_first_sent(new, firsts, result)
    if sorted(map(meaning, new)) == sorted(map(meaning, before)):
        settle(result.drifts, tools_form(before, new), repaired=True)
        offered.may_tell(request, before, before, (), leave, result)
        return before
    known, named = _named(before), _named(new)
    drifts, kept = _order(known, named), dict[tuple[str, int], Item]()
    for i, (name, tool) in enumerate(named.items()):
        first = known.get(name) or firsts.item(tool)
        told = _changes(i, first, tool, leave)
        kept[name] = first if all(drift.repaired for drift in told) else tool
        drifts += told
    if known.keys() != named.keys():
        drifts.append(_came_or_went(known, named, continues=continues))
    order = [*(n for n in known if n in kept), *(n for n in kept if n not in known)]
    sent = tuple(kept[name] for name in order)
    if offered.may_tell(request, before, sent, drifts, leave, result):
        out = before
    else:
        out = _together(request, known, kept, leave, result) or sent
    result.drifts += [replace(d, repaired=d.repaired or keys(out) == keys(before)) for d in drifts]
    return out


def _same_system(new: Head, old: Head) -> bool:
    """Whether two heads are of one agent, by its system prompt."""
    return new.system_text == (old.system_text or system_text(old.system))


def _as_first_sent(new: tuple[Item, ...], firsts: Firsts, result: Mended) -> tuple[Item, ...]:
    """Tools that no reference has, in the order and the bytes in which this set was first sent."""
    sent = tuple(firsts.item(tool) for tool in firsts.order(new))
    if keys(sent) == keys(new):
        return new
    settle(result.drifts, tools_form(sent, new), repaired=True)
    return sent


def _named(tools: Iterable[Item]) -> dict[tuple[str, int], Item]:
    seen = Counter[str]()
    named = {}
    for tool in tools:
        named[tool.role, seen[tool.role]] = tool
        seen[tool.role] += 1
    return named


def _together(request: Request, known: _Named, kept: _Named, leave: Leave, result: Mended) -> tuple[Item, ...] | None:
    """All tools that were declared before, and the new ones behind; those that may be called are told apart.

    None if that is not allowed, or if the upstream has no way to tell them apart: a call of a tool that the client
    does not know would break it.
    """
    if Option.TOOLS not in leave.options or not leave.allowed_tools:
        return None
    whole = {**known, **kept}
    choice = request.field("tool_choice")
    if len(whole) > len(kept):
        withheld = {role for role, _ in whole.keys() - kept.keys()}
        if withheld & {"", *(role for role, _ in kept)}:  # no name tells them apart
            return None
        allowed = request.dialect.allowing(choice, [canonical.decode(tool.wire) for tool in kept.values()])
        if allowed is None:
            return None
        if allowed != choice:
            result.fields["tool_choice"] = canonical.key_form(allowed)
    return tuple(whole.values())


def _order(known: _Named, named: _Named) -> list[Drift]:
    """The first of the tools in both lists that stands elsewhere (T1)."""
    common = [name for name in known if name in named]
    places = [(i, name) for i, name in enumerate(named) if name in known]
    for (i, name), wanted in zip(places, common, strict=True):
        if name != wanted:
            tool = named[name]
            return [Drift("T1", f"tools[{i}]{_name_path(tool)}", Tier.TOOLS, known[wanted].wire, tool.wire, True)]
    return []


def tools_form(before: Sequence[Item], after: Sequence[Item]) -> list[Drift]:
    """The same set of tools, in another order (T1) or other bytes (T2) or both."""
    drifts = []
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if meaning(old) != meaning(new):
            drifts.append(Drift("T1", f"tools[{i}]{_name_path(new)}", Tier.TOOLS, old.wire, new.wire))
            break
    known = {meaning(tool): tool for tool in before}
    return drifts + [d for i, tool in enumerate(after) for d in _forms(i, known[meaning(tool)], tool)]


def _name_path(tool: Item) -> str:
    value = canonical.decode(tool.wire)
    return ".function.name" if isinstance(value, dict) and "function" in value else ".name"


def _changes(i: int, old: Item, new: Item, leave: Leave) -> list[Drift]:
    """All that a tool's definition says otherwise: each cause once, where it is first met."""
    if meaning(old) == meaning(new):
        return _forms(i, old, new)
    found: dict[str, str] = {}
    pinned = Option.PIN in leave.options and leave.policy.repairs
    for path, left, right in _differences(_said(old), _said(new)):
        cause = _cause_of_change(path, left, right)
        pinned = pinned and cause == "T3" and _describes(path)
        found.setdefault(cause, path)
    if not found:  # a text that names a key twice: no two readers agree on it
        found, pinned = {"C1": ""}, False
    return [Drift(cause, f"tools[{i}]{path}", Tier.TOOLS, old.wire, new.wire, pinned) for cause, path in found.items()]


def _forms(i: int, old: Item, new: Item) -> list[Drift]:
    """A tool of equal meaning in other bytes (T2)."""
    if old.key == new.key:
        return []
    path, _, _ = first_difference(_said(old), _said(new))
    return [Drift("T2", f"tools[{i}]{path}", Tier.TOOLS, old.wire, new.wire, True)]


def _said(tool: Item) -> Json:
    value = canonical.decode(tool.wire)
    return without_markers(value) if isinstance(value, dict) else value


def _differences(old: Json, new: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Where two definitions differ by value, in any order of keys: path, and both values."""
    if _value(old) == _value(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            yield path, old, new
        for name in old:
            if name in new:
                yield from _differences(old[name], new[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{path}[{n}]")
    else:
        yield path, old, new


def _value(value: Json) -> bytes:
    return canonical.meaning_form(canonical.decode_values(canonical.key_form(value)))


def _came_or_went(known: _Named, named: _Named, *, continues: bool) -> Drift:
    """A tool was added or removed: in mid-session (T4), or in another kind of run (T5)."""
    gone = [(i, tool.wire) for i, (name, tool) in enumerate(known.items()) if name not in named]
    came = [(i, tool.wire) for i, (name, tool) in enumerate(named.items()) if name not in known]
    old, new = (tools[0][1] if tools else b"" for tools in (gone, came))
    return Drift("T4" if continues else "T5", f"tools[{min(gone + came)[0]}]", Tier.TOOLS, old, new)


def _cause_of_change(path: str, before: Json, after: Json) -> str:
    """Why a definition is another one: volatile text in it (T3), or its content (C1)."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return "C1"
    is_id = _describes(path) and _one_id(before, after)
    return "T3" if is_id or volatile.looks_volatile(before, after) else "C1"


def _describes(path: str) -> bool:
    """Whether a path is of a description that the model reads, of the tool or of an argument."""
    return path.endswith(".description")


def _one_id(before: str, after: str) -> bool:
    """Whether two texts differ within one word, which is an id, a path or a number before or after it changed."""
    start, *ends = volatile.changed_span(before, after)
    words = [_word_at(text, start, end) for text, end in zip((before, after), ends, strict=True)]
    return all(len(word.split()) == 1 for word in words) and any(map(_ID.fullmatch, words))


def _word_at(text: str, start: int, end: int) -> str:
    """What changed, with the rest of the words at its ends."""
    while start and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[start:end]
