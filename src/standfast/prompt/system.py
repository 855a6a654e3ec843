"""The system prompt of a request: naming what differs in it (S), and the form in which it goes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from standfast.policy import Leave, Policy
from standfast.prompt import canonical, isolate, volatile
from standfast.prompt.align import Pair, align
from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift, keys, meaning, text_of, texts_of
from standfast.prompt.mended import Firsts, Mended, settle
from standfast.prompt.model import Item, Tier, Tip
from standfast.prompt.request import Request
from standfast.prompt.sections import Order, compare, follows, permutation

_SHOWN = "it stands in code or in an example"
_UNTOLD = "an update cannot tell it: more than text changed, too much of it, or a line that is gone stands elsewhere"
_EDGE = 200  # characters at either end of a block by which another version of it is known
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
    change = _compared(request, old, leave, firsts, continues=continues)
    return _decided(request, change, leave, result, continues=continues)


@dataclass(slots=True)
class _Change:
    """Two system prompts held against each other."""

    first: list[Item] = field(default_factory=list)
    """All of it as it was sent."""
    now: list[Item] = field(default_factory=list)
    """The same with what it says now."""
    places: list[isolate.Place] = field(default_factory=list)
    """Where it says something else now."""
    drifts: list[Drift] = field(default_factory=list)
    """What these are called."""
    forms: list[Drift] = field(default_factory=list)
    """What goes out as it was in either."""


def _decided(request: Request, change: _Change, leave: Leave, result: Mended, *, continues: bool) -> tuple[Item, ...]:
    """What goes out of two versions: all as it was sent, with news of what changed, or none."""
    why = _obstacle(request, change, leave, continues=continues) if change.drifts else None
    settle(result.drifts, change.forms, repaired=True)
    told = [replace(d, why=d.why or why or "") if d.cause in isolate.MOVABLE else d for d in change.drifts]
    settle(result.drifts, told, repaired=why is None)
    if why is None:
        result.news = isolate.news(change.places)
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
        (isolate.can_be_told(change.places, change.now), _UNTOLD),
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


def _blocks_moved(request: Request, old: Sequence[Item], new: Sequence[Item]) -> Drift:
    """The same blocks in another order, which says nothing unless one of them follows another."""
    moved = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if not _same(a, b)]
    at_most = Repair.SOURCE if any(follows(text_of(new[i])) for i in moved) else None
    before, after = (text_of(row[moved[0]]).encode() for row in (old, new))
    return Drift("S5", system_path(request, moved[0]), Tier.SYSTEM, before, after, at_most=at_most)


def _compared(request: Request, old: Sequence[Item], leave: Leave, firsts: Firsts, *, continues: bool) -> _Change:
    """Two system prompts held against each other block by block; some may have come, and some gone."""
    new, change, place = request.head.system, _Change(), 0
    for i, j in _pairs(old, new):
        before, after = [] if i is None else [old[i]], [] if j is None else [new[j]]
        path = system_path(request, place if j is None else j)
        place = place if j is None else j + 1
        if not (before and after and _same(before[0], after[0])):
            drifts = _block_drifts(old, new, (before, after), path, firsts, continues=continues)
            if drifts[0].cause == "S5" and drifts[0].repair is Repair.LOSSLESS:
                change.forms += drifts
                after = before
            else:
                change.drifts += drifts
                change.places.append((before, after))
        elif before[0].key == after[0].key or _is_kept(after[0], leave.pin_billing):
            before = after
        else:
            change.forms.append(system_form(before[0], after[0], path))
            after = before
        change.first += before
        change.now += after
    return change


def _pairs(old: Sequence[Item], new: Sequence[Item]) -> list[Pair]:
    """Which block stands for which: those that say the same, and between them those that begin or end alike."""
    texts = [list(map(text_of, items)) for items in (old, new)]
    heads = [[text[:_EDGE] for text in row] for row in texts]
    tails = [[text[: -_EDGE - 1 : -1] for text in row] for row in texts]

    def likeness(i: int, j: int) -> int:
        return 1 + sum(volatile.common_prefix(left[i], right[j]) for left, right in (heads, tails))

    left, right = (list(map(meaning, items)) for items in (old, new))
    return align(left, right, likeness)


def _same(before: Item, after: Item) -> bool:
    return meaning(before) == meaning(after)


def _block_drifts(
    old: Sequence[Item], new: Sequence[Item], place: isolate.Place, path: str, firsts: Firsts, *, continues: bool
) -> list[Drift]:
    """What differs in one block of two system prompts, or that it came or went; at least one."""
    before, after = ("".join(map(text_of, items)) for items in place)
    if all(place) and (order := _order(place[0][0], place[1][0])):
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
