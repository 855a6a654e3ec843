"""Completes the answers of llama.cpp's server, so that cached tokens are always told and the official clients work.

What the server gives (build b11549) and what is added here:

| dialect          | given                                                  | added                                    |
|------------------|--------------------------------------------------------|------------------------------------------|
| openai_chat      | prompt_tokens_details.cached_tokens; a stream without  | nothing: the stream's last chunk always  |
|                  | include_usage has no usage, as the API wants it        | holds timings.cache_n and prompt_n       |
| anthropic        | cache_read_input_tokens, and input_tokens without them | cache_creation_input_tokens (0)          |
| openai_responses | input_tokens_details.cached_tokens                     | output_tokens_details.reasoning_tokens;  |
|                  |                                                        | see responses_stream.py                  |

Anything that cannot be read goes through as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from standfast.engines.responses_stream import ResponsesEvents, complete_response

_DEFAULTS: dict[str, dict[str, Any]] = {
    "anthropic": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    "openai_chat": {"prompt_tokens_details": {"cached_tokens": 0}},
    "openai_responses": {
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}


def normalise(dialect: str, body: bytes) -> bytes:
    """A whole (non-streaming) answer with all its members; errors and unknown dialects stay as they are."""
    answer = _object(body)
    if dialect not in _DEFAULTS or answer is None or not isinstance(answer.get("usage"), dict):
        return body
    return msgspec.json.encode(_completed(dialect, answer))


class UsageStream:
    """The same for a stream of server-sent events, fed in any split. Whole lines come out as soon as they end."""

    def __init__(self, dialect: str) -> None:
        self._held = b""
        self._change: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        if dialect == "anthropic":
            self._change = _anthropic_event
        elif dialect == "openai_responses":
            events = ResponsesEvents()
            self._change = lambda event: events.complete(_responses_event(event))

    def feed(self, chunk: bytes) -> bytes:
        """What can go out now."""
        if self._change is None:
            return chunk
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._held += chunk
            return b""
        lines, self._held = self._held + chunk[:end], chunk[end:]
        return b"".join(self._line(line) for line in lines.splitlines(keepends=True))

    def finish(self) -> bytes:
        """What is left when the stream has ended."""
        rest, self._held = self._held, b""
        return rest

    def _line(self, line: bytes) -> bytes:
        if self._change is None or not line.startswith(b"data:"):
            return line
        event = _object(line[5:])
        if event is None:
            return line
        changed = self._change(event)
        return line if changed is event else b"data: " + msgspec.json.encode(changed) + b"\n"


def _anthropic_event(event: dict[str, Any]) -> dict[str, Any]:
    message = event.get("message")
    if event.get("type") != "message_start" or not isinstance(message, dict):
        return event
    return {**event, "message": _completed("anthropic", message)}


def _responses_event(event: dict[str, Any]) -> dict[str, Any]:
    response = event.get("response")
    return {**event, "response": _completed("openai_responses", response)} if isinstance(response, dict) else event


def _completed(dialect: str, answer: dict[str, Any]) -> dict[str, Any]:
    usage = answer.get("usage")
    if isinstance(usage, dict):
        missing = {name: value for name, value in _DEFAULTS[dialect].items() if usage.get(name) is None}
        answer = {**answer, "usage": {**usage, **missing}}
    return complete_response(answer) if dialect == "openai_responses" else answer


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None
