"""What the readers of responses capture, exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reply_samples import (
    ANTHROPIC,
    CHAT,
    CHAT_MESSAGE,
    CITATION,
    END,
    ITEMS,
    RESPONSE,
    RESPONSES,
    START,
    block,
    body,
    call,
    chunk,
    only,
    pieces,
    read,
    sse,
    tool,
)

from standfast.prompt.replies import Finding, Reply, Usage


def test_an_anthropic_stream_is_captured_block_by_block() -> None:
    reply = read("anthropic", sse(ANTHROPIC, named=True))
    assert (reply.complete, reply.response_id) == (True, "msg_1")
    assert reply.usage == Usage(prompt_tokens=130, cached_tokens=100, written_tokens=20, output_tokens=42)
    message = only(reply)
    assert message["role"] == "assistant"
    assert message["content"] == [
        {"type": "thinking", "thinking": "Let me see… 🙂", "signature": "EqQB+/=="},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": 'I‘ll look "it" up\n', "citations": [CITATION]},
        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"b": 1.0, "a": "é\n"}},
        {"type": "tool_use", "id": "toolu_2", "name": "find", "input": {}, "caller": {"type": "direct"}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "x", "n": 100.0}]},
    ]
    assert '"input":{"b": 1.0,  "a": "é\\n"}'.encode() in reply.produced[0]


def test_an_anthropic_body_is_captured_raw() -> None:
    content = b'[{"type":"text","text":"caf\\u00e9","citations":null}, {"type":"tool_use","id":"t","input":{"b": 1.0}}]'
    raw = b'{"id":"msg_2","type":"message","content":%b,"usage":{"input_tokens":3,"output_tokens":4}}' % content
    reply = read("anthropic", raw, streaming=False)
    assert reply.produced == (
        b'{"role":"assistant","content":[{"type":"text","text":"caf\\u00e9"},'
        b'{"type":"tool_use","id":"t","input":{"b": 1.0}}]}',
    )
    assert reply.usage == Usage(3, 0, 0, 4, tells_cache=False)
    assert reply.complete


def test_usage_of_message_delta_wins_where_it_is_told() -> None:
    later = {"input_tokens": 7, "cache_read_input_tokens": None, "output_tokens": 9}
    reply = read("anthropic", sse([START, {"type": "message_delta", "usage": later}, {"type": "message_stop"}]))
    assert reply.usage == Usage(127, 100, 20, 9)
    assert reply.produced == ()


@pytest.mark.parametrize("count", range(len(ANTHROPIC)))
def test_a_cut_anthropic_stream_is_incomplete_and_keeps_whole_blocks(count: int) -> None:
    reply = read("anthropic", sse(ANTHROPIC[:count]))
    assert not reply.complete
    whole = only(read("anthropic", sse(ANTHROPIC)))["content"]
    for have, want in zip(only(reply)["content"] if reply.produced else [], whole, strict=False):
        assert have == want or (have["type"] == "text" and want["text"].startswith(have["text"]))


def test_citations_follow_those_in_the_start() -> None:
    start = {"type": "text", "text": "a", "citations": [CITATION]}
    second = {**CITATION, "document_index": 1}
    stream = [START, *block(0, start, {"type": "citations_delta", "citation": second}), *END]
    assert only(read("anthropic", sse(stream)))["content"][0]["citations"] == [CITATION, second]


@pytest.mark.parametrize(
    "blocks",
    [
        block(0, *tool('{"a":')),
        block(0, *tool("[1]")),
        block(0, *tool('{"a":"\\uzzzz"}')),
        block(0, {"type": "text", "text": ""}, {"type": "holo_delta", "holo": 1}),
    ],
    ids=["cut arguments", "not an object", "bad escape", "unknown delta"],
)
def test_what_cannot_be_known_exactly_is_not_told(blocks: list[Any]) -> None:
    reply = read("anthropic", sse([START, *blocks, *END]))
    assert (reply.complete, reply.produced) == (True, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 1},
        *block(1, {"type": "text", "text": ""}, {"type": "citations_delta"}, stop=False)[1:],
        "a lone \\u0041 escape",
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 1, "content_block": "text"},
        {"type": "content_block_stop", "index": 9},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "{not json",
        '{"content_block":' + "[" * 100_000,
    ],
)
def test_after_a_wrong_event_content_is_left_alone_and_usage_still_read(wrong: Any) -> None:
    first = block(0, {"type": "text", "text": ""}, *pieces("text_delta", "text", "one"))
    later = block(2, {"type": "text", "text": ""}, *pieces("text_delta", "text", "two"))
    reply = read("anthropic", sse([START, *first, wrong, *later, *END]))
    assert not reply.complete
    assert only(reply)["content"] == [{"type": "text", "text": "one"}]
    assert reply.usage is not None
    assert reply.usage.output_tokens == 42


def test_a_chat_stream_with_interleaved_parallel_calls() -> None:
    reply = read("openai_chat", sse(CHAT))
    assert only(reply) == CHAT_MESSAGE
    assert (reply.complete, reply.response_id) == (True, "chatcmpl-1")
    assert reply.usage == Usage(200, 128, 64, 30)


def test_a_chat_body_says_the_same_as_its_stream() -> None:
    calls = [{"index": number, **value} for number, value in enumerate(CHAT_MESSAGE["tool_calls"])]
    message = {**CHAT_MESSAGE, "refusal": None, "annotations": [], "tool_calls": calls}
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "prompt_cache_hit_tokens": 4}
    value = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    reply = body("openai_chat", value)
    assert only(reply) == CHAT_MESSAGE
    assert reply.usage == Usage(5, 4, 0, 6)
    assert reply.complete


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 3, "prompt_ms": 1.5}}, Usage(100, 90, 0, 3)),
        ({"usage": {"prompt_tokens": 100, "completion_tokens": 3}, "timings": {"cache_n": 90}}, Usage(100, 90, 0, 3)),
        ({"usage": {"prompt_tokens": 9, "cached_tokens": 8}}, Usage(9, 8, 0, 0)),
        ({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 0}}, Usage(9, 0, 0, 0)),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {}}}, Usage(9, 0, 0, 0, tells_cache=False)),
        ({"usage": {"prompt_tokens": "many"}}, None),
        ({"usage": {}, "timings": [1]}, None),
        ({}, None),
    ],
)
def test_usage_in_the_ways_it_is_told(told: dict[str, Any], usage: Usage | None) -> None:
    assert read("openai_chat", sse([chunk({"content": "x"}), chunk({}, "stop", **told), "[DONE]"])).usage == usage
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    reply = body("openai_chat", {"id": "c", "choices": [choice], **told})
    assert (reply.usage, reply.complete) == (usage, True)


def test_what_was_written_with_a_long_life_is_told_apart() -> None:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    reply = body("anthropic", {"id": "m", "type": "message", "content": [], "usage": usage})
    assert reply.usage == Usage(33, 0, 30, 0, long_tokens=20)


_CHANGED = {"type": "tools_changed", "cache_missed_input_tokens": 812}
_MISS = {"type": "cache_miss", "reason": "input_changed", "cache_missed_tokens": 2048}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"cache_miss_reason": _CHANGED}, Finding("tools_changed")),
        ({"cache_miss_reason": {"type": "unavailable"}}, Finding("unavailable")),
        ({"cache_miss_reason": None}, None),
        (None, None),
        ("odd", None),
        ({"cache_miss_reason": [1]}, None),
    ],
)
def test_the_finding_of_anthropic(told: Any, found: Finding | None) -> None:
    message = {"id": "m", "type": "message", "content": [], "diagnostics": told}
    assert body("anthropic", message).finding == found
    stream = [{"type": "message_start", "message": message}, {"type": "message_stop"}]
    assert read("anthropic", sse(stream, named=True)).finding == found


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (_MISS, Finding("input_changed")),
        ({"type": "cache_hit"}, Finding("cache_hit")),
        ({"type": "comparison_response_not_found"}, Finding("comparison_response_not_found")),
        (None, None),
        (3, None),
    ],
)
def test_the_finding_of_openai(told: Any, found: Finding | None) -> None:
    response = {"id": "r", "status": "completed", "output": [], "prompt_cache_diagnostics": told}
    assert body("openai_responses", response).finding == found
    stream = [{"type": "response.completed", "response": response}]
    assert read("openai_responses", sse(stream, named=True)).finding == found


def test_usage_inside_a_choice() -> None:
    last = chunk({}, "stop")
    last["choices"][0]["usage"] = {"prompt_tokens": 7, "completion_tokens": 1, "cached_tokens": 5}
    assert read("openai_chat", sse([chunk({"content": "x"}), last])).usage == Usage(7, 5, 0, 1)


def test_calls_without_an_index_custom_calls_and_legacy_function_calls() -> None:
    stream = [
        chunk({"tool_calls": [call(None, "{", id="a", name="f", extra_content={"g": {"s": "x"}})]}),
        chunk({"tool_calls": [call(None, "}")]}),
        chunk({"tool_calls": [{"id": "b", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}),
        chunk({"function_call": {"name": "old", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}}, "tool_calls"),
    ]
    assert only(read("openai_chat", sse(stream))) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"g": {"s": "x"}},
            },
            {"id": "b", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        ],
        "function_call": {"name": "old", "arguments": "{}"},
    }


def test_escapes_stay_as_the_model_wrote_them_and_torn_surrogates_join() -> None:
    stream = (
        rb'data: {"choices":[{"index":0,"delta":{"content":"caf\u00e9 \\ud83d \ud83d"}}]}' + b"\n\n"
        rb'data: {"choices":[{"index":0,"delta":{"content":"\ude42"},"finish_reason":"stop"}]}' + b"\n\n"
    )
    reply = read("openai_chat", stream)
    assert reply.produced == (rb'{"role":"assistant","content":"caf\u00e9 \\ud83d \ud83d\ude42"}',)
    assert reply.complete


def test_torn_surrogates_join_inside_streamed_anthropic_input() -> None:
    start = sse([START, *block(0, *tool(), stop=False)])
    torn = b"".join(
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%b"}}\n\n'
        % p
        for p in (rb"{\"a\":\"\ud83d", rb"\ude42\"}")
    )
    assert only(read("anthropic", start + torn + sse(END)))["content"][0]["input"] == {"a": "🙂"}


def test_what_is_not_utf8_is_not_told() -> None:
    stream = b'data: {"choices":[{"index":0,"delta":{"content":"\xff"},"finish_reason":"stop"}]}\n\n'
    assert read("openai_chat", stream).produced == ()


def test_several_choices_tell_nothing_of_what_goes_on() -> None:
    other = chunk({"content": "b"}, "stop")
    other["choices"][0]["index"] = 1
    reply = read("openai_chat", sse([chunk({"content": "a"}, "stop"), other]))
    assert (reply.produced, reply.complete) == ((), True)
    choices = [{"index": n, "message": {"content": "x"}, "finish_reason": "stop"} for n in (0, 1)]
    assert body("openai_chat", {"choices": choices}) == Reply(None, (), None, True)


def test_a_cut_chat_stream_keeps_text_and_drops_calls() -> None:
    reply = read("openai_chat", sse(CHAT[:7]))
    assert not reply.complete
    assert only(reply) == {"role": "assistant", "content": "Wait 🙂", "reasoning_content": "hmm…"}


@pytest.mark.parametrize(
    "wrong", [{"error": {"message": "no"}}, chunk({"content": ["x"]}), chunk({"tool_calls": [{"function": 1}]}), "{"]
)
def test_a_wrong_chat_event_makes_it_incomplete(wrong: Any) -> None:
    reply = read("openai_chat", sse([chunk({"content": "a"}), wrong, chunk({"content": "b"}, "stop"), "[DONE]"]))
    assert (reply.complete, only(reply)["content"]) == (False, "a")


def test_a_responses_stream_gives_its_items_raw_in_order() -> None:
    reply = read("openai_responses", sse(RESPONSES, named=True))
    assert reply.produced == tuple(
        json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode() for item in ITEMS
    )
    assert reply.usage == Usage(50, 40, 0, 6)
    assert (reply.complete, reply.response_id) == (True, "resp_1")


def test_a_responses_body_and_a_stream_joined_late_give_all_items() -> None:
    reply = body("openai_responses", RESPONSE)
    assert [json.loads(item) for item in reply.produced] == ITEMS
    assert reply.complete
    late = read("openai_responses", sse(RESPONSES[-2:]))
    assert [json.loads(item) for item in late.produced] == ITEMS


@pytest.mark.parametrize(
    ("status", "complete"),
    [("completed", True), ("incomplete", True), ("failed", False), ("cancelled", False), ("in_progress", False)],
)
def test_the_status_of_a_response_decides(status: str, complete: bool) -> None:
    response = {**RESPONSE, "status": status}
    assert body("openai_responses", response).complete is complete
    reply = read("openai_responses", sse([*RESPONSES[:-1], {"type": f"response.{status}", "response": response}]))
    assert reply.complete is complete
    assert len(reply.produced) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "error", "message": "no"},
        {"type": "response.output_item.done", "item": ITEMS[0]},
        {"type": "response.output_item.done", "output_index": 1, "item": 3},
    ],
)
def test_a_wrong_responses_event_makes_it_incomplete(wrong: dict[str, Any]) -> None:
    assert not read("openai_responses", sse([*RESPONSES[:-1], wrong, RESPONSES[-1]])).complete


def test_a_lone_odd_escape_in_a_citing_block_leaves_it_raw() -> None:
    content = b'[{"type":"text","text":"\\ud83d","citations":[]}]'
    raw = b'{"type":"message","content":%b,"usage":{"output_tokens":4}}' % content
    assert read("anthropic", raw, streaming=False) == Reply(
        None, (b'{"role":"assistant","content":%b}' % content,), None, True
    )


def test_empty_pieces_and_a_message_start_without_usage() -> None:
    bare = {"type": "message_start", "message": {"id": "m", "type": "message"}}
    stream = [bare, *block(0, *tool("", "")), {"type": "message_stop"}]
    reply = read("anthropic", sse(stream))
    assert (reply.usage, reply.complete, only(reply)["content"][0]["input"]) == (None, True, {})


def test_a_call_without_arguments() -> None:
    calls = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}
    reply = read("openai_chat", sse([chunk(calls, "tool_calls")]))
    assert only(reply)["tool_calls"] == [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]


def test_a_citation_that_lacks_makes_it_incomplete() -> None:
    stream = [START, *block(0, {"type": "text", "text": "a"}, {"type": "citations_delta"}), *END]
    assert not read("anthropic", sse(stream)).complete
