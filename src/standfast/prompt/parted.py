"""The rests of two histories, from where they part: which units stand for which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from standfast.prompt.align import Pair, align, names
from standfast.prompt.drift import meaning, text_of
from standfast.prompt.fingerprint import Calls
from standfast.prompt.model import Item, Kind, Sent, Unit
from standfast.prompt.restore import is_joined

_PIECES = 4  # messages that one is looked for to be merged of, or split into
_GAP = 1_024  # pairs within one gap among which joints are sought
_NEAR = 8  # units in front of the parting in which calls are sought that results behind it answer
_HEAD = 40  # characters at the start of a text by which another version of it is known


@dataclass(frozen=True, slots=True)
class Step:
    """Units of the request and what was sent where they stand; either may be none, several if they are joined."""

    old: range
    new: range
    same: bool = False
    cause: str = ""
    """H11: joined or split; H7: summarised."""

    @property
    def is_pair(self) -> bool:
        """One unit for one other."""
        return len(self.old) == len(self.new) == 1


class Parted:
    """Both rests, and the steps that lead from one to the other."""

    def __init__(
        self, old: Sequence[Sent], new: Sequence[Unit], sent: int, before: Sequence[Sent], shared: Sequence[Unit]
    ) -> None:
        """``sent``: so many of the old stood in a prompt. ``before`` and ``shared`` are what stands in front."""
        self.old, self.new, self.sent = old, new, sent
        self.old_names = _names([s.items for s in old], [s.items for s in before[-_NEAR:]])
        self.new_names = _names([u.items for u in new], [u.items for u in shared[-_NEAR:]])
        """Of each unit, what its items say; parallel results may be in any order."""
        self._heads: dict[bytes, str] = {}
        self.steps = list(self._steps(range(len(old)), range(len(new))))

    def is_kin(self) -> bool:
        """Whether both are one conversation: they share words of the user and of the model."""
        same = [self.old[step.old.start].items[0] for step in self.steps if step.same]
        said = {item.role == "user" for item in same if any(part.kind is Kind.TEXT for part in item.parts)}
        return len(said) == 2

    def _steps(self, rows: range, columns: range) -> Iterator[Step]:
        left, right = (
            [tuple(sorted(name)) for name in names[places.start : places.stop]]
            for names, places in ((self.old_names, rows), (self.new_names, columns))
        )
        pairs = align(left, right, lambda i, j: self._likeness(rows[i], columns[j]))
        i, j = rows.start, columns.start
        for same, group in groupby(pairs, lambda p: None not in p and left[p[0] or 0] == right[p[1] or 0]):
            found = list(group)
            for step in _each(i, j, len(found), same=True) if same else self._gap(i, j, found):
                yield step
                i, j = step.old.stop, step.new.stop

    def _gap(self, i: int, j: int, pairs: Sequence[Pair]) -> Iterator[Step]:
        """What lies between two units that are the same, from i and j on."""
        rows = range(i, i + sum(a is not None for a, _ in pairs))
        columns = range(j, j + sum(b is not None for _, b in pairs))
        if joint := self._joint(rows, columns):
            yield from self._steps(range(i, joint.old.start), range(j, joint.new.start))
            yield joint
            yield from self._steps(range(joint.old.stop, rows.stop), range(joint.new.stop, columns.stop))
            return
        for (gone, new), group in groupby(pairs, lambda p: (p[1] is None, p[0] is None)):
            count = len(list(group))
            i_end, j_end = i + count * (not new), j + count * (not gone)
            yield from [Step(range(i, i_end), range(j, j_end))] if gone or new else _each(i, j, count)
            i, j = i_end, j_end

    def _joint(self, rows: range, columns: range) -> Step | None:
        """The first messages that were merged into one, or split out of one."""
        if not rows or not columns or len(rows) + len(columns) < 3 or len(rows) * len(columns) > _GAP:
            return None
        for i in rows:
            for j in columns:
                for k in range(2, _PIECES + 1):
                    if i + k <= rows.stop and self._is_joined(self.old[i : i + k], self.new[j]):
                        return Step(range(i, i + k), range(j, j + 1), cause="H11")
                    if j + k <= columns.stop and self._is_joined(self.new[j : j + k], self.old[i]):
                        return Step(range(i, i + 1), range(j, j + k), cause="H11")
        return None

    def _is_joined(self, pieces: Sequence[Sent | Unit], whole: Sent | Unit) -> bool:
        single = all(len(u.items) == 1 and not u.items[0].is_result for u in (*pieces, whole))
        return single and is_joined([piece.items[0] for piece in pieces], whole.items[0])

    def _likeness(self, i: int, j: int) -> int:
        """How much two units look like versions of one."""
        old, new = self.old[i].items, self.new[j].items
        if old[0].role != new[0].role:
            return 0
        parts, others = ([p for item in items for p in item.parts] for items in (old, new))
        shared = {p.meaning for p in parts} & {p.meaning for p in others}
        ids = {p.call_id for p in parts if p.call_id} & {p.call_id for p in others if p.call_id}
        heads = self._head(old[0]), self._head(new[0])
        return 1 + 4 * bool(shared) + 4 * bool(ids) + 2 * (bool(heads[0]) and heads[0] == heads[1])

    def _head(self, item: Item) -> str:
        if item.key not in self._heads:
            self._heads[item.key] = text_of(item)[:_HEAD]
        return self._heads[item.key]


def _each(i: int, j: int, count: int, *, same: bool = False) -> Iterator[Step]:
    """So many units on either side, one for one."""
    return (Step(range(i + n, i + n + 1), range(j + n, j + n + 1), same) for n in range(count))


def _names(rows: Sequence[Sequence[Item]], before: Sequence[Sequence[Item]]) -> list[tuple[bytes, ...]]:
    calls = Calls({})
    names(before, calls)
    return names(rows, calls)


def pieces(sent: Sequence[Sent], bare: Callable[[Item], Item | None]) -> tuple[list[Sent], list[Sent]]:
    """What was sent, one unit each: results that follow each other stay together, what was joined comes apart.

    First as the client means it, then, as many, as it went out. ``bare``: an item of ours without what we told in it.
    """
    meant: list[Sent] = []
    went: list[Sent] = []
    for unit in sent:
        rows: list[tuple[list[Item], list[Item]]] = []
        for item in unit.items:
            said = bare(item) if unit.ours else item
            if rows and (said is None or (said.is_result and rows[-1][0][-1].is_result)):
                rows[-1][0].extend([said] if said else ())
                rows[-1][1].append(item)
            elif said is not None:
                rows.append(([said], [item]))
        meant += (Sent(tuple(row), unit.links, unit.ours) for row, _ in rows)
        went += (Sent(tuple(row), unit.links, unit.ours) for _, row in rows)
    return meant, went


def answers(produced: Sequence[Sent], units: Sequence[Unit], bare: Sequence[Sent | None]) -> list[Sent]:
    """What the model answered as the client has it: each with its reasoning or ``bare``, without it."""
    told = {meaning(item) for unit in units for item in unit.items}
    rows = (full if meaning(full.items[0]) in told else other for full, other in zip(produced, bare, strict=True))
    return [row for row in rows if row is not None]


def call_ids(items: Sequence[Item]) -> set[str]:
    """Ids of the calls in some items."""
    return {p.call_id for item in items for p in item.parts if p.kind is Kind.CALL and p.call_id}
