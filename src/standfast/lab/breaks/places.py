"""Where things stand in a body: every text, call, result, thought and picture with the path that it has there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, RESPONSES, Body, Unfit

SYSTEM, USER, SAID, CALL, RESULT, THINKING, PICTURE = (
    "system", "user", "said", "call", "result", "thinking", "picture",
)  # fmt: skip
_TEXTS = ("text", "input_text", "output_text")
_LEADS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Place:
    """One thing in a body."""

    kind: str
    path: str
    holder: Any
    """The object or the list that holds it."""
    key: Any
    """Its name, or its index, there."""
    element: int = -1
    """Index of the element of the history that it stands in; -1 for the system prompt outside it."""

    @property
    def value(self) -> Any:
        return self.holder[self.key]

    def put(self, value: Any) -> None:
        self.holder[self.key] = value


def history(body: Body) -> list[Body]:
    """The elements of the history."""
    found: list[Body] = body["input"] if "input" in body else body["messages"]
    return found


def field_of(body: Body) -> str:
    """The field that holds the history."""
    return "input" if "input" in body else "messages"


def definition(tool: Body) -> Body:
    """The object that holds the name of a tool."""
    found: Body = tool.get("function", tool)
    return found


def schema_of(tool: Body) -> Body:
    """The schema of a tool's arguments."""
    inner = definition(tool)
    found: Body = inner["input_schema"] if "input_schema" in inner else inner["parameters"]
    return found


def places(body: Body, dialect: str) -> Iterator[Place]:
    """Everything, in render order."""
    outside = {ANTHROPIC: "system", CHAT: "", RESPONSES: "instructions"}[dialect]
    if outside in body:
        yield from _texts(SYSTEM, outside, body, outside, -1)
    leading = True
    for i, element in enumerate(history(body)):
        leading = leading and element.get("role") in _LEADS
        path = f"{field_of(body)}[{i}]"
        if leading:
            yield from _texts(SYSTEM, f"{path}.content", element, "content", i)
        else:
            yield from _element(element, path, i, dialect)


def found(body: Body, dialect: str, kind: str, within: int | None = None) -> list[Place]:
    """The places of one kind, of the first ``within`` elements. Raises Unfit if there are none."""
    some = [p for p in places(body, dialect) if p.kind == kind and (within is None or p.element < within)]
    if not some:
        raise Unfit(f"no {kind}")
    return some


def _texts(kind: str, path: str, holder: Any, key: Any, element: int) -> Iterator[Place]:
    content = holder[key]
    if isinstance(content, str):
        yield Place(kind, path, holder, key, element)
    for i, part in enumerate(content if isinstance(content, list) else ()):
        if part.get("type") in _TEXTS:
            yield Place(kind, f"{path}[{i}]", part, "text", element)
        elif "image" in part.get("type", ""):
            yield Place(PICTURE, f"{path}[{i}]", content, i, element)


def _element(element: Body, path: str, i: int, dialect: str) -> Iterator[Place]:
    if dialect == RESPONSES and "role" not in element:
        yield from _item(element, path, i)
    elif dialect == ANTHROPIC and isinstance(element["content"], list):
        for j, block in enumerate(element["content"]):
            yield from _block(element, block, f"{path}.content[{j}]", j, i)
    elif element["role"] == "tool":
        yield Place(RESULT, f"{path}.content", element, "content", i)
    else:
        yield from _message(element, path, i)


def _item(item: Body, path: str, i: int) -> Iterator[Place]:
    if item["type"] == "reasoning":
        yield Place(THINKING, path, item, "encrypted_content", i)
    elif item["type"] == "function_call":
        yield Place(CALL, f"{path}.arguments", item, "arguments", i)
    else:
        yield Place(RESULT, f"{path}.output", item, "output", i)


def _block(element: Body, block: Body, path: str, j: int, i: int) -> Iterator[Place]:
    kind = block["type"]
    if kind == "text":
        yield Place(USER if element["role"] == "user" else SAID, path, block, "text", i)
    elif kind == "image":
        yield Place(PICTURE, path, element["content"], j, i)
    elif kind == "thinking":
        yield Place(THINKING, path, element["content"], j, i)
    elif kind == "tool_use":
        yield Place(CALL, f"{path}.input", block, "input", i)
    elif isinstance(block["content"], str):
        yield Place(RESULT, path, block, "content", i)
    else:
        yield Place(RESULT, path, block["content"][0], "text", i)


def _message(message: Body, path: str, i: int) -> Iterator[Place]:
    if message.get("reasoning_content"):
        yield Place(THINKING, f"{path}.reasoning_content", message, "reasoning_content", i)
    yield from _texts(USER if message["role"] == "user" else SAID, f"{path}.content", message, "content", i)
    for j, call in enumerate(message.get("tool_calls") or ()):
        yield Place(CALL, f"{path}.tool_calls[{j}].function.arguments", call["function"], "arguments", i)


def call_id(place: Place) -> str:
    """The field that holds the id of a call."""
    return "call_id" if "call_id" in place.holder else "id"
