"""Sending a step of the history as it was sent: the client's bytes, the first bytes of the same, ids put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from standfast.errors import Ambiguous
from standfast.policy import Leave, Option, Policy
from standfast.prompt import isolate, naming, offered, window
from standfast.prompt.align import names
from standfast.prompt.causes import CAUSES, Repair
from standfast.prompt.drift import Drift, keys, meaning
from standfast.prompt.fingerprint import Calls
from standfast.prompt.fitting import TWO_CALLS, fitted, in_place, renamed
from standfast.prompt.items import Items
from standfast.prompt.mended import Mended
from standfast.prompt.model import Item, Kind, Sent, Tier, Unit
from standfast.prompt.request import Request


@dataclass(slots=True)
class Replay:
    """The way through one request, unit by unit."""

    request: Request
    leave: Leave
    items: Items
    result: Mended
    holds: bool
    """Whether pruned turns may be held back (see ``window``)."""
    held: int = 0
    """Bytes that are."""
    whole: bool = field(default=True)
    """Whether all up to here goes out as it was sent."""

    def path(self, unit: Unit, n: int = 0) -> str:
        """Path of an item of a unit."""
        return item_path(self.request, unit.first + n)

    def send(self, sent: Sent) -> None:
        """One more unit; those that are the same from the front on are counted as shared."""
        self.result.sent.append(sent)
        self.result.shared += self.whole

    def note(self, drifts: Sequence[Drift], *, repaired: bool) -> None:
        """Name what differs. What the table calls lossless and is not repaired cannot be."""
        for drift in drifts:
            is_final = not repaired and CAUSES[drift.cause].repair is Repair.LOSSLESS
            at_most = Repair.REPORT if is_final and drift.at_most is None else drift.at_most
            self.result.drifts.append(replace(drift, repaired=repaired, at_most=at_most))

    def again(self, unit: Unit, sent: Sent, *, split: bool = False) -> Sent:
        """A unit of equal meaning, or one that was restored before, as it is to be sent. ``split``: with the next."""
        learn_ids(unit.items, sent.items, self.result.ids)
        if keys(unit.items) == keys(sent.items):
            return Sent(unit.items, unit.links)
        if sent.ours and not self._may_stay(sent):
            return self._let_go(unit, sent)
        if not says_same(unit.items, sent.items):
            return self._kept(unit, sent, split=split)
        out = tuple(
            fitted(self.request.dialect, a, b, self.items, reshapes=True) for a, b in _matched(sent.items, unit)
        )
        repaired = keys(out) == keys(sent.items)
        paths = [self.path(unit, n) for n in range(len(unit.items))]
        if not sent.ours:
            drifts = naming.forms(sent.items, unit.items, self.request.dialect, paths)
            self.result.drifts.extend(replace(drift, repaired=repaired) for drift in drifts)
        return Sent(out, unit.links, sent.ours and repaired)

    def _may_stay(self, sent: Sent) -> bool:
        """Whether there is still leave for what a policy of ours put there.

        What ``isolate`` tells is not said under another policy: it speaks of a system prompt that was frozen.
        """
        if offered.tells(sent):
            return self.result.offers is not None and (self.leave.policy is Policy.ISOLATE or not isolate.tells(sent))
        if self.leave.policy is Policy.ISOLATE:
            return self.holds or Option.WINDOW not in self.leave.options or isolate.tells(sent)
        return self.holds and not isolate.tells(sent)

    def _let_go(self, unit: Unit, sent: Sent) -> Sent:
        """The client's own where something else was sent; what was held back in a window is pruned now."""
        if Option.WINDOW in self.leave.options and not self.leave.cold and sent.items and not isolate.tells(sent):
            drift = Drift("H7", self.path(unit), Tier.MESSAGES, sent.items[0].wire, unit.items[0].wire)
            self.note([drift], repaired=False)
            self.whole = False
        return self.as_came(unit)

    def _kept(self, unit: Unit, sent: Sent, *, split: bool) -> Sent:
        """What was restored for this unit before is sent again: it is what the cache holds."""
        out = in_place(self.request.dialect, sent.items, unit.items, self.items) if sent.items else ()
        if sent.ours:
            self.held += window.weight(sent.items, unit.items)
        elif sent.items:
            self.note([self._kept_drift(unit, sent, split=split)], repaired=True)
        return Sent(out, unit.links, sent.ours)

    def _kept_drift(self, unit: Unit, sent: Sent, *, split: bool) -> Drift:
        old, new, suffix = sent.items[0], unit.items[0], ""
        if len(sent.items) != len(unit.items) or split:
            cause = "H6" if old.role == "reasoning" else "H11"
        else:
            cause, suffix, *_ = naming.changes(old, new)[0]
            cause = cause if CAUSES[cause].repair is Repair.LOSSLESS else "H10"  # an attachment, moved to and fro
        return Drift(cause, self.path(unit) + suffix, Tier.MESSAGES, old.wire, new.wire)

    def as_came(self, unit: Unit) -> Sent:
        """The client's own, with the ids of old calls put right."""
        out = unit.items
        if self.result.ids:
            forget_reused(unit, self.result.ids)
            out = tuple(renamed(self.request.dialect, item, self.result.ids, self.items) for item in out)
        return Sent(out, unit.links)


def says_same(came: Sequence[Item], sent: Sequence[Item]) -> bool:
    """Whether items mean the same, parallel results in any order; else what was sent had been restored."""
    if [*map(meaning, came)] == [*map(meaning, sent)]:
        return True
    return sorted(*names([came], Calls({}))) == sorted(*names([sent], Calls({})))


def item_path(request: Request, index: int) -> str:
    """Path of an item of the history, by its index among those that are no leading system messages."""
    where = request.fields[request.dialect.history]
    is_list = request.body[where[0] : where[0] + 1] == b"["
    return f"{request.dialect.history}[{request.first + index}]" if is_list else request.dialect.history


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


def learn_ids(came: Sequence[Item], sent: Sequence[Item], ids: dict[str, str]) -> None:
    """Which ids of this client stand for which that were sent; a new call may take an old one's id over.

    Where more was sent than came, what was put back stands in front.
    """
    new, old = ([p for i in items for p in i.parts if p.kind is Kind.CALL] for items in (came, sent))
    for call, known in zip(new, old[max(0, len(old) - len(new)) :], strict=False):
        if call.meaning == known.meaning:
            _learn_id(call.call_id, known.call_id, ids)


def _learn_id(name: str | None, known: str | None, ids: dict[str, str]) -> None:
    if name and known and name != known:
        ids.update((other, TWO_CALLS) for other, to in ids.items() if to == known and other != name)
        ids[name] = known
    elif name:
        ids.pop(name, None)


def forget_reused(unit: Unit, ids: dict[str, str]) -> None:
    """From a new call on, its id names that call. One that we gave to an older call would name two."""
    for item in unit.items:
        for part in item.parts:
            if part.kind is Kind.CALL and part.call_id:
                ids.pop(part.call_id, None)
                if part.call_id in ids.values():
                    raise Ambiguous(f"the id of a new {item.role} call was sent for an earlier call")
