"""A small client for the unit tests: bodies in, plans out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from standfast.events import Event, FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Option, Policy
from standfast.turn import Arrival, Plan, Turns

KEY = bytes(range(32))
PROSE = "You are a careful assistant for the Larch project. Keep answers short and cite ticket numbers. " * 2
MARK = {"cache_control": {"type": "ephemeral"}}


class Session:
    """One client of a gateway; several may share its turns."""

    def __init__(
        self, dialect: str, policy: Policy = Policy.LOSSLESS, *options: Option, turns: Turns | None = None
    ) -> None:
        self.dialect = dialect
        self.policy = policy
        self.options = frozenset(options)
        self.events: list[Event] = []
        self.turns = turns or Turns(MemoryLedger(64 << 20), clock=lambda: 0.0, observe=self.events.append)
        self.count = 0

    def send(self, body: Any, *, pin_billing: bool = True) -> Plan:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.count += 1
        arrival = Arrival(
            raw,
            self.dialect,
            "up",
            KEY,
            self.policy,
            float(self.count),
            f"{id(self)}-{self.count}",
            options=self.options,
            pin_billing=pin_billing,
        )
        return self.turns.plan(arrival)

    @property
    def failures(self) -> list[str]:
        return [e.reason for e in self.events if isinstance(e, FailedOpen)]


def sent(plan: Plan) -> Any:
    """What went out, decoded."""
    return json.loads(plan.body)


def causes(plan: Plan) -> list[str]:
    return [drift.cause for drift in plan.diagnosis.drifts]


def user(text: str, *, mark: bool = False) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text, **(MARK if mark else {})}]}


def answer(text: str = "ok") -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def use(name: str, **arguments: Any) -> dict[str, Any]:
    """An Anthropic call."""
    return {"type": "tool_use", "id": name, "name": "f", "input": arguments}


def result(name: str, content: str) -> dict[str, Any]:
    """An Anthropic result."""
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def anthropic(messages: Sequence[Any], system: Any = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", **({"system": system} if system is not None else {}), "messages": list(messages), **fields}


def chat(messages: Sequence[Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    """A chat call."""
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def returned(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": content}
