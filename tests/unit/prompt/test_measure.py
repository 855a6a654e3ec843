"""The figures of docs/cli.md, held against sums done by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import Session, answer, anthropic, causes, user

from standfast.policy import Policy
from standfast.prompt.measure import Tokens

TOOLS = [{"name": name, "description": name * 400} for name in "ab"]
SYSTEM = "s" * 400
TALK = [user("q" * 800), answer("a" * 800), user("r" * 800)]
MORE = [*TALK, answer("ok"), user("next")]


def compact(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def of_tool(tool: dict[str, Any]) -> int:
    """A definition as it came, behind its name."""
    return compact([tool["name"], None]) + compact(tool)


def of_system(text: str) -> int:
    return compact(["system", None]) + compact({"text": text, "type": "text"})


def of_message(message: dict[str, Any]) -> int:
    """The role, and each part behind the other."""
    role = message["role"]
    return compact([role, {"role": role}]) + sum(map(compact, message["content"]))


HEAD = sum(map(of_tool, TOOLS)) + of_system(SYSTEM)
WHOLE = HEAD + sum(map(of_message, TALK))


def measured(after: dict[str, Any], *, policy: Policy = Policy.LOSSLESS, **before: Any) -> tuple[Tokens, list[str]]:
    """The second of two requests of one session."""
    session = Session("anthropic", policy)
    session.send({**anthropic(TALK, SYSTEM, tools=TOOLS), **before})
    plan = session.send(after)
    assert session.failures == []
    return plan.diagnosis.tokens, causes(plan)


def body(messages: Any = MORE, system: str = SYSTEM, tools: Any = TOOLS, **fields: Any) -> dict[str, Any]:
    return anthropic(messages, system, tools=tools, **fields)


def tokens(*, prompt: int, attainable: int, before: int, after: int, lost: int) -> Tokens:
    return Tokens(prompt // 4, WHOLE // 4, attainable // 4, before // 4, after // 4, lost // 4)


NEW = sum(map(of_message, MORE[3:]))


def test_without_a_reference_the_prompt_alone_is_counted() -> None:
    plan = Session("anthropic").send(body(TALK))
    assert plan.diagnosis.tokens == Tokens(prompt=WHOLE // 4)
    assert sum(plan.sizes) == WHOLE


def test_a_session_that_only_grows_hits_all_of_the_request_before() -> None:
    found = measured(body())
    assert found == (tokens(prompt=WHOLE + NEW, attainable=WHOLE, before=WHOLE, after=WHOLE, lost=0), [])


def test_a_fork_shares_what_both_have_into_the_message_in_which_they_part() -> None:
    fork = user("r" * 100)
    found, named = measured(body([*TALK[:2], fork]))
    assert named == []
    expected = (WHOLE - of_message(TALK[2]) + len("r" * 100)) // 4
    assert (found.before, found.after, found.attainable, found.lost) == (expected, expected, expected, 0)


def test_tools_in_another_order_cost_all_but_the_first_bytes() -> None:
    common = len('{"name": "')
    found = measured(body(tools=TOOLS[::-1]))
    assert found == (
        tokens(prompt=WHOLE + NEW, attainable=WHOLE, before=common, after=WHOLE, lost=WHOLE - common),
        ["T1"],
    )


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.LOSSLESS])
def test_a_clock_costs_all_behind_it_and_counts_as_attainable(policy: Policy) -> None:
    old, new = (f"It is 09:1{i}. " + SYSTEM for i in (4, 5))
    size = WHOLE + len(old) - len(SYSTEM)
    before = sum(map(of_tool, TOOLS)) + len("It is 09:1")
    found, named = measured(body(system=new), policy=policy, system=old)
    assert named == ["S1"]
    assert found == Tokens((size + NEW) // 4, size // 4, size // 4, before // 4, before // 4, (size - before) // 4)


def test_a_clock_that_is_isolated_costs_nothing() -> None:
    old, new = (f"It is 09:1{i}.\n{SYSTEM}" for i in (4, 5))
    found, _ = measured(body(system=new), policy=Policy.ISOLATE, system=old)
    assert found.after == found.attainable == found.reference > found.before


def test_another_model_shares_nothing_and_nothing_can_be_done() -> None:
    found = measured(body(), model="other")
    assert found == (tokens(prompt=WHOLE + NEW, attainable=0, before=0, after=0, lost=WHOLE), ["P2"])


def test_thinking_is_no_part_of_tools_and_system_which_stay_shared() -> None:
    found = measured(body(thinking={"type": "enabled"}))
    assert found == (tokens(prompt=WHOLE + NEW, attainable=HEAD, before=HEAD, after=HEAD, lost=WHOLE - HEAD), ["P1"])


def test_a_parameter_in_front_of_the_system_prompt_leaves_the_tools() -> None:
    size = sum(map(of_tool, TOOLS))
    found = measured(body(speed="fast"))
    assert found == (tokens(prompt=WHOLE + NEW, attainable=size, before=size, after=size, lost=WHOLE - size), ["P1"])


def test_a_definition_that_only_the_client_can_mend_ends_what_is_attainable() -> None:
    url = [{**TOOLS[0], "description": "see /tmp/x-1"}, TOOLS[1]]
    new = [{**TOOLS[0], "description": "see /tmp/x-2"}, TOOLS[1]]
    found, named = measured(body(tools=new), tools=url)
    assert named == ["T3"]
    assert found.attainable == found.after == found.before == len('{"name": "a", "description": "see /tmp/x-') // 4
    assert found.lost == found.reference - found.before or found.lost == found.reference - found.before - 1


def test_a_history_in_another_shape_is_repaired_and_was_at_stake() -> None:
    flipped = [{"role": "user", "content": "q" * 800 + "\n"}, *MORE[1:]]
    found, named = measured(body(flipped))
    assert named == ["H2"]
    assert found.after == found.attainable == found.reference
    assert found.before < found.after
    assert found.lost == pytest.approx(found.reference - found.before, abs=1)


CHANGED = [
    ("C1", [TALK[0], user("r" * 10), *MORE[2:]], 1),
    ("H7", [TALK[0], TALK[2], answer("ok"), user("next")], 1),
]


@pytest.mark.parametrize(("cause", "messages", "kept"), CHANGED)
def test_a_rewritten_history_loses_what_stood_behind(cause: str, messages: Any, kept: int) -> None:
    found, named = measured(body(messages))
    shared = HEAD + sum(map(of_message, TALK[:kept]))
    assert named == [cause]
    assert shared // 4 <= found.before == found.after <= shared // 4 + len('{"role": "user", "content": [{"type":')
    assert found.lost == pytest.approx(min(found.reference, found.prompt) - found.before, abs=1)


@pytest.mark.parametrize(("cause", "messages", "kept"), CHANGED)
def test_a_rewritten_history_ends_what_is_attainable(cause: str, messages: Any, kept: int) -> None:
    found, _ = measured(body(messages))
    assert found.attainable == found.after


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.LOSSLESS, Policy.ISOLATE])
@pytest.mark.parametrize(
    "after",
    [body(), body(tools=TOOLS[::-1]), body(system="x"), body(tools=[]), body(thinking={}), body(MORE[2:]), body([])],
)
def test_figures_are_in_order(after: Any, policy: Policy) -> None:
    found, _ = measured(after, policy=policy)
    assert 0 <= found.before <= found.after <= found.attainable <= found.reference
    assert found.lost <= found.reference
