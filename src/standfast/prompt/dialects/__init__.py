"""The request formats: one module each, knowing nothing of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.anthropic import Anthropic
from standfast.prompt.dialects.base import Dialect, word
from standfast.prompt.dialects.openai_chat import OpenAIChat
from standfast.prompt.dialects.openai_responses import OpenAIResponses

DIALECTS: dict[str, Dialect] = {d.name: d for d in (Anthropic(), OpenAIChat(), OpenAIResponses())}
"""By name."""


def detect(body: Mapping[str, Json]) -> str | None:
    """The dialect that a decoded body is in, or None if it is one we do not know (Bedrock, Gemini, …)."""
    if "input" in body and "messages" not in body:
        return "openai_responses" if isinstance(body["input"], str | list) else None
    messages = body.get("messages")
    if not isinstance(messages, list) or ("model" not in body and not _is_typed(messages)):
        return None
    return "anthropic" if _looks_anthropic(body, messages) else "openai_chat"


def detect_all(bodies: Sequence[Json]) -> list[str | None]:
    """The dialect of each body of one session: where only the whole of it tells, the whole decides."""
    each = [detect(body) if isinstance(body, dict) else None for body in bodies]
    doubtful = {"anthropic", "openai_chat"}
    if not doubtful <= set(each):
        return each
    together: dict[str, Json] = {}
    for body, found in zip(bodies, each, strict=True):
        if found in doubtful:
            together = {**together, **body, "messages": [*together.get("messages", ()), *body["messages"]]}
    decided = detect(together)
    return [decided if found in doubtful else found for found in each]


_CALLS_AND_THOUGHTS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_MEDIA = frozenset({"image", "document"})
_CHAT_FIELDS = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal"})


def _blocks(messages: Sequence[Json]) -> list[Json]:
    return [b for m in messages if isinstance(m, dict) and isinstance(m.get("content"), list) for b in m["content"]]


def _is_typed(messages: Sequence[Json]) -> bool:
    """Whether messages look like those of the dialects we know: Bedrock's and Gemini's blocks have no type."""
    has_roles = all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages)
    return has_roles and all(isinstance(b, dict) and isinstance(b.get("type"), str) for b in _blocks(messages))


def _looks_anthropic(body: Mapping[str, Json], messages: list[Json]) -> bool:
    tools = [t for t in body.get("tools") or () if isinstance(t, dict)]
    if "system" in body or "anthropic_version" in body or any("input_schema" in t for t in tools):
        return True
    dicts = [m for m in messages if isinstance(m, dict)]
    if any("function" in t for t in tools) or not all(_CHAT_FIELDS.isdisjoint(m) for m in dicts):
        return False
    kinds = {b.get("type") for b in _blocks(messages) if isinstance(b, dict) and isinstance(b.get("type"), str)}
    if kinds & _CALLS_AND_THOUGHTS:
        return True
    if "max_tokens" not in body or any(m.get("role") in ("tool", "system", "developer") for m in dicts):
        return False
    return bool(kinds & _MEDIA) or "thinking" in body or word(body.get("model")).startswith("claude")
