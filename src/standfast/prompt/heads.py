"""Repairing the head: tools, system prompt, parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standfast.policy import Policy
from standfast.prompt import drift, isolate, volatile
from standfast.prompt.drift import Drift, meaning
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Head, Item, Tier, Tip
from standfast.prompt.request import Request


def tools_to_send(head: Head, old: Head | None, drifts: list[Drift], firsts: Firsts) -> tuple[Item, ...]:
    """The tools in the order and the bytes in which they go out."""
    if old is not None and head.tools and not old.tools:
        settle(drifts, [drift.tools_change((), head.tools)], repaired=False)
    if old is None or not old.tools:
        sent = tuple(firsts.item(tool) for tool in firsts.order(head.tools))
        if [tool.key for tool in sent] == [tool.key for tool in head.tools]:
            return head.tools
        settle(drifts, drift.tools_form(sent, head.tools), repaired=True)
        return sent
    if [tool.key for tool in head.tools] == [tool.key for tool in old.tools]:
        return head.tools
    if sorted(map(meaning, head.tools)) == sorted(map(meaning, old.tools)):
        settle(drifts, drift.tools_form(old.tools, head.tools), repaired=True)
        return old.tools
    ordered = head.tools if _same_order(head.tools, old.tools) else _in_known_order(head.tools, old.tools, firsts)
    settle(drifts, [drift.tools_change(old.tools, ordered)], repaired=False)
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


def system_to_send(
    request: Request, reference: Tip | None, policy: Policy, result: Mended, firsts: Firsts, pin_billing: bool
) -> tuple[Item, ...]:
    """The system prompt as it goes out."""
    new = request.head.system
    if reference is None:
        alone = Counter(map(meaning, new))  # of two blocks that say the same neither is the other's first form
        first = tuple(
            item if alone[meaning(item)] > 1 or _is_kept(item, pin_billing) else firsts.item(item) for item in new
        )
        return new if [item.key for item in first] == [item.key for item in new] else first
    old = reference.head.system
    if [item.key for item in new] == [item.key for item in old]:
        return new
    if len(new) != len(old):
        place = next(
            (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if meaning(a) != meaning(b)),
            len(min(new, old, key=len)),
        )
        settle(result.drifts, [_system_drift(request, old, new, place)], repaired=False)
        return new
    changed = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if meaning(a) != meaning(b)]
    formed = [
        i
        for i, (a, b) in enumerate(zip(old, new, strict=True))
        if a.key != b.key and i not in changed and not _is_kept(b, pin_billing)
    ]
    frozen = bool(changed) and policy is Policy.ISOLATE and isolate.is_volatile(old, new)
    for i in sorted(changed + formed):
        found = _system_drift(request, old, new, i)
        settle(result.drifts, [found], repaired=frozen if i in changed else True)
    if frozen:
        result.news = isolate.news(old, new)
    return tuple(
        a if i in formed or (frozen and i in changed) else b for i, (a, b) in enumerate(zip(old, new, strict=True))
    )


def _is_kept(item: Item, pin_billing: bool) -> bool:
    """Whether an item is a billing block that the upstream wants as it is."""
    return (
        not pin_billing
        and b"billing-header" in item.wire.lower()
        and volatile.billing_token(drift.text_of(item)) is not None
    )


def _system_drift(request: Request, old: Sequence[Item], new: Sequence[Item], i: int) -> Drift:
    path = system_path(request, i)
    if i < len(old) and i < len(new) and meaning(old[i]) == meaning(new[i]):
        return drift.system_form(old[i], new[i], path)
    texts = [drift.text_of(blocks[i]) if i < len(blocks) else "" for blocks in (old, new)]
    return drift.system_change(texts[0], texts[1], path)


def system_path(request: Request, i: int) -> str:
    """Path of a system item in the body."""
    own = len(request.head.system) - request.first
    name = request.dialect.system
    if i >= own and request.first:
        return f"{request.dialect.history}[{i - own}].content"
    start = request.fields[name][0] if name in request.fields else 0
    return f"{name}[{i}]" if request.body[start : start + 1] == b"[" else name or f"{request.dialect.history}[{i}]"


def compare_params(request: Request, old: Head, drifts: list[Drift]) -> None:
    """Note another model, or another prompt-affecting parameter."""
    new = request.head
    if new.model != old.model:
        drifts.append(Drift("P2", "model", Tier.MODEL, old.model.encode(), new.model.encode()))
    for param in request.dialect.params:
        before, after = old.params.get(param.path, b""), new.params.get(param.path, b"")
        if before != after:
            drifts.append(Drift("P1", param.path, param.tier, before, after))
