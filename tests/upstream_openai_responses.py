"""Answers in the form of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upstream_anthropic import signature
from upstream_cache import Count, tokens
from upstream_turn import Turn, split

Event = tuple[str | None, Any]
CREATED = 1_750_000_000


def usage_of(turn: Turn, count: Count) -> dict[str, Any]:
    """Usage as the provider reports it: cached tokens are part of the input's."""
    said = turn.text + turn.thinking + "".join(name + arguments for name, arguments in turn.calls)
    output = tokens(len(said)) + 1
    return {
        "input_tokens": count.prompt,
        "input_tokens_details": {"cached_tokens": count.cached, "cache_write_tokens": count.fresh},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": tokens(len(turn.thinking))},
        "total_tokens": count.prompt + output,
    }


def response(turn: Turn, request: dict[str, Any], serial: int, count: Count) -> dict[str, Any]:
    """The whole response."""
    status = "incomplete" if turn.cut_short else "completed"
    return {
        **_head(request, serial, status),
        "incomplete_details": {"reason": "max_output_tokens"} if turn.cut_short else None,
        "output": items(turn, serial),
        "usage": usage_of(turn, count),
    }


def _head(request: dict[str, Any], serial: int, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{serial:024d}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "metadata": request.get("metadata") or {},
        "model": request["model"],
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": request.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def items(turn: Turn, serial: int) -> list[dict[str, Any]]:
    """The output items."""
    out: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        sealed = "gAAAA" + signature(turn.thinking)
        out.append({"id": f"rs_{serial:024d}", "type": "reasoning", "summary": summary, "encrypted_content": sealed})
    if turn.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
        message = {"id": f"msg_{serial:024d}", "type": "message", "status": "completed"}
        out.append({**message, "content": [part], "role": "assistant"})
    for number, (name, arguments) in enumerate(turn.calls):
        id = f"{serial:016d}{number:06d}"
        call = {"id": f"fc_{id}", "type": "function_call", "status": "completed", "arguments": arguments}
        out.append({**call, "call_id": f"call_{id}", "name": name})
    return out


def events(turn: Turn, request: dict[str, Any], serial: int, count: Count) -> Iterator[Event]:
    """The response as a stream; events are numbered."""
    for number, (kind, fields) in enumerate(_events(turn, request, serial, count)):
        yield kind, {"type": kind, "sequence_number": number, **fields}


def _events(turn: Turn, request: dict[str, Any], serial: int, count: Count) -> Iterator[tuple[str, dict[str, Any]]]:
    opened = _head(request, serial, "in_progress")
    yield "response.created", {"response": opened}
    yield "response.in_progress", {"response": opened}
    for index, item in enumerate(items(turn, serial)):
        yield from _ITEM_EVENTS[item["type"]](item, {"output_index": index}, turn.piece)
        yield "response.output_item.done", {"output_index": index, "item": item}
    whole = response(turn, request, serial, count)
    yield f"response.{whole['status']}", {"response": whole}


def _reasoning(item: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.output_item.added", {**at, "item": {**item, "summary": []}}
    part = item["summary"][0]
    where = {**at, "item_id": item["id"], "summary_index": 0}
    yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
    for delta in split(part["text"], piece):
        yield "response.reasoning_summary_text.delta", {**where, "delta": delta}
    yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**where, "part": part}


def _message(item: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.output_item.added", {**at, "item": {**item, "status": "in_progress", "content": []}}
    part = item["content"][0]
    where = {**at, "item_id": item["id"], "content_index": 0}
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    for delta in split(part["text"], piece):
        yield "response.output_text.delta", {**where, "delta": delta, "logprobs": []}
    yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**where, "part": part}


def _function_call(item: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.output_item.added", {**at, "item": {**item, "status": "in_progress", "arguments": ""}}
    where = {**at, "item_id": item["id"]}
    for delta in split(item["arguments"], piece):
        yield "response.function_call_arguments.delta", {**where, "delta": delta}
    yield "response.function_call_arguments.done", {**where, "name": item["name"], "arguments": item["arguments"]}


_ITEM_EVENTS = {"reasoning": _reasoning, "message": _message, "function_call": _function_call}


def failure(turn: Turn) -> Event:
    """An error inside a stream."""
    message = turn.message or "The server had an error while processing your request."
    error = {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 0}
    return "error", error
