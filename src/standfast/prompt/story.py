"""What happened to a history behind the place where it parts from what was sent: which differences are a rewritten past
and which are a fork, what changed in each unit, and what merely stands elsewhere now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from standfast.prompt import naming
from standfast.prompt.align import align, order_of
from standfast.prompt.drift import meaning
from standfast.prompt.model import SYSTEM_ROLES, Item, Kind, Sent, Unit
from standfast.prompt.naming import Change
from standfast.prompt.parted import Parted, Step
from standfast.prompt.restore import is_attached

_MOVED_LEAST = 24  # bytes of a part that is taken to have moved when it stands elsewhere
_USERS = frozenset((*SYSTEM_ROLES, "user", "tool"))


class Row(NamedTuple):
    """One item of a pair of units."""

    before: Item | None
    after: Item | None
    at: int
    """Where it stands in the unit as it came."""
    changes: list[Change]


class Story:
    """The steps of two histories that part, judged."""

    def __init__(self, parted: Parted, system: Sequence[Item], *, tells: bool) -> None:
        """``system``: of the request as it came. ``tells``: whether differences are anything but two stories."""
        self.old, self.new, self._sent = parted.old, parted.new, parted.sent
        self._old_names, self._new_names = parted.old_names, parted.new_names
        self.away: Counter[bytes] = Counter()
        """Parts that stand elsewhere now, by their meaning."""
        others = (meaning(item) for step in parted.steps if not step.same for item in _items(self.came(step)))
        self._elsewhere = {*map(meaning, system), *others}
        self.steps, self.told = self._cut(parted.steps) if tells else (parted.steps, 0)
        """``told``: so many steps from the front are changes of a past; what follows is new, or a fork."""
        self.away = self._away()
        dropped = {
            meaning(item) for step in self.steps[: self.told] if not step.new for item in _items(self.sent(step))
        }
        self.strays = dropped & self._elsewhere
        """Whole items that stand elsewhere now."""

    def sent(self, step: Step) -> Sequence[Sent]:
        """What was sent, of a step."""
        return self.old[step.old.start : min(step.old.stop, self._sent) if not step.same else step.old.stop]

    def came(self, step: Step) -> Sequence[Unit]:
        """What came, of a step."""
        return self.new[step.new.start : step.new.stop]

    def rows(self, step: Step) -> list[Row]:
        """What differs in a pair of units, item by item."""
        old, new = self.old[step.old.start].items, self.new[step.new.start].items
        newest = step.old.start >= self._newest()
        names = self._old_names[step.old.start], self._new_names[step.new.start]
        order, other = (sorted(range(len(row)), key=[*map(order_of, row)].__getitem__) for row in names)
        left, right = [names[0][i] for i in order], [names[1][j] for j in other]
        found, last = [], 0
        for i, j in align(left, right, lambda i, j: 1 + 4 * (order_of(left[i]) == order_of(right[j]))):
            a = old[order[i]] if i is not None else None
            b = new[other[j]] if j is not None else None
            last = last if j is None else other[j]
            if a is None or b is None:
                found.append(Row(a, b, last, [Change("C1" if a is None else "H7", "")]))
            else:
                same = left[i or 0] == right[j or 0]
                found.append(Row(a, b, last, [] if same else naming.changes(a, b, self.away, newest=newest)))
        return sorted(found, key=lambda row: row.at)

    def _newest(self) -> int:
        """Index of the user's newest turn in what was sent."""
        places = range(self._sent - 1, -1, -1)
        return next((i for i in places if _is_said_by_user(self.old[i].items[0])), self._sent)

    def _cut(self, steps: Sequence[Step]) -> tuple[list[Step], int]:
        """The steps, turns that were summarised as one of them, and how many are told of.

        All in front of a unit that is the same again is. Behind the last of these the stories may part for good: there
        changes count only while each can be recognised, or if the first of all is in one of the user's turns.
        """
        body = max((n + 1 for n, step in enumerate(steps) if step.same and step.old.start < self._sent), default=0)
        found: list[Step] = []
        for same, group in groupby(steps[:body], lambda step: step.same):
            gap = list(group)
            found += gap if same or not self._is_summary(gap) else [_joined(gap)]
        told, is_first = len(found), all(step.same for step in found)
        rest = [*_one_by_one(steps[body]), *steps[body + 1 :]] if body < len(steps) else []
        for step in rest:
            counts, goes_on = self._counts(step, is_first)
            told += counts
            if not goes_on:
                break
            is_first = False
        return [*found, *rest], told

    def _counts(self, step: Step, is_first: bool) -> tuple[bool, bool]:
        """Whether a step behind all that is the same is told of, and whether the next may be."""
        if not step.new or step.new.stop >= len(self.new) or step.old.start >= self._sent:
            return False, False  # a newest turn that is another is a fork, and no fault
        if step.old and (not step.is_pair or self._is_known(step)):
            return True, True
        is_branch = step.old.start + 1 < self._sent and self.new[step.new.start].items[0].role not in _USERS
        return is_first and not is_branch, False

    def _is_summary(self, gap: Sequence[Step]) -> bool:
        """Whether something else, and less, stands in place of several turns."""
        dropped = [item for step in gap if not step.new for item in _items(self.sent(step))]
        if all(item.role == "reasoning" or meaning(item) in self._elsewhere for item in dropped):
            return False
        if all(step.old and (not step.is_pair or self._is_known(step)) for step in gap) or any(s.cause for s in gap):
            return False
        whole = _joined(gap)
        return sum(i.size for i in _items(self.came(whole))) < sum(i.size for i in _items(self.sent(whole)))

    def _is_known(self, step: Step) -> bool:
        return all(change.cause != "C1" for row in self.rows(step) for change in row.changes)

    def _away(self) -> Counter[bytes]:
        """Attachments that are gone from where they were sent and stand elsewhere now, as many as are gone."""
        lost, gained = Counter[bytes](), Counter[bytes]()
        for n, step in enumerate(self.steps):
            if step.same:
                continue
            old, new = (_parts(_items(rows)) for rows in (self.sent(step), self.came(step)))
            if n < self.told and step.is_pair:
                found = (change for row in self.rows(step) for change in row.changes)
                gone = {c.before.meaning for c in found if c.before and c.cause in ("H8", "H10")}
                lost += Counter(name for name in (old - new).elements() if name in gone)
            elif n < self.told and not step.new:
                lost += _parts(item for item in _items(self.sent(step)) if is_attached(item))
            gained += new - old
        return Counter({name: count for name, count in lost.items() if gained[name] == count})


def _items(rows: Iterable[Sent] | Iterable[Unit]) -> Iterable[Item]:
    return (item for row in rows for item in row.items)


def _parts(items: Iterable[Item]) -> Counter[bytes]:
    """Meanings of the parts that may be attachments."""
    parts = (part for item in items if item.role == "user" for part in item.parts)
    return Counter(p.meaning for p in parts if p.kind in (Kind.TEXT, Kind.MEDIA) and p.size >= _MOVED_LEAST)


def _joined(gap: Sequence[Step]) -> Step:
    return Step(range(gap[0].old.start, gap[-1].old.stop), range(gap[0].new.start, gap[-1].new.stop), cause="H7")


def _one_by_one(step: Step) -> list[Step]:
    """Added units as a step each."""
    if step.same or step.old:
        return [step]
    return [Step(step.old, range(j, j + 1)) for j in step.new]


def _is_said_by_user(item: Item) -> bool:
    return item.role == "user" and not item.is_result
