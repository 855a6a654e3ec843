from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.engines.usage import UsageStream, normalise

MESSAGE = {"id": "m", "content": [], "usage": {"input_tokens": 1, "cache_read_input_tokens": 16, "output_tokens": 0}}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def events(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in stream.splitlines() if line.startswith(b"data:")]


ANTHROPIC = sse(
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": '"type":"message_start" é'}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
)
RESPONSES = sse(
    {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
    {"type": "response.output_item.added", "item": {"id": "msg_1", "type": "message", "content": []}},
    {"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi"},
    {"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "fc_a", "arguments": ""}},
    {"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "fc_b", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_b", "delta": "{"},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_a", "delta": "{"},
    {"type": "response.completed", "response": {"id": "r", "output": [], "usage": {"input_tokens": 3}}},
)


@pytest.mark.parametrize(
    ("dialect", "usage", "added"),
    [
        ("anthropic", {"cache_read_input_tokens": 5}, {"cache_creation_input_tokens": 0}),
        ("anthropic", {"cache_creation_input_tokens": 7}, {"cache_read_input_tokens": 0}),
        ("openai_chat", {"prompt_tokens": 3}, {"prompt_tokens_details": {"cached_tokens": 0}}),
        (
            "openai_responses",
            {"input_tokens_details": {"cached_tokens": 9}},
            {"output_tokens_details": {"reasoning_tokens": 0}},
        ),
    ],
)
def test_whole_answers(dialect: str, usage: dict[str, Any], added: dict[str, Any]) -> None:
    answer = json.loads(normalise(dialect, json.dumps({"id": "x", "usage": usage}).encode()))
    assert answer["usage"] == {**usage, **added}
    assert answer["id"] == "x"


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"error":{}}', b'{"usage":3}', b'{"usage":{}', b"\xff"])
def test_what_cannot_be_read_stays(body: bytes) -> None:
    assert normalise("anthropic", body) == body


def test_other_dialects_stay() -> None:
    assert normalise("cohere", b'{ "usage": {} }') == b'{ "usage": {} }'


def test_anthropic_stream() -> None:
    out = UsageStream("anthropic").feed(ANTHROPIC)
    assert events(out)[0]["message"]["usage"] == {**MESSAGE["usage"], "cache_creation_input_tokens": 0}  # type: ignore[dict-item]
    assert events(out)[1:] == events(ANTHROPIC)[1:]


def test_responses_stream_tells_places() -> None:
    out = events(UsageStream("openai_responses").feed(RESPONSES))
    assert [e["sequence_number"] for e in out] == list(range(len(out)))
    assert [e.get("output_index") for e in out] == [None, 0, 0, 0, 1, 2, 2, 1, None]
    assert out[3]["content_index"] == 0
    assert out[0]["response"]["output"] == []
    assert out[-1]["response"]["usage"]["input_tokens_details"] == {"cached_tokens": 0}


def test_chat_stream_is_not_touched() -> None:
    stream = UsageStream("openai_chat")
    assert stream.feed(b'data: {"a"') == b'data: {"a"'
    assert stream.finish() == b""


@given(st.sampled_from(["anthropic", "openai_responses"]), st.lists(st.integers(0, 1200), max_size=12))
def test_any_split_gives_the_same(dialect: str, cuts: list[int]) -> None:
    source = {"anthropic": ANTHROPIC, "openai_responses": RESPONSES}[dialect]
    whole = UsageStream(dialect).feed(source)
    stream, out, last = UsageStream(dialect), b"", 0
    for cut in [*sorted(cuts), len(source)]:
        out += stream.feed(source[last:cut])
        last = max(last, cut)
    assert out + stream.finish() == whole


@given(st.binary())
def test_garbage_goes_through(data: bytes) -> None:
    stream = UsageStream("anthropic")
    assert stream.feed(data) + stream.finish() == data
