"""The tools of a request: naming what differs in them (T), and the order and bytes in which they go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from standfast.policy import Leave, Option
from standfast.prompt import canonical, volatile
from standfast.prompt.drift import Drift, first_difference, meaning
from standfast.prompt.fingerprint import system_text
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Head, Item, Tier
from standfast.prompt.request import Request


def tools_to_send(
    request: Request, old: Head | None, leave: Leave, result: Mended, firsts: Firsts, *, continues: bool
) -> tuple[Item, ...]:
    """The tools in the order and the bytes in which they go out. ``continues``: old is of the same session."""
    new = request.head.tools
    continues = continues or old is None or not _same_system(request.head, old)
    if old is None or not old.tools:
        if old is not None and new:
            settle(result.drifts, [_came_or_went((), new, continues=continues)], repaired=False)
        sent = tuple(firsts.item(tool) for tool in firsts.order(new))
        if [tool.key for tool in sent] == [tool.key for tool in new]:
            return new
        settle(result.drifts, tools_form(sent, new), repaired=True)
        return sent
    if [tool.key for tool in new] == [tool.key for tool in old.tools]:
        return new
    if sorted(map(meaning, new)) == sorted(map(meaning, old.tools)):
        settle(result.drifts, tools_form(old.tools, new), repaired=True)
        return old.tools
    known = {tool.role: tool for tool in old.tools}
    ordered = new if _same_order(new, old.tools) else _in_known_order(new, old.tools)
    sent = tuple(_form(i, tool, known.get(tool.role), leave, firsts, result) for i, tool in enumerate(ordered))
    settle(result.drifts, _order_and_form(old.tools, new, known), repaired=True)
    if {tool.role for tool in new} != known.keys():
        found = _came_or_went(old.tools, sent, continues=continues)
        together = _together(request, old.tools, sent, leave, result)
        mended = together is not None and [t.key for t in together] == [t.key for t in old.tools]
        settle(result.drifts, [found], repaired=mended)
        return together or sent
    return sent


def _same_system(new: Head, old: Head) -> bool:
    """Whether two heads are of one agent, by its system prompt."""
    return new.system_text == (old.system_text or system_text(old.system))


def _form(i: int, tool: Item, old: Item | None, leave: Leave, firsts: Firsts, result: Mended) -> Item:
    """One tool as it goes out; names it if its definition is another than it was."""
    if old is None:
        return firsts.item(tool)
    if meaning(tool) == meaning(old):
        return old
    path, left, right = first_difference(canonical.decode(old.wire), canonical.decode(tool.wire))
    cause = _cause_of_change(path, left, right)
    pinned = cause == "T3" and path.endswith("description") and Option.PIN in leave.options
    settle(result.drifts, [Drift(cause, f"tools[{i}]{path}", Tier.TOOLS, old.wire, tool.wire)], repaired=pinned)
    return old if pinned else tool


def _together(
    request: Request, old: Sequence[Item], sent: Sequence[Item], leave: Leave, result: Mended
) -> tuple[Item, ...] | None:
    """All tools that were declared before, and the new ones behind; those that may be called are told apart.

    None if that is not allowed, or if the upstream has no way to tell them apart: a call of a tool that the client
    does not know would break it.
    """
    if Option.TOOLS not in leave.options or not leave.allowed_tools:
        return None
    mine = {tool.role: tool for tool in sent}
    whole = tuple(mine.get(tool.role, tool) for tool in old) + tuple(
        tool for tool in sent if tool.role not in {t.role for t in old}
    )
    where = request.fields.get("tool_choice")
    choice = canonical.decode(request.body[slice(*where)]) if where else "auto"
    if len(whole) > len(sent):
        allowed = request.dialect.allowing(choice, [canonical.decode(tool.wire) for tool in sent])
        if allowed is None:
            return None
        if allowed != choice:
            result.fields["tool_choice"] = canonical.key_form(allowed)
    return whole


def _same_order(tools: Sequence[Item], old: Sequence[Item]) -> bool:
    """Whether the tools that both lists name stand in one order, so that there is nothing to put right."""
    names, known = [tool.role for tool in tools], [tool.role for tool in old]
    return [n for n in names if n in known] == [n for n in known if n in names]


def _in_known_order(tools: Sequence[Item], old: Sequence[Item]) -> tuple[Item, ...]:
    """Known tools in their old order, new ones last."""
    place = {tool.role: i for i, tool in enumerate(old)}
    return tuple(sorted(tools, key=lambda tool: place.get(tool.role, len(old))))


def _order_and_form(old: Sequence[Item], new: Sequence[Item], known: Mapping[str, Item]) -> list[Drift]:
    """Of a set of tools that is another one now: those that stand elsewhere (T1), those in other bytes (T2)."""
    drifts = []
    if not _same_order(new, old):
        names = [tool.role for tool in old if any(t.role == tool.role for t in new)]
        common = [(i, tool) for i, tool in enumerate(new) if tool.role in known]
        i, tool = next((i, t) for (i, t), name in zip(common, names, strict=True) if t.role != name)
        before = known[names[[t for _, t in common].index(tool)]]
        drifts.append(Drift("T1", f"tools[{i}]{_name_path(tool)}", Tier.TOOLS, before.wire, tool.wire))
    return drifts + _forms(new, {meaning(tool): tool for tool in old})


def tools_form(before: Sequence[Item], after: Sequence[Item]) -> list[Drift]:
    """The same set of tools, in another order (T1) or other bytes (T2) or both."""
    drifts = []
    if [meaning(tool) for tool in before] != [meaning(tool) for tool in after]:
        i = _first(before, after, lambda a, b: meaning(a) != meaning(b))
        drifts.append(Drift("T1", f"tools[{i}]{_name_path(after[i])}", Tier.TOOLS, before[i].wire, after[i].wire))
    return drifts + _forms(after, {meaning(tool): tool for tool in before})


def _name_path(tool: Item) -> str:
    value = canonical.decode(tool.wire)
    return ".function.name" if isinstance(value, dict) and "function" in value else ".name"


def _forms(after: Sequence[Item], known: Mapping[bytes, Item]) -> list[Drift]:
    """Tools of equal meaning in other bytes (T2)."""
    drifts = []
    for i, tool in enumerate(after):
        old = known.get(meaning(tool))
        if old is not None and old.key != tool.key:
            path, _, _ = first_difference(canonical.decode(old.wire), canonical.decode(tool.wire))
            drifts.append(Drift("T2", f"tools[{i}]{path}", Tier.TOOLS, old.wire, tool.wire))
    return drifts


def _came_or_went(before: Sequence[Item], after: Sequence[Item], *, continues: bool) -> Drift:
    """A tool was added or removed: in mid-session (T4), or in another kind of run (T5). ``after`` is in sent order."""
    i = _first(before, after, lambda a, b: a.role != b.role)
    old, new = (tools[i].wire if i < len(tools) else b"" for tools in (before, after))
    names, known = {tool.role for tool in after}, {tool.role for tool in before}
    is_run = not continues and (names < known or known < names)
    return Drift("T5" if is_run else "T4", f"tools[{i}]", Tier.TOOLS, old, new)


def _cause_of_change(path: str, left: canonical.Json, right: canonical.Json) -> str:
    """Why a definition is another one: volatile text in it (T3), or its content (C1)."""
    if not (isinstance(left, str) and isinstance(right, str)):
        return "C1"
    is_id = path.endswith("description") and _one_word(left, right)
    return "T3" if is_id or volatile.looks_volatile(left, right) else "C1"


def _one_word(before: str, after: str) -> bool:
    """Whether two texts differ within one word."""
    start, end_before, end_after = volatile.changed_span(before, after)
    return not any(c.isspace() for c in before[start:end_before] + after[start:end_after])


def _first(before: Sequence[Item], after: Sequence[Item], differ: Callable[[Item, Item], bool]) -> int:
    for i, (a, b) in enumerate(zip(before, after, strict=False)):
        if differ(a, b):
            return i
    return min(len(before), len(after))
