"""Made-up conversations, and the bodies in which a client of each dialect would send them.

A ``Talk`` is what is meant; ``body`` writes it down under a ``Habit``: which of the forms of equal meaning the client
chooses this time. Two bodies of one talk mean the same by construction. Nothing here uses code of the package.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = Any
DIALECTS = ("anthropic", "openai_chat", "openai_responses")


class Literal(str):
    """A number in the very digits in which it is written."""


NUMBERS = (
    "0", "1", "-7", "1.0", "10e-1", "0.1", "0.10", "1E2", "100", "-0.0", "12345678901234567890123", "1e-7", "2.5e+3",
    "1e40", "1e41", "3.141592653589793238462643383279", "9007199254740993", "1e400",
)  # fmt: skip
WORDS = (
    "hello", "Grüße", "日本語", "tab\there", 'a "quote"', "back\\slash", "line\nline", "</tag>", "🙂", "cache_control",
    "cch=1", "at 12:30", "é", "\u2028", "x" * 40, "{not json", "[1, 2", "\x00", "a/b", "  inner  space ",
)  # fmt: skip
NAMES = ("search", "read_file", "mcp__a__b", "wéather", "x.y")
KEYS = ("a", "b", "user.name", "cache_control", "z[0]", "type", "description", "ключ", "prompt_cache_breakpoint")


@dataclass(slots=True)
class Step:
    """One turn: a user who says something, or an assistant who speaks and calls, with what the calls returned."""

    texts: list[str]
    calls: list[tuple[str, dict[str, Json]]] | None = None
    results: list[Json] = field(default_factory=list)
    """Of each call: a text, or a JSON value that travels as text."""


@dataclass(slots=True)
class Talk:
    """What is meant."""

    dialect: str
    tools: list[tuple[str, str, dict[str, Json]]]
    system: list[str]
    steps: list[Step]
    extra: dict[str, Json]
    """Fields of the body that nobody knows."""
    model: str = "m-1"


def value(rng: Random, depth: int = 2) -> Json:
    """Any JSON value."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return Literal(rng.choice(NUMBERS))
    if kind == 1:
        return rng.choice((True, False, None))
    if kind < 5:
        return rng.choice(WORDS)
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return record(rng, depth - 1)


def record(rng: Random, depth: int = 2) -> dict[str, Json]:
    """Any JSON object."""
    return {name: value(rng, depth) for name in rng.sample(KEYS, rng.randrange(4))}


def talk(rng: Random, *, steps: int = 4, dialect: str | None = None) -> Talk:
    """A conversation that ends with the user (or with results)."""
    return Talk(
        dialect or rng.choice(DIALECTS),
        [(name, _text(rng), _schema(rng)) for name in rng.sample(NAMES, rng.randrange(4))],
        [_text(rng) for _ in range(rng.randrange(3))],
        [_step(rng, i) for i in range(rng.randrange(steps) + 1)],
        {f"unknown_{name}": value(rng) for name in rng.sample("pqr", rng.randrange(3))},
    )


def _text(rng: Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(3) + 1)).strip("\x00\u2028 \t\n") or "text"


def _schema(rng: Random) -> dict[str, Json]:
    properties = {name: {"type": "string", "description": _text(rng), **record(rng, 1)} for name in rng.sample(KEYS, 2)}
    return {"type": "object", "properties": properties, "required": rng.sample(KEYS, 2)}


def _step(rng: Random, i: int) -> Step:
    if i % 2 == 0:
        return Step([f"{_text(rng)} {i}" for _ in range(rng.choice((1, 1, 2)))])
    calls = [(rng.choice(NAMES), record(rng)) for _ in range(rng.choice((0, 0, 1, 2, 3)))]
    results = [_text(rng) if rng.random() < 0.5 else rng.choice((record(rng), [value(rng, 1)])) for _ in calls]
    return Step([f"{_text(rng)} {i}"] if rng.random() < 0.7 or not calls else [], calls, results)


