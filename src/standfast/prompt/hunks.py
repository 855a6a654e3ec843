"""Where the lines of two texts differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

_MOST_LINES = 1_000  # between the first and the last that differ: alignment is quadratic at worst


class Hunk(NamedTuple):
    """Lines of one text in place of lines of the other; one of the two may be empty."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    line: int
    """Index of the first of them in the new text."""
    at: tuple[int, int]
    """Characters in front of them, in the old text and in the new."""


def hunks(before: str, after: str) -> list[Hunk] | None:
    """All of them, in order; None where more lines lie between the first and the last than are compared.

    >>> [(h.old, h.new) for h in hunks("a\\nb\\nc", "a\\nx\\nc\\nd")]
    [(('b',), ('x',)), ((), ('d',))]
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    left, right = ([line.rstrip("\r\n") for line in lines] for lines in (old, new))
    head, tail = edges(left, right)
    end, end_new = len(old) - tail, len(new) - tail
    if end - head + end_new - head > _MOST_LINES:
        return None
    starts, starts_new = ([0, *accumulate(map(len, lines))] for lines in (old, new))
    steps = SequenceMatcher(_is_blank, left[head:end], right[head:end_new], autojunk=False).get_opcodes()
    return [
        Hunk(
            tuple(left[head + i : head + i_end]),
            tuple(right[head + j : head + j_end]),
            head + j,
            (starts[head + i], starts_new[head + j]),
        )
        for kind, *step in steps
        if kind != "equal"
        for i, i_end, j, j_end in _line_by_line(*step)
    ]


def _is_blank(line: str) -> bool:
    """Whether a line is no place at which two texts could be known to be the same."""
    return not line.strip()


def _line_by_line(i: int, i_end: int, j: int, j_end: int) -> Iterator[tuple[int, int, int, int]]:
    """As many lines in place of as many are taken one by one."""
    if i_end - i != j_end - j:
        yield i, i_end, j, j_end
        return
    for n in range(i_end - i):
        yield i + n, i + n + 1, j + n, j + n + 1


def one_by_one(after: str, found: Sequence[Hunk]) -> Iterator[str]:
    """For each hunk the later text with this one undone: it is all in which that and the later text differ."""
    lines = after.splitlines()
    for hunk in found:
        yield "\n".join([*lines[: hunk.line], *hunk.old, *lines[hunk.line + len(hunk.new) :]])


def edges(left: Sequence[str], right: Sequence[str]) -> tuple[int, int]:
    """How many lines two rows have in common at their beginning, and how many of the rest at their end."""
    head = _same(left, right)
    return head, _same(left[head:][::-1], right[head:][::-1])


def _same(left: Sequence[str], right: Sequence[str]) -> int:
    """How many lines two rows have in common at their beginning."""
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
