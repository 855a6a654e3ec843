"""The readers of responses: what they capture, exactly, and that no split or garbage upsets them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.prompt.replies import Reply, Usage, reader
from standfast.prompt.replies.anthropic import MessageStream
from standfast.prompt.replies.base import BodyReader
from standfast.prompt.replies.openai_chat import ChatStream
from standfast.prompt.replies.openai_responses import ResponseStream
from standfast.prompt.replies.sse import Events

DIALECTS = ("anthropic", "openai_chat", "openai_responses")
LIMIT = 4096


def sse(events: Iterable[Any], *, named: bool = False, end: str = "\n") -> bytes:
    """The wire form of events; a str stands for itself."""
    out = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        name = f"event: {event['type']}{end}" if named and isinstance(event, dict) and "type" in event else ""
        out.append(f"{name}data: {data}{end}{end}")
    return "".join(out).encode("utf-8", "surrogatepass")


def read(dialect: str, *chunks: bytes, streaming: bool = True) -> Reply:
    source = reader(dialect, streaming=streaming)
    for chunk in chunks:
        source.feed(chunk)
    return source.finish()


def body(dialect: str, value: Any) -> Reply:
    return read(dialect, json.dumps(value).encode(), streaming=False)


def only(reply: Reply) -> Any:
    assert len(reply.produced) == 1
    return json.loads(reply.produced[0])


# --- Anthropic -------------------------------------------------------------------------------------------------

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 1,
        },
    },
}
END: list[Any] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
]


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> list[Any]:
    events: list[Any] = [{"type": "content_block_start", "index": index, "content_block": start}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def pieces(kind: str, field: str, *texts: str) -> list[dict[str, Any]]:
    return [{"type": kind, field: text} for text in texts]


def tool(*texts: str, id: str = "toolu_1") -> tuple[dict[str, Any], ...]:
    start = {"type": "tool_use", "id": id, "name": "find", "input": {}}
    return (start, *pieces("input_json_delta", "partial_json", *texts))


CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0}
ANTHROPIC = [
    START,
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        *pieces("thinking_delta", "thinking", "Let me ", "see… 🙂"),
        {"type": "signature_delta", "signature": "EqQB+/=="},
    ),
    *block(1, {"type": "redacted_thinking", "data": "ZGF0YQ=="}),
    *block(
        2,
        {"type": "text", "text": "", "citations": None},
        *pieces("text_delta", "text", "I‘ll ", 'look "it" up\n'),
        {"type": "citations_delta", "citation": CITATION},
    ),
    *block(3, *tool("", '{"b": 1.0', ',  "a": "é\\n', '"}')),
    *block(4, {**tool()[0], "id": "toolu_2", "caller": {"type": "direct"}}),
    *block(5, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}, *tool('{"q":1}')[1:]),
    *block(6, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "x", "n": 1e2}]}),
    *END,
]


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
    assert reply.usage == Usage(3, 0, 0, 4)
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
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 1, "content_block": "text"},
        {"type": "content_block_stop", "index": 9},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "{not json",
        "[" * 100_000,
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


# --- Chat ------------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices, "usage": None, **more}


def call(index: int | None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {**({"name": more.pop("name")} if "name" in more else {}), "arguments": arguments}
    return {**({} if index is None else {"index": index}), **more, "function": function}


CHAT = [
    chunk({"role": "assistant", "content": None, "reasoning_content": "hm"}),
    chunk({"reasoning_content": "m…"}),
    chunk({"content": "Wait "}),
    chunk({"content": "🙂"}),
    chunk({"tool_calls": [call(0, "", id="call_a", type="function", name="find")]}),
    chunk({"tool_calls": [call(1, "", id="call_b", type="function", name="count")]}),
    chunk({"tool_calls": [call(0, '{"b": 1.0'), call(1, '{"n"')]}),
    chunk({"tool_calls": [call(1, ": 2} "), call(0, ', "é": "x\\n"}')]}),
    chunk({}, "tool_calls"),
    chunk(
        usage={
            "prompt_tokens": 200,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 128, "cache_write_tokens": 64},
        }
    ),
    "[DONE]",
]
CHAT_MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "content": "Wait 🙂",
    "reasoning_content": "hmm…",
    "tool_calls": [
        {"id": "call_a", "type": "function", "function": {"name": "find", "arguments": '{"b": 1.0, "é": "x\\n"}'}},
        {"id": "call_b", "type": "function", "function": {"name": "count", "arguments": '{"n": 2} '}},
    ],
}


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


# --- Responses -------------------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA=="},
    {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1.0}'},
    {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "é🙂"}]},
]
RESPONSE = {
    "id": "resp_1",
    "status": "completed",
    "output": ITEMS,
    "usage": {"input_tokens": 50, "output_tokens": 6, "input_tokens_details": {"cached_tokens": 40}},
}
RESPONSES = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
    *({"type": "response.output_item.added", "output_index": n, "item": item} for n, item in enumerate(ITEMS)),
    {"type": "response.output_text.delta", "output_index": 2, "delta": "é"},
    *({"type": "response.output_item.done", "output_index": n, "item": ITEMS[n]} for n in (1, 0, 2)),
    {"type": "response.completed", "response": RESPONSE},
]


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


# --- All -------------------------------------------------------------------------------------------------------

STREAMS: dict[str, Sequence[Any]] = {"anthropic": ANTHROPIC, "openai_chat": CHAT, "openai_responses": RESPONSES}


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_any_split_and_line_end_gives_the_same_reply(dialect: str, data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    raw = b"\xef\xbb\xbf: hello" + end.encode() + sse(STREAMS[dialect], named=data.draw(st.booleans()), end=end)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=40)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert read(dialect, *chunks) == read(dialect, sse(STREAMS[dialect]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_byte_by_byte(dialect: str, end: str) -> None:
    raw = sse(STREAMS[dialect], end=end)
    assert read(dialect, *(raw[n : n + 1] for n in range(len(raw)))) == read(dialect, raw)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_without_its_last_blank_line_is_whole(dialect: str) -> None:
    raw = sse(STREAMS[dialect])
    assert read(dialect, raw.rstrip(b"\n")) == read(dialect, raw)


GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"data:", b"data: {}", b"\n", b"\r", b"\n\n", b'data: {"type":"message_stop"}\n\n', b"data\n"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=True),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "index", "delta", "choices", "usage", "message", "content", "tool_calls", "function", "id"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ).map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n"),
    st.sampled_from([*ANTHROPIC, *CHAT, *RESPONSES]).map(lambda event: sse([event])),
)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
@given(chunks=st.lists(GARBAGE, max_size=12))
def test_nothing_raises_and_what_is_produced_is_json(dialect: str, streaming: bool, chunks: list[bytes]) -> None:
    reply = read(dialect, *chunks, streaming=streaming)
    assert all(isinstance(json.loads(item), dict) for item in reply.produced if streaming)
    one = read(dialect, b"".join(chunks), streaming=streaming)
    assert one == reply


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"{}", b'{"error":{"message":"no"}}', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_that_is_no_response_is_incomplete(dialect: str, raw: bytes) -> None:
    reply = read(dialect, raw, streaming=False)
    assert (reply.complete, reply.produced, reply.usage) == (False, (), None)


def test_an_unknown_dialect_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        reader("gopher", streaming=True)


# --- Bounds ----------------------------------------------------------------------------------------------------


def test_content_over_the_limit_is_given_up_but_usage_is_read() -> None:
    source = MessageStream(LIMIT)
    text = pieces("text_delta", "text", *["x" * 500] * 10)
    source.feed(sse([START, *block(0, {"type": "text", "text": ""}, *text), *END]))
    reply = source.finish()
    assert (reply.produced, reply.complete) == ((), True)
    assert reply.usage == Usage(130, 100, 20, 42)


def test_many_empty_calls_count_too() -> None:
    chat = ChatStream(LIMIT)
    chat.feed(sse([*(chunk({"tool_calls": [call(n, "")]}) for n in range(100)), chunk({}, "stop")]))
    assert chat.finish().produced == ()
    assert len(chat._calls) <= LIMIT // 512


def test_an_event_over_the_limit_is_dropped_and_the_next_one_read() -> None:
    stream = ResponseStream(LIMIT)
    huge = {"type": "response.output_item.done", "output_index": 0, "item": {"text": "y" * 9000}}
    for part in (sse([huge])[:5000], sse([huge])[5000:], sse([RESPONSES[-1]])):
        stream.feed(part)
    assert (stream.finish().produced, stream.finish().complete) == ((), True)


def test_a_body_over_the_limit_is_given_up() -> None:
    source = BodyReader(lambda _: pytest.fail("must not be read"), limit=10)
    for _ in range(3):
        source.feed(b"12345678")
    assert source.finish() == Reply(None, (), None, False)


@given(
    st.lists(st.sampled_from([b"data: a\n", b"\n", b"\r", b": c\n", b"data:\n", b"x" * 30, b"data: " + b"y" * 40])),
    st.integers(1, 7),
)
def test_dropping_does_not_depend_on_the_split(parts: list[bytes], size: int) -> None:
    raw = b"".join(parts)
    whole, split = Events(64), Events(64)
    expected = whole.feed(raw) + whole.finish()
    got = [event for n in range(0, len(raw), size) for event in split.feed(raw[n : n + size])] + split.finish()
    assert (got, split.overflowed) == (expected, whole.overflowed)


def test_data_lines_join_and_other_fields_are_skipped() -> None:
    events = Events(1000)
    assert events.feed(b"id: 1\nretry: 5\n:\ndatax: no\ndata: a\ndata:b\ndata\n\n\n\ndata:  c\n\n") == [
        b"a\nb\n",
        b" c",
    ]
    assert events.finish() == []
