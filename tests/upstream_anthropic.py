"""Answers in the form of Anthropic Messages."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from upstream_cache import Count, tokens
from upstream_turn import Turn, anthropic_error, split

Event = tuple[str | None, Any]
"""Name of the event, and its data."""


def usage_of(turn: Turn, count: Count) -> dict[str, Any]:
    """Usage as the provider reports it: cached and written apart from the rest."""
    written = count.fresh if count.marked else 0
    said = turn.text + turn.thinking + "".join(name + arguments for name, arguments in turn.calls)
    return {
        "input_tokens": count.fresh - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": count.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens(len(said)) + 1,
        "service_tier": "standard",
    }


def message(turn: Turn, model: str, serial: int, count: Count) -> dict[str, Any]:
    """The whole message."""
    return {
        "id": f"msg_{serial:024d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(turn, serial),
        "stop_reason": "max_tokens" if turn.cut_short else "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage_of(turn, count),
    }


def _blocks(turn: Turn, serial: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": signature(turn.thinking)})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for number, (name, arguments) in enumerate(turn.calls):
        id = f"toolu_{serial:016d}{number:06d}"
        blocks.append({"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments or "{}")})
    return blocks


def signature(thinking: str) -> str:
    """Stands for the provider's signature: the same for the same thought."""
    return base64.b64encode(hashlib.sha256(thinking.encode()).digest() * 4).decode()


def events(turn: Turn, model: str, serial: int, count: Count) -> Iterator[Event]:
    """The message as a stream."""
    whole = message(turn, model, serial, count)
    opened = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield _event("message_start", message=opened)
    yield _event("ping")
    arguments = iter(turn.calls)
    for index, block in enumerate(whole["content"]):
        text = next(arguments)[1] if block["type"] == "tool_use" else ""
        yield from _block_events(index, block, turn.piece, text)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    told = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    yield _event("message_delta", delta=delta, usage={name: whole["usage"][name] for name in told})
    yield _event("message_stop")


def _block_events(index: int, block: dict[str, Any], piece: int, arguments: str) -> Iterator[Event]:
    kind = block["type"]
    if kind == "tool_use":
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ["", *split(arguments, piece)]]
        empty: dict[str, Any] = {"input": {}}
    elif kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in split(block["thinking"], piece)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        empty = {"thinking": "", "signature": ""}
    else:
        deltas = [{"type": "text_delta", "text": part} for part in split(block["text"], piece)]
        empty = {"text": ""}
    yield _event("content_block_start", index=index, content_block={**block, **empty})
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def failure(turn: Turn) -> Event:
    """An error inside a stream."""
    return "error", anthropic_error(turn.status if turn.status >= 400 else 529, turn.message)


def _event(kind: str, **fields: Any) -> Event:
    return kind, {"type": kind, **fields}
