"""Anthropic Messages: tools, then system, then messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import (
    Described,
    Param,
    Piece,
    in_order,
    result_meaning,
    said,
    system_meaning,
    text_meaning,
    text_piece,
    whole,
    without_markers,
    word,
)
from standfast.prompt.model import Kind, Tier

_THINKING = frozenset({"thinking", "redacted_thinking"})
_MEDIA = frozenset({"image", "document", "search_result", "container_upload"})


def _is_call(block: Mapping[str, Json]) -> bool:
    return word(block.get("type", "")).endswith("tool_use") and isinstance(block.get("id"), str)


def _is_result(block: Mapping[str, Json]) -> bool:
    return word(block.get("type", "")).endswith("tool_result") and isinstance(block.get("tool_use_id"), str)


class Anthropic:
    """The dialect of ``POST /v1/messages``."""

    name = "anthropic"
    history = "messages"
    system = "system"
    tools = "tools"
    # By the API's pages on prompt caching (speed, thinking, tool_choice, effort), structured outputs (a format is told
    # in a system prompt of their own) and skills (rendered into the system prompt), read 2026-12-01.
    params: tuple[Param, ...] = (
        Param("mcp_servers", Tier.TOOLS),
        Param("speed", Tier.SYSTEM, b'"standard"'),
        Param("output_config.format", Tier.SYSTEM),
        Param("output_format", Tier.SYSTEM),
        Param("container.skills", Tier.SYSTEM),
        Param("thinking", Tier.PARAMS, b'{"type":"disabled"}'),
        Param("tool_choice", Tier.PARAMS, b'{"type":"auto"}'),
        Param("output_config.effort", Tier.PARAMS),
        Param("output_config.task_budget", Tier.PARAMS),
        Param("effort", Tier.PARAMS),
    )
    routes: tuple[str, ...] = ("cache_salt",)
    salts: tuple[str, ...] = ("cache_salt",)
    results_stand_alone = False
    call_id_path = ".id"
    result_id_path = ".tool_use_id"
    arguments_path = ".input"
    marks_tools = True
    text_part = "text"
    own_fields: frozenset[str] = frozenset()
    seals = frozenset({"signature", "data"})

    def describe(self, tier: Tier, value: Json) -> Described:
        """A tool, a system block (or the whole system string), a message."""
        if tier is Tier.TOOLS:
            return whole(word(value.get("name", "")) if isinstance(value, dict) else "", value)
        if tier is Tier.SYSTEM:
            return _system(value)
        if not isinstance(value, dict):
            return whole("", value)
        frame = said(value, without=("content",))
        return Described(
            word(value.get("role", "")),
            frame,
            {k: frame[k] for k in sorted(frame)},
            _blocks(value.get("content"), ".content", text_meaning),
        )

    def is_leading_system(self, value_role: str) -> bool:
        """Never: the system prompt has a field of its own."""
        return False

    def rename(self, value: Json, ids: Mapping[str, str]) -> Json:
        """A message with call ids replaced in calls and results."""
        content = value.get("content") if isinstance(value, dict) else None
        if not isinstance(content, list):
            return value
        return {**value, "content": [_rename_block(b, ids) for b in content]}

    def as_element(self, text: str) -> Json:
        """A text block."""
        return {"type": "text", "text": text}

    def as_text(self, value: Json) -> str | None:
        """The text of a plain block."""
        said_more = not isinstance(value, dict) or said(value, without=("type", "text"))
        return None if said_more or not isinstance(value.get("text"), str) else value["text"]

    def without_thinking(self, value: Json) -> Json | None:
        """A message without thinking blocks."""
        content = value.get("content") if isinstance(value, dict) else None
        if not isinstance(content, list):
            return value
        kept = [b for b in content if not (isinstance(b, dict) and word(b.get("type")) in _THINKING)]
        return {**value, "content": kept} if kept else None

    def allowing(self, choice: Json, tools: Sequence[Json]) -> Json | None:
        """None: this API has no such choice."""
        return None

    def with_tail(self, value: Json, text: str) -> list[Json]:
        """One more text block at the end of the last message."""
        content = value["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        return [{**value, "content": [*blocks, {"type": "text", "text": text}]}]


def _system(value: Json) -> Described:
    block = {"type": "text", "text": value} if isinstance(value, str) else value
    if not isinstance(block, dict) or not isinstance(block.get("text"), str):
        return whole("system", value)
    meaning = {**said(block), "text": system_meaning(block["text"])}
    return Described("system", None, None, [Piece("", Kind.TEXT, meaning, in_order(block))])


def _blocks(content: Json, suffix: str, meaning: Callable[[Json], Json]) -> list[Piece]:
    if isinstance(content, str):
        return [text_piece(suffix, content, meaning, type="text")]
    if not isinstance(content, list):
        return [Piece(suffix, Kind.OTHER, content, content)]
    return [_block(block, f"{suffix}[{i}]", meaning) for i, block in enumerate(content)]


def _block(block: Json, suffix: str, meaning: Callable[[Json], Json]) -> Piece:
    if not isinstance(block, dict):
        return Piece(suffix, Kind.OTHER, block, block)
    kind = word(block.get("type"))
    if kind == "text":
        rest = said(block, without=("text",))
        return Piece(
            suffix,
            Kind.TEXT,
            {**rest, "text": meaning(block.get("text"))},
            in_order({**rest, "text": block.get("text")}),
        )
    if _is_call(block):
        return Piece(suffix, Kind.CALL, said(block, without=("id",)), in_order(block), block["id"])
    if _is_result(block):
        return _result(block, suffix)
    if kind in _THINKING:
        return Piece(suffix, Kind.THINKING, without_markers(block), in_order(block))
    if kind in _MEDIA:
        return Piece(suffix, Kind.MEDIA, said(block), in_order(block))
    return Piece(suffix, Kind.OTHER, without_markers(block), without_markers(block))


def _result(block: Mapping[str, Json], suffix: str) -> Piece:
    inner = _blocks(block.get("content", ""), "", result_meaning)
    rest = said(block, without=("content", "tool_use_id", "is_error"))
    if block.get("is_error"):
        rest["is_error"] = True
    meaning = {**rest, "content": [piece.meaning for piece in inner]}
    key = in_order({**rest, "tool_use_id": block["tool_use_id"], "content": [piece.key for piece in inner]})
    return Piece(suffix, Kind.RESULT, meaning, key, block["tool_use_id"])


def _rename_block(block: Json, ids: Mapping[str, str]) -> Json:
    if not isinstance(block, dict):
        return block
    if _is_call(block) and block["id"] in ids:
        return {**block, "id": ids[block["id"]]}
    if _is_result(block) and block["tool_use_id"] in ids:
        return {**block, "tool_use_id": ids[block["tool_use_id"]]}
    return block
