"""Two independent readings of a body: what it says, and what the model is shown of it.

Written with the standard library alone, to judge what a repair did: ``meaning`` must be the same before and after, and
two prompts share a cache as far as ``shown`` is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from standfast.lab.breaks.media import pixels
from standfast.lab.breaks.places import history
from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, Body

_MARKERS = ("cache_control", "prompt_cache_breakpoint")
_HOUSEKEEPING = ("id", "status")
_ROUTES = ("prompt_cache_key", "session_id", "prompt_cache_options")
_TOKEN = re.compile(r"cch=[0-9A-Za-z]+")
_BILLING = re.compile(r"\A\s*x-anthropic-billing-header:.*")


def _loads(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _exact(value: Any) -> Any:
    """Equal exactly if JSON means the same: keys in any order, numbers by value."""
    if isinstance(value, dict):
        return frozenset((name, _exact(inner)) for name, inner in value.items() if name not in _MARKERS)
    if isinstance(value, list):
        return tuple(_exact(inner) for inner in value)
    return value.normalize() if isinstance(value, Decimal) else value


def _text(text: Any) -> Any:
    """A text without white space at its edges."""
    return _TOKEN.sub("cch=*", text.strip()) if isinstance(text, str) else text


def _json(text: Any) -> Any:
    """A string of JSON by value."""
    if isinstance(text, str) and text.strip()[:1] in ("{", "["):
        try:
            return "json", _exact(_loads(_TOKEN.sub("cch=*", text)))
        except ValueError:
            pass
    return _text(text)


def _part(part: Body) -> Any:
    """A text, a picture by its pixels, or anything else by value."""
    if isinstance(part.get("text"), str):
        return _text(part["text"])
    found = re.search(r'"(?:data:image/png;base64,)?(iVBOR[A-Za-z0-9+/=]+)"', json.dumps(part, default=str))
    return ("picture", tuple(pixels(found[1]))) if found else _exact(part)


def _parts(content: Any) -> tuple[Any, ...]:
    if isinstance(content, str):
        return (_text(content),) if content.strip() else ()
    return tuple(_part(part) for part in content or ())


def meaning(body: bytes, dialect: str) -> Any:
    """All that a body says, as a value to compare: tools as a set, call ids by the order of calls."""
    value = _loads(body)
    calls: dict[str, int] = {}
    said: list[Any] = []
    for element in history(value):
        told = _anthropic(element, calls) if dialect == ANTHROPIC else _openai(element, calls)
        if told[0] == "result" and said and said[-1][0] == "results":
            said[-1] = ("results", frozenset({*said[-1][1], told[1]}))
        else:
            said.append(("results", frozenset({told[1]})) if told[0] == "result" else told)
    outside = ("tools", "messages", "input", "system", "instructions", *_ROUTES, *_MARKERS)
    system = _parts(value.get("system", value.get("instructions")))
    return (
        frozenset(_exact(tool) for tool in value.get("tools", ())),
        tuple(_BILLING.sub("", text).strip() if isinstance(text, str) else text for text in system),
        said,
        _exact({name: inner for name, inner in value.items() if name not in outside}),
    )


def _anthropic(message: Body, calls: dict[str, int]) -> tuple[Any, ...]:
    told: list[Any] = []
    results = set()
    content = message["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if block["type"] == "tool_use":
            calls[block["id"]] = len(calls)
            told.append(("call", block["name"], _exact(block["input"])))
        elif block["type"] == "tool_result":
            inner = block["content"]
            texts = [inner] if isinstance(inner, str) else [part["text"] for part in inner]
            results.add((calls[block["tool_use_id"]], tuple(map(_json, texts))))
        else:
            told.append(_part(block))
    return message["role"], frozenset(results), tuple(told)


def _openai(item: Body, calls: dict[str, int]) -> tuple[Any, ...]:
    kind = item.get("type", "message")
    if kind == "function_call":
        calls[item["call_id"]] = len(calls)
        return "call", item["name"], _json(item["arguments"])
    if kind == "function_call_output":
        return "result", (calls[item["call_id"]], _json(item["output"]))
    if item.get("role") == "tool":
        return "result", (calls[item["tool_call_id"]], _json(item["content"]))
    if "role" not in item:
        return "other", _exact({name: inner for name, inner in item.items() if name not in _HOUSEKEEPING})
    made = []
    for call in item.get("tool_calls") or ():
        calls[call["id"]] = len(calls)
        made.append((call["function"]["name"], _json(call["function"]["arguments"])))
    parts = _parts(item.get("content"))
    parts = tuple(_BILLING.sub("", p).strip() if item["role"] in ("system", "developer") else p for p in parts)
    return item["role"], parts, _text(item.get("reasoning_content")), tuple(made)


def shown(body: bytes, dialect: str) -> list[str]:
    """What the model is shown, piece by piece, in render order. Key order, spelling, ids and white space count."""
    value = json.loads(body, parse_float=str, parse_int=str)
    pieces = [json.dumps(value.get("model")), *(json.dumps(_bare(tool)) for tool in value.get("tools", ()))]
    system = value.get("system", value.get("instructions"))
    pieces += [_piece(p) for p in _blocks(system)]
    for element in history(value):
        pieces += map(_piece, _message(element, dialect))
    return pieces


def _message(element: Body, dialect: str) -> list[Any]:
    if "role" not in element:
        return [{name: inner for name, inner in element.items() if name not in _HOUSEKEEPING}]
    content = element.get("content")
    if dialect == ANTHROPIC:
        return [element["role"], *_blocks(content)]
    rest = {name: inner for name, inner in element.items() if inner and name not in ("content", *_HOUSEKEEPING, "type")}
    shape = "list" if isinstance(content, list) else "text" if dialect == CHAT or content else ""
    return [rest, shape, *_blocks(content)]


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if name not in _MARKERS}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _piece(value: Any) -> str:
    """Fields of the protocol in one order; a result's string and its list of one text are the same."""
    if not isinstance(value, dict):
        return json.dumps(value)
    bare = _bare(value)
    if bare.get("type") == "tool_result":
        bare["content"] = _blocks(bare.get("content"))
    return json.dumps({name: bare[name] for name in sorted(bare)})


def common(left: Sequence[str], right: Sequence[str]) -> int:
    """Characters of the shared head of two prompts, whole pieces and the head of the first that differs."""
    size = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            return size + next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        size += len(a)
    return size
