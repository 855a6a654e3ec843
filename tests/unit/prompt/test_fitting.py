"""An old item in the place of a new one: shape, markers, the client's own fields, ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from standfast.errors import Ambiguous
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.fitting import TWO_CALLS, fitted, fitted_all, in_place, renamed
from standfast.prompt.items import Items, build
from standfast.prompt.model import Tier

MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
LONG: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def user(*content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content), **fields}


def fit(dialect: str, old: Any, new: Any, tier: Tier = Tier.MESSAGES, *, reshapes: bool = False) -> Any:
    """What goes out, decoded; the string "new" for the client's own."""
    known = DIALECTS[dialect]
    was, now = (build(known, tier, json.dumps(value).encode()) for value in (old, new))
    made = fitted(known, was, now, Items(), reshapes=reshapes)
    return "new" if made is now else json.loads(made.wire)


FITS: list[tuple[str, Tier, Any, Any, Any]] = [
    # dialect, tier, as sent, as it came, what goes out
    ("anthropic", Tier.MESSAGES, user(text("a ")), user(text("a")), user(text("a "))),
    ("anthropic", Tier.MESSAGES, user(text("a ", **MARK)), user(text("a")), user(text("a "))),
    ("anthropic", Tier.MESSAGES, user(text("a ")), user(text("a", **MARK)), user(text("a ", **MARK))),
    ("anthropic", Tier.MESSAGES, user(text("a ", **MARK)), user(text("a", **LONG)), user(text("a ", **LONG))),
    ("anthropic", Tier.MESSAGES, {"role": "user", "content": "a "}, user(text("a", **MARK)), "new"),
    ("anthropic", Tier.MESSAGES, user(text("a ")), {"role": "user", "content": "a"}, user(text("a "))),
    ("anthropic", Tier.SYSTEM, "a ", text("a", **MARK), text("a ", **MARK)),
    ("anthropic", Tier.SYSTEM, text("a ", **MARK), "a", "a "),
    ("anthropic", Tier.SYSTEM, text("a ", citations=[1]), "a", "new"),
    ("anthropic", Tier.TOOLS, {"name": "t", "x": 1, **MARK}, {"x": 1, "name": "t"}, {"name": "t", "x": 1}),
    ("anthropic", Tier.TOOLS, {"name": "t", "x": 1}, {"x": 1, "name": "t", **MARK}, {"name": "t", "x": 1, **MARK}),
    ("openai_responses", Tier.MESSAGES, {"role": "user", "content": "a "}, "a", "a "),
    ("openai_responses", Tier.MESSAGES, "a ", {"role": "user", "content": "a"}, {"role": "user", "content": "a "}),
    ("openai_responses", Tier.MESSAGES, user({"type": "input_text", "text": "a "}), "a", "new"),
    (
        "openai_responses",
        Tier.MESSAGES,
        {"role": "assistant", "content": "a ", "id": "m1", "status": "completed"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "a "},
    ),
    (
        "openai_responses",
        Tier.MESSAGES,
        {"role": "assistant", "content": "a "},
        {"role": "assistant", "content": "a", "id": "m2"},
        {"role": "assistant", "content": "a ", "id": "m2"},
    ),
    ("openai_responses", Tier.SYSTEM, "a ", "a", "a "),
]


@pytest.mark.parametrize(("dialect", "tier", "old", "new", "out"), FITS, ids=str)
def test_the_old_bytes_stand_in_the_new_ones_shape(dialect: str, tier: Tier, old: Any, new: Any, out: Any) -> None:
    assert fit(dialect, old, new, tier) == out


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_an_old_text_gets_the_shape_that_has_room_for_the_marker_of_now(dialect: str) -> None:
    alone, listed = {"role": "user", "content": "a "}, user(text("a", **MARK))
    assert fit(dialect, alone, listed, reshapes=True) == user(text("a ", **MARK))
    assert fit(dialect, alone, user(text("a", **MARK), text("b")), reshapes=True) == "new"


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
PLACES: list[tuple[list[Any], list[Any], list[Any]]] = [
    # as sent, as they came, what goes out
    ([user(text("a"), text("b"))], [user(text("a", **MARK))], [user(text("a", **MARK), text("b"))]),
    ([user(text("a", **MARK), text("b"))], [user(text("a"))], [user(text("a"), text("b"))]),
    ([user(THOUGHT, text("a"))], [user(text("a", **MARK))], [user(THOUGHT, text("a", **MARK))]),
    (
        [user(text("a")), user(text("b"))],
        [user(text("a"), text("b", **MARK))],
        [user(text("a")), user(text("b", **MARK))],
    ),
    ([user(text("whole"))], [user(text("cut", **LONG))], [user(text("whole", **LONG))]),
    ([{"role": "user", "content": "a"}], [user(text("a", **MARK), text("b"))], [user(text("a", **MARK))]),
]


@pytest.mark.parametrize(("sent", "came", "out"), PLACES, ids=range(len(PLACES)))
def test_markers_stand_on_the_parts_that_say_the_same(sent: list[Any], came: list[Any], out: list[Any]) -> None:
    known, items = DIALECTS["anthropic"], Items()
    rows = [[items.get(known, Tier.MESSAGES, json.dumps(value).encode()) for value in row] for row in (sent, came)]
    assert [json.loads(item.wire) for item in in_place(known, rows[0], rows[1], items)] == out


def test_the_same_bytes_are_the_same_item() -> None:
    known, items = DIALECTS["openai_responses"], Items()
    one = items.get(known, Tier.MESSAGES, b'{"role":"user","content":"a","id":"m"}')
    assert fitted(known, one, one, items) is one
    assert fitted_all(known, (one,), (one,), items) == (one,)
    tools = (one,)
    assert fitted_all(known, tools, tools, items) is tools


def test_ids_of_old_calls_are_put_right() -> None:
    known, items = DIALECTS["openai_chat"], Items()
    result = items.get(known, Tier.MESSAGES, b'{"role":"tool","tool_call_id":"new","content":"r"}')
    assert renamed(known, result, {"other": "old"}, items) is result
    assert json.loads(renamed(known, result, {"new": "old"}, items).wire)["tool_call_id"] == "old"
    with pytest.raises(Ambiguous, match="another call"):
        renamed(known, result, {"new": TWO_CALLS}, items)
