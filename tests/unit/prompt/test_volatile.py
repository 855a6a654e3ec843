"""What looks as if it changes by itself, and what does not."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt import volatile
from standfast.prompt.patterns import PATTERNS
from standfast.prompt.volatile import (
    cause_of_change,
    causes_of_changes,
    changed_span,
    common_prefix,
    find,
    looks_volatile,
    place_of_change,
    skeleton,
)


class Row(NamedTuple):
    """A labelled text."""

    cause: str
    """Empty where nothing in it is volatile."""
    text: str
    spans: tuple[tuple[int, int], ...]
    """What of it is."""


def _rows() -> list[Row]:
    found = []
    for line in Path(__file__).with_name("volatile_rows.txt").read_text(encoding="utf-8").splitlines():
        cause, _, text = line.partition("|")
        if line.startswith("#"):
            continue
        pieces = re.split("[«»]", text.replace("\\n", "\n"))
        ends = [0, *accumulate(map(len, pieces))]
        spans = tuple((ends[i], ends[i + 1]) for i in range(1, len(pieces), 2))
        found.append(Row(cause.strip("-"), "".join(pieces), spans))
    return found


ROWS = _rows()
UNTOLD = {"Romans 8:28"}
"""A verse looks like a clock."""


def _found(text: str) -> list[tuple[int, int]]:
    """Volatile spans; those that touch are one."""
    spans: list[tuple[int, int]] = []
    for span in find(text):
        if spans and spans[-1][1] == span.start:
            spans[-1] = (spans[-1][0], span.end)
        else:
            spans.append((span.start, span.end))
    return spans


@pytest.mark.parametrize("row", [r for r in ROWS if r.text not in UNTOLD], ids=lambda r: r.text)
def test_what_is_marked_is_volatile_and_nothing_else_is(row: Row) -> None:
    assert _found(row.text) == list(row.spans)
    assert {span.cause for span in find(row.text)} <= {row.cause}
    assert row.spans or skeleton(row.text) == row.text


def test_precision_and_recall() -> None:
    """On rows that the patterns were made with: what they cover, not what they would find elsewhere."""
    marked, other = [r for r in ROWS if r.spans], [r for r in ROWS if not r.spans]
    hits = sum(_found(r.text) == list(r.spans) and {s.cause for s in find(r.text)} == {r.cause} for r in marked)
    false = sum(bool(find(r.text)) for r in other) + sum(bool(set(_found(r.text)) - set(r.spans)) for r in marked)
    precision, recall = hits / (hits + false), hits / len(marked)
    print(f"\n{len(marked)} volatile, {len(other)} steady: precision {precision:.4f}, recall {recall:.4f}")
    assert min(len(marked), len(other)) >= 150
    assert min(precision, recall) >= 0.99


@pytest.mark.parametrize(("before", "behind"), [("Note: ", ", and"), ("(", ")"), ('"', '"'), ("- ", ".")])
def test_what_stands_around_does_not_matter(before: str, behind: str) -> None:
    alone = [r for r in ROWS if r.spans == ((0, len(r.text)),) and not r.text.startswith((" ", "?"))]
    assert len(alone) >= 50
    for row in alone:
        label = re.match(r"[\w ]{1,20}[:=]|Your branch", row.text)  # what begins a line, or ends with it
        if label or (behind == "." and row.text.endswith(".")):
            continue
        text = before + row.text + behind
        spans = find(text)
        assert {span.cause for span in spans} == {row.cause}, text
        assert spans[0].start <= len(before), text
        assert spans[-1].end >= len(before) + len(row.text.rstrip(".")), text


@pytest.mark.parametrize(
    "text",
    [
        *("2026-10-02", "2026-10-02T09:14:07Z", "August 1, 2026", "8/1/2026", "9:05", "Saturday", "deadbeef1234"),
        *("01.08.2026", "1759396447", "1759396447.25", "9:05 PM"),
    ],
)
def test_at_the_end_of_a_sentence_too(text: str) -> None:
    assert [(s.start, s.end) for s in find(f"It is {text}.")] == [(6, 6 + len(text))]


@pytest.mark.parametrize("text", ["Write into the project folder and stop.", "A word", "D minor", "List:\nC major\n"])
def test_words_are_no_state_of_a_workspace(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize("unit", ["tokens left", "turns remaining", "steps used", "credits left", "message remaining"])
def test_counters(unit: str) -> None:
    assert [(s.start, s.end, s.cause) for s in find(f"199,000 {unit}")] == [(0, 7, "S3")]
    assert [(s.start, s.end) for s in find(f"3/10 {unit}")] == [(0, 1), (2, 4)]
    assert looks_volatile(f"3/10 {unit}", f"4/10 {unit}")


def test_every_pattern_is_shown_in_the_rows() -> None:
    for pattern in PATTERNS:
        assert any(pattern.regex.search(row.text) for row in ROWS if row.cause == pattern.cause), pattern.name


_FRAGMENTS = (
    *(" ", "\n", "\t", "1", "a", "f", "a1", "1:", "12:34 ", "1/", "1.", "-", "Mon ", "Mon, ", "May ", "12 ", "/tmp/"),
    *("~", "C:\\", "cwd ", "cwd: ", "id: ", "request id", "_", "req_", "req_a", "1,", "tokens ", "1 tokens ", "["),
    *("12:00-", "年", "2026-10-", "2026年10月", "drwx", "-rw", "commit ", "\n ", "月", "'", "up ", "load: 1", "UTC+"),
)  # fmt: skip


@pytest.mark.parametrize("fragment", _FRAGMENTS)
def test_a_search_takes_linear_time(fragment: str) -> None:
    """One that takes quadratic time does not come back from this."""
    text = fragment * (50_000 // len(fragment))
    assert all(0 <= span.start < span.end <= len(text) for span in find(text))


@pytest.mark.parametrize("fragment", _FRAGMENTS)
def test_what_a_change_of_a_long_text_costs_depends_on_the_change(fragment: str) -> None:
    long = fragment * (500_000 // len(fragment))
    before, after = (f"{long}\nThe time is 09:1{i}.\n{long}" for i in (4, 5))
    assert [cause for cause, _, _ in causes_of_changes(before, after)] == ["S1"]
    assert place_of_change(before, after)[1] == "The time is \0."
    assert causes_of_changes(before, after[::-1])


def test_where_two_patterns_meet_the_earlier_and_then_the_longer_wins() -> None:
    text = "cwd: /tmp/x at 2026-10-02T09:14:07Z"
    assert [(text[s.start : s.end], s.cause) for s in find(text)] == [
        ("cwd: /tmp/x", "S3"),
        ("2026-10-02T09:14:07Z", "S1"),
    ]


@given(st.text(st.sampled_from(list("0123456789:-/. TZAMPacpmno\n")), max_size=40))
def test_spans_are_in_order_and_apart(text: str) -> None:
    spans = find(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert skeleton(text).count("\0") == len(spans)
    assert not looks_volatile(text, text)


# Where two texts differ


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_a_changed_span_is_what_lies_between_the_common_ends(one: str, other: str) -> None:
    start, end_one, end_other = changed_span(one, other)
    assert one[:start] == other[:start]
    assert one[end_one:] == other[end_other:]
    assert 0 <= start <= min(end_one, end_other)
    assert (end_one, end_other) == (start, start) if one == other else one[start:end_one] != other[start:end_other]
    assert common_prefix(one, other) == len(re.match(".*?(?=\0)|", f"{_common(one, other)}\0")[0])  # type: ignore[index]


def _common(one: str, other: str) -> str:
    for n in range(min(len(one), len(other)) + 1):
        if one[:n] != other[:n]:
            return one[: n - 1]
    return one[: min(len(one), len(other))]


# Why a system text changed

BASE = "You help.\n{}\nBe brief."


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("Now: 09:14", "Now: 09:15", "S1"),
        ("09:14 in /tmp/a", "09:14 in /tmp/b", "S3"),
        ("09:14 in /tmp/a", "09:15 in /tmp/b", "S1"),
        ("Now: 09:14", "Now: 09:14\nBuilt 2026-01-02", "S1"),
        ("Built 2026-01-02\nHello", "Hello", "S1"),
        ("Hello", "Hello\n" + "2026-01-02 " + "x" * 400, None),
        ("Hello", "Hello\n2026-01-02\na\nb\nc", None),
        ("Hello", "Hello\nNew rule.", None),
        ("French", "German", None),
        ("Clock shows noon", "Clock shows night", "S1"),
        ("Open files\na.py", "Open files\nb.py", None),
        ("Open files:\na.py", "Open files:\nb.py", "S3"),
        ("# Recent commits\nfix a", "# Recent commits\nfix b", "S3"),
        ("<memory>\ntea\n</memory>", "<memory>\ntea\ndog\n</memory>", "S4"),
        ("Mode: plan", "Mode: act", "S6"),
        ("Mode: plan\nToday is good", "Mode: act\nToday is bad", None),
        ("Open files:\n\na.py", "Open files:\n\nb.py", None),
        ("Open files:\n1\n2\n3\n4\n5\na.py", "Open files:\n1\n2\n3\n4\n5\nb.py", "S3"),
        ("Sandbox mode: workspace-write", "Sandbox mode: read-only", "S6"),
        ("Cursor is at a.py:7", "Cursor is at b.py:9", "S3"),
        ("Relevant documents:\nA frame lasts.", "Relevant documents:\nA frame lasts.\nSo does a wheel.", "S4"),
        # Below a heading
        ("## Memory\n\ntea", "## Memory\n\ndog", "S4"),
        ("## Memory\n\ntea\n\nUse it.", "## Memory\n\ntea\n\nLose it.", None),
        ("## Memory\n\ntea\n\n## Rules\n\nUse it.", "## Memory\n\ntea\n\n## Rules\n\nLose it.", None),
        ("<memory>\ntea\n</memory>\nUse it.", "<memory>\ntea\n</memory>\nLose it.", None),
        # Sections that come and go
        ("Hello", "Hello\n\n## Memory\n\ntea\n\nA dog.", "S4"),
        ("Hello", "Hello\n\n## Memory\n\n### Ann\n\n- tea", "S4"),
        ("Hello\n\n<memory>\ntea\n\nA dog.\n</memory>", "Hello", "S4"),
        ("Hello", "<env>\ncwd: here\nbranch: main\n</env>\n\nHello", "S3"),
        ("Hello", "Hello\n\n<env>\n</env>", None),
        ("Hello\n\nDate: Monday\nOpen files: a.py", "Hello", "S1"),
        ("Hello", "Hello\n\n<memory>\ntea\n</memory>\n\nLose it.", None),
        ("Hello", "Hello\n\nMemory:\n- tea\n\nLose it.", None),
        ("Hello", "Hello\n\n## Memory\n\ntea\n\n## Rules\n\nLose it.", None),
    ],
)
def test_a_change_is_named_by_what_changed_or_what_it_stands_under(before: str, after: str, cause: str | None) -> None:
    assert cause_of_change(BASE.format(before), BASE.format(after)) == cause


@pytest.mark.parametrize(
    ("before", "after", "causes"),
    [
        ("Now: 09:14\n\n# Memory\n- tea", "Now: 09:15\n\n# Memory\n- tea\n- dog", ["S1", "S4"]),
        ("Now: 09:14\nFrench\nMode: plan", "Now: 09:15\nGerman\nMode: act", ["S1", None, "S6"]),
        ("Now: 09:14\nUse it.\nFrench", "Now: 09:15\nUse it.\nGerman", ["S1", None]),
        ("Now: 09:14\nUse it.\nDay: 2026-10-02", "Now: 09:15\nUse it.\nDay: 2026-10-03", ["S1"]),
        ("French\nUse it.\nmild", "German\nUse it.\nhot", [None]),
        ("Now: 09:14\n\nUse it.", "Use it.\n\n# Memory\n- tea", ["S1", "S4"]),
        ("Day: 2026-10-02", "Memory:\n- tea\n- dogs", ["S1", "S4"]),
        ("Day: 2026-10-02", "Lose it.", [None]),
        ("same", "same", [None]),
    ],
)
def test_each_place_that_changed_has_its_cause(before: str, after: str, causes: list[str | None]) -> None:
    found = causes_of_changes(BASE.format(before), BASE.format(after))
    assert [cause for cause, _, _ in found] == causes
    assert all(text != now for cause, text, now in found if before != after)


def test_the_place_of_a_change_is_known_again_whatever_it_says_and_whatever_the_clock() -> None:
    text = "You help.\nNow: {}\nIt is {} today.\nBe brief."
    first = place_of_change(text.format("09:14", "warm"), text.format("09:14", "cold"))
    again = place_of_change(text.format("10:20", "cold"), text.format("10:20", "wet"))
    assert first[0] == again[0]
    assert (first[1], again[1]) == ("It is cold today.", "It is wet today.")
    assert place_of_change("a long text that is all there is", "another one") == ("", "")


def test_equal_texts_have_no_cause() -> None:
    assert cause_of_change("at 09:14", "at 09:14") is None


# Tokens of billing blocks


def test_the_token_of_a_billing_block() -> None:
    text = "x-anthropic-billing-header: v=1; cch=4e0d1; cch=2"
    assert volatile.billing_token(text) == "4e0d1"
    assert volatile.billing_token("x-anthropic-billing-header: v=1") == ""
    assert volatile.billing_token(f"\n {text.upper()}") == ""
    assert volatile.billing_token(f"See {text}") is None
    assert volatile.mask_billing(f"{text}\nBe kind. cch=3") == "x-anthropic-billing-header:*\nBe kind. cch=3"


def test_a_token_is_masked_as_a_whole_word() -> None:
    plain = b"cch=4e0d1 cch=4e0d12 xcch=4e0d1 \\ncch=4e0d1 cch=other"
    assert volatile.mask_token(plain, "4e0d1") == b"cch=* cch=4e0d12 xcch=4e0d1 \\ncch=* cch=other"
    assert volatile.mask_token(plain, "") == plain
    assert volatile.mask_any_token(plain) == b"cch=* cch=* xcch=4e0d1 \\ncch=* cch=*"
