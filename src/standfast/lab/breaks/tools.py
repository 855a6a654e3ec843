"""Breaks of the tools (T)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from standfast.lab.breaks.made import Break, Made, shuffled
from standfast.lab.breaks.places import USER, definition, found, history, schema_of
from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, Body, Session, Unfit
from standfast.lab.breaks.wording import VOLATILE_DEFINITIONS

_EXTRA = (
    ("mcp__tix__search", "Search tickets by text.", {"query": {"type": "string"}, "open": {"type": "boolean"}}),
    ("mcp__tix__comment", "Comment on a ticket.", {"ticket": {"type": "integer"}, "text": {"type": "string"}}),
    ("weather", "The forecast of a place.", {"place": {"type": "string"}, "days": {"type": "integer"}}),
    ("translate", "Translate a text.", {"text": {"type": "string"}, "to": {"type": "string"}}),
    ("browser_open", "Open a page.", {"url": {"type": "string", "format": "uri"}}),
)
_SIDE_RUNS = (
    "Heartbeat: read HEARTBEAT.md, act on it if anything is due, else answer HEARTBEAT_OK.",
    "[cron:nightly] Check the inbox and report what is new.",
    "You are a subagent. Find where the limits are set and answer with the paths alone.",
    "Scheduled run: write the daily digest.",
    "Background task: refresh the index of notes and answer 'done'.",
)


def _new_tool(body: Body, dialect: str, rng: Random) -> Body:
    have = {definition(tool)["name"] for tool in body["tools"]}
    name, description, properties = rng.choice([row for row in _EXTRA if row[0] not in have])
    schema = {"type": "object", "properties": copy.deepcopy(properties), "required": [next(iter(properties))]}
    if dialect == ANTHROPIC:
        return {"name": name, "description": description, "input_schema": schema}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function} if dialect == CHAT else {"type": "function", **function}


def _set(body: Body, tools: list[Body]) -> None:
    """Other tools; a client that marks the last one still does."""
    marks = [mark for tool in body["tools"] if (mark := tool.pop("cache_control", None))]
    body["tools"] = tools
    if marks:
        tools[-1]["cache_control"] = marks[0]


def _names(tools: list[Body]) -> list[str]:
    return [definition(tool)["name"] for tool in tools]


def _first_other(old: list[Body], new: list[Body]) -> str:
    """Path of the first tool that is not where it was."""
    pairs = enumerate(zip(_names(old), _names(new), strict=False))
    return f"tools[{next((i for i, (a, b) in pairs if a != b), min(len(old), len(new)))}]"


def _replaced(body: Body, tools: list[Body]) -> str:
    """Set tools; returns the path of the first that is another."""
    path = _first_other(body["tools"], tools)
    _set(body, tools)
    return path


def _reordered(how: str, order: Callable[[list[Body], Random], list[Body]]) -> Break:
    def made(session: Session, rng: Random) -> Made:
        tools = session.after["tools"]
        names = [tools.index(tool) for tool in order(list(tools), rng)]
        if names == sorted(names):
            raise Unfit("the order is this one already")

        def change(after: Body) -> str:
            path = _replaced(after, [after["tools"][i] for i in names])
            return f"{path}{'.function' if 'function' in after['tools'][0] else ''}.name"

        return Made(change, how)

    return made


def _swapped(tools: list[Body], rng: Random) -> list[Body]:
    i = rng.randrange(len(tools) - 1)
    tools[i : i + 2] = reversed(tools[i : i + 2])
    return tools


def _rotated(tools: list[Body], rng: Random) -> list[Body]:
    i = rng.randrange(1, len(tools))
    return tools[i:] + tools[:i]


ORDERS: tuple[Break, ...] = (
    _reordered("shuffled", shuffled),
    _reordered("by name", lambda tools, rng: sorted(tools, key=lambda tool: str(definition(tool)["name"]))),
    _reordered("reversed", lambda tools, rng: tools[::-1]),
    _reordered("two neighbours swapped", _swapped),
    _reordered("one server's tools first", _rotated),
)


def _other_keys(value: Any, how: Callable[[list[str]], list[str]]) -> Any:
    if isinstance(value, dict):
        return {name: _other_keys(value[name], how) for name in how(list(value))}
    return [_other_keys(v, how) for v in value] if isinstance(value, list) else value


def _keys(how: str, order: Callable[[list[str], Random], list[str]], *, deep: bool, all_tools: bool) -> Break:
    def made(session: Session, rng: Random) -> Made:
        count = len(session.after["tools"])
        chosen = range(count) if all_tools else sorted(rng.sample(range(count), rng.randrange(1, 3)))
        seed = rng.getrandbits(32)

        def change(after: Body) -> str:
            own, changed = Random(seed), []
            for i in chosen:
                schema = schema_of(after["tools"][i])
                target = schema if deep else schema.get("properties", schema)
                other = _other_keys(target, lambda names: order(names, own)) if deep else _top(target, order, own)
                if repr(other) != repr(target):
                    changed.append(i)
                    target.clear()
                    target.update(other)
            if not changed:
                raise Unfit("no other order of keys")
            return f"tools[{changed[0]}]"

        return Made(change, how)

    return made


def _top(value: Body, order: Callable[[list[str], Random], list[str]], rng: Random) -> Body:
    return {name: value[name] for name in order(list(value), rng)}


def _any(names: list[str], rng: Random) -> list[str]:
    return rng.sample(names, len(names))


KEYS: tuple[Break, ...] = (
    _keys("keys shuffled everywhere", _any, deep=True, all_tools=True),
    _keys("keys sorted", lambda names, rng: sorted(names), deep=True, all_tools=True),
    _keys("keys shuffled in one tool or two", _any, deep=True, all_tools=False),
    _keys("properties shuffled", _any, deep=False, all_tools=True),
    _keys("properties reversed", lambda names, rng: names[::-1], deep=False, all_tools=False),
)


def _volatile(where: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        old, new = rng.choice(VOLATILE_DEFINITIONS)(rng)
        i = rng.randrange(len(session.after["tools"]))
        for body in session.both():
            holder = _described(body["tools"][i], where)
            holder["description"] = f"{holder.get('description', '')} {old}".strip()

        def change(after: Body) -> str:
            holder = _described(after["tools"][i], where)
            holder["description"] = holder["description"].replace(old, new)
            return f"tools[{i}]"

        return Made(change, f"{old} → {new} in the {where}")

    return made


def _described(tool: Body, where: str) -> Body:
    if where == "description":
        return definition(tool)
    properties = schema_of(tool).get("properties") or {}
    if not properties:
        raise Unfit("a tool without arguments")
    found: Body = next(iter(properties.values()))
    return found


VOLATILE: tuple[Break, ...] = (_volatile("description"), _volatile("description"), _volatile("first argument"))


def _added(where: Callable[[int, Random], int], how: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        tool = _new_tool(session.after, session.dialect, rng)
        i = where(len(session.after["tools"]), rng)
        return Made(lambda after: _replaced(after, [*after["tools"][:i], tool, *after["tools"][i:]]), how, by="")

    return made


def _removed(session: Session, rng: Random) -> Made:
    i = rng.randrange(len(session.after["tools"]))
    return Made(lambda after: _replaced(after, after["tools"][:i] + after["tools"][i + 1 :]), "a tool left")


def _exchanged(session: Session, rng: Random) -> Made:
    i, tool = rng.randrange(len(session.after["tools"])), _new_tool(session.after, session.dialect, rng)
    return Made(
        lambda after: _replaced(after, [*after["tools"][:i], tool, *after["tools"][i + 1 :]]),
        "one tool for another",
        by="",
    )


SETS: tuple[Break, ...] = (
    _added(lambda count, rng: count, "a tool came, at the end"),
    _removed,
    _added(lambda count, rng: rng.randrange(1, count), "a tool came, in the midst"),
    _exchanged,
    _added(lambda count, rng: 0, "a tool came, at the front"),
)


def _part(count: int, rng: Random) -> list[int]:
    """Which tools a side run has: about half of them, and never just the first ones."""
    kept = sorted(rng.sample(range(count), max(1, count * rng.randrange(40, 66) // 100)))
    return kept if kept != list(range(len(kept))) else [*kept[:-1], count - 1]


def _aside(body: Body, dialect: str, text: str) -> None:
    """A run of its own in place of the conversation."""
    first = found(body, dialect, USER)[0].element
    history(body)[first:] = [{"role": "user", "content": text}]


def _side_run(session: Session, rng: Random) -> Made:
    """The session, then a side run with fewer tools."""
    kept, text = _part(len(session.after["tools"]), rng), rng.choice(_SIDE_RUNS)
    _aside(session.after, session.dialect, text)
    return Made(lambda after: _replaced(after, [after["tools"][i] for i in kept]), f"fewer tools: {text[:24]}")


def _main_run(session: Session, rng: Random) -> Made:
    """The side run, then the session with all its tools."""
    kept, text = _part(len(session.after["tools"]), rng), rng.choice(_SIDE_RUNS)
    _aside(session.before, session.dialect, text)
    _set(session.before, [session.before["tools"][i] for i in kept])
    path = _first_other(session.before["tools"], session.after["tools"])
    return Made(lambda after: path, f"more tools after: {text[:24]}", by="")


KINDS_OF_RUN: tuple[Break, ...] = (_side_run, _main_run)
