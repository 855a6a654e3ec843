"""The request formats: one module each, knowing nothing of each other."""

from __future__ import annotations

from collections.abc import Mapping

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.anthropic import Anthropic
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.dialects.openai_chat import OpenAIChat
from standfast.prompt.dialects.openai_responses import OpenAIResponses

DIALECTS: dict[str, Dialect] = {d.name: d for d in (Anthropic(), OpenAIChat(), OpenAIResponses())}
"""By name."""


def detect(body: Mapping[str, Json]) -> str | None:
    """The dialect that a decoded body is in, or None if it is one we do not know (Bedrock, Gemini, …)."""
    if "input" in body and "messages" not in body:
        return "openai_responses" if isinstance(body["input"], str | list) else None
    messages = body.get("messages")
    if not isinstance(messages, list) or "model" not in body:
        return None
    return "anthropic" if _looks_anthropic(body, messages) else "openai_chat"


_ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})
_CHAT_FIELDS = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal"})


def _looks_anthropic(body: Mapping[str, Json], messages: list[Json]) -> bool:
    tools = [t for t in body.get("tools") or () if isinstance(t, dict)]
    if "system" in body or "anthropic_version" in body or any("input_schema" in t for t in tools):
        return True
    if "max_tokens" not in body or any("function" in t for t in tools):
        return False
    dicts = [m for m in messages if isinstance(m, dict)]
    if any(m.get("role") in ("tool", "system", "developer") or not _CHAT_FIELDS.isdisjoint(m) for m in dicts):
        return False
    blocks = [b for m in dicts if isinstance(m.get("content"), list) for b in m["content"]]
    kinds = {b.get("type") for b in blocks if isinstance(b, dict)}
    return bool(kinds & _ANTHROPIC_BLOCKS) or "thinking" in body or str(body["model"]).startswith("claude")
