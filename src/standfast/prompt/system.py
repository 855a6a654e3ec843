"""The system prompt of a request: naming what differs in it (S), and the form in which it goes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from standfast.policy import Leave, Policy
from standfast.prompt import canonical, isolate, volatile
from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift, keys, meaning, text_of, texts_of
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Item, Tier, Tip
from standfast.prompt.request import Request
from standfast.prompt.sections import Order, compare, follows, permutation

_SHOWN = "it stands in code or in an example"
_LEAST_SHARED = 120  # characters behind what differs that make it worth moving


def system_to_send(
    request: Request, reference: Tip | None, leave: Leave, result: Mended, firsts: Firsts, *, continues: bool
) -> tuple[Item, ...]:
    """The system prompt as it goes out. ``continues``: the reference is of the same session."""
    new = request.head.system
    if reference is None:
        alone = Counter(map(meaning, new))  # of two blocks that say the same neither is the other's first form
        first = tuple(
            item if alone[meaning(item)] > 1 or _is_kept(item, leave.pin_billing) else firsts.item(item) for item in new
        )
        return new if keys(first) == keys(new) else first
    old = reference.head.system
    if keys(new) == keys(old):
        return new
    if permutation([meaning(item) for item in old], [meaning(item) for item in new]):
        moved = _blocks_moved(request, old, new)
        settle(result.drifts, [moved], repaired=moved.repair is Repair.LOSSLESS)
        return old if moved.repair is Repair.LOSSLESS else new
    steps = SequenceMatcher(None, list(map(meaning, old)), list(map(meaning, new)), autojunk=False).get_opcodes()
    if any(i_end - i != j_end - j for _, i, i_end, j, j_end in steps):
        change = _came_and_went(request, old, steps, leave)
    else:
        change = _piece_by_piece(request, old, leave, firsts, continues=continues)
    return _decided(request, change, leave, result, continues=continues)


class _Change(NamedTuple):
    """Two system prompts held against each other."""

    first: Sequence[Item]
    """All of it as it was sent."""
    now: Sequence[Item]
    """The same with what it says now."""
    drifts: Sequence[Drift]
    """What ``now`` says otherwise."""
    forms: Sequence[Drift]
    """What goes out as it was in either."""


def _decided(
    request: Request, change: _Change, leave: Leave, result: Mended, *, continues: bool
) -> tuple[Item, ...]:
    """What goes out of two versions: all as it was sent, with news of what changed, or none."""
    why = _obstacle(request, change, leave, continues=continues)
    settle(result.drifts, change.forms, repaired=True)
    told = [replace(d, why=d.why or why or "") if d.cause in isolate.MOVABLE else d for d in change.drifts]
    settle(result.drifts, told, repaired=why is None)
    if why is None and change.drifts:
        result.news = isolate.news(change.first, change.now)
    return tuple(change.first if why is None else change.now)


def _obstacle(request: Request, change: _Change, leave: Leave, *, continues: bool) -> str | None:
    """Why what changed may not be frozen and told; None if it may, empty if there is no leave to."""
    if leave.policy is not Policy.ISOLATE:
        return ""
    before, after = ("\n".join(map(text_of, items)) for items in (change.first, change.now))
    checks = (
        (all(d.cause in isolate.MOVABLE for d in change.drifts), "more than that changed in the system prompt"),
        (not any(d.why for d in change.drifts), _SHOWN),
        (continues or volatile.looks_volatile(before, after), "what was sent before is of another session"),
        (isolate.can_be_told(change.first, change.now), "what is gone still stands elsewhere, or is no text alone"),
        (_has_place(request, change.first), "the request has no place for what was sent"),
    )
    return next((why for may, why in checks if not may), None)


def _has_place(request: Request, first: Sequence[Item]) -> bool:
    """Whether these system items can go out in a request that may have fewer or more, and news behind them."""
    if not isolate.has_room(request) or not first:
        return False
    if len(first) == len(request.head.system) or not request.dialect.is_leading_system("system"):
        return True
    strings = [sum(item.wire[:1] == b'"' for item in items) for items in (first, request.head.system)]
    start = request.fields[request.dialect.history][0]
    return strings[0] == strings[1] and request.body[start : start + 1] == b"["


def _came_and_went(
    request: Request, old: Sequence[Item], steps: Sequence[tuple[str, int, int, int, int]], leave: Leave
) -> _Change:
    """Blocks that were added or taken out, or changed beside that: the drifts of each place."""
    new = request.head.system
    first: list[Item] = []
    now: list[Item] = []
    drifts: list[Drift] = []
    forms: list[Drift] = []
    for kind, i, i_end, j, j_end in steps:
        if kind == "equal":
            kept = [b if _is_kept(b, leave.pin_billing) else a for a, b in zip(old[i:i_end], new[j:j_end], strict=True)]
            pairs = enumerate(zip(kept, new[j:j_end], strict=True), j)
            forms += (system_form(a, b, system_path(request, n)) for n, (a, b) in pairs if a.key != b.key)
            first += kept
            now += kept
        else:
            first += old[i:i_end]
            now += new[j:j_end]
            before, after = ("\n".join(map(text_of, items)) for items in (old[i:i_end], new[j:j_end]))
            changes = volatile.causes_of_changes(before, after)
            drifts += (_text_drift(cause, system_path(request, j), text, said) for cause, text, said in changes)
    return _Change(first, now, drifts, forms)


def _blocks_moved(request: Request, old: Sequence[Item], new: Sequence[Item]) -> Drift:
    """The same blocks in another order, which says nothing unless one of them follows another."""
    moved = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if not _same(a, b)]
    at_most = Repair.SOURCE if any(follows(text_of(new[i])) for i in moved) else None
    before, after = (text_of(row[moved[0]]).encode() for row in (old, new))
    return Drift("S5", system_path(request, moved[0]), Tier.SYSTEM, before, after, at_most=at_most)


def _piece_by_piece(
    request: Request, old: Sequence[Item], leave: Leave, firsts: Firsts, *, continues: bool
) -> _Change:
    """Two system prompts of as many blocks, held against each other block by block."""
    new = request.head.system
    found = {i: _block_drifts(request, old, new, i, firsts, continues=continues) for i in _differing(old, new, leave)}
    moved = {i for i, drifts in found.items() if drifts[0].cause == "S5" and drifts[0].repair is Repair.LOSSLESS}
    changed = {i for i in found if not _same(old[i], new[i])} - moved
    return _Change(
        [a if i in found else b for i, (a, b) in enumerate(zip(old, new, strict=True))],
        [a if i in found.keys() - changed else b for i, (a, b) in enumerate(zip(old, new, strict=True))],
        [drift for i, drifts in found.items() for drift in drifts if i in changed],
        [drift for i, drifts in found.items() for drift in drifts if i not in changed],
    )


def _differing(old: Sequence[Item], new: Sequence[Item], leave: Leave) -> list[int]:
    return [
        i
        for i, (a, b) in enumerate(zip(old, new, strict=True))
        if a.key != b.key and not (_same(a, b) and _is_kept(b, leave.pin_billing))
    ]


def _same(before: Item, after: Item) -> bool:
    return meaning(before) == meaning(after)


def _block_drifts(
    request: Request, old: Sequence[Item], new: Sequence[Item], i: int, firsts: Firsts, *, continues: bool
) -> list[Drift]:
    """What differs in one block; at least one."""
    path = system_path(request, i)
    if _same(old[i], new[i]):
        return [system_form(old[i], new[i], path)]
    before, after = text_of(old[i]), text_of(new[i])
    if order := _order(old[i], new[i]):
        at_most = Repair.SOURCE if order is Order.BOUND else None
        return [Drift("S5", path, Tier.SYSTEM, before.encode(), after.encode(), at_most=at_most)]
    found = []
    for cause, text, now in volatile.causes_of_changes(before, after):
        if cause is None and not continues and _is_in_front(old, new):
            cause = "S7"
        elif cause is None and continues and _varies(text, now, firsts):
            cause = "S3"
        found.append(_text_drift(cause, path, text, now))
    return found


def _text_drift(cause: str | None, path: str, before: str, after: str) -> Drift:
    """A text that says something else: at the source it must be mended if what changed is code or an example."""
    drift = Drift(cause or "C1", path, Tier.SYSTEM, before.encode(), after.encode())
    if cause in isolate.MOVABLE and isolate.is_shown(before, after):
        return replace(drift, at_most=Repair.SOURCE, why=_SHOWN)
    return drift


def _order(before: Item, after: Item) -> Order | None:
    """How the sections of a block stand now, if nothing else in it differs."""
    if permutation([p.meaning for p in before.parts], [p.meaning for p in after.parts]):
        return Order.BOUND if any(map(follows, texts_of(after))) else Order.FREE
    order = compare(text_of(before), text_of(after))
    return order if order is not Order.SAME and isolate.same_but_text(before, after) else None


def _is_in_front(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether another user's text stands in front of text that all share."""
    before, after = ("\n".join(map(text_of, items)) for items in (old, new))
    start, end, end_after = volatile.changed_span(before, after)
    return len(before) - end >= max(_LEAST_SHARED, end - start, end_after - start)


def _varies(before: str, after: str, firsts: Firsts) -> bool:
    """Whether the lines that changed have changed to something else before: then they are volatile."""
    around, lines = volatile.place_of_change(before, after)
    return bool(lines) and firsts.varied(canonical.digest(around.encode()), canonical.digest(lines.encode()))


def _is_kept(item: Item, pin_billing: bool) -> bool:
    """Whether an item is a billing block that the upstream wants as it is."""
    return (
        not pin_billing and b"billing-header" in item.wire.lower() and volatile.billing_token(text_of(item)) is not None
    )


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
