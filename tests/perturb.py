"""The habits of real clients, applied to OpenAI chat bodies: each changes bytes and keeps the meaning.

Written for the tests alone, and on purpose without any code of the package: the same for ``meaning`` and ``prompt``,
the independent readers that judge what the package did.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Habit = Callable[[Body, random.Random], None]


def _shuffled(value: Any, rng: random.Random) -> Any:
    """The same JSON with the keys of every object in another order."""
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: _shuffled(value[name], rng) for name in names}
    if isinstance(value, list):
        return [_shuffled(v, rng) for v in value]
    return value


def tools_in_another_order(body: Body, rng: random.Random) -> None:
    rng.shuffle(body["tools"])


def schema_keys_in_another_order(body: Body, rng: random.Random) -> None:
    body["tools"] = [_shuffled(tool, rng) for tool in body["tools"]]


def _history(body: Body) -> list[Body]:
    """All but the newest message."""
    messages: list[Body] = body["messages"]
    return messages[1:-1]


def ids_regenerated(body: Body, rng: random.Random) -> None:
    names: dict[str, str] = {}
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            call["id"] = names.setdefault(call["id"], f"call_{rng.randrange(16**12):012x}")
        if "tool_call_id" in message:
            message["tool_call_id"] = names[message["tool_call_id"]]


def arguments_reserialised(body: Body, rng: random.Random) -> None:
    for message in _history(body):
        for call in message.get("tool_calls") or ():
            value = _shuffled(json.loads(call["function"]["arguments"]), rng)
            spaces = rng.choice([(", ", ": "), (",", ":"), (" , ", " : ")])
            call["function"]["arguments"] = json.dumps(value, separators=spaces, ensure_ascii=rng.random() < 0.5)


def results_reserialised(body: Body, rng: random.Random) -> None:
    for message in _history(body):
        if message["role"] == "tool" and message["content"][:1] in ("{", "["):
            message["content"] = json.dumps(
                _shuffled(json.loads(message["content"]), rng), indent=rng.choice([None, 1])
            )


def white_space_lost_or_found(body: Body, rng: random.Random) -> None:
    for message in _history(body):
        if isinstance(message["content"], str) and message["role"] in ("user", "assistant") and rng.random() < 0.5:
            message["content"] = message["content"].strip() + rng.choice(["", "\n", "\n\n", " "])


def shape_flipped(body: Body, rng: random.Random) -> None:
    for message in _history(body):
        if isinstance(message["content"], str) and message["role"] in ("user", "assistant") and rng.random() < 0.5:
            message["content"] = [{"type": "text", "text": message["content"]}]


def empty_fields_flipped(body: Body, rng: random.Random) -> None:
    for message in _history(body):
        if message["role"] == "assistant" and rng.random() < 0.5:
            message.update({"refusal": None, "annotations": []})
        if message.get("tool_calls") and message["content"] is None and rng.random() < 0.5:
            message["content"] = ""


def results_in_another_order(body: Body, rng: random.Random) -> None:
    messages = body["messages"]
    start = 0
    while start < len(messages) - 1:
        end = start
        while end < len(messages) - 1 and messages[end]["role"] == "tool":
            end += 1
        if end - start > 1:
            run = messages[start:end]
            rng.shuffle(run)
            messages[start:end] = run
        start = max(end, start + 1)


def cache_key_regenerated(body: Body, rng: random.Random) -> None:
    body["prompt_cache_key"] = f"req-{rng.randrange(16**8):08x}"


LOSSLESS: tuple[Habit, ...] = (
    tools_in_another_order,
    schema_keys_in_another_order,
    ids_regenerated,
    arguments_reserialised,
    results_reserialised,
    white_space_lost_or_found,
    shape_flipped,
    empty_fields_flipped,
    results_in_another_order,
    cache_key_regenerated,
)


def all_together(body: Body, rng: random.Random) -> None:
    for habit in LOSSLESS:
        habit(body, rng)


def perturbed(body: Body, habit: Habit, rng: random.Random) -> Body:
    """A copy of a body as a client with this habit sends it."""
    body = copy.deepcopy(body)
    habit(body, rng)
    return body


def meaning(body: Body) -> Any:
    """What a chat body says: an independent reading, to compare before and after."""
    ids: dict[str, int] = {}
    calls_seen = 0
    said: list[Any] = []
    run: list[Any] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            run.append((ids[message["tool_call_id"]], message.get("name"), _json_or_text(message["content"])))
            continue
        said += [sorted(run, key=lambda r: r[0])] if run else []
        run = []
        calls = []
        for call in message.get("tool_calls") or ():
            calls_seen += 1
            ids[call["id"]] = calls_seen
            calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
        said.append((message["role"], _text(message.get("content")), calls))
    said += [sorted(run, key=lambda r: r[0])] if run else []
    tools = {tool["function"]["name"]: tool for tool in body.get("tools", ())}
    rest = {k: v for k, v in body.items() if k not in ("messages", "tools", "prompt_cache_key")}
    return tools, said, rest


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\0".join(part["text"].strip() for part in content)
    return (content or "").strip()


def _json_or_text(content: Any) -> Any:
    text = _text(content)
    return json.loads(text) if text[:1] in ("{", "[") else text


def prompt(body: Body) -> list[str]:
    """What the model is shown, piece by piece: two prompts share a cache as far as these are equal.

    Strict on purpose: key order in schemas, argument strings, ids, white space and the shape of content all count.
    """
    pieces = [json.dumps(tool) for tool in body.get("tools", ())]
    for message in body["messages"]:
        pieces.append(f"{message['role']} {message.get('name', '')}")
        pieces.append(json.dumps(message.get("content")))
        pieces += [json.dumps([c["id"], c["function"]]) for c in message.get("tool_calls") or ()]
        pieces.append(message.get("tool_call_id", ""))
    return pieces


def common(left: list[str], right: list[str]) -> int:
    """Characters of the shared head of two prompts."""
    size = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            return size + next(i for i, (x, y) in enumerate(zip(a + "\0", b + "\1", strict=False)) if x != y)
        size += len(a)
    return size
