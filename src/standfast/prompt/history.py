"""The history of a request: held against the one it continues, step by step, and sent as it was sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from standfast.errors import Ambiguous
from standfast.policy import Leave, Policy
from standfast.prompt import canonical, isolate, naming
from standfast.prompt.causes import Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift, meaning
from standfast.prompt.fitting import TWO_CALLS, fitted, renamed
from standfast.prompt.items import Items
from standfast.prompt.mended import Carried, Mended, settle
from standfast.prompt.model import Item, Kind, Sent, Tier, Tip, Unit
from standfast.prompt.request import Request


def history_to_send(
    request: Request, reference: Tip, leave: Leave, items: Items, result: Mended, carried: Carried | None
) -> None:
    old = deque((*reference.sent, *reference.produced))
    units = request.units
    at, chained = 0, True
    if carried and carried.units <= len(reference.sent):
        at, result.sent, result.ids = carried.units, list(carried.sent[: carried.units]), dict(carried.ids)
        result.drifts.extend(carried.drifts)
        old = deque((*reference.sent[at:], *reference.produced))
    while at < len(units) and old:
        unit, sent = units[at], old.popleft()
        if unit.link == sent.link if chained else _same(unit, sent):
            result.sent.append(_replay(request, unit, sent, leave, items, result))
        elif at < len(reference.sent):
            if not _replay_decoration(request, unit, sent, at, leave, result):
                break
            chained = False
        else:
            chained = False
            answer = _without_thinking(request.dialect, sent, items)
            if answer is None:  # the client leaves out reasoning that was an item of its own
                continue
            if not _same(unit, answer):
                break
            result.sent.append(_replay(request, unit, answer, leave, items, result))
        at += 1
    result.shared = at
    _append(request, at, items, result)
    if leave.policy is Policy.ISOLATE:
        isolate.tell(request, items, result)


def _without_thinking(dialect: Dialect, sent: Sent, items: Items) -> Sent | None:
    """What the model answered without its reasoning, which clients may leave out; None if nothing else was in it."""
    value = dialect.without_thinking(canonical.decode(sent.items[0].wire))
    if value is None:
        return None
    return Sent((items.get(dialect, Tier.MESSAGES, canonical.key_form(value)),), sent.links)


def _same(unit: Unit, sent: Sent) -> bool:
    """Equal meaning of one step, whatever came before it. Of several results it cannot tell which answers which."""
    return len(unit.answers) < 2 and _alike(unit, sent)


def _alike(unit: Unit, sent: Sent) -> bool:
    return sorted(map(meaning, unit.items)) == sorted(map(meaning, sent.items))


def _replay(request: Request, unit: Unit, sent: Sent, leave: Leave, items: Items, result: Mended) -> Sent:
    """A unit of equal meaning: as it came if the cache sees no difference, else as it was sent.

    What ``isolate`` put there is not said again under another policy: it speaks of a system prompt that was frozen.
    """
    _learn_ids(unit, sent, result.ids)
    is_over = sent.ours and leave.policy is not Policy.ISOLATE
    if is_over or [item.key for item in unit.items] == [item.key for item in sent.items]:
        return Sent(unit.items, unit.links)
    dialect = request.dialect
    out = tuple(sent.items)
    if len(sent.items) == len(unit.items):
        out = tuple(fitted(dialect, old, new, items) for old, new in _matched(sent.items, unit))
    repaired = [item.key for item in out] == [item.key for item in sent.items]
    if not sent.ours:
        settle(result.drifts, [_unit_drift(request, unit, sent)], repaired=repaired)
    return Sent(out, unit.links, sent.ours) if repaired else Sent(unit.items, unit.links)


def _matched(old: Sequence[Item], unit: Unit) -> list[tuple[Item, Item]]:
    """Items as sent, each with the item of the request that means the same."""
    if len(old) == 1:
        return [(old[0], unit.items[0])]
    rest = list(unit.items)
    pairs = []
    for item in old:
        twin = next((r for r in rest if meaning(r) == meaning(item)), rest[0])
        rest.remove(twin)
        pairs.append((item, twin))
    return pairs


def _unit_drift(request: Request, unit: Unit, sent: Sent) -> Drift:
    pairs = enumerate(zip(unit.items, sent.items, strict=False))
    i, (new, old) = next((i, pair) for i, pair in pairs if pair[0].key != pair[1].key)
    path = item_path(request, unit.first + i)
    if len(unit.items) > 1 and (meaning(new) != meaning(old) or naming.same_ids(sent.items, unit.items)):
        return Drift("H5", path, Tier.MESSAGES, old.wire, new.wire)
    return naming.item_form(old, new, request.dialect, path)


def item_path(request: Request, index: int) -> str:
    """Path of an item of the history, by its index among those that are no leading system messages."""
    where = request.fields[request.dialect.history]
    is_list = request.body[where[0] : where[0] + 1] == b"["
    return f"{request.dialect.history}[{request.first + index}]" if is_list else request.dialect.history


def _learn_ids(unit: Unit, sent: Sent, ids: dict[str, str]) -> None:
    """Which ids of this client stand for which that were sent; a new call may take an old one's id over."""
    new = [p.call_id for i in unit.items for p in i.parts if p.kind is Kind.CALL]
    old = [p.call_id for i in sent.items for p in i.parts if p.kind is Kind.CALL]
    for name, known in zip(new, old, strict=False):
        if name and known and name != known:
            ids.update((other, TWO_CALLS) for other, to in ids.items() if to == known and other != name)
            ids[name] = known
        elif name:
            ids.pop(name, None)


