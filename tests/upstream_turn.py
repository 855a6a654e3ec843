"""What the scripted upstream is told to answer, and what it saw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Turn:
    """One answer. Delays are in seconds; ``after`` counts events of the stream."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """(name, arguments as a JSON string). Sent exactly so wherever the format has them as a string."""
    thinking: str = ""
    cut_short: bool = False
    """Ends at the token limit."""

    piece: int = 7
    """Characters a delta."""
    interleave: bool = False
    """Deltas of parallel calls in turns (chat; the other dialects finish a call before the next)."""

    first_byte_delay: float = 0.0
    event_delay: float = 0.0
    never: bool = False
    """Takes the request and says nothing until the client leaves."""
    disconnect_after: int | None = None
    """Drops the connection after that many events; a body that is not streamed, half way."""
    fail_after: int | None = None
    """Reports an error inside the stream after that many events, then ends."""

    status: int = 200
    """From 400 on: the provider's error of that status."""
    retry_after: int | None = None
    message: str = ""
    """Of the error."""


@dataclass
class Recorded:
    """A request as it came in."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    disconnected: bool = False
    """The client left before the answer was whole."""
    done: bool = False
    """The answer is out, or given up."""
    usage: dict[str, Any] = field(default_factory=dict)
    """What was reported."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    529: "overloaded_error",
}
"""Anthropic's names, by status."""

OPENAI_ERRORS: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "server_overloaded"),
}
"""OpenAI's type and code, by status."""

DEFAULT_MESSAGES: Mapping[int, str] = {
    401: "invalid api key",
    404: "not found",
    429: "This request would exceed your rate limit.",
    500: "Internal server error",
    529: "Overloaded",
}


def anthropic_error(status: int, message: str = "") -> dict[str, Any]:
    """Anthropic's error body."""
    error = {"type": ERROR_TYPES.get(status, "api_error"), "message": message or DEFAULT_MESSAGES.get(status, "error")}
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def openai_error(status: int, message: str = "") -> dict[str, Any]:
    """OpenAI's error body."""
    kind, code = OPENAI_ERRORS.get(status, ("server_error", None))
    text = message or DEFAULT_MESSAGES.get(status, "error")
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def split(text: str, size: int) -> list[str]:
    """The text in pieces of that many characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]
