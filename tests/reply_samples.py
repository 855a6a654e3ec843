"""Responses of each dialect as a provider streams them, and a way to read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from standfast.prompt.replies import Reply, reader

DIALECTS = ("anthropic", "openai_chat", "openai_responses")


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


STREAMS: dict[str, Sequence[Any]] = {"anthropic": ANTHROPIC, "openai_chat": CHAT, "openai_responses": RESPONSES}
