"""Tools and parameters: all that drifted, and what the options allow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.prompt.talking import KEY, PROSE

from standfast.ledger.memory import MemoryLedger
from standfast.policy import Option, Policy
from standfast.providers.rules import Rules
from standfast.turn import Arrival, Plan, Turns

KNOWS = {"chat": True, "responses": True, "anthropic": False}
DIALECT = {"chat": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic"}


class Agent:
    """A client whose upstream lets tool_choice restrict the tools, if its dialect does."""

    def __init__(self, kind: str, *options: Option, policy: Policy = Policy.LOSSLESS) -> None:
        self.kind = kind
        self.options = frozenset(options)
        self.policy = policy
        rules = Rules("x", "m", allowed_tools=True)
        self.turns = Turns(MemoryLedger(1 << 24), clock=lambda: 0.0, rules_of=lambda *_: rules)
        self.history: list[Any] = []
        self.count = 0

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

    def send(self, *names: str, new_session: bool = False, **more: Any) -> Plan:
        if new_session:
            self.history = []
        self.count += 1
        if self.history:
            self.history.append({"role": "assistant", "content": f"answer {self.count}"})
        self.history.append({"role": "user", "content": f"question {self.count}"})
        return self.plan(self.body([self.tool(name) for name in names], **more))

    def plan(self, body: Any) -> Plan:
        raw, now = json.dumps(body).encode(), float(self.count)
        return self.turns.plan(
            Arrival(raw, DIALECT[self.kind], "up", KEY, self.policy, now, f"r{now}", options=self.options, provider="x")
        )


def names(plan: Plan) -> list[str]:
    return [(tool.get("function") or tool)["name"] for tool in json.loads(plan.body).get("tools", [])]


def allowed(plan: Plan) -> list[str] | None:
    choice = json.loads(plan.body).get("tool_choice")
    if not isinstance(choice, dict) or choice["type"] != "allowed_tools":
        return None
    told = choice.get("allowed_tools") or choice
    return [(tool.get("function") or tool)["name"] for tool in told["tools"]]


def found(plan: Plan) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_tool_that_was_declared_stays_and_may_not_be_called(kind: str) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b", "c")
    plan = agent.send("a", "c")
    assert names(plan) == ["a", "b", "c"]
    assert allowed(plan) == ["a", "c"]
    assert found(plan) == [("T4", "tools[1]", True)]
    assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference
    plan = agent.send("c", "b", "a", "d")
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], None)
    assert ("T4", "tools[3]", False) in found(plan)
    plan = agent.send("d")
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], ["d"])


@pytest.mark.parametrize("kind", KNOWS)
def test_without_the_option_or_the_means_the_clients_list_goes_out(kind: str) -> None:
    for options in ((), (Option.TOOLS,)):
        if options and KNOWS[kind]:
            continue
        agent = Agent(kind, *options)
        agent.send("a", "b", "c")
        plan = agent.send("a", "c")
        assert (names(plan), allowed(plan)) == (["a", "c"], None)
        assert found(plan) == [("T4", "tools[1]", False)]


@pytest.mark.parametrize(
    ("choice", "kept"), [("required", ["a"]), ("auto", ["a"]), (None, ["a"]), ("none", None), ({"type": "x"}, None)]
)
def test_the_clients_own_choice_counts(choice: Any, kept: list[str] | None) -> None:
    agent = Agent("chat", Option.TOOLS)
    agent.send("a", "b", tool_choice=choice)
    plan = agent.send("a", tool_choice=choice)
    assert names(plan) == ["a", "b"]
    assert allowed(plan) == kept
    told = json.loads(plan.body)["tool_choice"]
    assert told == choice if kept is None else told["allowed_tools"]["mode"] == (choice or "auto")


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_run_with_fewer_tools_shares_the_prefix_of_the_whole_set(kind: str) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b", "c", "d")
    plan = agent.send("a", "c", "d", new_session=True)
    assert found(plan) == [("T5", "tools[1]", True)]
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], ["a", "c", "d"])


@pytest.mark.parametrize("kind", KNOWS)
def test_a_run_with_fewer_tools_is_named(kind: str) -> None:
    agent = Agent(kind)
    agent.send("a", "b", "c", "d")
    plan = agent.send("a", "b", "d", new_session=True)
    assert found(plan) == [("T5", "tools[2]", False)]
    assert names(plan) == ["a", "b", "d"]


@pytest.mark.parametrize(("options", "pinned"), [((), False), ((Option.PIN,), True)])
@pytest.mark.parametrize("kind", KNOWS)
def test_an_id_in_a_description_is_pinned_where_that_is_allowed(
    kind: str, options: tuple[Option, ...], pinned: bool
) -> None:
    agent = Agent(kind, *options)
    for n, says in enumerate(("see /tmp/run-0f6c", "see /tmp/run-9b22"), 1):
        agent.history += [{"role": "user", "content": "q"}] if n == 1 else [
            {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]  # fmt: skip
        agent.count = n
        plan = agent.plan(agent.body([agent.tool("a", says), agent.tool("b")]))
    path = "tools[0].function.description" if kind == "chat" else "tools[0].description"
    assert found(plan) == [("T3", path, pinned)]
    assert (b"run-0f6c" in plan.body) is pinned


def test_each_schema_that_was_written_anew_is_told() -> None:
    agent = Agent("anthropic")
    agent.send("a", "b", "c")
    body = agent.body([agent.tool("a"), agent.tool("b"), agent.tool("c")])
    for tool in (body["tools"][0], body["tools"][2]):
        tool["input_schema"] = dict(reversed(tool["input_schema"].items()))
    body["messages"] = [*agent.history, {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = agent.plan(body)
    assert found(plan) == [("T2", "tools[0].input_schema", True), ("T2", "tools[2].input_schema", True)]


@pytest.mark.parametrize(("options", "kept"), [((), False), ((Option.MODEL,), True)])
def test_a_session_keeps_its_model_where_that_is_allowed(options: tuple[Option, ...], kept: bool) -> None:
    agent = Agent("chat", *options)
    agent.send("a")
    plan = agent.send("a", model="other")
    assert found(plan) == [("P2", "model", kept)]
    assert json.loads(plan.body)["model"] == ("m" if kept else "other")
    again = agent.send("a", model="other")
    assert found(again) == ([("P2", "model", True)] if kept else [])


@pytest.mark.parametrize(
    ("name", "cause", "kept"),
    [("prompt_cache_key", "I1", True), ("session_id", "I1", True), ("cache_salt", "I2", False)],
)
def test_keys_are_kept_and_salts_are_not(name: str, cause: str, kept: bool) -> None:
    agent = Agent("chat")
    first: dict[str, Any] = {name: "one"}
    second: dict[str, Any] = {name: "two"}
    agent.send("a", **first)
    plan = agent.send("a", **second)
    assert found(plan) == [(cause, name, kept)]
    assert json.loads(plan.body)[name] == ("one" if kept else "two")


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=2, max_size=6),
    st.sampled_from(["chat", "responses"]),
)
def test_together_they_only_grow_and_only_the_clients_may_be_called(sets: list[set[str]], kind: str) -> None:
    agent, before = Agent(kind, Option.TOOLS), list[str]()
    for some in sets:
        wanted = some | set("uvwxyz")  # so many in common that it is one agent
        plan = agent.send(*sorted(wanted))
        sent = names(plan)
        assert sent[: len(before)] == before
        assert len(sent) == len(set(sent))
        assert set(sent) >= wanted
        assert set(allowed(plan) or sent) == wanted
        before = sent
