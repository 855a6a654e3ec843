"""Tool changes told within the conversation: the list of tools goes out as it first did."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.prompt.agents import BETA, Agent, callable_tools, found, messages_told, names

from standfast.policy import Option, Policy
from standfast.providers.catalogue import Catalogue
from standfast.providers.rules import Regime
from standfast.turn import Plan


def claude(*options: Option, policy: Policy = Policy.LOSSLESS, **more: Any) -> Agent:
    return Agent("anthropic", Option.TOOLS, *options, policy=policy, changes=True, **more)


def removal(name: str) -> Any:
    return {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}}


def addition(name: str) -> Any:
    return {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}}


def definition(tool: Any) -> Any:
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(v) for v in value] if isinstance(value, list) else value


def prompt(plan: Plan) -> list[Any]:
    """What a cache sees of a request, in render order."""
    body = unmarked(json.loads(plan.body))
    return [*body["tools"], body["system"], *body["messages"]]


def test_what_changes_is_told_and_the_list_stays() -> None:
    agent = claude()
    d = agent.tool("d")
    first = agent.send("a", "b", "c")
    assert (first.changed, first.headers) == (False, ())
    told = [
        (agent.send("a", "c"), [removal("b")], [("T4", "tools[1]", True)]),
        (agent.send("a", "b", "c"), [addition("b")], []),
        (agent.send("a", "c", "d"), [removal("b"), definition(d)], [("T4", "tools[1]", True)]),
        (agent.send("d", "c", "a"), [], [("T1", "tools[1].name", True), ("T4", "tools[0]", True)]),
    ]
    before, blocks = first, list[Any]()
    for plan, new, drifts in told:
        blocks += new
        assert names(plan) == ["a", "b", "c"]
        assert messages_told(plan) == blocks
        assert sorted(found(plan)) == sorted(drifts)
        assert plan.headers == (BETA,)
        assert prompt(plan)[: len(prompt(before))] == prompt(before)
        assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference
        before = plan
    assert agent.failures == []


def test_another_definition_takes_the_place_of_the_first() -> None:
    agent = claude()
    agent.send("a", "b")
    other = agent.tool("b", "does something else now")
    plan = agent.turn([agent.tool("a"), {**other, "cache_control": {"type": "ephemeral"}}])
    assert messages_told(plan) == [definition(other)]
    assert found(plan) == [("C1", "tools[1].description", True)]
    assert callable_tools(plan)["b"] == other
    assert callable_tools(agent.turn([agent.tool("a"), other]))["b"] == other
    back = agent.send("a", "b")
    assert messages_told(back) == [definition(other), addition("b")]


def test_a_new_session_begins_with_the_list_of_the_last() -> None:
    agent = claude()
    agent.send("a", "b", "c", "d")
    plan = agent.send("b", "d", new_session=True)
    assert (names(plan), messages_told(plan)) == (["a", "b", "c", "d"], [removal("a"), removal("c")])
    assert found(plan) == [("T5", "tools[0]", True)]


@pytest.mark.parametrize("tools", [["a"], []])
def test_even_all_tools_may_go(tools: list[str]) -> None:
    agent = claude()
    agent.send("a", "b")
    plan = agent.send(*tools)
    assert list(callable_tools(plan)) == tools
    assert names(plan) == ["a", "b"]


# Where it is not done


def left_alone(agent: Agent, plan: Plan, *tools: str) -> None:
    assert agent.failures == []
    assert (names(plan), messages_told(plan), plan.headers) == ([*tools], [], ())
    assert not plan.diagnosis.repaired


def test_not_without_leave() -> None:
    for agent in (Agent("anthropic", changes=True), Agent("anthropic", Option.TOOLS), claude(policy=Policy.OBSERVE)):
        agent.send("a", "b")
        left_alone(agent, agent.send("a"), "a")


def test_not_where_a_call_is_forced() -> None:
    agent = claude()
    agent.send("a", "b")
    left_alone(agent, agent.send("a", tool_choice={"type": "tool", "name": "a"}), "a")


def test_not_behind_a_beginning_of_the_answer() -> None:
    agent = claude()
    agent.send("a", "b")
    agent.say()
    agent.history.append({"role": "assistant", "content": "{"})
    left_alone(agent, agent.plan(agent.body([agent.tool("a")])), "a")


@pytest.mark.parametrize(
    "tool",
    [{"type": "web_search_20250305", "name": "web_search"}, {"name": "z", "input_schema": {}, "defer_loading": True}],
)
def test_not_with_tools_that_have_ways_of_their_own(tool: Any) -> None:
    agent = claude()
    agent.turn([agent.tool("a"), agent.tool("b"), tool])
    left_alone(agent, agent.turn([agent.tool("a"), tool]), "a", tool["name"])


def test_not_where_the_client_tells_changes_itself() -> None:
    agent = claude()
    agent.send("a", "b")
    agent.say()
    agent.history.append({"role": "system", "content": [removal("b")]})
    plan = agent.plan(agent.body([agent.tool("a"), agent.tool("b")]))
    assert (plan.changed, plan.headers) == (False, ())
    agent.history += [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = agent.plan(agent.body([agent.tool("a")]))
    assert (names(plan), messages_told(plan), plan.headers) == (["a"], [removal("b")], ())


def test_what_would_change_with_every_request_is_not_told() -> None:
    for options, out in (((), ["b", "see /tmp/run-9b22"]), ((Option.PIN,), ["b", "see /tmp/run-0f6c"])):
        agent = claude(*options)
        agent.turn([agent.tool("a"), agent.tool("b", "see /tmp/run-0f6c")])
        plan = agent.turn([agent.tool("b", "see /tmp/run-9b22")])
        assert [callable_tools(plan)["b"][field] for field in ("name", "description")] == out
        assert bool(messages_told(plan)) is bool(options)


# What was told and no longer holds


def test_what_was_told_is_taken_back_with_the_leave() -> None:
    agent = claude()
    agent.send("a", "b")
    agent.send("a")
    agent.options = frozenset()
    left_alone(agent, agent.send("a"), "a")
    agent.options = frozenset({Option.TOOLS})
    plan = agent.send("a", "b")
    assert (names(plan), list(callable_tools(plan))) == (["a"], ["a", "b"])


def test_a_change_that_no_answer_followed_is_told_anew() -> None:
    agent = claude()
    agent.send("a", "b", "c")
    agent.send("a", "c")
    agent.count += 1
    agent.history.append({"role": "user", "content": "Are you there?"})
    plan = agent.plan(agent.body([agent.tool("c")]))
    assert messages_told(plan) == [removal("a"), removal("b")]
    assert json.loads(plan.body)["messages"][-1]["role"] == "system"
    assert agent.failures == []


def test_a_retry_goes_out_as_it_did() -> None:
    agent = claude()
    agent.send("a", "b")
    plan = agent.send("a")
    agent.count += 1
    assert agent.plan(agent.body([agent.tool("a")])).body == plan.body


def test_where_histories_part_it_is_told_behind_what_is_new() -> None:
    agent = claude()
    agent.send("a", "b", "c")
    agent.send("a", "c")
    agent.send("a", "c")
    agent.history[0] = {"role": "user", "content": "something else entirely"}
    plan = agent.send("a", "c")
    assert messages_told(plan) == [removal("b")]
    assert {cause for cause, *_ in found(plan)} <= {"T4", "T5", "C1"}
    fork = agent.history[:3]
    agent.history = [*fork[:2], {"role": "user", "content": "another way"}]
    agent.count += 1
    plan = agent.plan(agent.body([agent.tool("b"), agent.tool("c")]))
    assert list(callable_tools(plan)) == ["b", "c"]
    assert agent.failures == []


def test_beside_isolate_both_are_told() -> None:
    agent = claude(policy=Policy.ISOLATE)
    tools = ["a", "b"], ["a"], ["a"], ["a", "b"]
    plans = []
    for n, some in enumerate(tools):
        agent.say()
        body = agent.body([agent.tool(name) for name in some])
        plans.append(agent.plan({**body, "system": f"{body['system']}\nCurrent time: 2026-10-02 09:1{n}"}))
        assert list(callable_tools(plans[-1])) == some
    assert agent.failures == []
    for before, after in pairwise(plans):
        assert prompt(after)[: len(prompt(before))] == prompt(before)


def test_news_of_a_retry_stand_beside_the_tools_that_were_told_and_not_in_them() -> None:
    agent = claude(policy=Policy.ISOLATE)
    for n, some in enumerate((["a", "b"], ["a"], ["a"])):
        if n < 2:
            agent.say()
        agent.count += 1
        body = agent.body([agent.tool(name) for name in some])
        plan = agent.plan({**body, "system": f"{body['system']}\nCurrent time: 2026-10-02 09:1{n}"})
        assert list(callable_tools(plan)) == some
    assert agent.failures == []
    *_, newest, change = json.loads(plan.body)["messages"]
    assert "09:12" in json.dumps(newest)
    assert change == {"role": "system", "content": [removal("b")]}


# Marks, models, and all of it together


def test_the_clients_marks_stand_where_they_can() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    agent = claude(regime=Regime.MARKS, marker="cache_control", ttls={"5m": 300.0}, default_ttl="5m")
    for some in ("abc", "ab", "ac", "abcd"):
        tools = [agent.tool(name) for name in some]
        tools[-1] |= mark
        agent.say()
        agent.history[-1] = {"role": "user", "content": [{"type": "text", "text": f"q {agent.count}", **mark}]}
        plan = agent.plan(agent.body(tools))
        assert plan.body.count(b"cache_control") <= 4
        assert set(callable_tools(plan)) == set(some)
        assert all(
            "definition" not in b["tool"] or "cache_control" not in b["tool"]["definition"] for b in messages_told(plan)
        )
    assert agent.failures == []


@pytest.mark.parametrize(
    ("model", "knows"),
    [("claude-opus-5-5", True), ("claude-opus-4-8", True), ("claude-sonnet-5", False), ("claude-opus-4-7", False)],
)
def test_only_models_that_take_changes_are_told(model: str, knows: bool) -> None:
    assert (Catalogue.load().rules("anthropic", model).tool_changes is not None) is knows


_RUNS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abcde"), unique=True), st.sampled_from(["go on", "go on", "again", "new", "fork"])
    ),
    min_size=2,
    max_size=7,
)


@given(_RUNS)
def test_whatever_the_client_does_it_gets_the_tools_that_it_declares(runs: list[tuple[list[str], str]]) -> None:
    agent = claude()
    agent.send(*"abc")
    before: Plan | None = None
    for some, how in runs:
        agent.count += 1
        if how == "fork" and len(agent.history) > 3:
            agent.history = [*agent.history[:-2], {"role": "user", "content": f"instead {agent.count}"}]
        elif how == "again":
            agent.history = [*agent.history, {"role": "user", "content": f"again {agent.count}"}]
        else:
            agent.say(new_session=how == "new")
        plan = agent.plan(agent.body([agent.tool(name) for name in some]))
        assert agent.failures == []
        assert callable_tools(plan) == {name: agent.tool(name) for name in some}
        if before is not None and how == "go on" and names(plan) == names(before):
            assert prompt(plan)[: len(prompt(before))] == prompt(before)
        before = plan
