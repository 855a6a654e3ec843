"""Text that a prompt shows: code and examples."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.quoted import quoted, shown, touches

ROWS = [
    "Say it.\n«```\n09:14 up\n```»\nDone.",
    "Say it.\n«~~~sh\n```\n09:14\n~~~»\nDone.",
    "Say it.\n«````\n```\n09:14\n````»\nDone.",
    "> «```\n> 09:14\n> ```»\nDone.",
    "Say it.\n«```\nnothing closes it",
    "Log like «`09:14 up`» and go on.",
    "Log like «``a ` b``» and go on.",
    "Text\n\n«    code 09:14\n    more»\n\nText",
    "Text\n    not behind an empty line",
    "    All\n\n    of it\n\n    is indented",
    "One line\n\n    and the rest\n\n    is indented",
    "«<examples>09:14</examples>» and <b>not</b>",
    "<example>nothing closes it, 09:14",
    "«<code class='a'>x</code>» <time>09:14</time>",
    "Example: «the time is 09:14»\nThe time is 09:15.",
    "Example:\n\nThe time is 09:14.",
    'Answer in this format: «{"at": "09:14",\n "ok": true}»\n\nThe time is 09:15.',
    "For example:«\n- 09:14 up\n- 09:15 down»\n\nThe time is 09:16.",
    "For example: «a cue in a cue, such as: 09:14»\nIt is 09:14.",
    "Zum Beispiel: «09:14»\nJetzt: 09:15",
    "The time is 09:14.\ncwd: /home/ann",
    '{"now": "09:14"}',
    "<env>\nNow: 09:14\n</env>",
    "A ` alone and another\n` on the next line",
    "Choose a format.\nThe time is 09:14.",
]


def _marked(row: str) -> tuple[str, list[tuple[int, int]]]:
    """The text, and what of it is marked; a row without a closing mark is marked to its end."""
    pieces = re.split("[«»]", row)
    at, spans = 0, []
    for i, piece in enumerate(pieces):
        if i % 2:
            spans.append((at, at + len(piece)))
        at += len(piece)
    return "".join(pieces), spans


@pytest.mark.parametrize("row", ROWS)
def test_what_is_marked_is_shown(row: str) -> None:
    text, spans = _marked(row)
    if row.startswith("Example:\n\n"):
        assert touches(quoted(text), len(text) - 3, len(text))
        return
    found = [(a + text[a:b].find("`"), b) if text[a:b].startswith(">") else (a, b) for a, b in quoted(text)]
    assert [(a, b) for a, b in found if text[a:b].strip()] == spans
    for i in range(len(text)):
        inside = any(a <= i < b for a, b in quoted(text))
        assert touches(quoted(text, (i, i + 1)), i, i + 1) == touches(quoted(text), i, i + 1) == inside
    assert not touches(quoted(text), 3, 3)
    assert shown(text) == [text[a:b].strip() for a, b in quoted(text) if text[a:b].strip()]


def test_what_is_known_by_its_line_is_sought_close_to_a_place_only() -> None:
    text = "`a` " + "word " * 2_000 + "`b`"
    assert shown(text) == ["`a`", "`b`"]
    assert shown(text, (len(text) - 9, len(text))) == ["`b`"]
    assert shown(f"```\nx\n```\n{text}", (len(text), len(text))) == ["```\nx\n```", "`b`"]


@given(st.text(st.sampled_from(list("`~\n <>abe:{")), max_size=60))
def test_spans_are_in_order_and_apart(text: str) -> None:
    spans = quoted(text)
    assert all(0 <= a < b <= len(text) or a == b for a, b in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))


@pytest.mark.parametrize(
    "fragment",
    ["`", "``", "```\n", "~~~\n", " ", "\n", "    a\n", "\n\n    a", "\t", "<code>", "<code ", "</code>", "example",
     "e.g.:", "example: ", "example:\n", "example: {", ":", ">", "a`b"],
)  # fmt: skip
def test_a_search_takes_linear_time(fragment: str) -> None:
    text = fragment * (1_000_000 // len(fragment))
    spans = quoted(text)
    assert all(b <= len(text) for _, b in spans)
    assert quoted(text, (500_000, 500_001)) is not None
