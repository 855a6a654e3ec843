"""What every driver shares. Runs in the virtual environment of its tool, so: the standard library alone.

A driver reads one case a line, ``{"id", "dialect", "before", "after", "clean", "gap"}`` with decoded bodies, and
answers each by one line, ``{"id", "supported", "noticed", "codes", "path", "sent", "ms"}``. ``codes`` are the tool's
own words; ``path`` is where it says that the prefix ends; ``sent`` both requests as the tool would send them, if it
changes any, and ``also`` in another mode; ``read`` the three bodies as it reads them, where that is another dialect.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Body = dict[str, Any]
Found = dict[str, Any]
"""Some of the answer; nothing of it: the tool said nothing. ``supported`` false: it refused the body."""


class Case(NamedTuple):
    """Two requests of one session, and the later one without what is wrong with it."""

    dialect: str
    before: Body
    after: Body
    clean: Body
    gap: float

    @property
    def both(self) -> tuple[Body, Body]:
        return self.before, self.after


def serve(diagnose: Callable[[Case], Found]) -> None:
    """Answer the cases on standard input. The answers go to the real standard output; what a tool prints does not."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        case = json.loads(line)
        started = time.perf_counter()
        try:
            found = diagnose(Case(*(case[name] for name in Case._fields)))
        except Exception as error:
            found = {"supported": False, "error": f"{type(error).__name__}: {error}"[:200]}
        found = {"supported": True, "noticed": False, "codes": [], "path": "", "sent": None, **found}
        found.update(id=case["id"], ms=1000 * (time.perf_counter() - started))
        out.write(json.dumps(found) + "\n")
    out.flush()


def history(body: Body) -> list[Body]:
    """The elements of the history; a bare string is one message of the user."""
    found = body.get("messages", body.get("input"))
    return [{"role": "user", "content": found}] if isinstance(found, str) else list(found or ())


def pieces(body: Body, dialect: str) -> list[tuple[str, str]]:
    """(path, text) of every piece of a prompt in render order: for tools that compare texts."""
    found = [(f"tools[{i}]", json.dumps(tool)) for i, tool in enumerate(body.get("tools") or ())]
    system = body.get("system", body.get("instructions"))
    if isinstance(system, str):
        found.append(("system" if dialect == "anthropic" else "instructions", system))
    for i, block in enumerate(system if isinstance(system, list) else ()):
        found.append((f"system[{i}]", block.get("text", json.dumps(block))))
    name = "input" if dialect == "openai_responses" else "messages"
    for i, element in enumerate(history(body)):
        found.append((f"{name}[{i}]", f"{element.get('role', element.get('type'))}: {told(element)}"))
    return found


def told(element: Body) -> str:
    """The text of an element; what is no text as JSON, call ids and all."""
    rest = {k: v for k, v in element.items() if k not in ("role", "content", "cache_control", "type") and v}
    content = element.get("content")
    parts = [content] if isinstance(content, str) else [part_text(part) for part in content or ()]
    return " ".join([*parts, *([json.dumps(rest)] if rest else [])])


def part_text(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if "tool_use_id" in part:
        return f"{part['tool_use_id']}: {told({'content': part.get('content')})}"
    return json.dumps({k: v for k, v in part.items() if k != "cache_control"})


def as_chat(body: Body, dialect: str) -> Body:
    """A body as an OpenAI chat of plain strings: for tools that read nothing else."""
    system = [text for path, text in pieces(body, dialect) if path.startswith(("system", "instructions"))]
    messages: list[Body] = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    roles = {"developer": "system", "function_call_output": "tool"}
    for element in history(body):
        said = str(element.get("role", element.get("type")))
        role = roles.get(said, said if said in ("system", "user", "assistant", "tool") else "assistant")
        messages.append({"role": role, "content": told(element)})
    tools = [{"type": "function", "function": t.get("function", t)} for t in body.get("tools") or ()]
    return {"model": body.get("model"), "messages": messages, **({"tools": tools} if tools else {})}


def place(found: Sequence[tuple[str, str]], offset: int, length: Callable[[str], int] = len, glue: int = 1) -> str:
    """Path of the piece in which an offset into all of them, joined, lies."""
    at = 0
    for path, text in found:
        at += length(text) + glue
        if offset < at:
            return path
    return ""
