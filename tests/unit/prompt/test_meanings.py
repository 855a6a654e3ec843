"""What means the same in each dialect, and whether the cache sees a difference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from standfast.prompt import canonical
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.dialects.base import (
    arguments_meaning,
    in_order,
    is_empty,
    result_meaning,
    said,
    system_meaning,
    text_meaning,
)
from standfast.prompt.items import build
from standfast.prompt.model import Item, Tier


def item(dialect: str, value: Any, tier: Tier = Tier.MESSAGES) -> Item:
    return build(DIALECTS[dialect], tier, json.dumps(value).encode())


def same(dialect: str, one: Any, other: Any, tier: Tier = Tier.MESSAGES) -> tuple[bool, bool]:
    """Whether two elements are equal in meaning, and to the cache."""
    a, b = item(dialect, one, tier), item(dialect, other, tier)
    meanings = [(i.frame, [p.meaning for p in i.parts]) for i in (a, b)]
    return meanings[0] == meanings[1], a.key == b.key


def _user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def _chat_call(**fields: Any) -> dict[str, Any]:
    call = {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


EQUAL: list[tuple[str, Any, Any, bool]] = [
    # dialect, one, other, whether the cache sees no difference either
    ("anthropic", _user({"type": "text", "text": "a"}), _user({"text": "a", "type": "text"}), True),
    ("anthropic", _user({"type": "text", "text": "a"}), _user({"type": "text", "text": "a", "citations": []}), True),
    ("anthropic", {"role": "user", "content": "a"}, _user({"type": "text", "text": " a\n"}), False),
    (
        "anthropic",
        _user({"type": "tool_result", "tool_use_id": "i", "content": "a"}),
        _user({"type": "tool_result", "tool_use_id": "i", "content": "a", "is_error": False}),
        True,
    ),
    (
        "anthropic",
        _user({"type": "tool_result", "tool_use_id": "i", "content": '{"a":1.0}'}),
        _user({"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": '{ "a": 1 }'}]}),
        False,
    ),
    (
        "anthropic",
        _user({"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1, "b": 2}}),
        _user({"type": "tool_use", "id": "k", "name": "f", "input": {"b": 2, "a": 1}}),
        False,
    ),
    ("openai_chat", _chat_call(), _chat_call(index=0), True),
    ("openai_chat", _chat_call(), {**_chat_call(), "refusal": None, "annotations": []}, True),
    ("openai_chat", _chat_call(), {**_chat_call(), "content": ""}, False),
    (
        "openai_chat",
        {"role": "tool", "tool_call_id": "i", "content": "[1, 2]"},
        {"role": "tool", "tool_call_id": "k", "content": [{"type": "text", "text": "[1,2]"}]},
        False,
    ),
    (
        "openai_responses",
        {"role": "user", "content": "a"},
        {"type": "message", "id": "m", "status": "completed", "role": "user", "content": "a"},
        True,
    ),
    (
        "openai_responses",
        {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": [1]}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        True,
    ),
    (
        "openai_responses",
        {"type": "function_call_output", "call_id": "i", "output": [{"type": "input_text", "text": "a", "x": None}, 3]},
        {"type": "function_call_output", "call_id": "k", "output": [{"type": "input_text", "text": "a"}, 3]},
        False,
    ),
    (
        "openai_responses",
        {"type": "function_call_output", "call_id": "i", "output": {"a": 1, "b": 2}},
        {"type": "function_call_output", "call_id": "i", "output": {"b": 2, "a": 1}},
        False,
    ),
    (
        "openai_responses",
        {"type": "function_call_output", "call_id": "i", "output": ' {"a": 1}'},
        {"type": "function_call_output", "call_id": "i", "output": '{"a":1}', "id": "o", "status": "completed"},
        False,
    ),
]


@pytest.mark.parametrize(("dialect", "one", "other", "cached"), EQUAL, ids=str)
def test_forms_of_one_meaning(dialect: str, one: Any, other: Any, cached: bool) -> None:
    assert same(dialect, one, other) == (True, cached)


UNEQUAL: list[tuple[str, Any, Any]] = [
    ("anthropic", _user({"type": "text", "text": "a"}), _user({"type": "text", "text": "a", "citations": [1]})),
    ("anthropic", _user({"type": "text", "text": "a b"}), _user({"type": "text", "text": "a  b"})),
    ("anthropic", _user(), {"role": "assistant", "content": []}),
    (
        "anthropic",
        _user({"type": "tool_result", "tool_use_id": "i", "content": "a"}),
        _user({"type": "tool_result", "tool_use_id": "i", "content": "a", "is_error": True}),
    ),
    ("anthropic", _user({"type": "brand_new", "x": []}), _user({"type": "brand_new"})),
    ("openai_chat", _chat_call(), {**_chat_call(), "content": "a"}),
    ("openai_chat", _chat_call(), _chat_call(function={"name": "g", "arguments": "{}"})),
    ("openai_chat", {"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": "n"}),
    ("openai_chat", {"role": "user", "content": "{}"}, {"role": "user", "content": "{ }"}),
    (
        "openai_responses",
        {"type": "function_call", "call_id": "i", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "i", "name": "f", "arguments": '{"a":2}'},
    ),
    ("openai_responses", {"type": "reasoning", "id": "a"}, {"type": "reasoning", "id": "b"}),
]


@pytest.mark.parametrize(("dialect", "one", "other"), UNEQUAL, ids=str)
def test_another_meaning_is_seen(dialect: str, one: Any, other: Any) -> None:
    assert same(dialect, one, other) == (False, False)


def test_a_billing_block_means_the_same_whatever_its_token() -> None:
    one, other = (f"x-anthropic-billing-header: v; cch={t}; say cch=1" for t in ("aa", "bb"))
    blocks = [{"type": "text", "text": t} for t in (one, other)]
    assert same("anthropic", blocks[0], blocks[1], Tier.SYSTEM) == (True, False)
    assert same("openai_responses", one, other, Tier.SYSTEM) == (True, False)
    for role, equal in (("system", True), ("user", False)):
        messages = [{"role": role, "content": t} for t in (one, other)]
        assert same("openai_chat", messages[0], messages[1]) == (equal, False)


# Base


def test_what_says_nothing() -> None:
    values: list[Any] = [None, [], {}, "", 0, False]
    assert [is_empty(v) for v in values] == [True, True, True, False, False, False]
    assert said({"a": None, "b": 0, "c": 1, "cache_control": {}}, without=("c",)) == {"b": 0}
    assert list(in_order({"b": 1, "a": None, "cache_control": 1})) == ["a", "b"]


@pytest.mark.parametrize("odd", [None, 7, [], {}])
def test_meanings_of_what_is_no_text_are_itself(odd: Any) -> None:
    for meaning in (text_meaning, system_meaning, result_meaning, arguments_meaning):
        assert meaning(odd) == odd


def test_json_in_strings_means_its_value() -> None:
    assert arguments_meaning(" x ") == " x "
    assert result_meaning(" x ") == "x"
    assert canonical.key_form(arguments_meaning('{"b": 1.0, "a": []}')) == b'{"a":[],"b":1}'
    assert canonical.key_form(result_meaning("[1.50]")) == b'{"json":[15e-1]}'
    assert arguments_meaning('{"a":1,"a":2}') == '{"a":1,"a":2}'
