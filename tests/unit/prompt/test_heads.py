"""The head as it goes out: tools and parameters, and the paths of what drifted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, answer, anthropic, causes, chat, sent, user

Q, MORE = user("question"), [user("question"), answer(), user("more")]


def tool(name: str, text: str = "does it", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": text, "input_schema": {"type": "object"}, **fields}


def backwards(value: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(value.items()))


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def found(plan: Any) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]


# Tools

A, B, C = tool("a"), tool("b"), tool("c")
TOOLS: list[tuple[Any, Any, list[str], Any]] = [
    ([A, B], [A, B], [], [A, B]),
    ([A, B], [B, A], ["T1"], [A, B]),
    ([A, B], [A, backwards(B)], ["T2"], [A, B]),
    ([A, B], [backwards(B), A], ["T1", "T2"], [A, B]),
    ([A, B], [A, B, C], ["T4"], [A, B, C]),
    ([A, B], [C, B, A], ["T1", "T4"], [A, B, C]),
    ([A, B, C], [C, A], ["T1", "T4"], [A, C]),
    ([A, B], [A], ["T4"], [A]),
    ([A, B], [], ["T4"], []),
    ([A, B], [backwards(B), tool("a", "see /tmp/x")], ["T1", "T2", "C1"], [tool("a", "see /tmp/x"), B]),
    ([tool("a", "at 09:14")], [tool("a", "at 09:15")], ["T3"], [tool("a", "at 09:15")]),
    ([tool("a", x="id 0b6f6a9e1d5c")], [tool("a", x="id 0b6f6a9e1d5d")], ["T3"], [tool("a", x="id 0b6f6a9e1d5d")]),
    ([tool("a", x="red")], [tool("a", x="blue")], ["C1"], [tool("a", x="blue")]),
    ([tool("a", x=1)], [tool("a", x=2)], ["C1"], [tool("a", x=2)]),
    ([tool("a", 1)], [tool("a", 2)], ["C1"], [tool("a", 2)]),  # type: ignore[arg-type]
    ([A, A], [A, A], [], [A, A]),
]


@pytest.mark.parametrize(("before", "after", "named", "out"), TOOLS, ids=str)
def test_tools(before: Any, after: Any, named: list[str], out: Any) -> None:
    session = Session("anthropic")
    session.send(anthropic(MORE, PROSE, tools=before))
    plan = session.send(anthropic([*MORE, answer(), Q], PROSE, tools=after))
    assert session.failures == []
    assert sorted(causes(plan)) == sorted(named)
    assert json.dumps(sent(plan)["tools"]) == json.dumps(out)


ODD_TOOLS = [([7, A], [A, 7]), (["x", A], [A, "x"]), ([7, A, "x"], [A, "x", 7])]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(("before", "after"), ODD_TOOLS)
def test_no_tool_is_lost_whatever_it_is(dialect: str, before: Any, after: Any) -> None:
    session = Session(dialect)
    session.send(chat([{"role": "user", "content": "q"}], tools=before))
    more = [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = session.send(chat([{"role": "user", "content": "q"}, *more], tools=after))
    assert sorted(map(json.dumps, sent(plan)["tools"])) == sorted(map(json.dumps, after))
    assert plan.diagnosis.repaired == (sent(plan)["tools"] == before)


def test_tools_that_come_where_none_were_are_sent_in_the_order_first_known() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("other agent")], "x", tools=[A, B]))
    plan = session.send(anthropic([Q], PROSE, tools=[backwards(B), A]))
    assert causes(plan) == ["T1", "T2"]
    assert plan.diagnosis.repaired
    assert json.dumps(sent(plan)["tools"]) == json.dumps([A, B])


# Parameters

PARAMS: list[tuple[str, str, Any, Any, list[str]]] = [
    ("anthropic", "tool_choice", None, {"type": "auto"}, []),
    ("anthropic", "tool_choice", {"type": "auto"}, {"type": "any"}, ["tool_choice"]),
    ("anthropic", "thinking", {"budget": 1.0, "type": "enabled"}, {"type": "enabled", "budget": 1}, []),
    ("anthropic", "temperature", 0, 1, []),
    ("openai_chat", "tool_choice", "none", "auto", ["tool_choice"]),
    ("openai_chat", "tool_choice", None, {"type": "allowed_tools", "tools": []}, []),
    ("openai_chat", "functions", [1], [2], ["functions"]),
    ("openai_responses", "reasoning", {"effort": "low", "summary": "a"}, {"effort": "low", "summary": "b"}, []),
    ("openai_responses", "reasoning", {"effort": "low"}, {"effort": "high"}, ["reasoning.effort"]),
    ("openai_responses", "reasoning", "odd", None, []),
    ("openai_responses", "text", {"format": {}}, {"verbosity": "low"}, ["text.format", "text.verbosity"]),
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


@pytest.mark.parametrize("model", [7, None, ["m"]])
def test_a_model_that_is_no_text_is_none(model: Any) -> None:
    session = Session("anthropic")
    plan = session.send({"model": model, "messages": [Q]})
    assert (plan.model, plan.changed, session.failures) == ("", False, [])
