"""What stands in another order: sections that say the same, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.sections import Order, compare, follows

FREE = [
    ("Paths:\n- /a/b\n- /c/d\n- /e/f", "Paths:\n- /e/f\n- /a/b\n- /c/d"),
    ("Read:\n/srv/one\n/srv/two\nDone.", "Read:\n/srv/two\n/srv/one\nDone."),
    ("<a>Be brief. Be kind.</a>\n<b>Cite.</b>", "<b>Cite.</b>\n<a>Be brief. Be kind.</a>"),
    ("Hi.\n# One\nDo this.\nThen that.\n# Two\nMore.\n", "Hi.\n# Two\nMore.\n# One\nDo this.\nThen that.\n"),
    ("user: ann\nteam: larch\nrole: dev", "team: larch\nuser: ann\nrole: dev"),
    ("* ä\n* ö", "* ö\n* ä"),
    ("- a\n  more of a\n- b", "- b\n- a\n  more of a"),
    ("# A\n## x\na\n## y\nb\n# B\nc", "# A\n## y\nb\n## x\na\n# B\nc"),
    ("# A\n```sh\n# x\n```\n# B\nb\n", "# B\nb\n# A\n```sh\n# x\n```\n"),
    ("<s>\n<a>\nx y\n</a>\n<b>\nz w\n</b>\n</s>", "<s>\n<b>\nz w\n</b>\n<a>\nx y\n</a>\n</s>"),
    ("<br>\n<a>x</a>\n<b>y</b>", "<br>\n<b>y</b>\n<a>x</a>"),
    ("</x>\n<a>\nx y\n</a>\n<b>\nz w\n</b>", "</x>\n<b>\nz w\n</b>\n<a>\nx y\n</a>"),
    ("May:\n- a\n- b\nMust:\n- c\n- d", "May:\n- b\n- a\nMust:\n- d\n- c"),
    ("Never lie to users.\n\nAnswer at once please.", "Answer at once please.\n\nNever lie to users."),
]
BOUND = [
    ("1. Open it.\n2. Read it.", "2. Read it.\n1. Open it."),
    ("First ask her name.\nThen greet her.", "Then greet her.\nFirst ask her name."),
    ("Ask her name.\n\nThen greet her.", "Then greet her.\n\nAsk her name."),
    ("Allowed:\n- read\nForbidden:\n- write", "Allowed:\n- write\nForbidden:\n- read"),
    ("Allowed:\n\n- read\n\nForbidden:\n\n- write", "Allowed:\n\n- write\n\nForbidden:\n\n- read"),
    ("Allowed: all\n- read\nForbidden: all\n- write", "Allowed: all\n- write\nForbidden: all\n- read"),
    ("# A\n## x\na\n# B\n## y\nb\n", "# A\n## y\nb\n# B\n## x\na\n"),
    ("# 1. Open\na\n# 2. Read\nb\n", "# 2. Read\nb\n# 1. Open\na\n"),
    ("## Step 1\na\n## Step 2\nb\n", "## Step 2\nb\n## Step 1\na\n"),
    ("<step_1>a</step_1>\n<step_2>b</step_2>", "<step_2>b</step_2>\n<step_1>a</step_1>"),
    ("- First ask her name\n- Then greet her", "- Then greet her\n- First ask her name"),
    ("In this order:\n- ask\n- greet", "In this order:\n- greet\n- ask"),
    ("a:\n  port=1\nb:\n  port=2", "a:\n  port=2\nb:\n  port=1"),
    ("- a\n  x y\n- b\n  z w", "- a\n  z w\n- b\n  x y"),
    ("Run:\n```\nx=1\ny=x\n```", "Run:\n```\ny=x\nx=1\n```"),
    ("Ask for the number.\n\nIt has eight digits.", "It has eight digits.\n\nAsk for the number."),
    ("x = 1\ny = x", "y = x\nx = 1"),
    ("# A\n\na b\n\n# B\n\nb c", "# A\n\nb c\n\n# B\n\na b"),
    ("# A\na\n\na b\n\n# B\nb\n\nb c", "# A\na\n\nb c\n\n# B\nb\n\na b"),
]
OTHER = [
    ("yes: <a>x</a> no: <b>y</b>", "yes: <b>y</b> no: <a>x</a>"),
    ("- a\n- b", "- a\n- c"),
    ("- a\n- b", "- a\n- b\n- c"),
    ("abc", "cba"),
    ("Paths:\n- ab", "Paths:\n- ba"),
    ("<a>x</a> and <b>y</b>", "<b>x</b> and <a>y</a>"),
]


@pytest.mark.parametrize(
    ("pairs", "order"), [(FREE, Order.FREE), (BOUND, Order.BOUND), (OTHER, None)], ids=["free", "bound", "other"]
)
def test_what_a_permutation_says(pairs: list[tuple[str, str]], order: Order | None) -> None:
    for before, after in pairs:
        assert compare(before, after) is order, (before, after)
        assert compare(after, before) is order
        assert compare(before, before) is Order.SAME


@given(st.permutations([f"- entry {n}" for n in range(6)]), st.permutations(["<a>x</a>", "<b>y</b>", "<c>z</c>"]))
def test_any_order_of_a_list_or_of_blocks_is_free(entries: list[str], blocks: list[str]) -> None:
    for row in (entries, blocks):
        order = compare("\n".join(["Here:", *sorted(row), "End."]), "\n".join(["Here:", *row, "End."]))
        assert order is (Order.SAME if row == sorted(row) else Order.FREE)


@given(
    st.lists(st.sampled_from(["- a", "- b", "Allowed:", "Not:", "  - c", "k: v", "", "# H", "Say it."]), max_size=7),
    st.randoms(),
)
def test_what_is_free_leaves_each_entry_under_its_name(lines: list[str], random: object) -> None:
    """An entry never moves past a line that is none."""
    other = list(lines)
    random.shuffle(other)  # type: ignore[attr-defined]
    if compare("\n".join(lines), "\n".join(other)) is Order.FREE and "" not in lines and "# H" not in lines:
        fixed = [line if line in ("Allowed:", "Not:", "Say it.") else "" for line in lines]
        assert fixed == [line if line in ("Allowed:", "Not:", "Say it.") else "" for line in other]


def test_one_opening_may_move_among_sections_that_are_whole() -> None:
    """With two, one could move from under its heading to under another."""
    assert compare("# A\na\n\n# B\nb\n\nSay it.", "Say it.\n\n# B\nb\n\n# A\na") is Order.FREE
    two = "# A\na\n\nSay a.\n\n# B\nb\n\nSay b.", "# A\na\n\nSay b.\n\n# B\nb\n\nSay a."
    assert compare(*two) is Order.BOUND


def test_a_section_that_follows_another() -> None:
    assert all(map(follows, ("2. Read", "Then go.", "## Step 3", "<step_1>", "Tools:", "b) that", "- next: go")))
    assert not any(map(follows, ("Be brief.", "## Tools", "<tools>", "Thenceforth", "It's"[2:], "- a")))


@pytest.mark.parametrize(
    "fragment", ["<a>", "<a", "</a>", "<a></a>", "- a\n", "# a\n", " ", "\n", "\n\n", "a: b\n", "`", "<", "a\n  "]
)
def test_long_texts_are_compared_in_linear_time(fragment: str) -> None:
    long = fragment * (95_000 // len(fragment))
    one, other = f"- x\n- y\n{long}", f"- y\n- x\n{long}"
    assert compare(one, other) in (Order.FREE, Order.BOUND, None)
    assert compare(one * 20, other * 20) is None
