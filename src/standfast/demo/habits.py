"""What real clients do to a history each time they send it: the same meaning in other bytes.

Every habit is a function of a whole body, applied to a copy. Chance comes from a generator seeded with the seed, the
turn and the habit, so a demo can be repeated byte for byte.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from typing import Any

from standfast.demo.script import Body, Script


class Habit(StrEnum):
    """What a client does."""

    TOOLS_ORDER = "tools shuffled"
    SCHEMA_KEYS = "schema keys reordered"
    CLOCK = "clock in the system prompt"
    CALL_IDS = "call ids regenerated"
    ARGUMENTS = "arguments re-serialised"
    NEWLINE = "trailing newline lost"
    SHAPE = "text or list of one text"
    RESULTS_ORDER = "parallel results reordered"


@dataclass(frozen=True, slots=True)
class Spell:
    """Turns during which a client has a habit, both ends included."""

    habit: Habit
    first: int
    last: int


SCHEDULE = (
    # What breaks the head of a prompt costs all of it, so those come while it is short. Turns between are clean.
    Spell(Habit.TOOLS_ORDER, 3, 5),
    Spell(Habit.SCHEMA_KEYS, 7, 8),
    Spell(Habit.CLOCK, 10, 11),
    Spell(Habit.CALL_IDS, 13, 14),
    Spell(Habit.ARGUMENTS, 15, 16),
    Spell(Habit.SHAPE, 18, 19),
    Spell(Habit.NEWLINE, 20, 20),
    Spell(Habit.RESULTS_ORDER, 24, 25),
)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A turn as the client sends it."""

    turn: int
    kind: str
    habits: tuple[Habit, ...]
    body: bytes


def client(script: Script, seed: int = 1, schedule: Sequence[Spell] = SCHEDULE) -> list[ClientRequest]:
    """All requests of the conversation, in order. An empty schedule gives the client without habits."""
    requests = []
    for turn in script.turns:
        active = tuple(h for h in Habit if any(s.habit is h and s.first <= turn.number <= s.last for s in schedule))
        body = copy.deepcopy(turn.body)
        for habit in active:
            _APPLY[habit](body, Random(f"{seed}/{turn.number}/{habit.name}"), script, turn.number)
        requests.append(ClientRequest(turn.number, turn.kind, active, _encode(body)))
    return requests


def _encode(body: Body) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _tools_order(body: Body, rng: Random, script: Script, turn: int) -> None:
    rng.shuffle(body["tools"])


def _schema_keys(body: Body, rng: Random, script: Script, turn: int) -> None:
    body["tools"] = [_shuffled(tool, rng) for tool in body["tools"]]


def _shuffled(value: Any, rng: Random) -> Any:
    """The same JSON value with the keys of every object in another order. Arrays keep theirs: it has a meaning."""
    if isinstance(value, list):
        return [_shuffled(element, rng) for element in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    rng.shuffle(keys)
    return {key: _shuffled(value[key], rng) for key in keys}


def _clock(body: Body, rng: Random, script: Script, turn: int) -> None:
    """The live time in place of the time at which the session began."""
    now = datetime.fromisoformat(script.clock) + timedelta(seconds=17 * turn + rng.randrange(10))
    system = body["messages"][0]
    system["content"] = system["content"].replace(script.clock, now.isoformat(sep=" "))


def _call_ids(body: Body, rng: Random, script: Script, turn: int) -> None:
    """New ids, for the calls and for the results that answer them."""
    fresh: dict[str, str] = {}
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            fresh[call["id"]] = call["id"] = f"call_{rng.getrandbits(96):024x}"
        if message["role"] == "tool":
            message["tool_call_id"] = fresh[message["tool_call_id"]]


def _arguments(body: Body, rng: Random, script: Script, turn: int) -> None:
    """Arguments decoded and encoded again by another JSON library's taste, but for the calls just received."""
    compact, ascii_only = rng.random() < 0.5, rng.random() < 0.5
    separators = (",", ":") if compact else (", ", ": ")
    callers = [message for message in body["messages"] if "tool_calls" in message]
    if callers and body["messages"][-1]["role"] == "tool":
        callers.pop()
    for call in (call for message in callers for call in message["tool_calls"]):
        value = _shuffled(json.loads(call["function"]["arguments"]), rng)
        call["function"]["arguments"] = json.dumps(value, ensure_ascii=ascii_only, separators=separators)


def _newline(body: Body, rng: Random, script: Script, turn: int) -> None:
    """A message that is no longer the newest goes through a store that trims."""
    for message in _old(body, "user"):
        if isinstance(message["content"], str):
            message["content"] = message["content"].removesuffix("\n")
        else:
            message["content"][-1]["text"] = message["content"][-1]["text"].removesuffix("\n")


def _shape(body: Body, rng: Random, script: Script, turn: int) -> None:
    """Text becomes a list of one text part in about half of the old messages."""
    for message in (*_old(body, "user"), *_old(body, "assistant")):
        if isinstance(message["content"], str) and rng.random() < 0.5:
            message["content"] = [{"type": "text", "text": message["content"]}]


def _old(body: Body, role: str) -> Iterator[Body]:
    return (message for message in body["messages"][:-1] if message["role"] == role)


def _results_order(body: Body, rng: Random, script: Script, turn: int) -> None:
    """Old results of parallel calls in the order in which a store gives them, not in the order first sent."""
    messages: list[Body] = body["messages"]
    start = 0
    reordered = False
    while start < len(messages):
        end = start
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        is_old_group = end - start > 1 and end < len(messages)  # half-open [start, end)
        if is_old_group and (not reordered or rng.random() < 0.5):
            messages[start:end] = reversed(messages[start:end])
            reordered = True
        start = end + 1


_APPLY: dict[Habit, Callable[[Body, Random, Script, int], None]] = {
    Habit.TOOLS_ORDER: _tools_order,
    Habit.SCHEMA_KEYS: _schema_keys,
    Habit.CLOCK: _clock,
    Habit.CALL_IDS: _call_ids,
    Habit.ARGUMENTS: _arguments,
    Habit.NEWLINE: _newline,
    Habit.SHAPE: _shape,
    Habit.RESULTS_ORDER: _results_order,
}
