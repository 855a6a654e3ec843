"""An agent for the tests of tools: bodies in any dialect, an upstream with ways to restrict tools, plans out."""

from __future__ import annotations

import json
from typing import Any

from unit.prompt.talking import KEY, PROSE

from standfast.events import FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Option, Policy
from standfast.providers.rules import Rules
from standfast.turn import Arrival, Plan, Turns

DIALECT = {"chat": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic"}
BETA = ("anthropic-beta", "tools-change")


class Agent:
    """A client. Its upstream knows allowed tools; ``changes``: and tool changes within the conversation."""

    def __init__(
        self, kind: str, *options: Option, policy: Policy = Policy.LOSSLESS, changes: bool = False, **rules: Any
    ) -> None:
        self.kind = kind
        self.options = frozenset(options)
        self.policy = policy
        knows = Rules("x", "m", allowed_tools=kind != "anthropic", tool_changes=BETA if changes else None, **rules)
        self.failures: list[str] = []
        self.turns = Turns(MemoryLedger(1 << 24), clock=lambda: 0.0, rules_of=lambda *_: knows, observe=self._observe)
        self.history: list[Any] = []
        self.count = 0

    def _observe(self, event: object) -> None:
        if isinstance(event, FailedOpen):
            self.failures.append(event.reason)

    def tool(self, name: str, says: str = "does it") -> Any:
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        match self.kind:
            case "chat":
                return {"type": "function", "function": {"name": name, "description": says, "parameters": schema}}
            case "responses":
                return {"type": "function", "name": name, "description": says, "parameters": schema}
        return {"name": name, "description": says, "input_schema": schema}

    def body(self, tools: list[Any], **more: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "m", "tools": tools, **more}
        if self.kind == "anthropic":
            return {**body, "system": PROSE, "messages": self.history}
        name = "messages" if self.kind == "chat" else "input"
        return {**body, name: [{"role": "system", "content": PROSE}, *self.history]}

    def say(self, *, new_session: bool = False) -> None:
        """One turn more; the first has an answer in it, so that the session is known again whatever its tools."""
        self.count += 1
        if new_session or not self.history:
            self.history = [{"role": "user", "content": f"hello {self.count}"}]
        self.history += [
            {"role": "assistant", "content": f"answer {self.count}"},
            {"role": "user", "content": f"question {self.count}"},
        ]

    def send(self, *names: str, new_session: bool = False, **more: Any) -> Plan:
        """A turn with these tools."""
        return self.turn([self.tool(name) for name in names], new_session=new_session, **more)

    def turn(self, tools: list[Any], *, new_session: bool = False, **more: Any) -> Plan:
        """A turn with these definitions."""
        self.say(new_session=new_session)
        return self.plan(self.body(tools, **more))

    def plan(self, body: Any) -> Plan:
        raw, now = json.dumps(body).encode(), float(self.count)
        return self.turns.plan(
            Arrival(raw, DIALECT[self.kind], "up", KEY, self.policy, now, f"r{now}", options=self.options, provider="x")
        )


def names(plan: Plan) -> list[str]:
    """The tools that go out."""
    return [(tool.get("function") or tool)["name"] for tool in json.loads(plan.body).get("tools", [])]


def allowed(plan: Plan) -> list[str] | None:
    """Those that tool_choice allows; None if it allows all."""
    choice = json.loads(plan.body).get("tool_choice")
    if not isinstance(choice, dict) or choice["type"] != "allowed_tools":
        return None
    told = choice.get("allowed_tools") or choice
    return [(tool.get("function") or tool)["name"] for tool in told["tools"]]


def messages_told(plan: Plan) -> list[dict[str, Any]]:
    """The tool changes that go out in the conversation; whether each stands where it may."""
    messages = json.loads(plan.body)["messages"]
    blocks = []
    for i, message in enumerate(messages):
        if message["role"] == "system":
            assert messages[i - 1]["role"] == "user", "a tool change must follow the user"
            assert i + 1 == len(messages) or messages[i + 1]["role"] == "assistant"
            blocks += message["content"]
    return blocks


def callable_tools(plan: Plan) -> dict[str, Any]:
    """What the model may call, each with its definition: the list, restricted or changed in the conversation."""
    tools = {(tool.get("function") or tool)["name"]: tool for tool in json.loads(plan.body).get("tools", [])}
    if plan.arrival.dialect != "anthropic":
        may = allowed(plan)
        return tools if may is None else {name: tools[name] for name in may}
    offered = dict(tools)
    for block in messages_told(plan):
        tool = block["tool"]
        if block["type"] == "tool_removal":
            del offered[tool["name"]]
        elif tool["type"] == "tool_reference":
            offered[tool["name"]] = tools[tool["name"]]
        else:
            offered[tool["definition"]["name"]] = tool["definition"]
    return offered


def found(plan: Plan) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]
