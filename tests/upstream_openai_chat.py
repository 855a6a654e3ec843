"""Answers in the form of OpenAI Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

from upstream_cache import Count, tokens
from upstream_turn import Turn, openai_error, split

Event = tuple[str | None, Any]
CREATED = 1_750_000_000


def usage_of(turn: Turn, count: Count) -> dict[str, Any]:
    """Usage as the provider reports it: cached tokens are part of the prompt's."""
    said = turn.text + turn.thinking + "".join(name + arguments for name, arguments in turn.calls)
    output = tokens(len(said)) + 1
    return {
        "prompt_tokens": count.prompt,
        "completion_tokens": output,
        "total_tokens": count.prompt + output,
        "prompt_tokens_details": {"cached_tokens": count.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens(len(turn.thinking)), "audio_tokens": 0},
    }


def completion(turn: Turn, model: str, serial: int, count: Count) -> dict[str, Any]:
    """The whole completion."""
    said: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
    if turn.thinking:
        said["reasoning_content"] = turn.thinking
    if turn.calls:
        said["tool_calls"] = [_call(serial, number, *call) for number, call in enumerate(turn.calls)]
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": _finish(turn)}
    head = _head("chat.completion", model, serial)
    return {**head, "choices": [choice], "usage": usage_of(turn, count), "service_tier": "default"}


def _head(kind: str, model: str, serial: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{serial:024d}",
        "object": kind,
        "created": CREATED,
        "model": model,
        "system_fingerprint": "fp_scripted",
    }


def _finish(turn: Turn) -> str:
    return "length" if turn.cut_short else "tool_calls" if turn.calls else "stop"


def _call(serial: int, number: int, name: str, arguments: str) -> dict[str, Any]:
    id = f"call_{serial:016d}{number:06d}"
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def events(turn: Turn, model: str, serial: int, count: Count, *, with_usage: bool) -> Iterator[Event]:
    """The completion as a stream. Usage comes only where it was asked for, in a last chunk without choices."""
    head = _head("chat.completion.chunk", model, serial)
    if with_usage:
        head["usage"] = None
    for delta in _deltas(turn, serial):
        yield _chunk(head, delta, None)
    yield _chunk(head, {}, _finish(turn))
    if with_usage:
        yield None, {**head, "choices": [], "usage": usage_of(turn, count)}
    yield None, "[DONE]"


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish: str | None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return None, {**head, "choices": [choice]}


def _deltas(turn: Turn, serial: int) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if turn.text else None, "refusal": None}
    for part in split(turn.thinking, turn.piece):
        yield {"reasoning_content": part}
    for part in split(turn.text, turn.piece):
        yield {"content": part}
    calls = [list(_call_deltas(serial, number, call, turn.piece)) for number, call in enumerate(turn.calls)]
    rows = zip_longest(*calls) if turn.interleave else iter(calls)
    for delta in chain.from_iterable(rows):
        if delta is not None:
            yield {"tool_calls": [delta]}


def _call_deltas(serial: int, number: int, call: tuple[str, str], piece: int) -> Iterator[dict[str, Any]]:
    yield {"index": number, **_call(serial, number, call[0], "")}
    for part in split(call[1], piece):
        yield {"index": number, "function": {"arguments": part}}


def failure(turn: Turn) -> Event:
    """An error inside a stream."""
    return None, openai_error(turn.status if turn.status >= 400 else 500, turn.message)
