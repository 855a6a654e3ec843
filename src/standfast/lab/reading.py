"""A request body as a provider's cache reads it. Shares no code with the core, so that a mistake cannot hide in both.

A prompt is a row of blocks in render order: tools, system, and the parts of each message. A block's key is what the
provider would render of it: JSON without white space and escapes between its tokens, numbers as they are spelt, cache
marks left out. Keys of tools and of a call's input count in the order given; those of the protocol do not. Settings
that change the prompt are no blocks; each is told with the tier that it stands in front of.

Tokens are counted as one for each four bytes begun of the key, an image as 1,600 at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

TIERS = ("tools", "system", "messages")
MARKERS = ("cache_control", "prompt_cache_breakpoint")
BYTES_A_TOKEN = 4
_IMAGE_TOKENS = 1_600
_ELEMENTS = 1 << 15  # remembered by their bytes
_BULK = ("tools", "system", "messages", "instructions", "input")
_UNRENDERED = (*MARKERS, "annotations", "logprobs")
_IMAGES = ("image", "image_url", "input_image")

Json = Mapping[str, Any]


class Refused(Exception):
    """The provider answers 400."""


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt."""

    tier: str
    key: bytes
    tokens: int
    digest: bytes
    marks: Mapping[str, Json] = field(default_factory=dict)
    """By the field that sets them."""
    traits: frozenset[str] = frozenset()
    """What providers' rules ask of a block: its type, ``empty text``, ``images``, ``citations``…"""
    closes: str = ""
    """Role of the message that ends with it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A body, read."""

    dialect: str
    model: str
    blocks: tuple[Block, ...]
    settings: Mapping[str, tuple[str, bytes]]
    """Name → the tier in front of which it stands, and what it is set to."""
    fields: Json
    """All other fields of the body."""

    def of(self, name: str) -> Json:
        """A field that is an object; empty if it is none."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class _Setting:
    path: str
    tier: str
    default: Any = None
    name: str = ""
    """In the facts, where it is another than the path."""


_SETTINGS: dict[str, tuple[_Setting, ...]] = {
    "anthropic": (
        _Setting("mcp_servers", "tools"),
        _Setting("speed", "system", "standard"),
        _Setting("container.skills", "system"),
        _Setting("output_config.format", "system"),
        _Setting("tool_choice", "messages", {"type": "auto"}),
        _Setting("thinking", "messages", {"type": "disabled"}),
        _Setting("output_config.effort", "messages", name="effort"),
        _Setting("output_config.task_budget", "messages"),
        _Setting("output_format", "system"),
    ),
    "openai_chat": (
        _Setting("service_tier", "tools", "auto"),
        _Setting("functions", "tools"),
        _Setting("web_search_options", "tools"),
        _Setting("documents", "tools"),
        _Setting("response_format", "tools", {"type": "text"}),
        _Setting("reasoning_effort", "tools"),
        _Setting("verbosity", "tools"),
        _Setting("chat_template_kwargs", "tools"),
        _Setting("thinking", "messages"),
        _Setting("tool_choice", "messages", "auto"),
    ),
    "openai_responses": (
        _Setting("prompt", "tools"),
        _Setting("service_tier", "tools", "auto"),
        _Setting("text.format", "tools", {"type": "text"}),
        _Setting("text.verbosity", "tools"),
        _Setting("reasoning.effort", "tools"),
        _Setting("tool_choice", "messages", "auto"),
    ),
}


def read(body: bytes, dialect: str) -> Prompt:
    """Read a body. Raises Refused."""
    try:
        return _read(body, dialect)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body cannot be read: {error}") from None


def answer_blocks(dialect: str, response: Json) -> tuple[Block, ...]:
    """A response as it will stand in the history of the next request."""
    if dialect == "anthropic":
        message: Json = {"role": "assistant", "content": response["content"]}
    elif dialect == "openai_chat":
        message = response["choices"][0]["message"]
    else:
        return tuple(block for item in response["output"] for block in _MESSAGES[dialect](item))
    return tuple(_MESSAGES[dialect](message))


_body = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw] | None)
_text_or_list = msgspec.json.Decoder(str | list[Raw] | None)
_object = msgspec.json.Decoder(dict[str, Any], float_hook=lambda digits: Raw(digits.encode()))
_any = msgspec.json.Decoder()


def _read(body: bytes, dialect: str) -> Prompt:
    raw = _body.decode(body)
    blocks = (*_front(raw, dialect), *_history(raw, dialect))
    fields = {name: _any.decode(value) for name, value in raw.items() if name not in _BULK}
    return Prompt(dialect, str(fields.get("model", "")), blocks, _settings(dialect, fields, blocks), fields)


def _front(raw: Mapping[str, Raw], dialect: str) -> list[Block]:
    tools = _list.decode(raw["tools"]) if "tools" in raw else None
    blocks = [block for tool in tools or () for block in _element(dialect, "tools", bytes(tool))]
    blocks.sort(key=lambda block: TIERS.index(block.tier))  # a web search stands behind the other tools
    name = "instructions" if dialect == "openai_responses" else "system"
    system = _text_or_list.decode(raw[name]) if name in raw else None
    if isinstance(system, str):
        return [*blocks, _block("system", "", {"type": "text", "text": system})]
    return [*blocks, *(block for part in system or () for block in _element(dialect, "system", bytes(part)))]


def _history(raw: Mapping[str, Raw], dialect: str) -> Iterator[Block]:
    name = "input" if dialect == "openai_responses" else "messages"
    history = _text_or_list.decode(raw[name]) if name in raw else None
    if isinstance(history, str):
        history = [Raw(msgspec.json.encode({"role": "user", "content": history}))]
    for message in history or ():
        yield from _element(dialect, "messages", bytes(message))


@lru_cache(_ELEMENTS)
def _element(dialect: str, tier: str, raw: bytes) -> tuple[Block, ...]:
    """The blocks of a tool, a part of the system prompt, a message. Most were sent before."""
    value = _object.decode(raw)
    if tier == "tools":
        return (_tool(value),)
    return (_block(tier, "", value),) if tier == "system" else tuple(_MESSAGES[dialect](value))


def _tool(tool: Json) -> Block:
    searches = str(tool.get("type", "")).startswith("web_search_20")
    traits = ("tools with defer_loading",) if tool.get("defer_loading") is True else ()
    return _block("system" if searches else "tools", "", tool, traits, as_given=True)


def _block(
    tier: str, role: str, value: Json, traits: Iterable[str] = (), closes: str = "", *, as_given: bool = False
) -> Block:
    marks = {name: value[name] for name in MARKERS if isinstance(value.get(name), dict)}
    bare = {name: value[name] for name in value if name not in MARKERS} if as_given else _settled(value)
    key = msgspec.json.encode([role, bare])
    found = frozenset((*traits, *_traits(bare)))
    tokens = -(-len(key) // BYTES_A_TOKEN)
    if "images" in found:
        tokens = min(tokens, _IMAGE_TOKENS)
    return Block(tier, key, tokens, blake2b(key, digest_size=16).digest(), marks, found, closes)


def _settled(value: Json) -> dict[str, Any]:
    """What is said by a part, whatever the order of its fields; a call's input stays as it is."""
    return {
        name: value[name] if name == "input" else _inner(value[name]) for name in sorted(value) if _is_said(value, name)
    }


