"""The readers of responses: no split, no garbage and no size upsets them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reply_samples import (
    ANTHROPIC,
    CHAT,
    DIALECTS,
    END,
    RESPONSES,
    START,
    STREAMS,
    block,
    call,
    chunk,
    pieces,
    read,
    sse,
)

from standfast.prompt.replies import Reply, Usage, reader
from standfast.prompt.replies.anthropic import MessageStream
from standfast.prompt.replies.base import BodyReader
from standfast.prompt.replies.openai_chat import ChatStream
from standfast.prompt.replies.openai_responses import ResponseStream
from standfast.prompt.replies.sse import Events

LIMIT = 4096


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


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "citations_delta", "citation": {"cited_text": "x" * 9000}},
        {"type": "signature_delta", "signature": "x" * 9000},
        {"type": "text_delta", "text": "x" * 9000},
    ],
)
def test_one_delta_over_the_limit(delta: dict[str, Any]) -> None:
    source = MessageStream(8000)
    source._events = Events(1 << 20)
    source.feed(sse([START, *block(0, {"type": "text", "text": ""}, delta), *END]))
    assert (source.finish().produced, source.finish().complete) == ((), True)


@pytest.mark.parametrize("delta", [{"content": "x" * 9000}, {"tool_calls": [call(0, "x" * 9000)]}])
def test_one_chat_delta_over_the_limit(delta: dict[str, Any]) -> None:
    source = ChatStream(8000)
    source._events = Events(1 << 20)
    source.feed(sse([chunk(delta), chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, "stop")]))
    assert (source.finish().produced, source.finish().complete) == ((), True)


def test_one_item_over_the_limit_and_a_response_without_usage() -> None:
    source = ResponseStream(8000)
    source._events = Events(1 << 20)
    item = {"type": "response.output_item.done", "output_index": 0, "item": {"text": "y" * 9000}}
    source.feed(sse([item, {"type": "response.completed", "response": {"status": "completed", "usage": {}}}]))
    assert source.finish() == Reply(None, (), None, True)
