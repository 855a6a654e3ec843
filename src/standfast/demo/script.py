"""The conversation of the demo: a customer of a bicycle-parts shop and its support agent.

Everything the agent says is in the script, so that both runs send the same meaning; the model's own answers are
measured and thrown away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Body = dict[str, Any]
"""A request body of the OpenAI Chat Completions API."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a client without habits. Its messages begin with those of the turn before."""

    number: int
    """From 1."""
    kind: str
    """What calls for it: ``user`` (a question) or ``tools`` (results of calls)."""
    body: Body


@dataclass(frozen=True, slots=True)
class Script:
    """The whole conversation."""

    title: str
    clock: str
    """The time in the system prompt, ``YYYY-MM-DD hh:mm:ss``."""
    turns: tuple[Turn, ...]


def load() -> Script:
    """The script that comes with Standfast."""
    text = files("standfast").joinpath("data", "demo.json").read_text(encoding="utf-8")
    return build(json.loads(text))


def build(data: dict[str, Any]) -> Script:
    """A script from its compact form (see data/demo.json)."""
    shared = {
        "model": data["model"],
        "tools": [{"type": "function", "function": tool} for tool in data["tools"]],
        "temperature": 0,
        "max_tokens": data["max_tokens"],
    }
    history: list[Body] = [{"role": "system", "content": data["system"].format(clock=data["clock"])}]
    turns: list[Turn] = []
    for entry, messages in _messages(data["conversation"]):
        history.extend(messages)
        if "user" in entry or "results" in entry:
            kind = "user" if "user" in entry else "tools"
            turns.append(Turn(len(turns) + 1, kind, {**shared, "messages": list(history)}))
    return Script(data["title"], data["clock"], tuple(turns))


def _messages(conversation: list[Body]) -> Iterator[tuple[Body, list[Body]]]:
    """Each entry with the messages that it stands for. Results answer the calls of the entry before."""
    calls: list[Body] = []
    made = 0
    for entry in conversation:
        if "user" in entry:
            yield entry, [{"role": "user", "content": entry["user"]}]
        elif "assistant" in entry:
            yield entry, [{"role": "assistant", "content": entry["assistant"]}]
        elif "calls" in entry:
            calls = [_call(made + i, name, arguments) for i, (name, arguments) in enumerate(entry["calls"])]
            made += len(calls)
            yield entry, [{"role": "assistant", "content": entry.get("say"), "tool_calls": calls}]
        else:
            pairs = zip(calls, entry["results"], strict=True)
            yield entry, [_result(call["id"], value) for call, value in pairs]


def _call(index: int, name: str, arguments: Body) -> Body:
    # The spelling of a model that writes JSON with spaces and leaves letters as they are.
    written = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{index + 1:04d}", "type": "function", "function": {"name": name, "arguments": written}}


def _result(call_id: str, value: Any) -> Body:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return {"role": "tool", "tool_call_id": call_id, "content": written}
