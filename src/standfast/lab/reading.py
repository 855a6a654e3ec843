"""A request body as a provider's cache reads it. Shares no code with the core, so that a mistake cannot hide in both.

A prompt is a row of blocks in render order: the model with what stands in front of everything, tools, system, and the
parts of each message. A block's key is what the provider would render of it: JSON without its white space, keys in the
order given (they are rendered), cache marks left out. Tokens are counted as one for each four bytes begun of the key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MARKERS = ("cache_control", "prompt_cache_breakpoint")
_BYTES_A_TOKEN = 4


class Refused(Exception):
    """The provider answers 400."""


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt."""

    tier: str
    """tools, system or messages."""
    key: bytes
    tokens: int
    mark: Mapping[str, Any] | None = None
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A body, read."""

    model: str
    blocks: tuple[Block, ...]
    stream: bool
    automatic: Mapping[str, Any] | None
    """A mark at the top of the body."""
    options: Mapping[str, Any]
    """``prompt_cache_options``."""
    route: str
    """``prompt_cache_key`` or the like."""
    asked: str | None
    """The earlier response that the provider shall compare with; None: not asked."""
    body: Mapping[str, Any]


def read(body: bytes, dialect: str) -> Prompt:
    """Read a body. Raises Refused."""
    try:
        value = json.loads(body)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused("the body is not an object")
    return _DIALECTS[dialect](value)


def _render(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _bare(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in MARKERS}


def _block(tier: str, role: str, value: Any, kind: str = "text") -> Block:
    mark = next((value[m] for m in MARKERS if value.get(m)), None) if isinstance(value, dict) else None
    key = _render([role, _bare(value) if isinstance(value, dict) else value])
    return Block(tier, key, -(-len(key) // _BYTES_A_TOKEN), mark, kind)


def _opening(tier: str, values: Mapping[str, Any]) -> Iterator[Block]:
    """What parameters put in front of a tier: no tokens, but another one makes another prefix."""
    told = {name: value for name, value in values.items() if value is not None}
    yield Block(tier, _render(told), 0, None, "opening")


def _anthropic(body: Mapping[str, Any]) -> Prompt:
    blocks = list(_opening("tools", {"model": body.get("model"), "mcp": body.get("mcp_servers")}))
    blocks += [_block("tools", "", tool, "tool") for tool in body.get("tools") or ()]
    blocks += _opening("system", {"speed": body.get("speed")})
    system = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    blocks += [_block("system", "system", item) for item in system]
    names = ("thinking", "tool_choice", "output_config", "output_format", "effort")
    blocks += _opening("messages", {name: body.get(name) for name in names})
    for message in body.get("messages") or ():
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks += [_anthropic_part(message.get("role", ""), part) for part in content or ()]
    diagnostics = body.get("diagnostics")
    return Prompt(
        str(body.get("model", "")),
        tuple(blocks),
        body.get("stream") is True,
        body.get("cache_control"),
        {},
        "",
        (diagnostics.get("previous_message_id") or "") if isinstance(diagnostics, dict) else None,
        body,
    )


def _anthropic_part(role: str, part: Mapping[str, Any]) -> Block:
    kind = str(part.get("type", "text"))
    if kind == "tool_result":
        inner = part.get("content", "")
        inner = [{"type": "text", "text": inner}] if isinstance(inner, str) else inner
        mark = part.get("cache_control") or next((p["cache_control"] for p in inner if p.get("cache_control")), None)
        part = {**part, "content": [_bare(p) for p in inner]}
        if mark:
            part["cache_control"] = mark
    block = _block("messages", role, part, kind)
    if block.mark and (kind in ("thinking", "redacted_thinking") or (kind == "text" and not part.get("text"))):
        raise Refused(f"cache_control cannot be set on {kind if part.get('text', 1) else 'empty text'} blocks")
    return block


def _chat(body: Mapping[str, Any]) -> Prompt:
    front = ("model", "response_format", "reasoning_effort", "verbosity", "functions", "chat_template_kwargs")
    blocks = list(_opening("tools", {name: body.get(name) for name in front}))
    blocks += [_block("tools", "", tool, "tool") for tool in body.get("tools") or ()]
    blocks += _opening("messages", {"tool_choice": _choice(body.get("tool_choice"))})
    for message in body.get("messages") or ():
        rest = {k: v for k, v in message.items() if k not in ("content", "role") and v is not None}
        role = str(message.get("role", ""))
        tier = "system" if role in ("system", "developer") else "messages"
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        blocks += [_block(tier, role, part) for part in parts]
        if rest:
            blocks.append(_block(tier, role, rest, "call" if "tool_calls" in rest else "rest"))
    return _openai(body, blocks)


def _responses(body: Mapping[str, Any]) -> Prompt:
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    front = {
        "model": body.get("model"),
        "format": text.get("format"),
        "verbosity": text.get("verbosity"),
        "effort": reasoning.get("effort"),
    }
    blocks = list(_opening("tools", front))
    blocks += [_block("tools", "", tool, "tool") for tool in body.get("tools") or ()]
    if body.get("instructions"):
        blocks.append(_block("system", "system", {"text": body["instructions"]}))
    blocks += _opening("messages", {"tool_choice": _choice(body.get("tool_choice"))})
    items = body.get("input") or []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        if "role" not in item:
            blocks.append(_block("messages", "", {k: v for k, v in item.items() if k not in ("id", "status")}, "item"))
            continue
        content = item.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
        blocks += [_block("messages", item["role"], part) for part in parts]
    return _openai(body, blocks)


def _choice(choice: Any) -> Any:
    """A tool_choice as far as it changes the prompt: allowed_tools does not."""
    allowed = isinstance(choice, dict) and choice.get("type") == "allowed_tools"
    return None if allowed or choice == "auto" else choice


def _openai(body: Mapping[str, Any], blocks: list[Block]) -> Prompt:
    options = body.get("prompt_cache_options") or {}
    return Prompt(
        str(body.get("model", "")),
        tuple(blocks),
        body.get("stream") is True,
        body.get("cache_control"),
        options,
        str(body.get("prompt_cache_key") or body.get("session_id") or ""),
        options.get("comparison_response_id"),
        body,
    )


_DIALECTS: dict[str, Callable[[Mapping[str, Any]], Prompt]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}
