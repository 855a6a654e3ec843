"""Parameters, models and routes: what is named, and what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.agents import Agent, found
from unit.prompt.talking import Session, answer, causes, user

from standfast.policy import Option, Policy
from standfast.prompt.model import Tier

Q, MORE = user("question"), [user("question"), answer(), user("more")]
TEXT, JSON = {"type": "text"}, {"type": "json_object"}

PARAMS: list[tuple[str, str, Any, Any, list[str]]] = [
    ("anthropic", "tool_choice", None, {"type": "auto"}, []),
    ("anthropic", "tool_choice", {"type": "auto"}, {"type": "any"}, ["tool_choice"]),
    (
        "anthropic",
        "tool_choice",
        {"type": "auto"},
        {"type": "auto", "disable_parallel_tool_use": True},
        ["tool_choice"],
    ),
    ("anthropic", "thinking", {"budget": 1.0, "type": "enabled"}, {"type": "enabled", "budget": 1}, []),
    ("anthropic", "thinking", {"type": "disabled"}, None, []),
    (
        "anthropic",
        "thinking",
        {"type": "enabled", "budget_tokens": 1},
        {"type": "enabled", "budget_tokens": 2},
        ["thinking"],
    ),
    ("anthropic", "speed", "standard", None, []),
    ("anthropic", "speed", "fast", "standard", ["speed"]),
    ("anthropic", "output_config", {"effort": "low"}, {"effort": "high"}, ["output_config.effort"]),
    ("anthropic", "output_config", {"format": JSON}, {"format": TEXT}, ["output_config.format"]),
    ("anthropic", "output_config", {}, {"task_budget": {"type": "tokens", "total": 9}}, ["output_config.task_budget"]),
    ("anthropic", "container", {"id": "c1"}, {"id": "c2"}, []),
    ("anthropic", "container", {"skills": ["a"]}, {"skills": ["a", "b"]}, ["container.skills"]),
    ("anthropic", "mcp_servers", [1], [2], ["mcp_servers"]),
    ("anthropic", "temperature", 0, 1, []),
    ("anthropic", "metadata", {"user_id": "a"}, {"user_id": "b"}, []),
    ("anthropic", "max_tokens", 1, 2, []),
    ("openai_chat", "tool_choice", "none", "auto", ["tool_choice"]),
    ("openai_chat", "tool_choice", None, {"type": "allowed_tools", "tools": []}, []),
    ("openai_chat", "functions", [1], [2], ["functions"]),
    ("openai_chat", "response_format", None, TEXT, []),
    ("openai_chat", "response_format", TEXT, JSON, ["response_format"]),
    ("openai_chat", "reasoning_effort", "low", "high", ["reasoning_effort"]),
    ("openai_chat", "verbosity", "low", "high", ["verbosity"]),
    ("openai_chat", "service_tier", "auto", None, []),
    ("openai_chat", "service_tier", "flex", None, ["service_tier"]),
    ("openai_chat", "web_search_options", {}, {"search_context_size": "low"}, ["web_search_options"]),
    ("openai_chat", "documents", [{"text": "a"}], [{"text": "b"}], ["documents"]),
    ("openai_chat", "chat_template_kwargs", {"date": 1}, {"date": 2}, ["chat_template_kwargs"]),
    ("openai_chat", "stream", True, False, []),
    ("openai_chat", "user", "ann", "bob", []),
    ("openai_responses", "reasoning", {"effort": "low", "summary": "a"}, {"effort": "low", "summary": "b"}, []),
    ("openai_responses", "reasoning", {"effort": "low"}, {"effort": "high"}, ["reasoning.effort"]),
    ("openai_responses", "reasoning", "odd", None, []),
    ("openai_responses", "text", {"format": TEXT}, None, []),
    ("openai_responses", "text", {"format": {}}, {"verbosity": "low"}, ["text.format", "text.verbosity"]),
    ("openai_responses", "service_tier", "priority", "auto", ["service_tier"]),
    ("openai_responses", "prompt", {"id": "p", "version": "1"}, {"id": "p", "version": "2"}, ["prompt"]),
    ("openai_responses", "truncation", "auto", "disabled", []),
]


@pytest.mark.parametrize(("dialect", "name", "before", "after", "paths"), PARAMS, ids=str)
def test_parameters(dialect: str, name: str, before: Any, after: Any, paths: list[str]) -> None:
    history = "input" if dialect == "openai_responses" else "messages"
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    session = Session(dialect)
    session.send({"model": "m", name: before, history: talk[:1]})
    plan = session.send({"model": "m", name: after, history: talk})
    assert found(plan) == [("P1", path, False) for path in paths]
    assert not plan.changed


def test_a_parameter_that_names_a_key_twice_is_compared_by_its_bytes() -> None:
    def body(thinking: bytes, talk: Any) -> bytes:
        return b'{"model":"m","thinking":%s,"messages":%s}' % (thinking, json.dumps(talk).encode())

    session = Session("anthropic")
    session.send(body(b'{"a":1,"a":2}', [Q]))
    assert causes(session.send(body(b'{"a":1,"a":2}', MORE))) == []
    assert causes(session.send(body(b'{"a":2}', [*MORE, answer(), Q]))) == ["P1"]


# Models


@pytest.mark.parametrize("model", [7, None, ["m"]])
def test_a_model_that_is_no_text_is_none(model: Any) -> None:
    session = Session("anthropic")
    plan = session.send({"model": model, "messages": [Q]})
    assert (plan.model, plan.changed, session.failures) == ("", False, [])


@pytest.mark.parametrize("other", ["other", "m-latest", "m-2026-10-02"])
@pytest.mark.parametrize(("options", "kept"), [((), False), ((Option.MODEL,), True)])
def test_a_session_keeps_its_model_where_that_is_allowed(options: tuple[Option, ...], kept: bool, other: str) -> None:
    agent = Agent("chat", *options)
    agent.send("a")
    plan = agent.send("a", model=other)
    assert found(plan) == [("P2", "model", kept)]
    assert json.loads(plan.body)["model"] == ("m" if kept else other)
    again = agent.send("a", model=other)
    assert found(again) == ([("P2", "model", True)] if kept else [])


def test_a_new_session_has_the_model_that_it_wants() -> None:
    agent = Agent("chat", Option.MODEL)
    agent.send("a")
    plan = agent.send("a", new_session=True, model="other")
    assert (found(plan), json.loads(plan.body)["model"]) == ([], "other")


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
def test_what_is_rendered_first_is_named_first(kind: str) -> None:
    agent = Agent(kind)
    agent.send("a", "b")
    plan = agent.send("a", model="other", tool_choice={"type": "none"})
    assert [d.cause for d in plan.diagnosis.drifts] == ["P2", "T4", "P1"]
    assert [d.tier for d in plan.diagnosis.drifts] == [Tier.MODEL, Tier.TOOLS, Tier.PARAMS]


# Routes


@pytest.mark.parametrize("name", ["prompt_cache_key", "session_id"])
@pytest.mark.parametrize(("policy", "kept"), [(Policy.LOSSLESS, True), (Policy.OBSERVE, False)])
def test_keys_are_kept(name: str, policy: Policy, kept: bool) -> None:
    agent = Agent("chat", policy=policy)
    first: dict[str, Any] = {name: "one"}
    second: dict[str, Any] = {name: "two"}
    agent.send("a", **first)
    plan = agent.send("a", **second)
    assert found(plan) == [("I1", name, kept)]
    assert json.loads(plan.body)[name] == ("one" if kept else "two")


@pytest.mark.parametrize(("kind", "name"), [("chat", "cache_salt"), ("chat", "extra_key"), ("anthropic", "cache_salt")])
@pytest.mark.parametrize(("before", "after"), [("one", "two"), ("one", None), (None, "two")])
def test_salts_are_named_and_not_touched(kind: str, name: str, before: str | None, after: str | None) -> None:
    agent = Agent(kind)
    first: dict[str, Any] = {name: before} if before else {}
    second: dict[str, Any] = {name: after} if after else {}
    agent.send("a", **first)
    plan = agent.send("a", **second)
    assert found(plan) == [("I2", name, False)]
    assert json.loads(plan.body).get(name) == after


def test_the_users_name_is_the_clients_to_say() -> None:
    agent = Agent("chat")
    agent.send("a", user="ann")
    plan = agent.send("a", user="bob")
    assert (found(plan), json.loads(plan.body)["user"]) == ([], "bob")