# Writing it down


@dataclass(slots=True)
class Habit:
    """The forms that a client chooses; without rng the plain ones, always the same."""

    rng: Random | None = None
    prefix: str = "call"

    def often(self) -> bool:
        return self.rng is not None and self.rng.random() < 0.4

    def shuffled(self, items: list[Any]) -> list[Any]:
        items = list(items)
        if self.rng is not None and self.often():
            self.rng.shuffle(items)
        return items

    def keys(self, item: Json) -> Json:
        """The same value with object keys in another order."""
        if isinstance(item, dict):
            return {name: self.keys(item[name]) for name in self.shuffled(list(item))}
        return [self.keys(i) for i in item] if isinstance(item, list) else item

    def argument_text(self, item: Json) -> str:
        """A value as a string of JSON."""
        if self.rng is None:
            return write(item)
        return write(self.keys(item), spaced=self.rng.random() < 0.5, ascii_only=self.rng.random() < 0.5)

    def edges(self, text: str) -> str:
        """White space at the edges."""
        return f"{text}\n" if self.often() else text


def body(t: Talk, habit: Habit, upto: int | None = None) -> dict[str, Json]:
    """The talk up to a step, as decoded JSON."""
    steps = t.steps[: upto or len(t.steps)]
    made = {"anthropic": _anthropic, "openai_chat": _chat, "openai_responses": _responses}[t.dialect](t, steps, habit)
    return {"model": t.model, **made, **t.extra}


def _results(step: Step, ids: list[str], habit: Habit) -> list[tuple[str, str]]:
    texts = [habit.edges(r) if isinstance(r, str) else habit.argument_text(r) for r in step.results]
    return habit.shuffled(list(zip(ids, texts, strict=True)))


def _ids(step: Step, i: int, habit: Habit) -> list[str]:
    return [f"{habit.prefix}_{i}_{n}" for n in range(len(step.calls or ()))]


def _anthropic(t: Talk, steps: list[Step], habit: Habit) -> dict[str, Json]:
    tools = [{"name": n, "description": d, "input_schema": s} for n, d, s in t.tools]
    made: dict[str, Json] = {"max_tokens": 10}
    if tools:
        made["tools"] = [habit.keys(tool) for tool in habit.shuffled(tools)]
    if t.system:
        made["system"] = [{"type": "text", "text": habit.edges(text)} for text in t.system]
        if len(t.system) == 1 and habit.often():
            made["system"] = made["system"][0]["text"]
    messages: list[Json] = []
    for i, step in enumerate(steps):
        said = [{"type": "text", "text": habit.edges(text)} for text in step.texts]
        ids = _ids(step, i, habit)
        calls = [
            {"type": "tool_use", "id": name, "name": c, "input": habit.keys(a)}
            for name, (c, a) in zip(ids, step.calls or (), strict=True)
        ]
        content: Json = [habit.keys(block) if block["type"] == "text" else block for block in said + calls]
        if len(content) == 1 and said and habit.often():
            content = content[0]["text"]
        messages.append({"role": "user" if step.calls is None else "assistant", "content": content})
        if ids:
            results = [{"type": "tool_result", "tool_use_id": n, "content": c} for n, c in _results(step, ids, habit)]
            messages.append({"role": "user", "content": results})
    _mark(messages, habit)
    return {**made, "messages": messages}


def _mark(messages: list[Json], habit: Habit) -> None:
    """A cache marker on the last block, as a client that moves its marker does."""
    content = messages[-1]["content"]
    if isinstance(content, list) and habit.often():
        content[-1] = {**content[-1], "cache_control": {"type": "ephemeral"}}


