"""What looks as if it changes by itself, and what does not."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt import volatile
from standfast.prompt.patterns import PATTERNS
from standfast.prompt.volatile import cause_of_change, changed_span, common_prefix, find, looks_volatile, skeleton

VOLATILE = {
    "S1": [
        "2026-10-02", "2026-10-02T09:14:07Z", "2026-10-02 09:14", "2026-10-02T09:14:07.123+02:00", "August 1, 2026",
        "Sat, 1 Aug 2026 at 9:05 PM", "August 1st", "1 Sept.", "Aug 2026", "8/1/2026", "2026/08/01", "01.08.2026",
        "9:05", "09:14:07.5", "9:05 PM UTC", "9:05 a.m.", "Saturday", "Saturday, August 1, 2026", "3 minutes ago",
        "1 day ago", "2026-W40", "2026年10月3日", "2026年10月03日 星期六", "2027年06月10日 19時50分",
        "2026년 10월 3일 토요일",
        "3 de octubre de 2026", "3 octobre 2026", "3. Oktober 2026", "Mittwoch, der 15. September 2027",
        "16 de setembro de 2027", "13 aprile 2027", "3 oktober 2026", "3 października 2026", "27 марта 2027 г.",
        "1er mai 2026", "3 Ekim 2026", "04h53", "14 Uhr 30", "Mittwoch", "samedi",
        "1759396447", "1759396447123", "1759396447.25",
    ],
    "S2": [
        "0b6f6a9e-6d5c-4d4e-9a2b-0f1e2d3c4b5a", "deadbeef1234", "request_id: abcd1", "session-id=xyz_9",
        "traceId: 12345", "Correlation ID = 00-aa.bb", "01K280ZRVH13PV2WP6FCSPVQV7", "conv_9KT2DW5sthaYBjGqFmP69zSQ",
        "nonce=S9x4ViEtihcFheoHLkb7pu",
    ],
    "S3": [
        "cwd: /home/a", "Working directory is '/a'", "Project path: ~/x", "git status: clean", "branch: main",
        " M src/f.py", "?? new.txt", "/tmp/x-9b22", "/var/folders/ab/c", "C:\\Temp\\x", "hostname: box-1", "pid=4711",
        "port: 8080",
    ],
}  # fmt: skip

STEADY = [
    # versions, addresses, prices, numbers of telephones, of sections and of orders
    "Use library 1.2.3.", "v2.0.1-rc1", "Python 3.11", "Server 10.0.12.1", "10.0.0.1:8080", "$12.99", "1,299.00 EUR",
    "+1 555 123 4567", "(030) 1234-5678", "555-1234", "see section 4.2.1", "Order 12-34-56", "chapter 10:20:30:40",
    "3.14159", "1234567890", "2512345678", "RFC 2616", "ISO 8601", "error 404", "123456789012", "5-10-2026",
    # code
    "for i in range(10):", "x = a[1:2]", "y = a[10:20:3]", "key=value", "#1e90ff", "aabbccddeeff", "ABCDEF123456",
    "if (a ? b : c)", "1/2", "a/b/c", "Foo::bar(1)",
    # words
    "May I help?", "the force may be with you", "March on", "Sun hats", "Mon", "decades", "defaced facade",
    "every 5 minutes", "100 tokens", "12 monkeys", "the status: of things", "24/7", "and/or", "ratio 16:9", "id: 5",
]  # fmt: skip


@pytest.mark.parametrize(("cause", "text"), [(cause, text) for cause, texts in VOLATILE.items() for text in texts])
def test_all_of_it_is_volatile(cause: str, text: str) -> None:
    for before, behind in (("", ""), ("Note: ", ", and"), ("(", ")"), ('"', '"')):
        if text.startswith((" ", "?", "git", "branch")) and before:
            before, behind = "Note:\n", "\nEnd."
        spans = find(before + text + behind)
        assert {span.cause for span in spans} == {cause}
        assert spans[0].start <= len(before)
        assert spans[-1].end >= len(before) + len(text.rstrip("."))


@pytest.mark.parametrize(
    "text",
    [
        *("2026-10-02", "2026-10-02T09:14:07Z", "August 1, 2026", "8/1/2026", "9:05", "Saturday", "deadbeef1234"),
        *("01.08.2026", "1759396447", "1759396447.25"),
    ],
)
def test_at_the_end_of_a_sentence_too(text: str) -> None:
    assert [(s.start, s.end) for s in find(f"It is {text}.")] == [(6, 6 + len(text))]


@pytest.mark.parametrize("text", STEADY)
def test_nothing_of_it_is_volatile(text: str) -> None:
    assert find(text) == []
    assert skeleton(text) == text


@pytest.mark.parametrize("text", ["Write into the project folder and stop.", "A word", "D minor", "List:\nC major\n"])
def test_words_are_no_state_of_a_workspace(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize("unit", ["tokens left", "turns remaining", "steps used", "credits left", "message remaining"])
def test_counters(unit: str) -> None:
    assert [(s.start, s.end, s.cause) for s in find(f"199,000 {unit}")] == [(0, 7, "S3")]
    assert [(s.start, s.end) for s in find(f"3/10 {unit}")] == [(0, 1), (2, 4)]
    assert looks_volatile(f"3/10 {unit}", f"4/10 {unit}")


def test_every_pattern_is_shown_here() -> None:
    shown = [text for texts in VOLATILE.values() for text in texts] + ["3 tokens left"]
    for pattern in PATTERNS:
        assert any(pattern.regex.search(text) for text in shown), pattern.name
        assert not any(pattern.regex.search(text) for text in STEADY if pattern.name != "clock"), pattern.name


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
    ],
)
def test_a_change_is_named_by_what_changed_or_what_it_stands_under(before: str, after: str, cause: str | None) -> None:
    assert cause_of_change(BASE.format(before), BASE.format(after)) == cause


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
