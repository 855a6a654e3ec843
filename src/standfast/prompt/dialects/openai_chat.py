"""OpenAI Chat Completions, and everyone who speaks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import (
    Described,
    Param,
    Piece,
    arguments_meaning,
    in_order,
    is_empty,
    is_narrow,
    result_meaning,
    said,
    system_meaning,
    text_meaning,
    text_piece,
    whole,
    word,
)
from standfast.prompt.model import SYSTEM_ROLES, Kind, Tier

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_KINDS = {"image_url": Kind.MEDIA, "input_audio": Kind.MEDIA, "file": Kind.MEDIA}


class OpenAIChat:
    """The dialect of ``POST /v1/chat/completions``."""

    name = "openai_chat"
    history = "messages"
    system = ""
    tools = "tools"
    # By OpenAI's pages on prompt caching and its diagnostics (service tier, effort, verbosity, format) and by what chat
    # templates are given (functions, documents, template and its arguments), read 2026-12-01.
    params: tuple[Param, ...] = (
        Param("service_tier", Tier.TOOLS, b'"auto"'),
        Param("response_format", Tier.TOOLS, b'{"type":"text"}'),
        Param("reasoning_effort", Tier.TOOLS),
        Param("reasoning", Tier.TOOLS),
        Param("verbosity", Tier.TOOLS),
        Param("functions", Tier.TOOLS),
        Param("web_search_options", Tier.TOOLS),
        Param("documents", Tier.TOOLS),
        Param("chat_template", Tier.TOOLS),
        Param("chat_template_kwargs", Tier.TOOLS),
        Param("thinking", Tier.PARAMS),
        Param("tool_choice", Tier.PARAMS, b'"auto"', "allowed_tools"),
    )
    routes: tuple[str, ...] = ("prompt_cache_key", "session_id", "cache_salt", "extra_key")
    salts: tuple[str, ...] = ("cache_salt", "extra_key")
    results_stand_alone = True
    call_id_path = ".id"
    result_id_path = ""
    arguments_path = ".function.arguments"
    marks_tools = False
    text_part = "text"
    own_fields: frozenset[str] = frozenset()
    seals = frozenset({"signature", "data"})

    def describe(self, tier: Tier, value: Json) -> Described:
        """A tool or a message."""
        if not isinstance(value, dict):
            return whole("", value)
        if tier is Tier.TOOLS:
            kinds = (value[kind] for kind in ("function", "custom") if isinstance(value.get(kind), dict))
            return whole(word(next(kinds, value).get("name", "")), value)
        return _result(value) if value.get("role") == "tool" else _message(value)

    def is_leading_system(self, value_role: str) -> bool:
        """System and developer messages."""
        return value_role in SYSTEM_ROLES

    def rename(self, value: Json, ids: Mapping[str, str]) -> Json:
        """A message with call ids replaced."""
        if not isinstance(value, dict):
            return value
        if (answered := word(value.get("tool_call_id"))) in ids:
            return {**value, "tool_call_id": ids[answered]}
        calls = value.get("tool_calls")
        if not isinstance(calls, list):
            return value
        return {**value, "tool_calls": [_rename_call(call, ids) for call in calls]}

    def as_element(self, text: str) -> Json:
        """Not met: no field of this dialect holds a list or a text."""
        return text

    def as_text(self, value: Json) -> str | None:
        """Not met, see above."""
        return None

    def without_thinking(self, value: Json) -> Json | None:
        """A message without the fields that carry reasoning."""
        return {k: v for k, v in value.items() if k not in _REASONING} if isinstance(value, dict) else value

    def allowing(self, choice: Json, tools: Sequence[Json]) -> Json | None:
        """``allowed_tools``, which leaves the list of tools alone."""
        functions = [
            {"type": "function", "function": {"name": tool["function"]["name"]}}
            for tool in tools
            if isinstance(tool, dict) and isinstance(tool.get("function"), dict)
        ]
        if not tools:
            return "none"
        if choice not in ("auto", "required", None) or len(functions) != len(tools):
            return choice if is_narrow(choice) else None
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice or "auto", "tools": functions}}

    def with_tail(self, value: Json, text: str) -> list[Json]:
        """Text at the end of a user message; behind anything else, a system message of its own."""
        if value.get("role") != "user":
            return [value, {"role": "system", "content": text}]
        content = value["content"]
        if isinstance(content, str):
            return [{**value, "content": f"{content}\n\n{text}"}]
        return [{**value, "content": [*content, {"type": "text", "text": text}]}]


def _message(value: Mapping[str, Json]) -> Described:
    content, calls = value.get("content"), value.get("tool_calls")
    frame = said(value, without=("content", "tool_calls", *_REASONING))
    frame_key: dict[str, Json] = {k: frame[k] for k in sorted(frame)}
    frame_key["#"] = "list" if isinstance(content, list) else "text"
    pieces = [_reasoning(value, name) for name in _REASONING if not is_empty(value.get(name))]
    call_pieces = [_call(call, i) for i, call in enumerate(calls if isinstance(calls, list) else ())]
    if not (pieces or call_pieces) or not _is_blank(content):
        meaning = system_meaning if value.get("role") in SYSTEM_ROLES else text_meaning
        pieces += _parts("" if content is None else content, meaning)
    else:
        frame_key["#"] = content
    return Described(word(value.get("role", "")), frame, frame_key, pieces + call_pieces)


def _is_blank(content: Json) -> bool:
    return is_empty(content) or (isinstance(content, str) and not content.strip())


def _reasoning(value: Mapping[str, Json], name: str) -> Piece:
    return Piece(f".{name}", Kind.THINKING, {name: value[name]}, {name: value[name]})


def _parts(content: Json, meaning: Callable[[Json], Json]) -> list[Piece]:
    if isinstance(content, str):
        return [text_piece(".content", content, meaning, type="text")]
    if not isinstance(content, list):
        return [Piece(".content", Kind.OTHER, content, content)]
    return [_part(part, f".content[{i}]", meaning) for i, part in enumerate(content)]


def _part(part: Json, suffix: str, text: Callable[[Json], Json]) -> Piece:
    if not isinstance(part, dict):
        return Piece(suffix, Kind.OTHER, part, part)
    if part.get("type") == "text":
        rest = said(part, without=("text",))
        meaning = {**rest, "text": text(part.get("text"))}
        return Piece(suffix, Kind.TEXT, meaning, in_order({**rest, "text": part.get("text")}))
    return Piece(suffix, _KINDS.get(word(part.get("type")), Kind.OTHER), said(part), in_order(part))


def _call(call: Json, index: int) -> Piece:
    suffix = f".tool_calls[{index}]"
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(call.get("id"), str):
        return Piece(suffix, Kind.OTHER, call, call)
    rest = said(call, without=("id", "function", "type", "index"))
    meaning = {**rest, "function": {**said(function), "arguments": arguments_meaning(function.get("arguments"))}}
    key = {**rest, "id": call["id"], "function": in_order(function)}
    return Piece(suffix, Kind.CALL, meaning, key, call["id"])


def _result(value: Mapping[str, Json]) -> Described:
    content, call_id = value.get("content"), value.get("tool_call_id")
    if not isinstance(call_id, str):
        return whole("tool", dict(value))
    frame = said(value, without=("content", "tool_call_id"))
    texts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    meaning = [
        {**said(t), "text": result_meaning(t.get("text"))} if isinstance(t, dict) and t.get("type") == "text" else t
        for t in texts
    ]
    key = {"id": call_id, "content": [in_order(t) if isinstance(t, dict) else t for t in texts]}
    shape = {**{k: frame[k] for k in sorted(frame)}, "#": "list" if isinstance(content, list) else "text"}
    return Described("tool", frame, shape, [Piece(".content", Kind.RESULT, meaning, key, call_id)])


def _rename_call(call: Json, ids: Mapping[str, str]) -> Json:
    if isinstance(call, dict) and (name := word(call.get("id"))) in ids:
        return {**call, "id": ids[name]}
    return call
