"""Request bodies of sessions that grow, as the SDKs of the three dialects write them.

A *turn* is a pair of history items: a user's text or a tool's result, then an assistant's text or call. The request
at turn k carries k whole turns and the newest user item. A session appends one turn a request, and the assistant's
text that it appends is what the dummy upstream answers, as a real client's would be.

Texts are cut from one pool at random places and begin with a random word, so that sessions share nothing but what
they are meant to share.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from dummy_upstream import RESPONSES_ITEM, TEXT

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "openai_responses": "/v1/responses",
}
MODEL = "bench-model"
FIRST, LAST = 40, 60
"""Turns of history in a session's first and last request; sizes are nominal at the middle."""

_WORDS = """\
the of to and in a is that for it as was with be by on not he his but at are this have from which one had or
order customer refund ticket delay carrier address invoice priority escalate schedule warehouse parcel status
return None if def self.items[0] == 'open' "quoted" C:\\temp path/to/file.py 2026-03-14T09:26:53Z 3.14159
naïve café 東京 → ≤ {"key": [1, 2, 3]} <b>bold</b> \t # heading""".replace("\n", " \n ").split(" ")


@cache
def _pool() -> str:
    rng = random.Random(20_261_201)
    return " ".join(rng.choices(_WORDS, k=350_000))


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class _Item:
    """One history item, before a dialect renders it."""

    kind: str
    """user, assistant, answer, call or result."""
    text: str
    turn: int
    """For a call and its result: the turn of the call."""


class Session:
    """One conversation.

    ``drift`` shuffles the tools and makes new call ids for every request. ``private`` gives it tools and a system
    text of its own. ``growth`` is the bytes of text of an appended turn, by default as many as an earlier one has.
    """

    def __init__(
        self, seed: str, dialect: str, text_bytes: int, *, turns: tuple[int, int] = (FIRST, LAST), tools: int = 12,
        system_bytes: int = 1_500, private: bool = False, drift: bool = False, growth: int | None = None,
    ) -> None:  # fmt: skip
        self.dialect = dialect
        self.turns = turns
        self.drift = drift
        self._growth = (2 * text_bytes if growth is None else growth) - len(TEXT)
        self._rng = random.Random(seed)
        self._nonce = self._rng.randrange(16**8)
        shared = self._rng if private else random.Random("shared")
        names = [f"tool_{i}_{shared.randrange(16**4):04x}" for i in range(tools)]
        self._tools = [_tool(dialect, shared, name) for name in names]
        self._called = names[0]
        self._system = _text(shared, system_bytes)
        self._items = list(self._history(text_bytes))
        self._rendered: dict[int, bytes] = {}

    def bodies(self) -> Iterator[bytes]:
        """The session's requests, oldest first."""
        for turn in range(self.turns[0], self.turns[1] + 1):
            yield self.body(turn)

    def body(self, turn: int) -> bytes:
        """The request at this turn."""
        tools = list(self._tools)
        if self.drift:
            self._rng.shuffle(tools)
            self._nonce = self._rng.randrange(16**8)
        history = b",".join(self._render(i) for i in range(2 * turn + 1))
        return _assemble(self.dialect, self._system, history, b",".join(tools))

    def _history(self, text_bytes: int) -> Iterator[_Item]:
        """User items of the turns that are appended get the text of a whole turn: the answer there is fixed."""
        first, last = self.turns
        called = False
        for turn in range(last + 1):
            size = text_bytes if turn < first else self._growth
            yield _Item("result" if called else "user", _text(self._rng, max(8, size)), turn - 1)
            called = turn % 3 == 0 and turn < first
            if called:
                yield _Item("call", _text(self._rng, min(60, text_bytes)), turn)
            elif turn < first:
                yield _Item("assistant", _text(self._rng, text_bytes), turn)
            else:
                yield _Item("answer", TEXT, turn)

    def _render(self, index: int) -> bytes:
        item = self._items[index]
        with_id = item.kind in ("call", "result")
        if self.drift and with_id:
            return self._wire(item)
        if index not in self._rendered:
            self._rendered[index] = self._wire(item)
        return self._rendered[index]

    def _wire(self, item: _Item) -> bytes:
        call_id = f"call_{self._nonce:08x}{item.turn:08x}"
        return _dump(_RENDER[self.dialect](item, call_id, self._called))


