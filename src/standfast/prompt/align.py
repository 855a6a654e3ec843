"""Which parts of one row stand for which of another: what a history was made from.

Equal names that occur once on both sides anchor the rows (patience); between two anchors the best pairing by likeness
is found. Equal heads and tails cost nothing, so rows that merely grew are compared in linear time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from standfast.prompt.fingerprint import Calls
from standfast.prompt.model import Item, Kind, Part

Name = bytes | tuple[bytes, ...]
Pair = tuple[int | None, int | None]
"""Index on the left and on the right; None where the other has nothing in this place."""
Likeness = Callable[[int, int], int]
"""How well one of the left and one of the right go together; 0: not at all."""

_FRAME, _AGO = 32, 4  # bytes of a name: what surrounds the parts, then how many calls ago the first one's call was
_CELLS = 4_096  # pairs within one gap that are weighed at most; a larger gap is paired in step


def align(left: Sequence[Name], right: Sequence[Name], likeness: Likeness) -> list[Pair]:
    """Every index of both rows once, in an order that is that of both."""
    pairs: list[Pair] = []
    i = j = 0
    for i_end, j_end in (*_anchors(left, right, range(len(left)), range(len(right))), (len(left), len(right))):
        pairs += _between(left, right, range(i, i_end), range(j, j_end), likeness)
        if i_end < len(left) or j_end < len(right):
            pairs.append((i_end, j_end))
        i, j = i_end + 1, j_end + 1
    return pairs


def _anchors(left: Sequence[Name], right: Sequence[Name], rows: range, columns: range) -> Iterator[tuple[int, int]]:
    """Pairs of equal names, rising on both sides.

    Equal heads are taken in step. Equal tails are not: a row that grew may end as it ended before.
    """
    head = sum(1 for _ in takewhile(lambda p: left[p[0]] == right[p[1]], zip(rows, columns, strict=False)))
    yield from zip(rows[:head], columns[:head], strict=True)
    start, begin = rows.start + head, columns.start + head
    anchors = _once(left, right, rows[head:], columns[head:])
    for i, j in anchors:
        if start < i and begin < j:
            yield from _anchors(left, right, range(start, i), range(begin, j))
        yield i, j
        start, begin = i + 1, j + 1
    if anchors:
        yield from _anchors(left, right, range(start, rows.stop), range(begin, columns.stop))


def _once(left: Sequence[Name], right: Sequence[Name], rows: range, columns: range) -> list[tuple[int, int]]:
    """The longest rising row of pairs whose names occur once on either side."""
    count, other = Counter(left[i] for i in rows), Counter(right[j] for j in columns)
    places = {right[j]: j for j in columns if other[right[j]] == 1}
    pairs = [(i, places[left[i]]) for i in rows if count[left[i]] == 1 and left[i] in places]
    ends: list[int] = []
    chains: list[tuple[tuple[int, int], int]] = []
    tops: list[int] = []
    for pair in pairs:
        n = bisect_left(ends, pair[1])
        chains.append((pair, tops[n - 1] if n else -1))
        ends[n : n + 1], tops[n : n + 1] = [pair[1]], [len(chains) - 1]
    found, at = [], tops[-1] if tops else -1
    while at >= 0:
        pair, at = chains[at]
        found.append(pair)
    return found[::-1]


def _between(
    left: Sequence[Name], right: Sequence[Name], rows: range, columns: range, likeness: Likeness
) -> list[Pair]:
    """The best pairing between two anchors: as many equal names as can be, then by likeness what lies between."""
    if not rows or not columns:
        return [*((i, None) for i in rows), *((None, j) for j in columns)]
    if len(rows) * len(columns) > _CELLS:
        return list(_in_step(rows, columns, likeness))
    pairs: list[Pair] = []
    i, j = rows.start, columns.start
    for i_end, j_end in [*_best(rows, columns, lambda i, j: int(left[i] == right[j])), (rows.stop, columns.stop)]:
        gap = range(i, i_end), range(j, j_end)
        for a, b in [*_best(*gap, likeness), (i_end, j_end)]:
            pairs += ((n, None) for n in range(i, a))
            pairs += ((None, n) for n in range(j, b))
            pairs += [(a, b)] if a < rows.stop and b < columns.stop else []
            i, j = a + 1, b + 1
    return pairs


def _best(rows: range, columns: range, gain: Likeness) -> list[tuple[int, int]]:
    """The rising row of pairs that gains most; of several that gain as much, the one furthest in front."""
    best = [[0] * (len(columns) + 1) for _ in range(len(rows) + 1)]
    for a in range(len(rows) - 1, -1, -1):
        for b in range(len(columns) - 1, -1, -1):
            together = best[a + 1][b + 1] + gain(rows[a], columns[b])
            best[a][b] = max(together, best[a + 1][b], best[a][b + 1])
    found, a, b = [], 0, 0
    while a < len(rows) and b < len(columns):
        more = gain(rows[a], columns[b])
        if more and best[a][b] == best[a + 1][b + 1] + more:
            found.append((rows[a], columns[b]))
            a, b = a + 1, b + 1
        elif best[a][b] == best[a + 1][b]:
            a += 1
        else:
            b += 1
    return found


def _in_step(rows: range, columns: range, likeness: Likeness) -> Iterator[Pair]:
    for i, j in zip(rows, columns, strict=False):
        if likeness(i, j):
            yield i, j
        else:
            yield i, None
            yield None, j
    yield from ((i, None) for i in rows[len(columns) :])
    yield from ((None, j) for j in columns[len(rows) :])


def names(rows: Iterable[Sequence[Item]], calls: Calls) -> list[tuple[bytes, ...]]:
    """What each step of a history says, item by item, whatever came before it.

    A result counts with the call that it answers, told by how many calls ago that was: so ids do not matter, nor the
    order of parallel results, but two results that changed places do. ``calls`` are those before, and grow.
    """
    found = []
    for items in rows:
        found.append(tuple(_name(item, calls) for item in items))
        for item in items:
            for part in item.parts:
                if part.kind is Kind.CALL and part.call_id is not None:
                    calls.introduce(part.call_id)
    return found


def order_of(name: bytes) -> int:
    """Where an item stands among the parallel results of a unit, by its name: results of earlier calls first."""
    return -int.from_bytes(name[_FRAME : _FRAME + _AGO], "big")


def _name(item: Item, calls: Calls) -> bytes:
    results = iter(sorted(_answer(part, calls) for part in item.parts if part.kind is Kind.RESULT))
    return item.frame + b"".join(next(results) if p.kind is Kind.RESULT else p.meaning for p in item.parts)


def _answer(part: Part, calls: Calls) -> bytes:
    return (calls.count - calls.answered(part.call_id or "")).to_bytes(_AGO, "big") + part.meaning