def _is_said(value: Json, name: str) -> bool:
    return name not in _UNRENDERED and value[name] is not None and value[name] != []


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return _settled(value)
    return [_inner(item) for item in value] if isinstance(value, list) else value


def _traits(value: Json) -> Iterator[str]:
    kind = value.get("type", "")
    yield str(kind)
    if kind == "text" and not value.get("text"):
        yield "empty text"
    if kind in _IMAGES:
        yield "images"
    citations = value.get("citations")
    if isinstance(citations, dict) and citations.get("enabled") is True:
        yield "citations"


def _parts(content: Any, text: str) -> list[dict[str, Any]]:
    """The parts of a content; a text is the same as one part of it."""
    if isinstance(content, str):
        return [{"type": text, "text": content}]
    if not isinstance(content, list | None) or not all(isinstance(part, dict) for part in content or ()):
        raise Refused("content must be a text or a list of parts")
    return content or []


def _anthropic_message(message: Json) -> Iterator[Block]:
    role = str(message.get("role", ""))
    parts = _parts(message.get("content"), "text")
    for number, part in enumerate(parts, 1):
        traits: set[str] = set()
        if part.get("type") == "tool_result":
            part, traits = _tool_result(part)
        yield _block("messages", role, part, traits, role if number == len(parts) else "")


def _tool_result(part: Json) -> tuple[dict[str, Any], set[str]]:
    """A result whose content is parts; a mark on one of them stands for the whole."""
    inner = _parts(part.get("content"), "text")
    marks = {name: p[name] for p in inner for name in MARKERS if name in p}
    traits = {trait for p in inner for trait in _traits(p)} & {"images", "citations"}
    return {**marks, **part, "content": inner}, traits


def _chat_message(message: Json) -> Iterator[Block]:
    role = str(message.get("role", ""))
    rest = _settled({name: value for name, value in message.items() if name not in ("role", "content")})
    pieces = _parts(message.get("content"), "text")
    pieces = [*pieces, rest] if rest or not pieces else pieces
    yield from _message("system" if role in ("system", "developer") else "messages", role, pieces)


def _responses_item(item: Json) -> Iterator[Block]:
    if "role" in item:
        yield from _message("messages", str(item["role"]), _parts(item.get("content"), "input_text"))
        return
    bare = {name: value for name, value in item.items() if name not in ("id", "status")}
    yield _block("messages", "", bare, (), "tool" if str(item.get("type")).endswith("_output") else "assistant")


def _message(tier: str, role: str, pieces: list[dict[str, Any]]) -> Iterator[Block]:
    """A message whose beginning is rendered: two messages are not the same as one of both contents."""
    for number, piece in enumerate(pieces, 1):
        yield _block(tier, role if number == 1 else "", piece, (), role if number == len(pieces) else "")


_MESSAGES: dict[str, Callable[[Json], Iterator[Block]]] = {
    "anthropic": _anthropic_message,
    "openai_chat": _chat_message,
    "openai_responses": _responses_item,
}


def _settings(dialect: str, fields: Json, blocks: Iterable[Block]) -> dict[str, tuple[str, bytes]]:
    found = {"model": ("tools", msgspec.json.encode(fields.get("model")))}
    for setting in _SETTINGS[dialect]:
        value: Any = fields
        for step in setting.path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None and value != setting.default and not _restricts(value):
            found[setting.name or setting.path] = (setting.tier, msgspec.json.encode(value))
    if dialect == "anthropic":
        traits = frozenset().union(*(block.traits for block in blocks))
        found |= {name: (tier, b"") for name, tier in _DETECTED.items() if name in traits}
    return found


_DETECTED = {"citations": "system", "images": "messages"}
"""Settings that are not set: it is enough that a block has the trait."""


def _restricts(value: Any) -> bool:
    """Whether a tool_choice only restricts the tools, and leaves the prompt as it is."""
    return isinstance(value, dict) and value.get("type") == "allowed_tools"
