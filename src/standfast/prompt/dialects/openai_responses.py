"""OpenAI Responses: a list of input items of many types, or one string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import (
    Described,
    Param,
    Piece,
    arguments_meaning,
    in_order,
    is_narrow,
    result_meaning,
    said,
    system_meaning,
    text_meaning,
    text_piece,
    whole,
    without_markers,
    word,
)
from standfast.prompt.model import SYSTEM_ROLES, Kind, Tier

_TEXTS = frozenset({"input_text", "output_text", "text"})
_MEDIA = frozenset({"input_image", "input_file", "input_audio"})
_HOUSEKEEPING = ("id", "status")
"""Fields that the API adds to items it returned; they are no part of the prompt."""


class OpenAIResponses:
    """The dialect of ``POST /v1/responses``."""

    name = "openai_responses"
    history = "input"
    system = "instructions"
    tools = "tools"
    # By OpenAI's pages on prompt caching and its diagnostics (tier, effort, verbosity, format), read 2026-12-01.
    params: tuple[Param, ...] = (
        Param("prompt", Tier.TOOLS),
        Param("service_tier", Tier.TOOLS, b'"auto"'),
        Param("text.format", Tier.TOOLS, b'{"type":"text"}'),
        Param("text.verbosity", Tier.TOOLS),
        Param("reasoning.effort", Tier.TOOLS),
        Param("tool_choice", Tier.PARAMS, b'"auto"', "allowed_tools"),
    )
    routes: tuple[str, ...] = ("prompt_cache_key", "session_id", "cache_salt", "extra_key")
    salts: tuple[str, ...] = ("cache_salt", "extra_key")
    results_stand_alone = True
    call_id_path = ".call_id"
    result_id_path = ""
    arguments_path = ".arguments"
    marks_tools = False
    text_part = "input_text"
    own_fields = frozenset(_HOUSEKEEPING)
    seals = frozenset({"encrypted_content"})

    def describe(self, tier: Tier, value: Json) -> Described:
        """A tool, the instructions, an input item."""
        if tier is Tier.TOOLS:
            names = [value.get(field) for field in ("name", "server_label", "type")] if isinstance(value, dict) else []
            return whole(word(next(filter(None, names), "")), value)
        if isinstance(value, str):
            if tier is Tier.SYSTEM:
                return Described("system", None, None, [text_piece("", value, system_meaning)])
            frame = {"role": "user"}
            return Described("user", frame, {**frame, "#": "text"}, [text_piece("", value)])
        if not isinstance(value, dict):
            return whole("", value)
        kind = word(value.get("type", "message"))
        if kind.endswith("_call_output") and isinstance(value.get("call_id"), str):
            return _result(value, kind)
        if kind.endswith("_call") and isinstance(value.get("call_id"), str):
            return _call(value, kind)
        if kind == "message" and "role" in value:
            return _message(value)
        return whole(kind, value)

    def is_leading_system(self, value_role: str) -> bool:
        """System and developer messages."""
        return value_role in SYSTEM_ROLES

    def rename(self, value: Json, ids: Mapping[str, str]) -> Json:
        """An item with its call id replaced."""
        if isinstance(value, dict) and (name := word(value.get("call_id"))) in ids:
            return {**value, "call_id": ids[name]}
        return value

    def as_element(self, text: str) -> Json:
        """A user's message."""
        return {"role": "user", "content": text}

    def as_text(self, value: Json) -> str | None:
        """The text of a user's plain message."""
        is_plain = isinstance(value, dict) and value.get("role") == "user" and isinstance(value.get("content"), str)
        return value["content"] if is_plain and not said(value, without=("type", "role", "content")) else None

    def without_thinking(self, value: Json) -> Json | None:
        """Nothing of a reasoning item, all of any other."""
        return None if isinstance(value, dict) and value.get("type") == "reasoning" else value

    def allowing(self, choice: Json, tools: Sequence[Json]) -> Json | None:
        """``allowed_tools``, which leaves the list of tools alone."""
        named = [
            {name: tool[name] for name in ("type", "name", "server_label") if name in tool}
            for tool in tools
            if isinstance(tool, dict)
        ]
        if not tools:
            return "none"
        if choice not in ("auto", "required", None):
            return choice if is_narrow(choice) else None
        return {"type": "allowed_tools", "mode": choice or "auto", "tools": named}

    def with_tail(self, value: Json, text: str) -> list[Json]:
        """A developer message behind the last item; a bare string gets the text appended."""
        if isinstance(value, str):
            return [f"{value}\n\n{text}"]
        return [value, {"role": "developer", "content": text}]


def _message(value: Mapping[str, Json]) -> Described:
    content = value.get("content")
    frame = said(value, without=("content", "type", *_HOUSEKEEPING))
    frame_key: dict[str, Json] = {k: frame[k] for k in sorted(frame)}
    frame_key["#"] = "list" if isinstance(content, list) else "text"
    meaning = system_meaning if value["role"] in SYSTEM_ROLES else text_meaning
    return Described(word(value["role"]), frame, frame_key, _parts(content, meaning))


def _parts(content: Json, meaning: Callable[[Json], Json]) -> list[Piece]:
    if isinstance(content, str):
        return [text_piece(".content", content, meaning)]
    if not isinstance(content, list):
        return [Piece(".content", Kind.OTHER, content, content)]
    return [_part(part, f".content[{i}]", meaning) for i, part in enumerate(content)] or [text_piece(".content", "")]


def _part(part: Json, suffix: str, text: Callable[[Json], Json]) -> Piece:
    if not isinstance(part, dict):
        return Piece(suffix, Kind.OTHER, part, part)
    if word(part.get("type")) in _TEXTS:
        rest = said(part, without=("text", "type", "logprobs"))
        return Piece(
            suffix,
            Kind.TEXT,
            {**rest, "text": text(part.get("text"))},
            in_order({**rest, "text": part.get("text")}),
        )
    return Piece(suffix, Kind.MEDIA if word(part.get("type")) in _MEDIA else Kind.OTHER, said(part), in_order(part))


def _call(value: Mapping[str, Json], kind: str) -> Described:
    clean = said(value, without=_HOUSEKEEPING)
    field = "arguments" if "arguments" in value else "input"
    meaning = {k: v for k, v in clean.items() if k != "call_id"}
    meaning[field] = arguments_meaning(value.get(field))
    return Described(kind, None, None, [Piece("", Kind.CALL, meaning, in_order(clean), value["call_id"])])


def _result(value: Mapping[str, Json], kind: str) -> Described:
    clean = said(value, without=_HOUSEKEEPING)
    output = value.get("output")
    meaning = {k: v for k, v in clean.items() if k != "call_id"}
    meaning["output"] = result_meaning(output) if isinstance(output, str) else _said_parts(output)
    return Described(kind, None, None, [Piece(".output", Kind.RESULT, meaning, in_order(clean), value["call_id"])])


def _said_parts(output: Json) -> Json:
    """A list of output parts, each without fields that say nothing."""
    if not isinstance(output, list):
        return output
    return [without_markers(said(part)) if isinstance(part, dict) else part for part in output]
