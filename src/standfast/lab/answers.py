"""What a simulated provider answers: a text made from the prompt, in the form and with the usage of the original.

A user's text that holds ``[sim:call NAME {"argument": 1}]`` is answered by that call, several by several calls, so that
a test can make an agent run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import msgspec

from standfast.lab.caches import Served
from standfast.lab.reading import BYTES_A_TOKEN, Prompt
from standfast.providers.rules import Rules

Json = dict[str, Any]
Event = tuple[str, Json]
"""Name of a server-sent event (empty: none), and its data."""

_CREATED = 1_750_000_000
_PIECE = 16  # characters of a delta
_CALL = re.compile(r"\[sim:call ([\w.-]+) (?=\{)")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    number: str
    """Behind ``sim`` in its id."""
    name: str
    arguments: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known when a simulated response begins."""

    serial: int
    model: str
    text: str
    calls: tuple[Call, ...]
    served: Served
    rules: Rules
    finding: Json | None = None
    """The provider's diagnosis, in its own form."""
    tells_usage: bool = True

    @property
    def output(self) -> int:
        size = len(self.text) + sum(len(call.name) + len(call.arguments) for call in self.calls)
        return -(-size // BYTES_A_TOKEN)

    @property
    def number(self) -> str:
        return f"sim{self.serial:021d}"

    @property
    def written(self) -> int:
        return sum(self.served.written.values())


def answer(prompt: Prompt, serial: int, served: Served, rules: Rules) -> Answer:
    """The same prompt has the same answer. Only a prewarming one has none."""
    if prompt.fields.get("max_tokens") == 0 or prompt.of("prompt_cache_options").get("prewarm") is True:
        return Answer(serial, prompt.model, "", (), served, rules)
    digest = blake2b(b"".join(block.digest for block in prompt.blocks), digest_size=24).hexdigest()
    wanted = enumerate(_wanted(prompt))
    calls = tuple(Call(f"sim{serial:018d}{at:03d}", name, arguments) for at, (name, arguments) in wanted)
    return Answer(serial, prompt.model, f"sim {digest}", calls, served, rules)


def _wanted(prompt: Prompt) -> Iterator[tuple[str, str]]:
    """Names and arguments of the calls that the newest input asks for."""
    blocks = prompt.blocks
    first = next((at for at in range(len(blocks), 0, -1) if blocks[at - 1].closes == "assistant"), 0)
    for block in blocks[first:]:
        part = msgspec.json.decode(block.key)[1]
        text = part.get("text") if block.tier == "messages" else None
        if not isinstance(text, str):
            continue
        for found in _CALL.finditer(text):
            try:
                arguments, _ = json.JSONDecoder().raw_decode(text, found.end())
            except ValueError:
                continue
            yield found[1], json.dumps(arguments)


def whole(dialect: str, a: Answer) -> Json:
    """The response as one object."""
    return _WHOLE[dialect](a)


def stream(a: Answer, prompt: Prompt) -> Iterator[Event]:
    """The response as events."""
    return _STREAM[prompt.dialect](a, prompt)


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def _anthropic(a: Answer) -> Json:
    texts = [{"type": "text", "text": a.text}] if a.text else []
    calls = [
        {"type": "tool_use", "id": f"toolu_{c.number}", "name": c.name, "input": json.loads(c.arguments)}
        for c in a.calls
    ]
    return {
        "id": f"msg_{a.number}",
        "type": "message",
        "role": "assistant",
        "model": a.model,
        "content": [*texts, *calls],
        "stop_reason": "tool_use" if calls else "end_turn" if texts else "max_tokens",
        "stop_sequence": None,
        "usage": _anthropic_usage(a),
        "diagnostics": a.finding,
    }


def _anthropic_usage(a: Answer) -> Json:
    if not a.tells_usage:
        return {"input_tokens": a.served.total, "output_tokens": a.output}
    return {
        "input_tokens": a.served.total - a.served.cached - a.written,
        "cache_creation_input_tokens": a.written,
        "cache_read_input_tokens": a.served.cached,
        "cache_creation": {f"ephemeral_{life}_input_tokens": a.served.written.get(life, 0) for life in ("5m", "1h")},
        "output_tokens": a.output,
    }


def _anthropic_events(a: Answer, _prompt: Prompt) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    message = _anthropic(a)
    usage = {**message["usage"], "output_tokens": 1}
    yield event("message_start", message={**message, "content": [], "stop_reason": None, "usage": usage})
    for at, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        yield event(
            "content_block_start", index=at, content_block={**block, **({"text": ""} if is_text else {"input": {}})}
        )
        for piece in _pieces(block["text"] if is_text else json.dumps(block["input"])):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage=message["usage"])
    yield event("message_stop")


