"""The script is a valid conversation of the promised size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from standfast.demo import script

STORY = script.load()
LAST = STORY.turns[-1].body


def test_it_has_the_promised_size() -> None:
    assert len(STORY.turns) >= 25
    assert len(LAST["tools"]) == 12
    assert len({tool["function"]["name"] for tool in LAST["tools"]}) == 12
    assert sum(len(message.get("tool_calls", ())) > 1 for message in LAST["messages"]) >= 3
    assert {turn.kind for turn in STORY.turns} == {"user", "tools"}
    assert [turn.number for turn in STORY.turns] == list(range(1, len(STORY.turns) + 1))


def test_every_turn_extends_the_one_before() -> None:
    for before, after in zip(STORY.turns, STORY.turns[1:], strict=False):
        length = len(before.body["messages"])
        assert after.body["messages"][:length] == before.body["messages"]
        assert after.body["messages"][length]["role"] == "assistant"
        assert after.body["tools"] == before.body["tools"]


def test_every_call_has_its_result_right_behind_it() -> None:
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in LAST["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            json.loads(message["content"])
            continue
        assert not open_calls
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        assert not seen & set(open_calls)
        seen |= set(open_calls)
    assert not open_calls


def test_every_call_fits_its_schema() -> None:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in LAST["tools"]}
    used = set()
    for call in (call for message in LAST["messages"] for call in message.get("tool_calls", ())):
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        used.add(name)
        assert set(schemas[name].get("required", ())) <= set(arguments) <= set(schemas[name]["properties"])
        for key, value in arguments.items():
            assert_fits(value, schemas[name]["properties"][key])
    assert len(used) >= 10


def assert_fits(value: Any, schema: dict[str, Any]) -> None:
    if "enum" in schema:
        assert value in schema["enum"]
    else:
        types: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float), "boolean": (bool,)}
        assert isinstance(value, types[schema["type"]])


def test_it_asks_for_few_tokens_and_no_chance() -> None:
    for turn in STORY.turns:
        assert turn.body["max_tokens"] <= 8
        assert turn.body["temperature"] == 0


def test_the_clock_is_in_the_system_prompt() -> None:
    assert f"Current time: {STORY.clock}" in LAST["messages"][0]["content"]


def test_a_call_without_its_result_is_refused() -> None:
    data = {
        "title": "", "model": "m", "max_tokens": 4, "system": "{clock}", "clock": "2026-01-01 00:00:00", "tools": [],
        "conversation": [{"calls": [["a", {}], ["b", {}]]}, {"results": [{}]}],
    }  # fmt: skip
    with pytest.raises(ValueError, match="shorter"):
        script.build(data)
