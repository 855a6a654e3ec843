"""The system prompt of a request: naming what differs in it (S), and the form in which it goes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from standfast.policy import Leave, Policy
from standfast.prompt import canonical, isolate, volatile
from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift, keys, meaning, text_of, texts_of
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Item, Tier, Tip
from standfast.prompt.request import Request
from standfast.prompt.sections import Order, compare, follows, permutation

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
        settle(result.drifts, _came_and_went(request, old, new, steps), repaired=False)
        return new
    return _piece_by_piece(request, old, leave, result, firsts, continues=continues)


def _came_and_went(
    request: Request, old: Sequence[Item], new: Sequence[Item], steps: Sequence[tuple[str, int, int, int, int]]
) -> list[Drift]:
    """Blocks that were added or taken out, or changed beside that: one drift for each place."""
    drifts = []
    for kind, i, i_end, j, j_end in steps:
        if kind != "equal":
            before, after = ("\n".join(map(text_of, items)) for items in (old[i:i_end], new[j:j_end]))
            drifts.append(system_change(before, after, system_path(request, j)))
    return drifts


def _blocks_moved(request: Request, old: Sequence[Item], new: Sequence[Item]) -> Drift:
    """The same blocks in another order, which says nothing unless one of them follows another."""
    moved = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if not _same(a, b)]
    at_most = Repair.SOURCE if any(follows(text_of(new[i])) for i in moved) else None
    before, after = (text_of(row[moved[0]]).encode() for row in (old, new))
    return Drift("S5", system_path(request, moved[0]), Tier.SYSTEM, before, after, at_most=at_most)


def _piece_by_piece(
    request: Request, old: Sequence[Item], leave: Leave, result: Mended, firsts: Firsts, *, continues: bool
) -> tuple[Item, ...]:
    """Two system prompts of as many blocks, held against each other block by block."""
    new = request.head.system
    found = {i: _block_drifts(request, old, new, i, firsts, continues=continues) for i in _differing(old, new, leave)}
    moved = {i for i, drifts in found.items() if drifts[0].cause == "S5" and drifts[0].repair is Repair.LOSSLESS}
    changed = {i for i in found if not _same(old[i], new[i])} - moved
    frozen = (
        leave.policy is Policy.ISOLATE
        and bool(changed)
        and all(_is_movable(d, text_of(old[i]), text_of(new[i]), continues) for i in changed for d in found[i])
        and isolate.can_be_told([old[i] for i in changed], [new[i] for i in changed])
    )
    for i, drifts in found.items():
        settle(result.drifts, drifts, repaired=frozen if i in changed else True)
    if frozen:
        result.news = isolate.news([old[i] for i in changed], [new[i] for i in changed])
    replayed = found.keys() - changed | (changed if frozen else set())
    return tuple(a if i in replayed else b for i, (a, b) in enumerate(zip(old, new, strict=True)))


def _is_movable(drift: Drift, before: str, after: str, continues: bool) -> bool:
    """Whether ``isolate`` may freeze a block. Of another session only what is volatile by its looks is kept."""
    by_looks = drift.cause in isolate.MOVABLE and drift.at_most is None
    return by_looks and (continues or volatile.looks_volatile(before, after))


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
        shown = cause in isolate.MOVABLE and isolate.is_shown(text, now)
        at_most = Repair.SOURCE if shown else None
        found.append(Drift(cause or "C1", path, Tier.SYSTEM, text.encode(), now.encode(), at_most=at_most))
    return found


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


def system_change(before: str, after: str, path: str) -> Drift:
    """Another system text."""
    cause = volatile.cause_of_change(before, after) or "C1"
    return Drift(cause, path, Tier.SYSTEM, before.encode(), after.encode())
