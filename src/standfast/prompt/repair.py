"""Putting back what was sent: the pure change of a request that removes its drift.

``mend`` holds a request against the request that it continues (its *reference*) and decides, piece by piece, what
goes out: the client's bytes where they are the same to the cache, the bytes that were sent before where only the form
differs, and the client's bytes with a named drift where the meaning differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from standfast.errors import Ambiguous
from standfast.policy import Policy
from standfast.prompt import canonical, drift, isolate, volatile
from standfast.prompt.dialects.base import MARKERS, Dialect
from standfast.prompt.drift import Drift, meaning
from standfast.prompt.items import Items
from standfast.prompt.model import Head, Item, Kind, Sent, Tier, Tip, Unit
from standfast.prompt.request import Request


_TWO_CALLS = ""
"""In place of an id that was sent for a later call too, so that a result could not say which it answers."""


class Firsts(Protocol):
    """The forms and the order in which things were first sent, whatever the session."""

    def item(self, item: Item) -> Item:
        """The item to send for one that stands in no reference: the first form ever sent of its meaning."""
        ...

    def order(self, tools: tuple[Item, ...]) -> tuple[Item, ...]:
        """The same tools in the order in which this set was first sent."""
        ...


@dataclass(slots=True)
class Mended:
    """What goes out, and why it differs from what came in."""

    tools: tuple[Item, ...]
    system: tuple[Item, ...]
    sent: list[Sent]
    routes: dict[str, bytes]
    drifts: list[Drift] = field(default_factory=list)
    shared: int = 0
    """Units at the front that the reference has too."""
    news: str = ""
    """What volatile system text says now, where the system prompt goes out as it first did."""
    ids: dict[str, str] = field(default_factory=dict)
    """Call ids of this client → ids that were sent first."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier plan already decided about the units that a request took over from it."""

    units: int
    sent: Sequence[Sent]
    ids: Mapping[str, str]
    drifts: tuple[Drift, ...]


def untouched(request: Request) -> Mended:
    """The request as it came."""
    sent = [Sent(unit.items, unit.links) for unit in request.units]
    return Mended(request.head.tools, request.head.system, sent, dict(request.head.routes))


def mend(
    request: Request,
    reference: Tip | None,
    policy: Policy,
    items: Items,
    firsts: Firsts,
    carried: Carried | None = None,
    *,
    continues: bool = True,
    pin_billing: bool = True,
) -> Mended:
    """Compare, name, and repair as far as the policy allows. Raises Ambiguous where ids have two readings.

    ``continues`` is false for a reference that merely has the same tools and system: then the histories are two.
    ``pin_billing`` is false for an upstream that reads the per-request billing block itself: it goes out as it came.
    """
    head = reference.head if reference else None
    result = Mended((), (), [], dict(request.head.routes))
    tools = _tools(request.head, head, result.drifts, firsts)
    system = _system(request, reference, policy, result, firsts, pin_billing)
    result.tools = _marked_as(request.dialect, tools, request.head.tools, items)
    result.system = _marked_as(request.dialect, system, request.head.system, items)
    if head is not None and reference is not None:
        _params(request, head, result.drifts)
        _history(request, reference, policy, items, result, carried)
        if continues or _is_window(request, reference):
            _name_break(request, reference, result.shared, result)
        _routes(request.head, head, result)
        _side_request(request, reference, result)
    else:
        result.sent = untouched(request).sent
    if policy is Policy.OBSERVE:
        return replace(
            untouched(request), drifts=[replace(d, repaired=False) for d in result.drifts], shared=result.shared
        )
    return result


def _settle(drifts: list[Drift], found: Sequence[Drift], *, repaired: bool) -> None:
    drifts.extend(replace(d, repaired=repaired) for d in found)


# Head


def _tools(head: Head, old: Head | None, drifts: list[Drift], firsts: Firsts) -> tuple[Item, ...]:
    if old is None or not old.tools:
        sent = tuple(firsts.item(tool) for tool in firsts.order(head.tools))
        if [tool.key for tool in sent] == [tool.key for tool in head.tools]:
            return head.tools
        _settle(drifts, drift.tools_form(sent, head.tools), repaired=True)
        return sent
    if [tool.key for tool in head.tools] == [tool.key for tool in old.tools]:
        return head.tools
    if sorted(map(meaning, head.tools)) == sorted(map(meaning, old.tools)):
        _settle(drifts, drift.tools_form(old.tools, head.tools), repaired=True)
        return old.tools
    ordered = head.tools if _same_order(head.tools, old.tools) else _in_known_order(head.tools, old.tools, firsts)
    _settle(drifts, [drift.tools_change(old.tools, ordered)], repaired=False)
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


def _system(
    request: Request, reference: Tip | None, policy: Policy, result: Mended, firsts: Firsts, pin_billing: bool
) -> tuple[Item, ...]:
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
        _settle(result.drifts, [_system_drift(request, old, new, place)], repaired=False)
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
        _settle(result.drifts, [found], repaired=frozen if i in changed else True)
    if frozen:
        result.news = isolate.news(old, new)
    return tuple(
        a if i in formed or (frozen and i in changed) else b for i, (a, b) in enumerate(zip(old, new, strict=True))
    )


