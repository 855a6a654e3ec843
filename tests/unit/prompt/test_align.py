"""Rows aligned: every index once, in order, equal ones first; and what a step of a history is called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.align import Pair, align, names
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.fingerprint import Calls
from standfast.prompt.items import build
from standfast.prompt.model import Item, Tier

rows = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), max_size=12)


def never(i: int, j: int) -> int:
    return 0


def found(left: str, right: str, likeness: Any = never) -> list[Pair]:
    return align([c.encode() for c in left], [c.encode() for c in right], likeness)


@given(rows, rows, st.integers(0, 2))
def test_every_index_stands_once_and_in_order(left: list[bytes], right: list[bytes], like: int) -> None:
    pairs = align(left, right, lambda i, j: like)
    assert [i for i, _ in pairs if i is not None] == list(range(len(left)))
    assert [j for _, j in pairs if j is not None] == list(range(len(right)))
    if not like:
        assert all(left[i] == right[j] for i, j in pairs if i is not None and j is not None)


@given(rows, rows)
def test_a_row_that_grew_is_the_same_up_to_there(left: list[bytes], more: list[bytes]) -> None:
    pairs = align(left, [*left, *more], never)
    assert pairs[: len(left)] == [(n, n) for n in range(len(left))]
    assert all(i is None for i, _ in pairs[len(left) :])


@given(st.lists(st.integers(), unique=True, max_size=30), st.data())
def test_what_was_dropped_and_put_in_is_found(row: list[int], data: st.DataObject) -> None:
    left = [str(n).encode() for n in row]
    kept = [n for n in range(len(left)) if data.draw(st.booleans())]
    right: list[bytes] = []
    for n in kept:
        right += [b"new"] * data.draw(st.integers(0, 2)) + [left[n]]
    pairs = align(left, right, never)
    assert [i for i, j in pairs if i is not None and j is not None] == kept


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("", "", []),
        ("ab", "", [(0, None), (1, None)]),
        ("akn", "Aknkn", [(0, None), (None, 0), (1, 1), (2, 2), (None, 3), (None, 4)]),
        ("xkn", "knkn", [(0, None), (1, 0), (2, 1), (None, 2), (None, 3)]),
        ("abcd", "abdc", [(0, 0), (1, 1), (2, None), (3, 2), (None, 3)]),
    ],
)
def test_of_equal_pairings_the_one_in_front(left: str, right: str, pairs: list[Pair]) -> None:
    assert found(left, right) == pairs


def test_likeness_pairs_what_lies_between_equal_ones() -> None:
    def alike(i: int, j: int) -> int:
        return 2 if "axyb"[i].lower() == "aYb"[j].lower() else 1

    assert found("axyb", "aYb", alike) == [(0, 0), (1, None), (2, 1), (3, 2)]


def test_a_gap_too_large_to_weigh_is_paired_in_step() -> None:
    pairs = align([b"x"] * 70, [b"y"] * 60, lambda i, j: 1)
    assert pairs == [*((n, n) for n in range(60)), *((n, None) for n in range(60, 70))]
    assert len(align([b"x"] * 70, [b"y"] * 60, never)) == 130


def items(*values: Any, dialect: str = "openai_chat") -> list[list[Item]]:
    """Each a unit of its own; a list of values is one unit."""
    known = DIALECTS[dialect]
    return [
        [build(known, Tier.MESSAGES, json.dumps(v).encode()) for v in (value if isinstance(value, list) else [value])]
        for value in values
    ]


def calling(*ids: str) -> Any:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(name: str, content: str) -> Any:
    return {"role": "tool", "tool_call_id": name, "content": content}


def test_ids_and_the_order_of_parallel_results_have_no_part_in_a_name() -> None:
    one = names(items(calling("a", "b"), [result("a", "A"), result("b", "B")]), Calls({}))
    other = names(items(calling("x", "y"), [result("y", "B"), result("x", "A")]), Calls({}))
    swapped = names(items(calling("x", "y"), [result("y", "A"), result("x", "B")]), Calls({}))
    assert sorted(one[1]) == sorted(other[1]) != sorted(swapped[1])
    assert one[0] == other[0]


def test_a_name_does_not_depend_on_what_came_before() -> None:
    alone = items(calling("a"), result("a", "A"))
    later = items({"role": "user", "content": "q"}, calling("z"), result("z", "Z"), calling("b"), result("b", "A"))
    assert names(alone, Calls({})) == names(later, Calls({}))[3:]
