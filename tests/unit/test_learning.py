"""What is learnt from a response: the next request carries it in the bytes in which the model wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import Session, answer, anthropic, call, causes, result, sent, use, user

from standfast.events import FailedOpen
from standfast.prompt.replies import Reply
from standfast.turn import Plan

TALK = [user("q"), answer("a"), user("b")]


def reply(*produced: Any, complete: bool = True) -> Reply:
    wires = tuple(p if isinstance(p, bytes) else json.dumps(p).encode() for p in produced)
    return Reply(None, wires, None, complete)


def _anthropic_answer(call_id: str, arguments: str, thinking: bool) -> list[Any]:
    said = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if thinking else []
    return [{"role": "assistant", "content": [*said, use(call_id, **json.loads(arguments))]}]


def _chat_answer(call_id: str, arguments: str, thinking: bool) -> list[Any]:
    said = {"reasoning_content": "hm"} if thinking else {}
    return [{"role": "assistant", "content": None, **said, "tool_calls": [call(call_id, arguments)]}]


def _responses_answer(call_id: str, arguments: str, thinking: bool) -> list[Any]:
    said = [{"type": "reasoning", "id": "rs", "summary": []}] if thinking else []
    return [*said, {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}]


ANSWERS = {"anthropic": _anthropic_answer, "openai_chat": _chat_answer, "openai_responses": _responses_answer}


def _result(dialect: str, call_id: str) -> Any:
    return {
        "anthropic": {"role": "user", "content": [result(call_id, "r")]},
        "openai_chat": {"role": "tool", "tool_call_id": call_id, "content": "r"},
        "openai_responses": {"type": "function_call_output", "call_id": call_id, "output": "r"},
    }[dialect]


def _body(dialect: str, items: list[Any]) -> Any:
    return {"model": "m", "input" if dialect == "openai_responses" else "messages": items}


def _items(plan: Plan) -> list[Any]:
    body = sent(plan)
    found: list[Any] = body.get("input", body.get("messages"))
    return found


FORMS: list[tuple[str, str, bool, list[str]]] = [
    # id and arguments as the client sends them back, whether with the thinking, what that is called
    ("i", '{"b": 1, "a": 2}', True, []),
    ("new", '{"b": 1, "a": 2}', True, ["H3"]),
    ("i", '{"a":2,"b":1}', True, ["H4"]),
    ("i", '{"b": 1, "a": 2}', False, []),
    ("new", '{"a":2,"b":1}', False, ["H3", "H4"]),
]


@pytest.mark.parametrize("dialect", ANSWERS)
@pytest.mark.parametrize(("call_id", "arguments", "thinking", "named"), FORMS)
def test_an_answer_goes_out_as_the_model_wrote_it(
    dialect: str, call_id: str, arguments: str, thinking: bool, named: list[str]
) -> None:
    session, question = Session(dialect), {"role": "user", "content": "q"}
    wrote = ANSWERS[dialect]("i", '{"b": 1, "a": 2}', True)
    plan = session.send(_body(dialect, [question]))
    session.turns.learn(plan, reply(*wrote))
    assert plan.tip is not None
    assert len(plan.tip.produced) == len(wrote)
    came = [question, *ANSWERS[dialect](call_id, arguments, thinking), _result(dialect, call_id)]
    second = session.send(_body(dialect, came))
    assert causes(second) == named
    assert session.failures == []
    kept = ANSWERS[dialect]("i", '{"b": 1, "a": 2}', thinking)
    assert [json.dumps(i) for i in _items(second)] == [json.dumps(i) for i in (question, *kept, _result(dialect, "i"))]
    third = session.send(_body(dialect, [*came, question]))
    assert _items(third)[: len(came)] == _items(second)


@pytest.mark.parametrize("dialect", ANSWERS)
def test_an_answer_that_is_not_what_the_model_wrote_is_the_clients(dialect: str) -> None:
    session, question = Session(dialect), {"role": "user", "content": "q"}
    session.turns.learn(plan := session.send(_body(dialect, [question])), reply(*ANSWERS[dialect]("i", "{}", True)))
    body = _body(dialect, [question, {"role": "assistant", "content": "edited"}, question])
    second = session.send(body)
    assert (second.changed, causes(second)) == (False, [])
    assert plan.tip is not None


@pytest.mark.parametrize("dialect", ANSWERS)
def test_an_answer_of_thinking_alone_may_be_left_out(dialect: str) -> None:
    answers: dict[str, list[Any]] = {
        "anthropic": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
        "openai_chat": [{"role": "assistant", "content": "", "reasoning": "hm"}],
        "openai_responses": [{"type": "reasoning", "id": "rs", "summary": []}],
    }
    session, question = Session(dialect), {"role": "user", "content": "q"}
    session.turns.learn(session.send(_body(dialect, [question])), reply(*answers[dialect]))
    plan = session.send(_body(dialect, [question, {"role": "user", "content": "go on"}]))
    assert (plan.changed, causes(plan), session.failures) == (False, [], [])


@pytest.mark.parametrize(
    "unusable", [reply(), reply(answer(), complete=False), reply(b"{"), reply(b"\xff"), reply(b"[" * 50_000)]
)
def test_what_cannot_be_learnt_costs_nothing(unusable: Reply) -> None:
    session = Session("anthropic")
    plan = session.send(anthropic(TALK))
    session.turns.learn(plan, unusable)
    assert plan.tip is not None
    assert plan.tip.produced == ()
    stages = [e.stage for e in session.events if isinstance(e, FailedOpen)]
    assert stages == (["learn"] if unusable.produced and unusable.complete else [])
    assert causes(session.send(anthropic([*TALK, answer(), user("n")]))) == []


def test_a_plan_that_failed_open_learns_nothing() -> None:
    session = Session("anthropic")
    plan = session.send(b'{"model":"m"}')
    session.turns.learn(plan, reply(answer()))
    assert plan.tip is None
    assert len(session.events) == 1
