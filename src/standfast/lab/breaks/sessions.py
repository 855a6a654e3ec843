"""Sessions to break: one request and the next of a conversation, as a client that does nothing wrong sends them.

Own conversations (``talks.json``) are told in three dialects, in the many styles of real clients; recorded ones in
OpenAI's chat format are taken as they are.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from standfast.lab.breaks.media import png

Body = dict[str, Any]

ANTHROPIC, CHAT, RESPONSES = "anthropic", "openai_chat", "openai_responses"
DIALECTS = (ANTHROPIC, CHAT, RESPONSES)
MODELS = {
    ANTHROPIC: ("claude-opus-5", "claude-sonnet-5", "claude-haiku-4-5", "claude-sonnet-4-6"),
    CHAT: ("gpt-5.5", "gpt-4.1", "gpt-5.1", "o4-mini"),
    RESPONSES: ("gpt-5.5", "gpt-5.1-codex", "gpt-5.5-mini", "o4-mini"),
}
_CALL_IDS = {ANTHROPIC: "toolu_01", CHAT: "call_", RESPONSES: "call_"}
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
_MARK = {"type": "ephemeral"}
_AIRLINE_MODEL = "gpt-4o"


class Unfit(Exception):
    """A session has no place for a break."""


@dataclass(slots=True)
class Session:
    """Two requests of one session, not broken yet."""

    dialect: str
    before: Body
    after: Body
    shared: int
    """Elements of the history that both hold."""
    marks: bool = False
    """The client sets cache marks, as it should: at the end of tools, of system, of the newest message."""
    name: str = ""
    """Where it comes from."""

    @property
    def history(self) -> str:
        """Field of the history."""
        return "input" if self.dialect == RESPONSES else "messages"

    def both(self) -> tuple[Body, Body]:
        return self.before, self.after


def code(rng: Random, size: int) -> str:
    """An id as services make them."""
    return "".join(rng.choices(_LETTERS, k=size))


@dataclass(frozen=True, slots=True)
class _Style:
    """How one client writes what it says."""

    dialect: str
    lists: bool
    """Texts in lists of parts."""
    split_system: bool
    thinks: bool
    developer: bool
    pictures: bool
    marks: bool
    turns: int


def own(rng: Random, dialect: str, *, steps: int = 1) -> Session:
    """A session of a conversation of our own, cut at a random place; ``steps`` requests lie between the two."""
    talk = rng.choice(_talks())
    style = _Style(
        dialect,
        lists=rng.random() < 0.5,
        split_system=rng.random() < 0.6,
        thinks=rng.random() < 0.6,
        developer=rng.random() < 0.3,
        pictures=rng.random() < 0.4,
        marks=dialect == ANTHROPIC and rng.random() < 0.5,
        turns=len(talk["turns"]),
    )
    frame = _frame(talk, style, rng)
    history: list[Body] = []
    cuts = []
    for turn in talk["turns"]:
        cuts += _tell(history, turn, style, rng)
    first = rng.randrange(1, max(2, len(cuts) - steps))
    last = min(first + steps, len(cuts) - 1)
    return _session(style, frame, history, cuts[first], cuts[last], str(talk["sections"][0])[:24])


def _session(style: _Style, frame: Body, history: list[Body], first: int, last: int, name: str) -> Session:
    field_name = "input" if style.dialect == RESPONSES else "messages"
    lead = frame.pop("_lead", [])

    def sent(end: int) -> Body:
        body = copy.deepcopy({**frame, field_name: [*lead, *history[:end]]})
        if style.marks:
            mark(body)
        return body

    return Session(style.dialect, sent(first), sent(last), len(lead) + first, style.marks, name)


def mark(body: Body) -> None:
    """Set an Anthropic body's marks where they belong."""
    body["tools"][-1]["cache_control"] = dict(_MARK)
    if isinstance(body["system"], str):
        body["system"] = [{"type": "text", "text": body["system"]}]
    body["system"][-1]["cache_control"] = dict(_MARK)
    newest = body["messages"][-1]
    if isinstance(newest["content"], str):
        newest["content"] = [{"type": "text", "text": newest["content"]}]
    newest["content"][-1]["cache_control"] = dict(_MARK)


@cache
def _talks() -> list[Any]:
    found: list[Any] = json.loads(files("standfast.lab.breaks").joinpath("talks.json").read_text("utf-8"))
    return found


def _frame(talk: Any, style: _Style, rng: Random) -> Body:
    """All but the history; a system prompt that stands in the history is its ``_lead``."""
    sections, tools = list(talk["sections"]), [_tool(tool, style.dialect) for tool in talk["tools"]]
    whole, model = "\n\n".join(sections), rng.choice(MODELS[style.dialect])
    if style.dialect == ANTHROPIC:
        system = [{"type": "text", "text": text} for text in sections] if style.split_system else whole
        body: Body = {"model": model, "max_tokens": 4096, "system": system, "tools": tools}
        if style.thinks:
            body["thinking"] = {"type": "enabled", "budget_tokens": 2048}
        return body
    body = {"model": model, "tools": tools}
    role = "developer" if style.developer else "system"
    if rng.random() < 0.6:
        body["prompt_cache_key"] = f"s-{code(rng, 8)}"
    if style.dialect == CHAT:
        return {**body, "_lead": [{"role": role, "content": whole}]}
    if style.split_system:
        part = [{"type": "input_text", "text": text} for text in sections]
        return {**body, "_lead": [{"role": "developer", "content": part}], "store": False}
    return {**body, "instructions": whole, "reasoning": {"effort": "medium"}, "store": False}


