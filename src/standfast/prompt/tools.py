"""The tools of a request: naming what differs in them (T), and the order and bytes in which they go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from standfast.policy import Leave
from standfast.prompt import canonical, volatile
from standfast.prompt.drift import Drift, first_difference, meaning
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Head, Item, Tier


def tools_to_send(head: Head, old: Head | None, leave: Leave, result: Mended, firsts: Firsts) -> tuple[Item, ...]:
    """The tools in the order and the bytes in which they go out."""
    drifts = result.drifts
    if old is not None and head.tools and not old.tools:
        settle(drifts, [tools_change((), head.tools)], repaired=False)
    if old is None or not old.tools:
        sent = tuple(firsts.item(tool) for tool in firsts.order(head.tools))
        if [tool.key for tool in sent] == [tool.key for tool in head.tools]:
            return head.tools
        settle(drifts, tools_form(sent, head.tools), repaired=True)
        return sent
    if [tool.key for tool in head.tools] == [tool.key for tool in old.tools]:
        return head.tools
    if sorted(map(meaning, head.tools)) == sorted(map(meaning, old.tools)):
        settle(drifts, tools_form(old.tools, head.tools), repaired=True)
        return old.tools
    ordered = head.tools if _same_order(head.tools, old.tools) else _in_known_order(head.tools, old.tools, firsts)
    settle(drifts, [tools_change(old.tools, ordered)], repaired=False)
    return ordered


def _same_order(tools: Sequence[Item], old: Sequence[Item]) -> bool:
    """Whether the tools that both lists name stand in one order, so that there is nothing to put right."""
    names, known = [tool.role for tool in tools], [tool.role for tool in old]
    return [n for n in names if n in known] == [n for n in known if n in names]


def _in_known_order(tools: Sequence[Item], old: Sequence[Item], firsts: Firsts) -> tuple[Item, ...]:
    """Known tools in their old order and bytes, changed ones in the place of their name, new ones last."""
    place = {tool.role: i for i, tool in enumerate(old)}
    known = {meaning(tool): tool for tool in old}
    ordered = sorted(tools, key=lambda tool: place.get(tool.role, len(old)))
    return tuple(known.get(meaning(tool)) or firsts.item(tool) for tool in ordered)


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
