"""The history of a request: held against the one it continues, step by step, and sent as it was sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from standfast.errors import Ambiguous
from standfast.policy import Leave, Option, Policy
from standfast.prompt import canonical, isolate, naming
from standfast.prompt.causes import Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift, meaning
from standfast.prompt.fitting import TWO_CALLS, fitted, renamed, without
from standfast.prompt.items import Items
from standfast.prompt.mended import Carried, Mended, settle
from standfast.prompt.model import Item, Kind, Sent, Tier, Tip, Unit
from standfast.prompt.request import Request
from standfast.prompt.restore import Parting, drift_of, restore

_COMPARED = 250_000  # pairs of units behind a break that are compared at most


def history_to_send(
    request: Request,
    reference: Tip,
    leave: Leave,
    items: Items,
    result: Mended,
    carried: Carried | None,
    *,
    is_same: bool,
) -> None:
    """Fill ``result.sent``, unit by unit, and name what is not what it was.

    ``is_same``: both are of one session; if not, nothing behind the first difference belongs together.
    """
    old = deque((*reference.sent, *reference.produced))
    units = request.units
    at, chained, held = 0, True, 0
    if carried and carried.units <= len(reference.sent):
        at, result.sent, result.ids = carried.units, list(carried.sent[: carried.units]), dict(carried.ids)
        result.drifts.extend(carried.drifts)
        old = deque((*reference.sent[at:], *reference.produced))
    produced = len(reference.produced)
    while at < len(units) and old:
        unit, sent = units[at], old[0]
        if unit.link == sent.link if chained else _same(unit, sent, result.ids):
            result.sent.append(_replay(request, unit, old.popleft(), leave, items, result))
        elif len(old) > produced:
            same_model = request.head.model == reference.head.model
            rest = [*old][: len(old) - produced]
            parting = Parting(units[at:], rest, leave, same_model, held, request.sizes[-1])
            restored = restore(parting) if is_same else None
            if restored is None:
                break
            path = item_path(request, units[at + restored.at].first)
            result.drifts.append(drift_of(parting, restored, path))
            result.sent += restored.sent
            held += restored.held
            result.moved |= restored.moved
            for _ in range(restored.old):
                old.popleft()
            at += len(restored.sent) - 1
            chained = False
        else:
            chained = False
            old.popleft()
            answer = _without_thinking(request.dialect, sent, items)
            if answer is None:  # the client leaves out reasoning that was an item of its own
                continue
            if not _same(unit, answer, result.ids):
                break
            result.sent.append(_replay(request, unit, answer, leave, items, result))
        at += 1
    result.shared = at
    if is_same:
        result.left = tuple(old)[: max(0, len(old) - produced)]
    _append(request, at, leave, items, result)
    if leave.policy is Policy.ISOLATE:
        isolate.tell(request, items, result)


def _without_thinking(dialect: Dialect, sent: Sent, items: Items) -> Sent | None:
    """What the model answered without its reasoning, which clients may leave out; None if nothing else was in it."""
    value = dialect.without_thinking(canonical.decode(sent.items[0].wire))
    if value is None:
        return None
    return Sent((items.get(dialect, Tier.MESSAGES, canonical.key_form(value)),), sent.links)


def _same(unit: Unit, sent: Sent, ids: Mapping[str, str]) -> bool:
    """Equal meaning of one step, whatever came before it. Of several results their ids tell which answers which."""
    if not _alike(unit, sent):
        return False
    return len(unit.answers) < 2 or _results(unit.items, ids) == _results(sent.items, {})


def _results(items: Sequence[Item], ids: Mapping[str, str]) -> list[tuple[str, bytes]]:
    parts = [part for item in items for part in item.parts if part.kind is Kind.RESULT]
    return sorted((ids.get(part.call_id or "", part.call_id or ""), part.meaning) for part in parts)


def _alike(unit: Unit, sent: Sent) -> bool:
    return sorted(map(meaning, unit.items)) == sorted(map(meaning, sent.items))


def _replay(request: Request, unit: Unit, sent: Sent, leave: Leave, items: Items, result: Mended) -> Sent:
    """A unit of equal meaning: as it came if the cache sees no difference, else as it was sent.

    What ``isolate`` put there is not said again under another policy: it speaks of a system prompt that was frozen.
    """
    _learn_ids(unit, sent, result.ids)
    if _is_over(sent, leave) or [item.key for item in unit.items] == [item.key for item in sent.items]:
        return Sent(unit.items, unit.links)
    if _reshaped(unit, sent):  # mended once, and sent so again
        if not leave.policy.repairs:
            return Sent(unit.items, unit.links)
        if sent.items and not sent.ours:
            path = item_path(request, unit.first)
            found = naming.item_change(sent.items[0], unit.items[0], path)
            cause = "H11" if found.cause == "C1" else found.cause
            settle(result.drifts, [replace(found, cause=cause, at_most=None)], repaired=True)
        return Sent(sent.items, unit.links, sent.ours)
    dialect = request.dialect
    out = tuple(sent.items)
    if len(sent.items) == len(unit.items):
        out = tuple(fitted(dialect, old, new, items) for old, new in _matched(sent.items, unit))
    repaired = [item.key for item in out] == [item.key for item in sent.items]
    if not sent.ours:
        settle(result.drifts, _unit_drifts(request, unit, sent), repaired=repaired)
    return Sent(out, unit.links, sent.ours) if repaired else Sent(unit.items, unit.links)


def _reshaped(unit: Unit, sent: Sent) -> bool:
    """Whether what was sent for a unit is made of other pieces than the client has."""
    return [len(item.parts) for item in unit.items] != [len(item.parts) for item in sent.items]


def _is_over(sent: Sent, leave: Leave) -> bool:
    """Whether what a policy of ours put there is not to be said again."""
    if not sent.ours:
        return False
    return leave.cold or not (leave.policy is Policy.ISOLATE or Option.WINDOW in leave.options)


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


def _unit_drifts(request: Request, unit: Unit, sent: Sent) -> list[Drift]:
    """Why a unit of equal meaning is in other bytes: each cause once, where it shows first."""
    found: dict[str, Drift] = {}
    for i, (new, old) in enumerate(zip(unit.items, sent.items, strict=False)):
        if new.key == old.key:
            continue
        path = item_path(request, unit.first + i)
        if len(unit.items) > 1 and (meaning(new) != meaning(old) or naming.same_ids(sent.items, unit.items)):
            found.setdefault("H5", Drift("H5", path, Tier.MESSAGES, old.wire, new.wire))
            continue
        for drift in naming.item_forms(old, new, request.dialect, path):
            found.setdefault(drift.cause, drift)
    return list(found.values())


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


def _is_branch(rest: Sequence[Unit], left: Sequence[Sent]) -> bool:
    """Whether the model answered otherwise here and all that follows is another story: no rewritten past."""
    later = left[1:]
    if not later or rest[0].items[0].role in ("user", "tool", "system", "developer"):
        return False
    return not any(_alike(unit, sent) for sent in later for unit in rest[1:])


def goes_on(request: Request, reference: Tip) -> bool:
    """Whether any of a history was sent before, so that both are of one session."""
    known = {meaning(item) for sent in (*reference.sent, *reference.produced) for item in sent.items}
    return any(meaning(item) in known for unit in request.units for item in unit.items)


def is_window(request: Request, reference: Tip) -> bool:
    """Whether a history begins somewhere in the midst of another: its oldest turns were cut off."""
    return bool(request.units) and any(_alike(request.units[0], sent) for sent in reference.sent[1:])


def name_break(request: Request, reference: Tip, at: int, result: Mended) -> None:
    """Why the meanings part here, and again behind it. A newest turn that is another is a fork, and no fault."""
    left = result.left
    if request.anchored or not left or at + 1 >= len(request.units):
        return
    rest = request.units[at:]
    if _is_branch(rest, left):
        return
    steps = _steps(rest, left) if len(rest) * len(left) <= _COMPARED else []
    settle(result.drifts, [_first_break(request, rest, left, steps)], repaired=False)
    last = max((n for n, step in enumerate(steps) if step[0] == "equal"), default=0)
    for kind, i, i_end, j, j_end in steps[:last]:
        if kind != "equal" and (i or j):
            settle(result.drifts, _later_breaks(request, rest[i:i_end], left[j:j_end], rest[i_end]), repaired=False)


def _later_breaks(request: Request, new: Sequence[Unit], old: Sequence[Sent], behind: Unit) -> list[Drift]:
    """What differs between two places where the histories agree again: pair by pair, then what is missing."""
    found = [_pair_change(request, unit, sent) for unit, sent in zip(new, old, strict=False)]
    if len(old) > len(new):
        found.append(_dropped(request, behind, old[len(new) :]))
    return found


def _pair_change(request: Request, unit: Unit, sent: Sent) -> Drift:
    old, new = next(
        ((a, b) for a, b in zip(sent.items, unit.items, strict=False) if meaning(a) != meaning(b)),
        (sent.items[0], unit.items[0]),
    )
    return naming.item_change(old, new, item_path(request, unit.first + unit.items.index(new)))


def _dropped(request: Request, behind: Unit, old: Sequence[Sent]) -> Drift:
    """Turns that are gone: thinking (H6), or anything else (H7). Shown where the history goes on."""
    cause = "H6" if all(s.items[0].role == "reasoning" for s in old) else "H7"
    path = item_path(request, behind.first)
    return Drift(cause, path, Tier.MESSAGES, old[0].items[0].wire, behind.items[0].wire, at_most=Repair.REPORT)


def _first_break(
    request: Request, rest: Sequence[Unit], left: Sequence[Sent], steps: Sequence[tuple[str, int, int, int, int]]
) -> Drift:
    unit, sent = rest[0], left[0]
    later = next((i for i, s in enumerate(left[1:], 1) if _alike(unit, s)), None)
    if later is None:
        found = _pair_change(request, unit, sent)
        is_shorter = len(steps) > 1 and steps[0][4] > steps[0][2]  # fewer turns stand for many, and then it goes on
        return replace(found, cause="H7", at_most=None) if is_shorter else found
    if any(_alike(u, sent) for u in rest[1:]):  # swapped
        path = item_path(request, unit.first)
        return Drift("C1", path, Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire)
    return _dropped(request, unit, left[:later])


def _append(request: Request, at: int, leave: Leave, items: Items, result: Mended) -> None:
    """The units behind what two histories share: those that are old all the same as they were sent, new ones as they
    came, with the ids of old calls put right."""
    again = _again(request.units[at:], result.left, result.ids)
    for n, unit in enumerate(request.units[at:]):
        sent = again.get(n)
        if sent is not None:
            result.sent.append(_replay(request, unit, sent, leave, items, result))
            continue
        out = unit.items
        if result.moved:
            out = tuple(without(request.dialect, item, result.moved, items) for item in out)
        if result.ids:
            _forget_reused(unit, result.ids)
            out = tuple(renamed(request.dialect, item, result.ids, items) for item in out)
        result.sent.append(Sent(out, unit.links))


def _again(units: Sequence[Unit], left: Sequence[Sent], ids: Mapping[str, str]) -> dict[int, Sent]:
    """Which units behind a break say what was sent before: index → that."""
    if not left or len(units) < 2 or len(units) * len(left) > _COMPARED:
        return {}
    found: dict[int, Sent] = {}
    for kind, i, i_end, j, _ in _steps(units, left):
        if kind == "equal":
            found.update((i + n, left[j + n]) for n in range(i_end - i) if _same(units[i + n], left[j + n], ids))
    return found


def _steps(units: Sequence[Unit], left: Sequence[Sent]) -> Sequence[tuple[str, int, int, int, int]]:
    """How the rest of the request's history is made from the rest of what was sent."""
    rows = [[b"".join(sorted(map(meaning, row.items))) for row in rows] for rows in (units, left)]
    return SequenceMatcher(None, rows[0], rows[1], autojunk=False).get_opcodes()


def _forget_reused(unit: Unit, ids: dict[str, str]) -> None:
    """From a new call on, its id names that call. One that we gave to an older call would name two."""
    for item in unit.items:
        for part in item.parts:
            if part.kind is Kind.CALL and part.call_id:
                ids.pop(part.call_id, None)
                if part.call_id in ids.values():
                    raise Ambiguous(f"the id of a new {item.role} call was sent for an earlier call")
