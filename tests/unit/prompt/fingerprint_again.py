"""The Request Fingerprint once more, written from docs/format/fingerprint.md with nothing but blake3."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from blake3 import blake3

Json = Any
MARKERS = ("cache_control", "prompt_cache_breakpoint")
PARAMETERS = {
    "anthropic": "mcp_servers speed output_config.format output_format container.skills thinking tool_choice "
    "output_config.effort output_config.task_budget effort",
    "openai_chat": "service_tier response_format reasoning_effort reasoning verbosity functions web_search_options "
    "documents chat_template chat_template_kwargs thinking tool_choice",
    "openai_responses": "prompt service_tier text.format text.verbosity reasoning.effort tool_choice",
}
_OPENAI = {"service_tier": b'"auto"', "tool_choice": b'"auto"'}
DEFAULTS = {
    "anthropic": {"speed": b'"standard"', "thinking": b'{"type":"disabled"}', "tool_choice": b'{"type":"auto"}'},
    "openai_chat": {"response_format": b'{"type":"text"}', **_OPENAI},
    "openai_responses": {"text.format": b'{"type":"text"}', **_OPENAI},
}
BILLING = "x-anthropic-billing-header:"


class Written(str):
    """A literal with a fraction or an exponent."""


def plain(data: bytes) -> bytes:
    return blake3(data).digest()


def keyed(key: bytes, data: bytes) -> bytes:
    return blake3(data, key=key).digest()


def load(text: str | bytes) -> Json:
    return json.loads(text, parse_float=Written)


def form(value: Json) -> str:
    """The meaning form."""
    if isinstance(value, Written):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{form(k)}:{form(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(form, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _number(literal: str) -> str:
    sign, digits, exponent = Decimal(literal).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return str(literal) if sign else "0"
    bare = text.rstrip("0")
    exponent += len(text) - len(bare)
    minus = "-" if sign else ""
    return f"{minus}{bare}" + ("0" * exponent if 0 <= exponent <= 40 else f"e{exponent}")


def value_of(text: Json) -> Json:
    """The value of a JSON text in a list of one, or None."""
    if not isinstance(text, str) or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return [load(text)]
    except ValueError:
        return None


def text(s: Json) -> Json:
    return s.strip() if isinstance(s, str) else s


def result(s: Json) -> Json:
    found = value_of(s)
    return {"json": found[0]} if found else text(s)


def arguments(s: Json) -> Json:
    found = value_of(s)
    return found[0] if found else s


def unmarked(value: dict[str, Json]) -> dict[str, Json]:
    return {k: v for k, v in value.items() if k not in MARKERS}


def said(value: dict[str, Json], *without: str) -> dict[str, Json]:
    return {k: v for k, v in unmarked(value).items() if k not in without and v is not None and v not in ([], {})}


Part = tuple[str, Json, str | None]
Item = tuple[str, Json, list[Part]]


def tool(dialect: str, value: dict[str, Json]) -> Item:
    names = (value.get("function") or value.get("custom") or value) if dialect == "openai_chat" else value
    name = names.get("name") or value.get("server_label") or value.get("type")
    return str(name), None, [("other", unmarked(value), None)]


def system(value: Json, dialect: str) -> Item:
    if dialect == "openai_responses":
        return "system", None, [("text", {"text": text(value)}, None)]
    block = {"type": "text", "text": value} if isinstance(value, str) else value
    words = block["text"]
    billed = re.compile(rf"\A\s*{BILLING}.*", re.IGNORECASE)
    words = billed.sub(f"{BILLING}*", words) if billed.match(words) else text(words)
    return "system", None, [("text", {**said(block), "text": words}, None)]


def anthropic(value: dict[str, Json]) -> Item:
    return value["role"], said(value, "content"), [_block(b, text) for b in _listed(value["content"])]


def _listed(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _block(block: dict[str, Json], words: Any) -> Part:
    kind = block["type"]
    if kind == "text":
        return "text", {**said(block), "text": words(block["text"])}, None
    if kind.endswith("tool_use"):
        return "call", said(block, "id"), block["id"]
    if kind.endswith("tool_result"):
        told = said(block, "content", "tool_use_id", "is_error")
        told["content"] = [_block(b, result)[1] for b in _listed(block.get("content", ""))]
        return "result", {**told, **({"is_error": True} if block.get("is_error") else {})}, block["tool_use_id"]
    if kind in ("thinking", "redacted_thinking"):
        return "thinking", unmarked(block), None
    return ("media" if kind in ("image", "document") else "other"), said(block), None


REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def openai_chat(value: dict[str, Json]) -> Item:
    if value["role"] == "tool":
        told = [{**said(p), "text": result(p["text"])} for p in _listed(value["content"])]
        return "tool", said(value, "content", "tool_call_id"), [("result", told, value["tool_call_id"])]
    parts: list[Part] = [("thinking", {n: value[n]}, None) for n in REASONING if value.get(n)]
    calls = [_chat_call(c) for c in value.get("tool_calls") or []]
    content = value.get("content")
    blank = not content or (isinstance(content, str) and not content.strip())
    middle: list[Part] = []
    if not blank or not (parts or calls):
        for p in _listed(content or ""):
            kind = "text" if p["type"] == "text" else "media"
            middle.append((kind, {**said(p), "text": text(p["text"])} if kind == "text" else said(p), None))
    return value["role"], said(value, "content", "tool_calls", *REASONING), [*parts, *middle, *calls]


def _chat_call(value: dict[str, Json]) -> Part:
    function = {**said(value["function"]), "arguments": arguments(value["function"]["arguments"])}
    return "call", {**said(value, "id", "function", "type", "index"), "function": function}, value["id"]


def openai_responses(value: Json) -> Item:
    if isinstance(value, str):
        return "user", {"role": "user"}, [("text", {"text": text(value)}, None)]
    kind = value.get("type", "message")
    told = said(value, "id", "status", "call_id")
    if kind.endswith("_call_output"):
        return kind, None, [("result", {**told, "output": result(value["output"])}, value["call_id"])]
    if kind.endswith("_call"):
        return kind, None, [("call", {**told, "arguments": arguments(value["arguments"])}, value["call_id"])]
    if kind != "message":
        return kind, None, [("other", unmarked(value), None)]
    content = value["content"]
    listed = [{"text": content}] if isinstance(content, str) else content
    parts: list[Part] = [("text", {**said(p, "type", "logprobs"), "text": text(p["text"])}, None) for p in listed]
    return value["role"], said(value, "content", "type", "id", "status"), parts


READERS: dict[str, Any] = {
    "anthropic": anthropic, "openai_chat": openai_chat, "openai_responses": openai_responses,
}  # fmt: skip


def frame(item: Item) -> bytes:
    return plain(form([item[0], item[1]]).encode())


def meaning(part: Part, token: str = "") -> bytes:
    written = form([part[0], part[1]])
    if part[0] == "result":
        written = re.sub(r"(?:\b|(?<=\\[bfnrt]))cch=[0-9A-Za-z]+", "cch=*", written)
    elif token:
        written = re.sub(rf"(?:\b|(?<=\\[bfnrt]))cch={re.escape(token)}(?![0-9A-Za-z])", "cch=*", written)
    return plain(written.encode())


def names(item: Item) -> bytes:
    return frame(item) + b"".join(map(meaning, item[2]))


def units(items: list[Item], dialect: str) -> Iterator[list[Item]]:
    run: list[Item] = []
    for item in items:
        is_result = dialect != "anthropic" and bool(item[2]) and all(p[0] == "result" for p in item[2])
        if run and not is_result:
            yield run
            run = []
        if is_result:
            run.append(item)
        else:
            yield [item]
    if run:
        yield run


def chain(key: bytes, dialect: str, items: list[Item], anchor: bytes, token: str) -> list[bytes]:
    """Root and links."""
    links = [keyed(key, b"standfast/history/1\0" + dialect.encode() + b"\0" + anchor)]
    calls: dict[str, int] = {}
    count = 0
    for unit in units(items, dialect):
        unit = sorted(unit, key=lambda i: calls.get(i[2][0][2] or "", -1)) if len(unit) > 1 else unit
        for item in unit:
            payload = frame(item)
            results = iter(sorted((p for p in item[2] if p[0] == "result"), key=lambda p: calls.get(p[2] or "", -1)))
            if not item[2]:
                links.append(keyed(key, links[-1] + payload))
            for part in item[2]:
                part = next(results) if part[0] == "result" else part
                payload += meaning(part, token)
                if part[0] == "result":
                    n = calls.get(part[2] or "")
                    payload += b"?" + (part[2] or "").encode() if n is None else n.to_bytes(4, "big")
                links.append(keyed(key, links[-1] + payload))
                payload = b""
        for item in unit:
            for kind, _, name in item[2]:
                if kind == "call" and name is not None:
                    calls[name], count = count, count + 1
    return links


def fingerprint(tenant: bytes, upstream: str, dialect: str, body: bytes) -> tuple[bytes, list[bytes]]:
    """The record and the links."""
    key = keyed(tenant, b"upstream\0" + upstream.encode())
    value = load(body)
    history = value["input" if dialect == "openai_responses" else "messages"]
    history = [history] if isinstance(history, str) else list(history)
    items: list[Item] = [READERS[dialect](v) for v in history]
    front = []
    while dialect != "anthropic" and items and items[0][0] in ("system", "developer"):
        front.append(items.pop(0))
    own = value.get("instructions" if dialect == "openai_responses" else "system") or []
    heads = [system(v, dialect) for v in ([own] if isinstance(own, str) else own)] + front
    token = ""
    for block in own if isinstance(own, list) else [{"text": own}]:
        if block["text"].startswith(BILLING):
            found = re.search(r"\bcch=([0-9A-Za-z]+)", block["text"])
            token = found[1] if found else ""
    anchors = [json.dumps(value[n]).encode() for n in ("previous_response_id", "conversation") if value.get(n)]
    links = chain(key, dialect, items, b"\0".join(anchors), token)
    tools = [tool(dialect, t) for t in value.get("tools") or []]
    fields = [
        dialect.encode(), value["model"].encode(),
        keyed(key, b"tools\0" + plain(b"".join(sorted(map(names, tools))))),
        keyed(key, b"order\0" + b"".join(t[0].encode() + b"\0" for t in tools)),
        keyed(key, b"system\0" + plain(b"".join(map(names, heads)))),
        keyed(key, b"parameters\0" + _parameters(value, dialect)),
        links[-1],
    ]  # fmt: skip
    record = b"\x08\x02" + b"".join(
        bytes([n << 3 | 2]) + _varint(len(data)) + data for n, data in enumerate(fields, 2) if data
    )
    return record + (b"\x48" + _varint(len(links) - 1) if len(links) > 1 else b""), links[1:]


def _parameters(value: dict[str, Json], dialect: str) -> bytes:
    entries = b""
    for path in sorted(PARAMETERS[dialect].split()):
        found: Json = value
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        written = form(found).encode()
        if found is not None and not _is_free(found, dialect) and written != DEFAULTS[dialect].get(path):
            entries += b"".join(len(b).to_bytes(4, "big") + b for b in (path.encode(), written))
    return entries


def _is_free(choice: Json, dialect: str) -> bool:
    return dialect != "anthropic" and isinstance(choice, dict) and choice.get("type") == "allowed_tools"


def _varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + _varint(n >> 7)