def _chat(t: Talk, steps: list[Step], habit: Habit) -> dict[str, Json]:
    tools = [{"type": "function", "function": {"name": n, "description": d, "parameters": s}} for n, d, s in t.tools]
    made: dict[str, Json] = {}
    if tools:
        made["tools"] = [habit.keys(tool) for tool in habit.shuffled(tools)]
    messages: list[Json] = [{"role": "system", "content": habit.edges(text)} for text in t.system]
    for i, step in enumerate(steps):
        ids = _ids(step, i, habit)
        content: Json = [{"type": "text", "text": habit.edges(text)} for text in step.texts]
        if len(content) == 1 and not habit.often():
            content = content[0]["text"]
        message: dict[str, Json] = {"role": "user" if step.calls is None else "assistant", "content": content or None}
        if ids:
            message["tool_calls"] = [
                {"id": n, "type": "function", "function": {"name": c, "arguments": habit.argument_text(a)}}
                for n, (c, a) in zip(ids, step.calls or (), strict=True)
            ]
        if habit.often():
            message["refusal"] = None
        messages.append(message)
        messages += [{"role": "tool", "tool_call_id": n, "content": c} for n, c in _results(step, ids, habit)]
    made["prompt_cache_key"] = f"{habit.prefix}-key"
    return {**made, "messages": messages}


def _responses(t: Talk, steps: list[Step], habit: Habit) -> dict[str, Json]:
    tools = [{"type": "function", "name": n, "description": d, "parameters": s} for n, d, s in t.tools]
    made: dict[str, Json] = {}
    if tools:
        made["tools"] = [habit.keys(tool) for tool in habit.shuffled(tools)]
    inputs: list[Json] = [{"role": "developer", "content": habit.edges(text)} for text in t.system[1:]]
    if t.system:
        made["instructions"] = habit.edges(t.system[0])
    for i, step in enumerate(steps):
        ids = _ids(step, i, habit)
        role, kind = ("user", "input_text") if step.calls is None else ("assistant", "output_text")
        if step.texts:
            content = [{"type": kind, "text": habit.edges(text)} for text in step.texts]
            plain = len(content) == 1 and habit.often()
            inputs.append({"role": role, "content": content[0]["text"] if plain else content})
        inputs += [
            {"type": "function_call", "call_id": n, "name": c, "arguments": habit.argument_text(a)}
            for n, (c, a) in zip(ids, step.calls or (), strict=True)
        ]
        inputs += [{"type": "function_call_output", "call_id": n, "output": c} for n, c in _results(step, ids, habit)]
    if len(inputs) == 1 and len(t.steps[0].texts) == 1 and habit.often():
        return {**made, "input": habit.edges(t.steps[0].texts[0])}
    return {**made, "input": inputs}


def write(item: Json, *, spaced: bool = False, ascii_only: bool = False, rng: Random | None = None) -> str:
    """JSON text, with literals as they are; with rng white space anywhere that JSON allows it."""

    def gap() -> str:
        return rng.choice(("", "", " ", "\n", "\t \r\n")) if rng else ""

    if isinstance(item, Literal):
        return str(item)
    colon, comma = (": ", ", ") if spaced else (":", ",")
    if isinstance(item, dict):
        pairs = (
            f"{gap()}{json.dumps(k, ensure_ascii=ascii_only)}{gap()}{colon}{gap()}"
            f"{write(v, spaced=spaced, ascii_only=ascii_only, rng=rng)}{gap()}"
            for k, v in item.items()
        )
        return "{" + (comma.join(pairs) or gap()) + "}"
    if isinstance(item, list):
        values = (f"{gap()}{write(v, spaced=spaced, ascii_only=ascii_only, rng=rng)}{gap()}" for v in item)
        return "[" + (comma.join(values) or gap()) + "]"
    return json.dumps(item, ensure_ascii=ascii_only)


def wire(item: Json, rng: Random | None = None) -> bytes:
    """A body as bytes, in one of the ways in which clients write JSON."""
    if rng is None:
        return write(item, spaced=True).encode()
    style = rng.randrange(4)
    return write(item, spaced=style == 1, ascii_only=style == 2, rng=rng if style == 3 else None).encode()