def _tool(tool: Any, dialect: str) -> Body:
    name, description, schema = tool["name"], tool["description"], copy.deepcopy(tool["schema"])
    if dialect == ANTHROPIC:
        return {"name": name, "description": description, "input_schema": schema}
    function = {"name": name, "description": description, "parameters": schema}
    if dialect == CHAT:
        return {"type": "function", "function": function}
    return {"type": "function", **function, "strict": False}


def _tell(history: list[Body], turn: Any, style: _Style, rng: Random) -> list[int]:
    """Append one turn; returns the lengths at which a request goes out."""
    picture = png(rng) if style.pictures and rng.random() < 0.5 else None
    history.append(_user(turn["user"], picture, style))
    cuts = [len(history)]
    for step in turn["steps"]:
        ids = [f"{_CALL_IDS[style.dialect]}{code(rng, 22)}" for _ in step["calls"]]
        history += _SAYS[style.dialect](step, ids, style, rng)
        cuts.append(len(history))
    history += _SAYS[style.dialect]({"think": "", "say": turn["answer"], "calls": []}, [], style, rng)
    return cuts


def _user(text: str, picture: str | None, style: _Style) -> Body:
    if picture is None and not style.lists:
        return {"role": "user", "content": text}
    kind = "input_text" if style.dialect == RESPONSES else "text"
    return {"role": "user", "content": [*_picture(picture, style.dialect), {"type": kind, "text": text}]}


def _picture(data: str | None, dialect: str) -> list[Body]:
    if data is None:
        return []
    if dialect == ANTHROPIC:
        return [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]
    url = f"data:image/png;base64,{data}"
    if dialect == CHAT:
        return [{"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
    return [{"type": "input_image", "image_url": url, "detail": "low"}]


def _anthropic_says(step: Any, ids: list[str], style: _Style, rng: Random) -> list[Body]:
    if not ids and not style.lists:
        return [{"role": "assistant", "content": step["say"]}]
    blocks: list[Body] = []
    if style.thinks and step["think"]:
        blocks.append({"type": "thinking", "thinking": step["think"], "signature": code(rng, 64)})
    if step["say"]:
        blocks.append({"type": "text", "text": step["say"]})
    results = []
    for call_id, (name, arguments, result) in zip(ids, step["calls"], strict=True):
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": copy.deepcopy(arguments)})
        content: Any = [{"type": "text", "text": result}] if style.lists else result
        results.append({"type": "tool_result", "tool_use_id": call_id, "content": content})
    said: list[Body] = [{"role": "assistant", "content": blocks}]
    return [*said, {"role": "user", "content": results}] if results else said


def _chat_says(step: Any, ids: list[str], style: _Style, rng: Random) -> list[Body]:
    say = step["say"] or None
    message: Body = {"role": "assistant", "content": [{"type": "text", "text": say}] if style.lists and say else say}
    if style.thinks and step["think"]:
        message["reasoning_content"] = step["think"]
    results = []
    for call_id, (name, arguments, result) in zip(ids, step["calls"], strict=True):
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": call_id, "content": result})
    return [message, *results]


def _responses_says(step: Any, ids: list[str], style: _Style, rng: Random) -> list[Body]:
    said: list[Body] = []
    if style.thinks and step["think"]:
        said.append(
            {"type": "reasoning", "id": f"rs_{code(rng, 20)}", "summary": [], "encrypted_content": code(rng, 80)}
        )
    if step["say"]:
        part = {"type": "output_text", "text": step["say"]}
        said.append({"type": "message", "role": "assistant", "content": [part] if style.lists else step["say"]})
    results = []
    for call_id, (name, arguments, result) in zip(ids, step["calls"], strict=True):
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        said.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": text})
        results.append({"type": "function_call_output", "call_id": call_id, "output": result})
    return [*said, *results]


_SAYS = {ANTHROPIC: _anthropic_says, CHAT: _chat_says, RESPONSES: _responses_says}


@cache
def recorded(path: Path) -> tuple[list[Body], list[list[Body]]]:
    """Tool schemas and conversations of a file of recorded chats: tools on its first line, messages on the others."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        first, *rest = (json.loads(line) for line in file)
    return first["tools"], [row["messages"] for row in rest]


def airline(rng: Random, path: Path) -> Session:
    """A session of a recorded conversation, some of its calls made parallel."""
    tools, conversations = recorded(path)
    number = rng.randrange(len(conversations))
    messages = list(_in_pairs(conversations[number])) if rng.random() < 0.5 else conversations[number]
    cuts = [i for i, m in enumerate(messages) if m["role"] == "assistant" and i > 1]
    if len(cuts) < 3:
        raise Unfit("a conversation of one turn")
    at = rng.randrange(len(cuts) // 2, len(cuts) - 1)
    frame: Body = {"model": _AIRLINE_MODEL, "tools": tools, "prompt_cache_key": f"airline-{number}"}
    bodies = [copy.deepcopy({**frame, "messages": messages[:cut]}) for cut in (cuts[at], cuts[at + 1])]
    return Session(CHAT, bodies[0], bodies[1], shared=cuts[at], name=f"airline {number}")


def _in_pairs(messages: list[Body]) -> Iterator[Body]:
    """Two calls that follow each other, made one parallel pair."""
    i = 0
    while i < len(messages):
        four = messages[i : i + 4]
        if [m["role"] for m in four] == ["assistant", "tool"] * 2 and not four[2]["content"]:
            calls = [*four[0]["tool_calls"], *four[2]["tool_calls"]]
            if len({call["id"] for call in calls}) == len(calls):
                yield from ({**four[0], "tool_calls": calls}, four[1], four[3])
                i += 4
                continue
        yield messages[i]
        i += 1
