"""Our own errors, in the form that the caller's SDK expects from its provider.

Only errors of Standfast's own making are written here; those of an upstream are relayed untouched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from standfast.errors import BrokenBody, RequestError, StandfastError, UpstreamError


class NotSupported(RequestError):
    """Something that this gateway does not do, as websockets."""

    status = 501


class _Names(NamedTuple):
    """What the two families call an error of one status."""

    anthropic: str
    openai: str
    code: str | None


_NAMES: dict[int, _Names] = {
    400: _Names("invalid_request_error", "invalid_request_error", None),
    401: _Names("authentication_error", "invalid_request_error", "invalid_api_key"),
    413: _Names("request_too_large", "invalid_request_error", "request_too_large"),
    500: _Names("api_error", "server_error", None),
    501: _Names("invalid_request_error", "invalid_request_error", "not_supported"),
    502: _Names("api_error", "server_error", "upstream_unreachable"),
    503: _Names("overloaded_error", "server_error", "not_ready"),
    504: _Names("timeout_error", "server_error", "upstream_timeout"),
}


def status_of(error: Exception) -> int:
    """The HTTP status an error is answered with."""
    if isinstance(error, RequestError | UpstreamError):
        return error.status
    return 500


def message_of(error: Exception) -> str:
    """What the caller is told. The text of an unexpected exception may quote a prompt, so it stays here."""
    if isinstance(error, BrokenBody):
        text = str(error)
        return text if f"{error.position}" in text else f"{text} (at byte {error.position})"
    if isinstance(error, StandfastError):
        return str(error)
    return "The gateway failed while it handled this request."


def body(dialect: str, status: int, message: str, request_id: str) -> bytes:
    """An error body of a dialect; every dialect that is not Anthropic's gets OpenAI's form."""
    names = _NAMES.get(status, _NAMES[500])
    answer: dict[str, Any]
    if dialect == "anthropic":
        answer = {"type": "error", "error": {"type": names.anthropic, "message": message}, "request_id": request_id}
    else:
        answer = {"error": {"message": message, "type": names.openai, "param": None, "code": names.code}}
    return msgspec.json.encode(answer)
