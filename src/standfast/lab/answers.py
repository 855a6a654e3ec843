"""What a simulated provider answers: a text made from the prompt, in the form and with the usage of the original."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from standfast.lab.caches import Served
from standfast.providers.rules import Rules

Json = dict[str, Any]
Event = tuple[str, Json]
"""Name of a server-sent event, and its data."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known when a simulated response begins."""

    serial: int
    model: str
    text: str
    served: Served
    rules: Rules
    finding: Json | None = None
    """The provider's diagnosis, in its own form."""
    tells_usage: bool = True

    @property
    def output(self) -> int:
        return -(-len(self.text) // 4)


def anthropic(a: Answer) -> Json:
    usage = _anthropic_usage(a)
    return {
        "id": f"msg_sim{a.serial:021d}",
        "type": "message",
        "role": "assistant",
        "model": a.model,
        "content": [{"type": "text", "text": a.text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
        "diagnostics": a.finding,
    }


def _anthropic_usage(a: Answer) -> Json:
    written = sum(a.served.written.values())
    told = {
        "input_tokens": a.served.total - a.served.cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": a.served.cached,
        "cache_creation": {f"ephemeral_{life}_input_tokens": a.served.written.get(life, 0) for life in ("5m", "1h")},
        "output_tokens": a.output,
    }
    return told if a.tells_usage else {"input_tokens": a.served.total, "output_tokens": a.output}


def anthropic_events(a: Answer) -> Iterator[Event]:
    whole = anthropic(a)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    block = {"type": "text", "text": ""}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    for piece in _pieces(a.text):
        delta = {"type": "text_delta", "text": piece}
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": {"output_tokens": a.output}}
    yield "message_stop", {"type": "message_stop"}


def chat(a: Answer) -> Json:
    message = {"role": "assistant", "content": a.text, "refusal": None}
    return {
        "id": f"chatcmpl-sim{a.serial:021d}",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": a.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _chat_usage(a),
    }


def _chat_usage(a: Answer) -> Json:
    total, cached = a.served.total, a.served.cached
    usage: Json = {"prompt_tokens": total, "completion_tokens": a.output, "total_tokens": total + a.output}
    if not a.tells_usage:
        return usage
    if a.rules.provider == "deepseek":
        return {**usage, "prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": total - cached}
    details = {"cached_tokens": cached}
    if a.rules.write_price:
        details["cache_write_tokens"] = sum(a.served.written.values())
    return {**usage, "prompt_tokens_details": details}


def chat_events(a: Answer, *, usage: bool) -> Iterator[Event]:
    whole = chat(a)
    head = {k: whole[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Json, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return "", {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(a.text):
        yield chunk({"content": piece})
    yield chunk({}, "stop")
    if usage:
        yield "", {**head, "choices": [], "usage": whole["usage"]}


def responses(a: Answer, status: str = "completed") -> Json:
    part = {"type": "output_text", "text": a.text, "annotations": [], "logprobs": []}
    item = {
        "id": f"msg_sim{a.serial:021d}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    done = status == "completed"
    return {
        "id": f"resp_sim{a.serial:021d}",
        "object": "response",
        "created_at": 1_750_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": a.model,
        "output": [item] if done else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _responses_usage(a) if done else None,
        "prompt_cache_diagnostics": a.finding,
    }


def _responses_usage(a: Answer) -> Json:
    details: Mapping[str, int] = {
        "cached_tokens": a.served.cached,
        "cache_write_tokens": sum(a.served.written.values()),
    }
    return {
        "input_tokens": a.served.total,
        "input_tokens_details": details if a.tells_usage else {},
        "output_tokens": a.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": a.served.total + a.output,
    }


def responses_events(a: Answer) -> Iterator[Event]:
    whole = responses(a)
    item = whole["output"][0]
    part = item["content"][0]
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    steps: list[Json] = [
        {"type": "response.created", "response": responses(a, "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in _pieces(a.text)),
        {"type": "response.output_text.done", **at, "text": a.text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    for number, step in enumerate(steps):
        yield step["type"], {**step, "sequence_number": number}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), 16):
        yield text[start : start + 16]