def _replay_decoration(request: Request, unit: Unit, sent: Sent, at: int, leave: Leave, result: Mended) -> bool:
    """H1 under ``isolate``: an old user turn lost what decorated it while it was the newest; it goes out as it went."""
    if (
        leave.policy is not Policy.ISOLATE
        or at + 1 >= len(request.units)
        or len(unit.items) != 1
        or len(sent.items) != 1
    ):
        return False
    found = naming.item_change(sent.items[0], unit.items[0], item_path(request, unit.first))
    if found.cause != "H1" or sent.items[0].marked or unit.items[0].marked:
        return False
    settle(result.drifts, [found], repaired=True)
    result.sent.append(Sent(sent.items, unit.links, ours=True))
    return True


def _is_branch(request: Request, reference: Tip, at: int) -> bool:
    """Whether the model answered otherwise here and all that follows is another story: no rewritten past."""
    later = reference.sent[at + 1 :]
    if not later or request.units[at].items[0].role in ("user", "tool", "system", "developer"):
        return False
    return not any(_alike(unit, sent) for sent in later for unit in request.units[at + 1 :])


def is_window(request: Request, reference: Tip) -> bool:
    """Whether a history begins somewhere in the midst of another: its oldest turns were cut off."""
    return bool(request.units) and any(_alike(request.units[0], sent) for sent in reference.sent[1:])


def name_break(request: Request, reference: Tip, at: int, result: Mended) -> None:
    """Why the meanings part here. A newest turn that is another is a fork, and no fault."""
    if request.anchored or at >= len(reference.sent) or at + 1 >= len(request.units):
        return
    unit, sent = request.units[at], reference.sent[at]
    if _is_branch(request, reference, at):
        return
    path = item_path(request, unit.first)
    later = next((i for i, s in enumerate(reference.sent[at + 1 :], at + 1) if _alike(unit, s)), None)
    swapped = later is not None and any(_alike(u, sent) for u in request.units[at + 1 :])
    if later is not None and not swapped:
        dropped = reference.sent[at:later]
        cause = "H6" if all(s.items[0].role == "reasoning" for s in dropped) else "H7"
        found = Drift(cause, path, Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire, at_most=Repair.REPORT)
    elif swapped:
        found = Drift("C1", path, Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire)
    else:
        old, new = next(
            ((a, b) for a, b in zip(sent.items, unit.items, strict=False) if meaning(a) != meaning(b)),
            (sent.items[0], unit.items[0]),
        )
        found = naming.item_change(old, new, item_path(request, unit.first + unit.items.index(new)))
    settle(result.drifts, [found], repaired=False)


def _append(request: Request, at: int, items: Items, result: Mended) -> None:
    """The new units, with the ids of old calls put right."""
    for unit in request.units[at:]:
        out = unit.items
        if result.ids:
            _forget_reused(unit, result.ids)
            out = tuple(renamed(request.dialect, item, result.ids, items) for item in out)
        result.sent.append(Sent(out, unit.links))


def _forget_reused(unit: Unit, ids: dict[str, str]) -> None:
    """From a new call on, its id names that call. One that we gave to an older call would name two."""
    for item in unit.items:
        for part in item.parts:
            if part.kind is Kind.CALL and part.call_id:
                ids.pop(part.call_id, None)
                if part.call_id in ids.values():
                    raise Ambiguous(f"the id of a new {item.role} call was sent for an earlier call")