def _is_kept(item: Item, pin_billing: bool) -> bool:
    """Whether an item is a billing block that the upstream wants as it is."""
    return (
        not pin_billing and volatile.TOKEN_HINT in item.wire and volatile.billing_token(drift.text_of(item)) is not None
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


def _params(request: Request, old: Head, drifts: list[Drift]) -> None:
    new = request.head
    if new.model != old.model:
        drifts.append(Drift("P2", "model", Tier.MODEL, old.model.encode(), new.model.encode()))
    for param in request.dialect.params:
        before, after = old.params.get(param.path, b""), new.params.get(param.path, b"")
        if before != after:
            drifts.append(Drift("P1", param.path, param.tier, before, after))


def _side_request(request: Request, reference: Tip, result: Mended) -> None:
    """X1: nothing is shared, yet the request tells the other's conversation again in a text of its own."""
    if result.shared or not any(d.tier in (Tier.TOOLS, Tier.SYSTEM) and not d.repaired for d in result.drifts):
        return
    history = [item for sent in reference.sent for item in sent.items]
    if drift.quotes(history, request.items):
        first = result.drifts[0]
        result.drifts[:] = [Drift("X1", first.path, first.tier, first.before, first.after)]


def _routes(new: Head, old: Head, result: Mended) -> None:
    if not result.shared:
        return
    for name, value in old.routes.items():
        if name in new.routes and new.routes[name] != value:
            _settle(result.drifts, [Drift("I1", name, Tier.ROUTE, value, new.routes[name])], repaired=True)
            result.routes[name] = value


# History


def _history(
    request: Request, reference: Tip, policy: Policy, items: Items, result: Mended, carried: Carried | None
) -> None:
    old = (*reference.sent, *reference.produced)
    units = request.units
    at, substituted = 0, False
    if carried and carried.units <= len(old):
        at, result.sent, result.ids = carried.units, list(carried.sent[: carried.units]), dict(carried.ids)
        result.drifts.extend(carried.drifts)
    while at < len(units) and at < len(old):
        unit, sent = units[at], old[at]
        same = _same(unit, sent) if substituted else unit.link == sent.link
        if not same:
            if not _replay_decoration(request, unit, sent, at, policy, result):
                break
            substituted = True
        else:
            result.sent.append(_replay(request, unit, sent, items, result))
        at += 1
    result.shared = at
    _append(request, at, items, result)
    if policy is Policy.ISOLATE:
        isolate.tell(request, items, result)


def _same(unit: Unit, sent: Sent) -> bool:
    """Equal meaning of one step, whatever came before it. Of several results it cannot tell which answers which."""
    return len(unit.answers) < 2 and sorted(map(meaning, unit.items)) == sorted(map(meaning, sent.items))


def _replay(request: Request, unit: Unit, sent: Sent, items: Items, result: Mended) -> Sent:
    """A unit of equal meaning: as it came if the cache sees no difference, else as it was sent."""
    if [item.key for item in unit.items] == [item.key for item in sent.items]:
        return Sent(unit.items, unit.links)
    dialect = request.dialect
    out = tuple(sent.items)
    if len(sent.items) == len(unit.items):
        out = tuple(_fitted(dialect, old, new, items) for old, new in _matched(sent.items, unit))
    repaired = [item.key for item in out] == [item.key for item in sent.items]
    if not sent.ours:
        _settle(result.drifts, [_unit_drift(request, unit, sent)], repaired=repaired)
    _learn_ids(unit, sent, result.ids)
    return Sent(out if repaired else unit.items, unit.links, sent.ours)


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
    name = request.dialect.name
    for i, (new, old) in enumerate(zip(unit.items, sent.items, strict=False)):
        if new.key == old.key:
            continue
        path = item_path(request, unit.first + i)
        if len(unit.items) > 1 and meaning(new) != meaning(old) and new.parts[0].plain is None:
            return Drift("H5", path, Tier.MESSAGES, old.wire, new.wire)
        return drift.item_form(old, new, name, path)
    return Drift("H5", item_path(request, unit.first), Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire)


def item_path(request: Request, index: int) -> str:
    """Path of an item of the history, by its index among those that are no leading system messages."""
    where = request.fields[request.dialect.history]
    is_list = request.body[where[0] : where[0] + 1] == b"["
    return f"{request.dialect.history}[{request.first + index}]" if is_list else request.dialect.history


def _learn_ids(unit: Unit, sent: Sent, ids: dict[str, str]) -> None:
    new = [p.call_id for i in unit.items for p in i.parts if p.kind is Kind.CALL]
    old = [p.call_id for i in sent.items for p in i.parts if p.kind is Kind.CALL]
    for name, known in zip(new, old, strict=False):
        if name and known and name != known:
            ids.update((other, _TWO_CALLS) for other, to in ids.items() if to == known and other != name)
            ids[name] = known
        elif name:
            ids.pop(name, None)


def _replay_decoration(request: Request, unit: Unit, sent: Sent, at: int, policy: Policy, result: Mended) -> bool:
    """H1 under ``isolate``: an old user turn lost what decorated it while it was the newest; it goes out as it went."""
    if policy is not Policy.ISOLATE or at + 1 >= len(request.units) or len(unit.items) != 1 or len(sent.items) != 1:
        return False
    found = drift.item_change(sent.items[0], unit.items[0], item_path(request, unit.first))
    if found.cause != "H1" or sent.items[0].marked or unit.items[0].marked:
        return False
    _settle(result.drifts, [found], repaired=True)
    result.sent.append(Sent(sent.items, unit.links, ours=True))
    return True


def _is_branch(request: Request, reference: Tip, at: int) -> bool:
    """Whether the model answered otherwise here and all that follows is another story: a branch, not a rewritten past."""
    later = reference.sent[at + 1 :]
    if not later or request.units[at].items[0].role in ("user", "tool", "system", "developer"):
        return False
    return not any(_same(unit, sent) for sent in later for unit in request.units[at + 1 :])


def _is_window(request: Request, reference: Tip) -> bool:
    """Whether a history begins somewhere in the midst of another: its oldest turns were cut off."""
    return bool(request.units) and any(_same(request.units[0], sent) for sent in reference.sent[1:])


def _name_break(request: Request, reference: Tip, at: int, result: Mended) -> None:
    """Why the meanings part here. A newest turn that is another is a fork, and no fault."""
    if request.anchored or at >= len(reference.sent) or at + 1 >= len(request.units):
        return
    unit, sent = request.units[at], reference.sent[at]
    if _is_branch(request, reference, at):
        return
    path = item_path(request, unit.first)
    if any(_same(unit, later) for later in reference.sent[at + 1 :]):
        found = Drift("H7", path, Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire)
    else:
        old, new = next(
            ((a, b) for a, b in zip(sent.items, unit.items, strict=False) if meaning(a) != meaning(b)),
            (sent.items[0], unit.items[0]),
        )
        found = drift.item_change(old, new, item_path(request, unit.first + unit.items.index(new)))
    _settle(result.drifts, [found], repaired=False)


def _append(request: Request, at: int, items: Items, result: Mended) -> None:
    """The new units, with the ids of old calls put right."""
    for unit in request.units[at:]:
        out = unit.items
        if result.ids:
            _forget_reused(unit, result.ids)
            out = tuple(_renamed(request.dialect, item, result.ids, items) for item in out)
        result.sent.append(Sent(out, unit.links))


def _forget_reused(unit: Unit, ids: dict[str, str]) -> None:
    """From a new call on, its id names that call. One that we gave to an older call would name two."""
    for item in unit.items:
        for part in item.parts:
            if part.kind is Kind.CALL and part.call_id:
                ids.pop(part.call_id, None)
                if part.call_id in ids.values():
                    raise Ambiguous(f"the id of a new {item.role} call was sent for an earlier call")


def _renamed(dialect: Dialect, item: Item, ids: Mapping[str, str], items: Items) -> Item:
    named = [ids[part.call_id] for part in item.parts if part.call_id in ids]
    if not named:
        return item
    if _TWO_CALLS in named:
        raise Ambiguous("a result answers a call whose id was sent for another call too")
    value = dialect.rename(canonical.decode(item.wire), ids)
    return items.get(dialect, item.tier, canonical.key_form(value))


def _marked_as(dialect: Dialect, sent: tuple[Item, ...], came: tuple[Item, ...], items: Items) -> tuple[Item, ...]:
    """Tools or system items, fitted to the places that the client has for them."""
    if sent is came:
        return sent
    return tuple(_fitted(dialect, a, b, items) for a, b in zip(sent, came, strict=True))


def _fitted(dialect: Dialect, old: Item, new: Item, items: Items) -> Item:
    """The item as it was sent, in the place of the new one, with the cache markers that the client sets now.

    The new one itself where that has no place for them.
    """
    alike = old.wire[:1] == new.wire[:1]
    if old.wire == new.wire or (alike and not (old.marked or new.marked)):
        return old
    value = canonical.decode(old.wire)
    if not alike:  # one stood alone in its field, as a string, the other in a list
        if not isinstance(value, str):
            return new
        value = dialect.as_element(old.tier, value)
    wanted = {
        position: {k: v for k, v in block.items() if k in MARKERS}
        for position, block in dialect.blocks(canonical.decode(new.wire))
    }
    for position, block in dialect.blocks(value):
        for name in MARKERS & block.keys():
            del block[name]
        block.update(wanted.pop(position, {}))
    if any(wanted.values()):
        return new  # the old shape has no place for a marker that the client sets
    return items.get(dialect, old.tier, canonical.key_form(value))
