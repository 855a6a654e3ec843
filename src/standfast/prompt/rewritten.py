"""A past that the client has written anew: what of it goes out as it was sent, and what its changes are called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from standfast.prompt import canonical, window
from standfast.prompt.drift import Drift, keys, meaning
from standfast.prompt.fitting import TWO_CALLS, in_first_form, in_place, renamed
from standfast.prompt.model import SYSTEM_ROLES, Item, Kind, Part, Sent, Tier, Unit
from standfast.prompt.naming import drifts, forms
from standfast.prompt.parted import Step, call_ids
from standfast.prompt.replay import Replay, learn_ids
from standfast.prompt.restore import OURS, Means, is_attached
from standfast.prompt.story import Row, Story


class Rewritten:
    """Goes through a story and sends each unit of the request."""

    def __init__(self, story: Story, went: Sequence[Sent], replay: Replay, means: Means) -> None:
        """``went``: what the story calls old, as it went out."""
        self._story, self._went, self._replay, self._means = story, went, replay, means
        self._dialect, self._items = replay.request.dialect, replay.items
        self._front: list[Item] = []
        """What goes out again in front of the next unit."""
        self._ours = False
        """Whether it takes leave to send that."""
        self._seen: set[bytes] = set()
        """Messages that stand elsewhere and were told of."""
        self._moved = frozenset(story.away) if story.away and self._may_move() else frozenset()
        """Parts that stand elsewhere now and go back where they were."""

    def send(self) -> None:
        """Every unit, and what is to be said of it."""
        for n, step in enumerate(self._story.steps):
            if step.same:
                self._same(step)
            elif n >= self._story.told:
                self._new(step)
            elif not step.new:
                self._dropped(step)
            elif not step.old:
                self._added(step)
            elif step.is_pair:
                self._pair(step)
            else:
                self._joint(step)

    def _put(self, sent: Sent) -> None:
        """One unit, with what goes in front of it."""
        if self._front:
            sent = Sent((*self._front, *sent.items), sent.links, sent.ours or self._ours)
            self._front, self._ours = [], False
        self._replay.send(sent)

    def _hold(self, sent: Sequence[Item], came: Sequence[Item]) -> None:
        self._replay.held += window.weight(sent, came)

    def _change(self, cause: str, unit: Unit, before: bytes, *, mends: bool) -> None:
        """Name what happened in front of, or to, the first item of a unit."""
        drift = Drift(cause, self._replay.path(unit), Tier.MESSAGES, before, unit.items[0].wire)
        if not any((d.cause, d.path) == (cause, drift.path) for d in self._replay.result.drifts[-1:]):
            self._replay.note([drift], repaired=mends)
        self._replay.whole = self._replay.whole and mends

    # Steps, one kind each

    def _same(self, step: Step) -> None:
        unit, sent = self._story.new[step.new.start], self._went[step.old.start]
        right = not unit.answers or self._answers_same(unit, sent)
        self._put(self._replay.again(unit, sent) if right else self._replay.as_came(unit))

    def _answers_same(self, unit: Unit, sent: Sent) -> bool:
        """Whether the calls that results answer went out by the ids by which they went out first."""
        now, then = _answers(unit.items, self._replay.result.ids), _answers(sent.items, {})
        return {name: p.meaning for name, p in now.items()} == {name: p.meaning for name, p in then.items()}

    def _new(self, step: Step) -> None:
        """What the reference does not know; it may hold attachments that belong elsewhere."""
        for unit in self._story.came(step):
            self._replay.whole = False
            sent = self._replay.as_came(unit)
            self._put(self._without(unit, sent) if self._holds_moved(unit) else sent)

    def _dropped(self, step: Step) -> None:
        pairs = [(item, went) for sent, went in self._old(step) for item in sent.items]
        if not pairs:
            return
        old, unit = [item for item, _ in pairs], self._story.new[step.new.start]
        thoughts = [item for item in old if item.role == "reasoning"]
        if len(thoughts) == len(old):
            mends = self._means.thinks_alike and all(self._means.is_sealed(i, i.parts[0]) for i in old)
            self._change("H6", unit, old[0].wire, mends=mends)
            self._front += old * mends
            return
        cut = []
        for item, went in pairs:
            if is_attached(item) and item.parts and all(p.meaning in self._story.away for p in item.parts):
                mends = all(p.meaning in self._moved for p in item.parts)
                self._change("H10", unit, item.wire, mends=mends)
                self._front += went.items * mends
                self._ours = self._ours or (mends and went.ours)
            elif meaning(item) in self._story.strays:
                self._stray(item, unit)
            else:
                cut.append(item)
        if cut and len(cut) > sum(item.role == "reasoning" for item in cut):
            mends = len(cut) == len(old) and self._may_hold(cut)
            self._change("H7", unit, cut[0].wire, mends=mends)
            if mends:
                self._front += self._as_sent(step)
                self._ours = True
                self._hold(cut, ())

    def _old(self, step: Step) -> list[tuple[Sent, Sent]]:
        """What was sent, of a step: as the client means it, and as it went out."""
        return list(zip(self._story.sent(step), self._went[step.old.start :], strict=False))

    def _as_sent(self, step: Step) -> list[Item]:
        return [item for _, went in self._old(step) for item in went.items]

    def _stray(self, item: Item, unit: Unit) -> None:
        """A whole message that stands elsewhere now: told once, at the first of the two places."""
        self._replay.whole = False
        if meaning(item) in self._seen:
            return
        self._seen.add(meaning(item))
        leads = any(meaning(item) == meaning(i) for i in self._replay.request.head.system)
        if not leads:  # else it is told with the system prompt
            self._change("H11" if item.role in SYSTEM_ROLES else "C1", unit, item.wire, mends=False)

    def _added(self, step: Step) -> None:
        for unit in self._story.came(step):
            item = unit.items[0]
            sent = self._replay.as_came(unit)
            if self._holds_moved(unit):
                sent = self._without(unit, sent)
            elif meaning(item) in self._story.strays:
                self._stray(item, unit)
            else:
                self._change("H10" if self._is_away(unit) else "C1", unit, b"", mends=False)
            self._put(sent)

    def _pair(self, step: Step) -> None:
        unit, sent = self._story.new[step.new.start], self._went[step.old.start]
        rows = self._story.rows(step)
        learn_ids(unit.items, sent.items, self._replay.result.ids)
        mends = self._mends(rows, sent, unit)
        for row in rows:
            before, after = row.before or sent.items[0], row.after or unit.items[0]
            self._replay.note(drifts(row.changes, before, after, self._replay.path(unit, row.at)), repaired=mends)
        formed = self._formed(unit, rows, mends=mends)
        if not mends:
            self._replay.whole = False
            self._put(formed)
            return
        ours = any(change.cause in OURS for row in rows for change in row.changes)
        if ours:
            self._hold(sent.items, unit.items)
        out = in_place(self._dialect, sent.items, unit.items, self._items)
        self._put(Sent(out, unit.links, ours or sent.ours))

    def _mends(self, rows: Sequence[Row], sent: Sent, unit: Unit) -> bool:
        """Whether a unit may go out as it was sent."""
        ids = self._replay.result.ids
        came = _answers(unit.items, ids)
        undone = {change.before: change.after for row in rows for change in row.changes if change.before}
        for name, part in _answers([row.before for row in rows if row.before and row.after], {}).items():
            if name not in came or (came[name].meaning != part.meaning and undone.get(part) is not came[name]):
                return False
        for row in rows:
            if row.changes and row.after is None and not self._may_hold([row.before] if row.before else []):
                return False
            if row.changes and row.after is not None and row.before is None:
                return False
            if row.before and row.after and not self._means.mends(row.changes, row.before, row.after, self._moved):
                return False
        return keys(in_place(self._dialect, sent.items, unit.items, self._items)) == keys(sent.items)

    def _formed(self, unit: Unit, rows: Sequence[Row], *, mends: bool) -> Sent:
        """A unit as it came, what in it says the same in the form in which it was sent; these forms are named."""
        if mends:
            known = {name: first for name, first in self._replay.result.ids.items() if first != TWO_CALLS}
            out = [renamed(self._dialect, item, known, self._items) for item in unit.items]
        else:
            out = list(self._replay.as_came(unit).items)
        came = Sent(tuple(out), unit.links)
        for row in rows:
            if row.before and row.after:
                out[row.at] = in_first_form(self._dialect, row.before, out[row.at], self._items)
        calls = [part.call_id for item in out for part in item.parts if part.kind is Kind.CALL]
        if len({*calls}) < len(calls):
            return came
        for row in rows:
            if row.before and row.after:
                path = self._replay.path(unit, row.at)
                self._replay.note(forms([out[row.at]], [row.after], self._dialect, [path]), repaired=True)
        learn_ids(unit.items, out, self._replay.result.ids)
        return Sent(tuple(out), unit.links)

    def _joint(self, step: Step) -> None:
        """Messages merged or split go out in the pieces in which they were sent; for a summary, what it sums up."""
        units = self._story.came(step)
        is_summary, went = step.cause == "H7", self._as_sent(step)
        old = went if is_summary else [item for sent in self._story.sent(step) for item in sent.items]
        new = [item for unit in units for item in unit.items]
        out = in_place(self._dialect, old, new, self._items)
        mends = keys(out) == keys(went) and (not is_summary or self._may_hold(old))
        self._change(step.cause, units[0], old[0].wire, mends=mends)
        if not mends:
            for unit in units:
                self._put(self._replay.as_came(unit))
            return
        learn_ids(new, old, self._replay.result.ids)
        if is_summary:
            self._hold(old, new)
        self._put(Sent(out, units[0].links, is_summary))
        for unit in units[1:]:
            self._put(Sent((), unit.links, is_summary))

    # What may go back

    def _may_hold(self, old: Sequence[Item]) -> bool:
        """Whether pruned units may be held back: no call in them has an id that another has now."""
        ids, now = call_ids(old), self._replay.request.calls.ordinals
        return self._means.holds and ids.isdisjoint(now) and ids.isdisjoint(self._replay.result.ids.values())

    def _may_move(self) -> bool:
        """Whether all that stands elsewhere can go back: each place of it is otherwise as it was."""
        moved = frozenset(self._story.away)
        for n, step in enumerate(self._story.steps):
            if n < self._story.told and step.is_pair and not step.same and not step.cause:
                for row in self._story.rows(step):
                    touched = any(p.meaning in moved for c in row.changes for p in (c.before, c.after) if p)
                    known = row.before and row.after and self._means.mends(row.changes, row.before, row.after, moved)
                    if touched and not known:
                        return False
            elif not (step.same or step.cause or all(self._can_lose(u, moved) for u in self._story.came(step))):
                return False
        return True

    def _can_lose(self, unit: Unit, moved: Collection[bytes]) -> bool:
        """Whether a unit can go out without the parts that moved into it; the newest must not go empty."""
        item = unit.items[0]
        mine = [part for part in item.parts if part.meaning in moved]
        in_list = all(part.suffix.startswith(".content[") for part in mine)
        return not mine or (unit is not self._replay.request.units[-1] if len(mine) == len(item.parts) else in_list)

    def _holds_moved(self, unit: Unit) -> bool:
        return unit.items[0].role == "user" and any(p.meaning in self._moved for p in unit.items[0].parts)

    def _without(self, unit: Unit, sent: Sent) -> Sent:
        """A unit without the parts that go back where they were."""
        item = sent.items[0]
        kept = [n for n, part in enumerate(item.parts) if part.meaning not in self._moved]
        if not kept:
            return Sent((), unit.links)
        value = canonical.decode(item.wire)
        value["content"] = [value["content"][n] for n in kept]
        less = self._items.get(self._dialect, Tier.MESSAGES, canonical.key_form(value))
        return Sent(in_place(self._dialect, (less,), unit.items, self._items), unit.links)

    def _is_away(self, unit: Unit) -> bool:
        return unit.items[0].role == "user" and any(p.meaning in self._story.away for p in unit.items[0].parts)


def _answers(items: Sequence[Item], ids: Mapping[str, str]) -> dict[str, Part]:
    """Results by the id that they answer, as it was sent first."""
    parts = (part for item in items for part in item.parts if part.kind is Kind.RESULT and part.call_id)
    return {ids.get(part.call_id or "", part.call_id or ""): part for part in parts}
