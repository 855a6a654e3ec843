"""What a body says and what a model is shown: read with the standard library alone, to judge what the package did."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

Json = Any
_MARKERS = ("cache_control", "prompt_cache_breakpoint")
_QUIET = ("id", "status", "logprobs")


def load(body: bytes) -> dict[str, Json]:
    """Decode with numbers by exact decimal value."""
    value: dict[str, Json] = json.loads(body, parse_float=Decimal, parse_int=Decimal)
    return value


def exact(value: Json) -> Json:
    """A value that is equal to another exactly if JSON means the same: objects as sets of pairs, exact numbers."""
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits)).lstrip("0")
        if not text:
            return ("number", sign and isinstance(exponent, int) and exponent != 0, "", 0)
        bare = text.rstrip("0")
        assert isinstance(exponent, int)
        return ("number", sign, bare, exponent + len(text) - len(bare))
    if isinstance(value, dict):
        return ("object", frozenset((k, exact(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("array", tuple(exact(v) for v in value))
    return (type(value).__name__, value)


def _clean(value: dict[str, Json], *without: str) -> dict[str, Json]:
    """Fields of the protocol that say something."""
    return {k: v for k, v in value.items() if k not in (*_MARKERS, *without) and v not in (None, [], {})}


def valid(body: bytes, dialect: str) -> bool:
    """Whether every field that may hold text has a shape that the API of the dialect accepts."""
    value = load(body)
    system = value.get("system", "") if dialect == "anthropic" else value.get("instructions", "")
    history = value["input" if dialect == "openai_responses" else "messages"]
    texts = (str, list) if dialect == "anthropic" else (str,)
    return (
        isinstance(system, texts)
        and isinstance(history, (str, list) if dialect == "openai_responses" else list)
        and (isinstance(system, str) or all(isinstance(block, dict) for block in system))
        and (isinstance(history, str) or all(isinstance(item, dict) for item in history))
    )


def _items(value: dict[str, Json]) -> list[Json]:
    """The history; a bare input string is one message of the user."""
    history: Json = value.get("messages", value.get("input"))
    return [{"role": "user", "content": history}] if isinstance(history, str) else list(history)


def _text(text: Json) -> Json:
    return text.strip() if isinstance(text, str) else text


def _json(text: Json) -> Json:
    """By value if it is a string of JSON."""
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        try:
            return {"json": json.loads(text, parse_float=Decimal, parse_int=Decimal)}
        except ValueError:
            pass
    return _text(text)


def _blocks(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


class _Calls:
    """Call ids by the order in which the calls were made."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.count = 0

    def made(self, name: str) -> None:
        self.of[name] = self.count
        self.count += 1


def meaning(body: bytes, dialect: str) -> Json:
    """All that a body says: tools as a set, the rest in order."""
    value = load(body)
    calls = _Calls()
    read = {"anthropic": _anthropic, "openai_chat": _chat, "openai_responses": _responses}[dialect]
    said: list[Json] = []
    run: list[Json] = []
    for item in _items(value):
        kind, told = read(item, calls)
        if kind == "results":
            run += told
            continue
        said += [sorted(run, key=lambda r: r[0])] if run else []
        run = []
        said.append(told)
    said += [sorted(run, key=lambda r: r[0])] if run else []
    system = value.get("system", value.get("instructions"))
    rest = {k: v for k, v in value.items() if k not in ("tools", "messages", "input", "system", "instructions")}
    rest.pop("prompt_cache_key", None)
    tools = frozenset(exact(_clean(tool)) for tool in value.get("tools", ()))
    return tools, exact([_clean({**b, "text": _text(b["text"])}) for b in _blocks(system)]), exact(said), exact(rest)


def _anthropic(message: Json, calls: _Calls) -> tuple[str, Json]:
    told: list[Json] = []
    results: list[Json] = []
    for block in _blocks(message["content"]):
        if block["type"] == "tool_use":
            calls.made(block["id"])
            told.append(_clean(block, "id"))
        elif block["type"] == "tool_result":
            results.append([calls.of[block["tool_use_id"]], _json(block["content"])])
        else:
            told.append({**_clean(block), "text": _text(block["text"])})
    if results:  # one message each, so a run never spans two
        return "message", [message["role"], sorted(results, key=lambda r: int(r[0])), told]
    return "message", [message["role"], told]


def _chat(message: Json, calls: _Calls) -> tuple[str, Json]:
    if message["role"] == "tool":
        return "results", [[calls.of[message["tool_call_id"]], _json(message["content"])]]
    made = []
    for call in message.get("tool_calls") or ():
        calls.made(call["id"])
        made.append([call["function"]["name"], _json(call["function"]["arguments"])])
    texts = [_text(b["text"]) for b in _blocks(message.get("content"))]
    return "message", [message["role"], texts, made]


def _responses(item: Json, calls: _Calls) -> tuple[str, Json]:
    kind = item.get("type", "message")
    if kind == "function_call":
        calls.made(item["call_id"])
        return "message", [item["name"], _json(item["arguments"])]
    if kind == "function_call_output":
        return "results", [[calls.of[item["call_id"]], _json(item["output"])]]
    return "message", [item["role"], [_text(b["text"]) for b in _blocks(item["content"])]]


def shown(body: bytes, dialect: str) -> list[str]:
    """What the model is shown, piece by piece: two prompts share a cache as far as these are equal.

    Strict: key order in schemas and arguments, argument strings, ids and white space all count. Markers do not, nor the
    order of the protocol's own fields; for the OpenAI dialects the shape of content counts too.
    """
    value = json.loads(body, parse_float=str, parse_int=str)
    pieces = [json.dumps({k: v for k, v in tool.items() if k not in _MARKERS}) for tool in value.get("tools", ())]
    system = value.get("system", value.get("instructions"))
    pieces += [_piece(block) for block in _blocks(system)]
    for item in _items(value):
        pieces += [_piece(p) for p in _pieces(item, dialect)]
    return pieces


def _pieces(item: Json, dialect: str) -> list[Json]:
    content = item.get("content")
    if dialect == "anthropic":
        return [item["role"], *_blocks(content)]
    rest = {k: v for k, v in _clean(item, "content", "tool_calls").items() if k not in _QUIET}
    shape = "list" if isinstance(content, list) else "text"
    calls = [{"id": c["id"], **c["function"]} for c in item.get("tool_calls") or ()]
    return [rest, shape if content else "", *_blocks(content), *calls]


def _piece(value: Json) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return json.dumps({k: value[k] for k in sorted(value) if k not in _MARKERS})
