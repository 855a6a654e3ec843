"""Where a request goes: its dialect by path, its upstream by path prefix, model name, or default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import msgspec

from standfast.config import Upstream
from standfast.errors import RequestError

OTHER = "other"
"""The dialect of everything that is passed through unread."""

_ENDS: tuple[tuple[str, str], ...] = (
    ("/chat/completions", "openai_chat"),
    ("/responses", "openai_responses"),
    ("/v1/messages", "anthropic"),
)
# Without the version a whole path only: OpenAI's /v1/threads/ID/messages is not Anthropic's.
_WHOLE = {"/messages": "anthropic"}
_SEPARATORS = re.compile(rb"[/\\]")


@dataclass(frozen=True, slots=True)
class Route:
    """Where one request goes."""

    upstream: Upstream
    url: str
    dialect: str


class _OnlyModel(msgspec.Struct):
    model: str = ""


_model_decoder = msgspec.json.Decoder(_OnlyModel)


def model_of(body: bytes) -> str:
    """The model that a body names, or "" if it names none or is not JSON."""
    try:
        return _model_decoder.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def checked(raw_path: bytes) -> str:
    """The path as it was sent, if it is one that may be put behind an upstream's base path.

    Raises RequestError for a dot segment in any spelling: the upstream would resolve it, and perhaps leave its base.
    An encoded slash is left encoded.
    """
    try:
        path = raw_path.decode("ascii")
    except UnicodeDecodeError:
        raise RequestError("The request path has bytes that must be percent-encoded.") from None
    if not path.startswith("/"):
        raise RequestError("The request target must be a path, not an absolute URL.")
    segments = _SEPARATORS.split(unquote_to_bytes(unquote_to_bytes(path)))
    if any(segment in (b".", b"..") for segment in segments):
        raise RequestError("The request path has a '.' or '..' segment.")
    if any(byte <= 0x20 or byte == 0x7F for byte in raw_path):
        raise RequestError("The request path has a control character.")
    return path


def dialect_of(method: str, path: str) -> str:
    """The dialect of a request, by its path; OTHER if it is none of the three."""
    if method != "POST":
        return OTHER
    if path in _WHOLE:
        return _WHOLE[path]
    return next((dialect for end, dialect in _ENDS if path.endswith(end)), OTHER)


def looks_anthropic(path: str, header_names: frozenset[bytes]) -> bool:
    """Whether a caller on a path of no dialect expects errors in Anthropic's form."""
    return b"anthropic-version" in header_names or "/v1/messages" in path


class Routes:
    """The configured upstreams, as a table to look up in."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise ValueError("a gateway needs an upstream")
        self._upstreams = tuple(upstreams)
        self._prefixes = sorted({u.path for u in upstreams if u.path}, key=len, reverse=True)

    def needs_model(self, path: str) -> bool:
        """Whether the model decides, so that the body must be looked at first."""
        candidates, _ = self._candidates(path)
        return len(candidates) > 1 and any(u.models for u in candidates)

    def choose(self, method: str, path: str, query: bytes, model: str) -> Route:
        """The longest path prefix, then the first pattern that takes the model, then the first without patterns."""
        candidates, prefix = self._candidates(path)
        named = (u for u in candidates if model and u.models and u.takes_model(model))
        open_to_all = (u for u in candidates if not u.models and u.path == prefix)
        upstream = next(named, None) or next(open_to_all, None) or candidates[0]
        rest = path[len(prefix) :] or "/"
        question = "?" + query.decode("latin-1") if query else ""
        return Route(upstream, f"{upstream.url.rstrip('/')}{rest}{question}", dialect_of(method, rest))

    def _candidates(self, path: str) -> tuple[Sequence[Upstream], str]:
        """The upstreams to choose from, and the prefix to take off."""
        for prefix in self._prefixes:
            if path == prefix or path.startswith(prefix + "/"):
                return [u for u in self._upstreams if u.path == prefix], prefix
        return self._upstreams, ""
