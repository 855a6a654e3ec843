"""Recorded agent conversations as the request bodies that an agent would have sent, turn by turn."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def conversations(path: Path) -> tuple[list[Json], list[list[Json]]]:
    """Tool schemas (OpenAI form) and conversations of a gzipped JSON lines file: tools on line 1, then messages."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        first, *rest = (json.loads(line) for line in file)
    return first.get("tools", []), [row["messages"] for row in rest]


def turns(tools: Sequence[Json], messages: Sequence[Json], dialect: str, model: str) -> Iterator[Json]:
    """One body for each answer of the assistant."""
    for i, message in enumerate(messages):
        if message["role"] == "assistant" and i:
            yield body(tools, messages[:i], dialect, model)


def body(tools: Sequence[Json], messages: Sequence[Json], dialect: str, model: str) -> Json:
    """One request of an agent that has got so far."""
    if dialect == "anthropic":
        return _anthropic(tools, messages, model)
    if dialect == "openai_responses":
        return {
            "model": model,
            "tools": [{"type": "function", **tool["function"]} for tool in tools],
            "input": [item for message in messages for item in _items(message)],
        }
    return {"model": model, "tools": list(tools), "messages": list(messages)}


def _anthropic(tools: Sequence[Json], messages: Sequence[Json], model: str) -> Json:
    history: list[Json] = []
    system = ""
    for message in messages:
        if message["role"] == "system":
            system = message["content"]
        elif message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if history and history[-1]["role"] == "user" and isinstance(history[-1]["content"], list):
                history[-1]["content"].append(block)
            else:
                history.append({"role": "user", "content": [block]})
        elif message["role"] == "assistant":
            history.append({"role": "assistant", "content": _blocks(message)})
        else:
            history.append({"role": "user", "content": message["content"]})
    return {
        "model": model,
        "max_tokens": 1024,
        "tools": [
            {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "input_schema": tool["function"]["parameters"],
            }
            for tool in tools
        ],
        "system": system,
        "messages": history,
    }


def _blocks(message: Json) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        given = json.loads(call["function"]["arguments"] or "{}")
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    return blocks


def _items(message: Json) -> Iterator[Json]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message.get("content"):
        kind = "output_text" if message["role"] == "assistant" else "input_text"
        yield {"role": message["role"], "content": [{"type": kind, "text": message["content"]}]}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}
