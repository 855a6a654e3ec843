"""Each dialect takes any JSON apart, and the few things that it does with an element it does on any element."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.dialects import DIALECTS, detect
from standfast.prompt.dialects.base import marked_places
from standfast.prompt.items import build
from standfast.prompt.model import Item, Kind, Tier

ANTHROPIC, CHAT, RESPONSES = DIALECTS["anthropic"], DIALECTS["openai_chat"], DIALECTS["openai_responses"]
ALL = list(DIALECTS.values())
TIERS = (Tier.TOOLS, Tier.SYSTEM, Tier.MESSAGES)
ODD: tuple[Any, ...] = (None, True, 0, -1.5, "", "x", "{", '{"a":1}', [], {}, [None], [[1]], {"type": {"a": 1}}, [{}])


def item(dialect: str, value: Any, tier: Tier = Tier.MESSAGES) -> Item:
    return build(DIALECTS[dialect], tier, json.dumps(value).encode())


def parts(dialect: str, value: Any) -> list[tuple[str, str, str | None]]:
    return [(p.suffix, p.kind.value, p.call_id) for p in item(dialect, value).parts]


# Every part type, by name


def _user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


KINDS: list[tuple[str, Any, Any]] = [
    ("anthropic", {"role": "user", "content": "a"}, [(".content", "text", None)]),
    ("anthropic", _user({"type": "text", "text": "a"}), [(".content[0]", "text", None)]),
    ("anthropic", _user({"type": "tool_use", "id": "i", "name": "f", "input": {}}), [(".content[0]", "call", "i")]),
    ("anthropic", _user({"type": "server_tool_use", "id": "i"}), [(".content[0]", "call", "i")]),
    ("anthropic", _user({"type": "tool_result", "tool_use_id": "i"}), [(".content[0]", "result", "i")]),
    (
        "anthropic",
        _user({"type": "web_search_tool_result", "tool_use_id": "i", "content": []}),
        [(".content[0]", "result", "i")],
    ),
    ("anthropic", _user({"type": "thinking", "thinking": "t"}), [(".content[0]", "thinking", None)]),
    ("anthropic", _user({"type": "redacted_thinking", "data": "d"}), [(".content[0]", "thinking", None)]),
    *(
        ("anthropic", _user({"type": kind, "source": {}}), [(".content[0]", "media", None)])
        for kind in ("image", "document", "search_result", "container_upload")
    ),
    ("anthropic", _user({"type": "brand_new"}), [(".content[0]", "other", None)]),
    ("anthropic", _user(7), [(".content[0]", "other", None)]),
    ("anthropic", {"role": "user", "content": None}, [(".content", "other", None)]),
    ("openai_chat", {"role": "user", "content": "a"}, [(".content", "text", None)]),
    ("openai_chat", _user({"type": "text", "text": "a"}), [(".content[0]", "text", None)]),
    *(
        ("openai_chat", _user({"type": kind}), [(".content[0]", "media", None)])
        for kind in ("image_url", "input_audio", "file")
    ),
    ("openai_chat", _user({"type": "brand_new"}, 7), [(".content[0]", "other", None), (".content[1]", "other", None)]),
    ("openai_chat", {"role": "user", "content": {"a": 1}}, [(".content", "other", None)]),
    (
        "openai_chat",
        {"role": "assistant", "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": "{}"}}]},
        [(".tool_calls[0]", "call", "i")],
    ),
    (
        "openai_chat",
        {"role": "assistant", "tool_calls": [{"id": 3, "function": {}}, {"id": "i"}, 7]},
        [(f".tool_calls[{i}]", "other", None) for i in range(3)],
    ),
    *(
        (
            "openai_chat",
            {"role": "assistant", "content": "a", name: "t"},
            [(f".{name}", "thinking", None), (".content", "text", None)],
        )
        for name in ("reasoning_content", "reasoning", "reasoning_details")
    ),
    ("openai_chat", {"role": "tool", "tool_call_id": "i", "content": "r"}, [(".content", "result", "i")]),
    ("openai_chat", {"role": "tool", "tool_call_id": 3, "content": "r"}, [("", "other", None)]),
    ("openai_responses", "a", [("", "text", None)]),
    ("openai_responses", {"role": "user", "content": "a"}, [(".content", "text", None)]),
    *(
        ("openai_responses", _user({"type": kind, "text": "a"}), [(".content[0]", "text", None)])
        for kind in ("input_text", "output_text", "text")
    ),
    *(
        ("openai_responses", _user({"type": kind}), [(".content[0]", "media", None)])
        for kind in ("input_image", "input_file", "input_audio")
    ),
    ("openai_responses", _user(), [(".content", "text", None)]),
    ("openai_responses", _user({"type": "brand_new"}, 7), [(f".content[{i}]", "other", None) for i in range(2)]),
    ("openai_responses", {"role": "user", "content": 7}, [(".content", "other", None)]),
    ("openai_responses", {"type": "function_call", "call_id": "i", "arguments": "{}"}, [("", "call", "i")]),
    ("openai_responses", {"type": "custom_tool_call", "call_id": "i", "input": "x"}, [("", "call", "i")]),
    ("openai_responses", {"type": "function_call_output", "call_id": "i", "output": "r"}, [(".output", "result", "i")]),
    ("openai_responses", {"type": "function_call", "call_id": 3}, [("", "other", None)]),
    ("openai_responses", {"type": "function_call_output"}, [("", "other", None)]),
    ("openai_responses", {"type": "reasoning", "id": "rs"}, [("", "other", None)]),
    ("openai_responses", {"content": "a"}, [("", "other", None)]),
    ("openai_responses", 7, [("", "other", None)]),
]


@pytest.mark.parametrize(("dialect", "value", "expected"), KINDS, ids=str)
def test_every_part_is_taken_for_what_it_is(dialect: str, value: Any, expected: list[tuple[str, str, Any]]) -> None:
    assert parts(dialect, value) == expected


# Total: any JSON whatever

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text("a{[ "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "text", "type"]), inner),
    max_leaves=6,
)
_FIELDS = [
    "type", "role", "content", "text", "id", "name", "input", "tool_use_id", "is_error", "cache_control", "tool_calls",
    "tool_call_id", "function", "arguments", "reasoning_content", "call_id", "output", "status", "source",
]  # fmt: skip
_TYPES = st.sampled_from(
    ["text", "tool_use", "tool_result", "thinking", "image", "function_call", "function_call_output", "reasoning",
     "message", "user", "assistant", "tool", "system", "input_text", "image_url"]
)  # fmt: skip
_OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from(_FIELDS), _TYPES | _VALUES, max_size=6),
    lambda inner: st.dictionaries(st.sampled_from(_FIELDS), inner | st.lists(inner | _VALUES, max_size=3) | _TYPES),
    max_leaves=5,
)


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("name", [1.5, [1.5], {"a": 1.5}], ids=str)
def test_a_number_in_the_place_of_a_word_is_described_the_same_each_time(name: Any, dialect: Any) -> None:
    wire = json.dumps({"role": name, "type": name, "name": name, "content": "a"}).encode()
    for tier in TIERS:
        assert len({build(dialect, tier, wire).frame for _ in range(3)}) == 1
        assert len({build(dialect, tier, wire).role for _ in range(3)}) == 1


@given(_VALUES | _OBJECTS, st.sampled_from(ALL), st.sampled_from(TIERS))
def test_any_json_is_described_the_same_each_time(value: Any, dialect: Any, tier: Tier) -> None:
    wire = json.dumps(value).encode()
    one = build(dialect, tier, wire)
    assert one == build(dialect, tier, wire)
    assert one.size >= sum(p.size for p in one.parts)
    spaced = build(dialect, tier, json.dumps(value, indent=1).encode())
    assert (spaced.key, spaced.frame, spaced.parts) == (one.key, one.frame, one.parts)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", _FIELDS)
def test_any_field_may_hold_anything(field: str, odd: Any) -> None:
    whole = {
        "anthropic": {"role": "user", "content": [{"type": "text", "text": "a"}]},
        "openai_chat": {"role": "assistant", "content": "a", "tool_calls": [{"id": "i", "function": {"name": "f"}}]},
        "openai_responses": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
    }
    for dialect, value in whole.items():
        for tier in TIERS:
            assert item(dialect, {**value, field: odd}, tier).key
            assert item(dialect, [{**value, field: odd}], tier).key
        blocks = [{"type": kind, "id": "i", "tool_use_id": "i", field: odd} for kind in ("tool_use", "tool_result")]
        assert item(dialect, {**value, "content": [{"type": "text", field: odd}, *blocks, odd]}).key


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_helpers_take_anything_too(dialect: Any, odd: Any) -> None:
    values: list[Any] = [odd, {"role": "user", "content": odd}, {"role": "user", "content": [odd]}]
    for value in values:
        assert dialect.rename(value, {"other": "new"}) == value
        assert all(isinstance(block, dict) for _, block in marked_places(value))
        assert dialect.without_thinking(value) is None or dialect.without_thinking(value) == value


@pytest.mark.parametrize(
    "value",
    [
        {"role": "tool", "tool_call_id": ["i"]},
        {"role": "assistant", "tool_calls": [{"id": ["i"], "function": {}}]},
    ],
)
def test_a_chat_id_that_is_no_string_is_left_alone(value: Any) -> None:
    assert CHAT.rename(value, {"i": "new"}) == value


# Systems and tools


@pytest.mark.parametrize("system", [7, None, [], {}, {"text": 7}, {"type": "image"}])
def test_a_system_block_that_is_no_text_is_taken_whole(system: Any) -> None:
    (part,) = item("anthropic", system, Tier.SYSTEM).parts
    assert part.kind is Kind.OTHER


@pytest.mark.parametrize(
    ("dialect", "tool", "name"),
    [
        ("anthropic", {"name": "f"}, "f"),
        ("anthropic", 7, ""),
        ("openai_chat", {"type": "function", "function": {"name": "f"}}, "f"),
        ("openai_chat", {"name": "f", "function": 7}, "f"),
        ("openai_chat", {"type": "function"}, ""),
        ("openai_responses", {"type": "function", "name": "f"}, "f"),
        ("openai_responses", {"type": "web_search"}, "web_search"),
        ("openai_responses", [1], ""),
    ],
)
def test_tools_are_called_by_their_name(dialect: str, tool: Any, name: str) -> None:
    assert item(dialect, tool, Tier.TOOLS).role == name


# Markers, ids, shapes, reasoning, tails


def test_markers_are_looked_for_at_protocol_positions_alone() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    inner = {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": "a", **mark}]}
    assert item("anthropic", _user(inner)).marked
    assert item("openai_chat", _user({"type": "text", "text": "a", **mark})).marked
    assert item("openai_responses", {"role": "user", "content": [{"prompt_cache_breakpoint": {}}, 3]}).marked
    assert not item("anthropic", _user({"type": "tool_use", "id": "i", "input": mark})).marked
    assert not item("openai_chat", [mark]).marked
    assert not item("openai_responses", "cache_control").marked


def test_ids_are_exchanged_where_they_stand_and_nowhere_else() -> None:
    ids = {"i": "I"}
    call, answer = {"type": "tool_use", "id": "i", "name": "i"}, {"type": "tool_result", "tool_use_id": "i"}
    other = {"type": "tool_use", "id": "k"}
    renamed = ANTHROPIC.rename(_user(call, answer, other, "i", {"type": "text", "id": "i"}), ids)
    assert renamed == _user(
        {**call, "id": "I"}, {**answer, "tool_use_id": "I"}, other, "i", {"type": "text", "id": "i"}
    )
    chat = {"role": "assistant", "tool_calls": [{"id": "i"}, {"id": "k"}, "i"]}
    assert CHAT.rename(chat, ids) == {"role": "assistant", "tool_calls": [{"id": "I"}, {"id": "k"}, "i"]}
    assert CHAT.rename({"role": "tool", "tool_call_id": "i"}, ids) == {"role": "tool", "tool_call_id": "I"}
    assert RESPONSES.rename({"call_id": "i", "id": "i"}, ids) == {"call_id": "I", "id": "i"}


def test_a_text_alone_and_an_element_of_a_list_turn_into_each_other() -> None:
    assert ANTHROPIC.as_text(ANTHROPIC.as_element("a")) == "a"
    assert RESPONSES.as_text(RESPONSES.as_element("a")) == "a"
    assert CHAT.as_element("a") == "a"
    assert CHAT.as_text({"role": "user", "content": "a"}) is None
    more: Any
    for more in (7, {"type": "text", "text": 7}, {"type": "text", "text": "a", "citations": [1]}):
        assert ANTHROPIC.as_text(more) is None
    for more in (7, {"role": "assistant", "content": "a"}, {"role": "user", "content": []}):
        assert RESPONSES.as_text(more) is None
    assert RESPONSES.as_text({"role": "user", "content": "a", "name": "n"}) is None


def test_without_thinking_the_rest_of_an_answer_is_left() -> None:
    text, thinking = {"type": "text", "text": "a"}, {"type": "thinking", "thinking": "t"}
    assert ANTHROPIC.without_thinking(_user(thinking, text, 7)) == _user(text, 7)
    assert ANTHROPIC.without_thinking(_user(thinking)) is None
    assert ANTHROPIC.without_thinking(7) == 7
    assert CHAT.without_thinking({"content": "a", "reasoning": "t", "reasoning_content": "t"}) == {"content": "a"}
    assert CHAT.without_thinking(7) == 7
    assert RESPONSES.without_thinking({"type": "reasoning"}) is None
    assert RESPONSES.without_thinking({"type": "message"}) == {"type": "message"}


def test_a_tail_stands_behind_the_last_element() -> None:
    text = {"type": "text", "text": "T"}
    plain = {"role": "user", "content": "a"}
    assert ANTHROPIC.with_tail(plain, "T") == [_user({"type": "text", "text": "a"}, text)]
    assert ANTHROPIC.with_tail(_user(text), "T") == [_user(text, text)]
    assert CHAT.with_tail(plain, "T") == [{"role": "user", "content": "a\n\nT"}]
    assert CHAT.with_tail(_user(text), "T") == [_user(text, text)]
    assert CHAT.with_tail({"role": "tool"}, "T") == [{"role": "tool"}, {"role": "system", "content": "T"}]
    assert RESPONSES.with_tail("a", "T") == ["a\n\nT"]
    assert RESPONSES.with_tail(plain, "T") == [plain, {"role": "developer", "content": "T"}]


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.name)
def test_leading_system_messages(dialect: Any) -> None:
    leads = dialect.name != "anthropic"
    assert [dialect.is_leading_system(r) for r in ("system", "developer", "user", "")] == [leads, leads, False, False]


# Which dialect a body is in

_TALK = [{"role": "user", "content": "a"}]
_CALLS = [*_TALK, {"role": "assistant", "tool_calls": []}]
DETECTED: list[tuple[Any, str | None]] = [
    ({"input": "a"}, "openai_responses"),
    ({"input": []}, "openai_responses"),
    ({"input": 7}, None),
    ({"input": "a", "messages": [7]}, None),
    ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, None),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}, "openai_chat"),
    ({"model": "m", "messages": 7}, None),
    ({"messages": []}, "openai_chat"),
    ({"contents": []}, None),
    ({"model": "m", "messages": []}, "openai_chat"),
    ({"model": "m", "messages": [], "system": "a"}, "anthropic"),
    ({"model": "m", "messages": [], "anthropic_version": "a"}, "anthropic"),
    ({"model": "m", "messages": [], "tools": [{"input_schema": {}}]}, "anthropic"),
    ({"model": "m", "messages": [], "max_tokens": 1, "tools": [7, {"function": {}}]}, "openai_chat"),
    ({"model": "claude-5", "messages": _TALK, "max_tokens": 1}, "anthropic"),
    ({"model": "claude-5", "messages": _CALLS, "max_tokens": 1}, "openai_chat"),
    ({"model": "claude-5", "messages": [{"role": "system"}], "max_tokens": 1}, "openai_chat"),
    ({"model": "m", "messages": [7, *_TALK], "max_tokens": 1}, "openai_chat"),
    ({"model": "m", "messages": _TALK, "max_tokens": 1, "thinking": {}}, "anthropic"),
    ({"model": "m", "messages": [_user(7, {"type": "tool_use"})], "max_tokens": 1}, "anthropic"),
]


@pytest.mark.parametrize(("body", "expected"), DETECTED, ids=str)
def test_detect(body: Any, expected: str | None) -> None:
    assert detect(body) == expected
