"""A body as blocks: what is in a key, what is not, and what stands in front of which tier."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.lab.reading import Prompt, Refused, answer_blocks, read

MARK = {"type": "ephemeral"}


def claude(**fields: Any) -> Prompt:
    return read(json.dumps({"model": "m", "messages": [], **fields}).encode(), "anthropic")


def keys(prompt: Prompt) -> list[bytes]:
    return [block.key for block in prompt.blocks]


def test_render_order_is_tools_system_messages() -> None:
    said = [{"role": "user", "content": "hello"}]
    prompt = claude(messages=said, system="be brief", tools=[{"name": "t", "input_schema": {}}])
    assert [block.tier for block in prompt.blocks] == ["tools", "system", "messages"]


def test_white_space_escapes_and_marks_are_in_no_key() -> None:
    plain = b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\xc3\xa9"}]}]}'
    loose = (
        b'{ "messages": [ {"content" : [{"type": "text", "text": "\\u00e9", "cache_control": {"type":"ephemeral"}}],'
        b'"role":"user"}], "model":"m"}'
    )
    assert keys(read(plain, "anthropic")) == keys(read(loose, "anthropic"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),  # order of keys in a schema or an input
        ('"{\\"a\\": 1}"', '"{\\"a\\":1}"'),  # spelling of an argument string
        ("1.0", "1"),
        ("1.50", "1.5"),
        ('"a "', '"a"'),
    ],
)
def test_what_is_rendered_is_in_the_key(before: str, after: str) -> None:
    body = '{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","input":%s}]}]}'
    assert keys(read((body % before).encode(), "anthropic")) != keys(read((body % after).encode(), "anthropic"))


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_a_text_is_the_same_as_one_part_of_it(dialect: str) -> None:
    texts = ({"role": "user", "content": c} for c in ("hello", [{"type": "text", "text": "hello"}]))
    first, second = (read(json.dumps({"model": "m", "messages": [t]}).encode(), dialect) for t in texts)
    assert keys(first) == keys(second)


def test_two_messages_are_not_one_of_both_contents() -> None:
    part = {"type": "text", "text": "a"}
    two: list[Any] = [{"role": "user", "content": [part]}] * 2
    one: list[Any] = [{"role": "user", "content": [part, part]}]
    chat = (read(json.dumps({"model": "m", "messages": m}).encode(), "openai_chat") for m in (two, one))
    assert keys(next(chat)) != keys(next(chat))
    # Anthropic joins consecutive messages of one role.
    assert keys(claude(messages=two)) == keys(claude(messages=one))


def test_tokens_are_four_bytes_begun() -> None:
    prompt = claude(messages=[{"role": "user", "content": "x" * 400}])
    assert [block.tokens for block in prompt.blocks] == [-(-len(block.key) // 4) for block in prompt.blocks]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    assert claude(messages=[{"role": "user", "content": [image]}]).blocks[0].tokens == 1_600


def test_the_order_of_fields_of_the_protocol_is_not_rendered() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"b":1,"a":2}'}}
    turned = {"function": {"arguments": '{"b":1,"a":2}', "name": "f"}, "type": "function", "id": "c"}
    bodies = ({"messages": [{"role": "assistant", "content": None, "tool_calls": [c]}]} for c in (call, turned))
    first, second = (read(json.dumps(body).encode(), "openai_chat") for body in bodies)
    assert keys(first) == keys(second)
    tools = ([{"name": "t", "input_schema": {}}], [{"input_schema": {}, "name": "t"}])
    assert keys(claude(tools=tools[0])) != keys(claude(tools=tools[1]))


def test_settings_stand_in_front_of_the_tier_that_they_invalidate() -> None:
    image = {"type": "image", "source": {}}
    document = {"type": "document", "source": {}, "citations": {"enabled": True}}
    prompt = claude(
        messages=[{"role": "user", "content": [image, document]}],
        speed="fast",
        thinking={"type": "adaptive"},
        tool_choice={"type": "any"},
        output_config={"effort": "low"},
    )
    assert {name: tier for name, (tier, _) in prompt.settings.items()} == {
        "model": "tools",
        "speed": "system",
        "citations": "system",
        "thinking": "messages",
        "tool_choice": "messages",
        "effort": "messages",
        "images": "messages",
    }


def test_what_is_set_to_its_default_is_not_set() -> None:
    assert claude(thinking={"type": "disabled"}, tool_choice={"type": "auto"}).settings == claude().settings
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": []}
    body = {"model": "m", "input": "a", "tool_choice": allowed, "text": {"format": {"type": "text"}}}
    assert set(read(json.dumps(body).encode(), "openai_responses").settings) == {"model"}


def test_a_web_search_stands_in_the_system_tier() -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {"name": "t", "input_schema": {}}]
    assert [block.tier for block in claude(tools=tools, system="s").blocks] == ["tools", "system", "system"]


def test_a_mark_within_a_result_marks_the_result() -> None:
    inner = {"type": "text", "text": "out", "cache_control": MARK}
    result = {"type": "tool_result", "tool_use_id": "i", "content": [inner]}
    (block,) = claude(messages=[{"role": "user", "content": [result]}]).blocks
    assert block.marks == {"cache_control": MARK}
    assert b"cache_control" not in block.key


def test_ids_and_states_of_items_are_not_rendered() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    bodies = ({"model": "m", "input": [item]} for item in (call, {**call, "id": "fc_1", "status": "completed"}))
    first, second = (read(json.dumps(body).encode(), "openai_responses") for body in bodies)
    assert keys(first) == keys(second)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages":{}}',
        b'{"messages":[1]}',
        b'{"messages":[{"role":"user","content":1}]}',
        b'{"messages":[{"role":"user","content":["a"]}]}',
        b'{"tools":[[]]}',
        b'{"a":"\xff"}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_what_cannot_be_read_is_refused(body: bytes, dialect: str) -> None:
    with pytest.raises(Refused):
        read(body, dialect)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.integers(0, 4))
def test_a_key_holds_the_value_and_nothing_of_how_it_was_written(value: Any, indent: int) -> None:
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "t", "input": {"v": value}}]}
    written = [
        json.dumps({"messages": [message]}, ensure_ascii=a, indent=i) for a, i in ((True, indent), (False, None))
    ]
    if any(0xD800 <= ord(c) < 0xE000 for c in written[1]):
        return  # half a character: no UTF-8 body holds it
    first, second = (read(text.encode(), "anthropic") for text in written)
    assert keys(first) == keys(second)
    assert msgspec.json.decode(keys(first)[0])[1]["input"]["v"] == json.loads(json.dumps(value))


def test_an_answer_reads_as_it_will_in_the_history() -> None:
    text = {"type": "text", "text": "sim a"}
    call = {"type": "tool_use", "id": "i", "name": "t", "input": {}}
    history = claude(messages=[{"role": "assistant", "content": [text, call]}])
    assert answer_blocks("anthropic", {"content": [text, call]}) == history.blocks