def _chat(a: Answer) -> Json:
    message: Json = {"role": "assistant", "content": a.text, "refusal": None}
    if a.calls:
        message["tool_calls"] = [_chat_call(c) for c in a.calls]
    reason = "tool_calls" if a.calls else "stop"
    return {
        "id": f"chatcmpl-{a.number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": a.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _chat_usage(a),
    }


def _chat_call(c: Call) -> Json:
    return {"id": f"call_{c.number}", "type": "function", "function": {"name": c.name, "arguments": c.arguments}}


_WRITTEN = {"qwen": "cache_creation_input_tokens"}
"""Where a provider tells what was written, if not in ``cache_write_tokens``."""


def _chat_usage(a: Answer) -> Json:
    total, cached = a.served.total, a.served.cached
    usage: Json = {"prompt_tokens": total, "completion_tokens": a.output, "total_tokens": total + a.output}
    if not a.tells_usage:
        return usage
    usage["prompt_tokens_details"] = {"cached_tokens": cached}
    if a.rules.write_price:
        usage["prompt_tokens_details"][_WRITTEN.get(a.rules.provider, "cache_write_tokens")] = a.written
    if a.rules.provider == "deepseek":
        usage |= {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": total - cached}
    return usage


def _chat_events(a: Answer, prompt: Prompt) -> Iterator[Event]:
    completion = _chat(a)
    head = {k: completion[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Json, reason: str | None = None) -> Event:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(a.text):
        yield chunk({"content": piece})
    for at, c in enumerate(a.calls):
        opening = _chat_call(replace(c, arguments=""))
        yield chunk({"tool_calls": [{"index": at, **opening}]})
        for piece in _pieces(c.arguments):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, completion["choices"][0]["finish_reason"])
    if prompt.of("stream_options").get("include_usage") is True:
        yield "", {**head, "choices": [], "usage": completion["usage"]}


def _responses(a: Answer) -> Json:
    return {
        "id": f"resp_{a.number}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": a.model,
        "output": [*_responses_texts(a), *(_responses_call(c) for c in a.calls)],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _responses_usage(a),
        "prompt_cache_diagnostics": a.finding,
    }


def _responses_texts(a: Answer) -> list[Json]:
    part = {"type": "output_text", "text": a.text, "annotations": [], "logprobs": []}
    item = {"id": f"msg_{a.number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return [item] if a.text else []


def _responses_call(c: Call) -> Json:
    ids = {"id": f"fc_{c.number}", "call_id": f"call_{c.number}"}
    return {**ids, "type": "function_call", "name": c.name, "arguments": c.arguments, "status": "completed"}


def _responses_usage(a: Answer) -> Json:
    details = {"cached_tokens": a.served.cached, "cache_write_tokens": a.written}
    return {
        "input_tokens": a.served.total,
        **({"input_tokens_details": details} if a.tells_usage else {}),
        "output_tokens": a.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": a.served.total + a.output,
    }


def _responses_events(a: Answer, _prompt: Prompt) -> Iterator[Event]:
    response = _responses(a)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    steps: list[Json] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(response["output"]):
        steps += _text_steps(at, item) if item["type"] == "message" else _call_steps(at, item)
    steps.append({"type": "response.completed", "response": response})
    for number, step in enumerate(steps):
        yield step["type"], {**step, "sequence_number": number}


def _text_steps(index: int, item: Json) -> Iterator[Json]:
    part = item["content"][0]
    at = {"item_id": item["id"], "output_index": index, "content_index": 0}
    yield {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {**item, "content": [], "status": "in_progress"},
    }
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _call_steps(index: int, item: Json) -> Iterator[Json]:
    at = {"item_id": item["id"], "output_index": index}
    begun = {**item, "arguments": "", "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for piece in _pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


_WHOLE: dict[str, Callable[[Answer], Json]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}
_STREAM: dict[str, Callable[[Answer, Prompt], Iterator[Event]]] = {
    "anthropic": _anthropic_events,
    "openai_chat": _chat_events,
    "openai_responses": _responses_events,
}