def sized(seed: str, dialect: str, nominal: int, *, private: bool = False, drift: bool = False) -> Session:
    """A session whose requests have about ``nominal`` bytes at the middle of its growth."""
    text, tools, system = _layout(dialect, nominal)
    return Session(seed, dialect, text, tools=tools, system_bytes=system, private=private, drift=drift)


@cache
def _layout(dialect: str, nominal: int) -> tuple[int, int, int]:
    """(bytes of a text, tools, bytes of the system text) for a nominal size, by measuring two trial sessions."""
    tools, system = (3, 300) if nominal < 50_000 else (12, 4_000)
    middle = (FIRST + LAST) // 2

    def length(text: int) -> int:
        return len(Session("trial", dialect, text, tools=tools, system_bytes=system).body(middle))

    low = max(1, nominal // 400)
    slope = (length(2 * low) - length(low)) / low
    return max(8, int(low + (nominal - length(low)) / slope)), tools, system


def _text(rng: random.Random, size: int) -> str:
    start = rng.randrange(len(_pool()) - size) if size < len(_pool()) else 0
    return f"{rng.randrange(16**6):06x} {_pool()[start : start + size - 7]}" if size > 7 else "ok"


def _tool(dialect: str, rng: random.Random, name: str) -> bytes:
    schema = {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": _text(rng, 40)},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            "state": {"type": "string", "enum": ["open", "closed"]},
        },
        "required": ["order_id"],
    }
    about = _text(rng, 120)
    if dialect == "anthropic":
        return _dump({"name": name, "description": about, "input_schema": schema})
    function = {"name": name, "description": about, "parameters": schema}
    if dialect == "openai_chat":
        return _dump({"type": "function", "function": function})
    return _dump({"type": "function", **function, "strict": False})


def _chat(item: _Item, call_id: str, tool: str) -> dict[str, Any]:
    if item.kind == "call":
        function = {"name": tool, "arguments": json.dumps({"order_id": item.text, "limit": 5})}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if item.kind == "result":
        return {"role": "tool", "tool_call_id": call_id, "content": item.text}
    return {"role": "user" if item.kind == "user" else "assistant", "content": item.text}


def _anthropic(item: _Item, call_id: str, tool: str) -> dict[str, Any]:
    match item.kind:
        case "call":
            block = {"type": "tool_use", "id": call_id, "name": tool, "input": {"order_id": item.text, "limit": 5}}
            return {"role": "assistant", "content": [block]}
        case "result":
            result = {"type": "tool_result", "tool_use_id": call_id, "content": item.text}
            return {"role": "user", "content": [result]}
        case "user":
            return {"role": "user", "content": item.text}
        case _:
            return {"role": "assistant", "content": [{"type": "text", "text": item.text}]}


def _responses(item: _Item, call_id: str, tool: str) -> dict[str, Any]:
    match item.kind:
        case "call":
            arguments = json.dumps({"order_id": item.text, "limit": 5})
            return {"type": "function_call", "call_id": call_id, "name": tool, "arguments": arguments}
        case "result":
            return {"type": "function_call_output", "call_id": call_id, "output": item.text}
        case "answer":
            return RESPONSES_ITEM
        case _:
            return {"role": item.kind, "content": item.text}


_RENDER = {"openai_chat": _chat, "anthropic": _anthropic, "openai_responses": _responses}


def _assemble(dialect: str, system: str, history: bytes, tools: bytes) -> bytes:
    """The body with its keys in the order in which the Python SDKs write them."""
    model, text = _dump(MODEL), _dump(system)
    match dialect:
        case "openai_chat":
            opening = b'{"messages":[{"role":"system","content":' + text + b"},"
            return opening + history + b'],"model":' + model + b',"tools":[' + tools + b"]}"
        case "anthropic":
            opening = b'{"max_tokens":1024,"messages":[' + history + b'],"model":' + model
            return opening + b',"system":[{"type":"text","text":' + text + b'}],"tools":[' + tools + b"]}"
        case _:
            opening = b'{"input":[' + history + b'],"instructions":' + text + b',"model":' + model
            return opening + b',"tools":[' + tools + b"]}"
