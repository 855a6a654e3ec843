"""A simulated prompt cache: longest common prefix over the rendered prompt.

Simulated: no tokeniser and no provider is behind it. A prompt is rendered as a provider would, from parsed values
(tools in order, then system, then messages; compact JSON, keys in the order given; cache markers left out), and four
bytes count as one token. What a request shares from its first byte on with any earlier one of its model is cached.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

BYTES_PER_TOKEN = 4
KEPT = 512
"""Prompts remembered per model."""

_MARKER = "cache_control"


@dataclass(frozen=True)
class Count:
    """Tokens of one prompt, simulated."""

    prompt: int
    cached: int
    marked: bool
    """The request carries a cache marker, so what was not cached counts as written."""

    @property
    def fresh(self) -> int:
        return self.prompt - self.cached


class PrefixCache:
    """Remembers prompts, and says how much of a new one it has seen."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[bytes]] = {}

    def look(self, model: str, prompt: bytes) -> int:
        """Bytes of the prompt that are cached; the prompt is cached from now on."""
        seen = self._seen.setdefault(model, deque(maxlen=KEPT))
        best = 0
        for earlier in reversed(seen):
            if earlier[: best + 1] == prompt[: best + 1]:
                best = max(best, common_prefix(earlier, prompt))
        seen.append(prompt)
        return best

    def count(self, model: str, pieces: list[Any]) -> Count:
        """Count a prompt given as its pieces, and remember it."""
        prompt = render(pieces)
        cached = self.look(model, prompt)
        return Count(tokens(len(prompt)), cached // BYTES_PER_TOKEN, marked=unmarked(pieces) != pieces)


def tokens(size: int) -> int:
    """Tokens of that many bytes."""
    return size // BYTES_PER_TOKEN


def common_prefix(left: bytes, right: bytes) -> int:
    """Length of the common prefix, by bisection: each step compares slices at memory speed."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def render(pieces: list[Any]) -> bytes:
    """One line of compact JSON a piece, without cache markers."""
    lines = (json.dumps(piece, ensure_ascii=False, separators=(",", ":")) for piece in unmarked(pieces))
    return "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")


def unmarked(pieces: list[Any]) -> list[Any]:
    """Markers are taken out where the protocols put them, and not inside a schema, or a call's input."""
    return [_unmarked(piece) for piece in pieces]


def _unmarked(piece: Any) -> Any:
    if not isinstance(piece, dict):
        return piece
    clean = {name: value for name, value in piece.items() if name != _MARKER}
    if isinstance(clean.get("content"), list):
        clean["content"] = unmarked(clean["content"])
    return clean


def anthropic_pieces(body: dict[str, Any]) -> list[Any]:
    """Tools, system blocks, messages. A string is the one text block that it stands for."""
    messages = [{**message, "content": _blocks(message["content"])} for message in body["messages"]]
    return [*body.get("tools", ()), *_blocks(body.get("system", [])), *messages]


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def chat_pieces(body: dict[str, Any]) -> list[Any]:
    """Tools, then messages, the system's among them."""
    return [*body.get("tools", ()), *body["messages"]]


def responses_pieces(body: dict[str, Any], history: list[Any]) -> list[Any]:
    """Tools, instructions, what went before, input. A string is the user's message."""
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    instructions = [{"role": "developer", "content": body["instructions"]}] if body.get("instructions") else []
    return [*body.get("tools", ()), *instructions, *history, *items]
