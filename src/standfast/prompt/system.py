"""The system prompt of a request: naming what differs in it (S), and the form in which it goes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standfast.policy import Leave, Policy
from standfast.prompt import isolate, volatile
from standfast.prompt.drift import Drift, meaning, text_of
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Item, Tier, Tip
from standfast.prompt.request import Request


def system_to_send(
    request: Request, reference: Tip | None, leave: Leave, result: Mended, firsts: Firsts
) -> tuple[Item, ...]:
    """The system prompt as it goes out."""
    new = request.head.system
    if reference is None:
        alone = Counter(map(meaning, new))  # of two blocks that say the same neither is the other's first form
        first = tuple(
            item if alone[meaning(item)] > 1 or _is_kept(item, leave.pin_billing) else firsts.item(item) for item in new
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
        if a.key != b.key and i not in changed and not _is_kept(b, leave.pin_billing)
    ]
    frozen = bool(changed) and leave.policy is Policy.ISOLATE and isolate.is_volatile(old, new)
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
        not pin_billing and b"billing-header" in item.wire.lower() and volatile.billing_token(text_of(item)) is not None
    )


def _system_drift(request: Request, old: Sequence[Item], new: Sequence[Item], i: int) -> Drift:
    path = system_path(request, i)
    if i < len(old) and i < len(new) and meaning(old[i]) == meaning(new[i]):
        return system_form(old[i], new[i], path)
    texts = [text_of(blocks[i]) if i < len(blocks) else "" for blocks in (old, new)]
    return system_change(texts[0], texts[1], path)


def system_path(request: Request, i: int) -> str:
    """Path of a system item in the body."""
    own = len(request.head.system) - request.first
    name = request.dialect.system
    if i >= own and request.first:
        return f"{request.dialect.history}[{i - own}].content"
    start = request.fields[name][0] if name in request.fields else 0
    return f"{name}[{i}]" if request.body[start : start + 1] == b"[" else name or f"{request.dialect.history}[{i}]"


def system_form(before: Item, after: Item, path: str) -> Drift:
    """The same system text in another form: a billing block (S2), or shape and white space (H2)."""
    cause = "S2" if volatile.billing_token(text_of(after)) is not None else "H2"
    return Drift(cause, path, Tier.SYSTEM, before.wire, after.wire)


def system_change(before: str, after: str, path: str) -> Drift:
    """Another system text."""
    cause = volatile.cause_of_change(before, after) or "C1"
    return Drift(cause, path, Tier.SYSTEM, before.encode(), after.encode())
