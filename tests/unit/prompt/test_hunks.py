"""Where the lines of two texts differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.hunks import hunks, one_by_one

TEXTS = st.lists(st.sampled_from(["a", "b", "", " c"]), max_size=8).map("\n".join)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("a", "a", []),
        ("a\nb\nc", "a\nx\nc", [(("b",), ("x",))]),
        ("a\nb\nc", "a\nc", [(("b",), ())]),
        ("a\nc", "a\nb\nc\nd", [((), ("b",)), ((), ("d",))]),
        ("a\nb\nc", "x\ny\nc", [(("a",), ("x",)), (("b",), ("y",))]),
        ("a\nb\nc", "x\nc", [(("a", "b"), ("x",))]),
        ("a\r\nb", "a\nb\n", []),
    ],
)
def test_lines_in_place_of_lines(before: str, after: str, found: list[tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
    assert [(hunk.old, hunk.new) for hunk in hunks(before, after) or ()] == found


def test_more_lines_than_are_compared() -> None:
    many = "\n".join(map(str, range(600)))
    assert hunks(f"a\n{many}", f"b\n{many}\nc") is None
    assert len(hunks(f"{many}\na", f"{many}\nb") or ()) == 1


@given(TEXTS, TEXTS)
def test_putting_the_new_lines_in_place_of_the_old_makes_the_later_text(before: str, after: str) -> None:
    found = hunks(before, after)
    assert found is not None
    lines, shift = before.splitlines(), 0
    for hunk in found:
        at = hunk.line + shift
        assert tuple(lines[at : at + len(hunk.old)]) == hunk.old
        lines[at : at + len(hunk.old)] = hunk.new
        assert before.startswith("\n".join(hunk.old), hunk.at[0])
        assert after.startswith("\n".join(hunk.new), hunk.at[1])
    assert lines == after.splitlines()


def test_each_hunk_undone_alone() -> None:
    before, after = "a\nb\nc\nd", "x\nb\nc\ny\nz"
    assert list(one_by_one(after, hunks(before, after) or [])) == ["a\nb\nc\ny\nz", "x\nb\nc\nd"]
