"""Which earlier request one is held against: agents, sessions, forks, retries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, answer, anthropic, causes, sent, user

from standfast.policy import Policy
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items
from standfast.prompt.lineage import choose, likeness
from standfast.prompt.model import Head, Tier, Tip
from standfast.prompt.request import Request, read
from standfast.turn import Plan

OTHER = "As the Birch bot you file tax forms; you never joke, and you always answer in French. " * 2


def tools(*names: str, text: str = "does it") -> list[dict[str, Any]]:
    return [{"name": name, "description": text, "input_schema": {}} for name in names]


def reading(body: dict[str, Any]) -> Request:
    return read(json.dumps(body).encode(), DIALECTS["anthropic"], bytes(32), Items())


def head(system: Any = None, *names: str, text: str = "does it") -> Head:
    return reading(anthropic([], system, tools=tools(*names, text=text))).head


LIKENESS: list[tuple[Head, Head, int]] = [
    (head(PROSE, "a", "b"), head(PROSE, "b", "a"), 4),
    (head(), head(), 4),
    (head(PROSE, "a", "b"), head(PROSE, "a"), 3),
    (head(PROSE, "a"), head(PROSE, "a", text="else"), 3),
    (head(PROSE + "x", "a"), head(PROSE + "y", "a", text="else"), 2),
    (head(None, "a"), head(None, "a", text="else"), 2),
    (head(PROSE, "a"), head(OTHER, "a"), 1),
    (head(PROSE, "a"), head(OTHER, "a", text="else"), 0),
    (head(PROSE, "a"), head(PROSE, "b"), 0),
    (head(PROSE), head(OTHER), 0),
    (head(PROSE), head(), 0),
    (head(PROSE, "a", "b", "c"), head(PROSE, "a"), 3),
    (head(PROSE, "a", "b", "c"), head(PROSE, "a", "d"), 0),
    (head(PROSE, "a", "b", "c"), head(PROSE), 0),
    (head(None, "a", "b", "c"), head(None, "a"), 0),
]


@pytest.mark.parametrize(("one", "other", "expected"), LIKENESS)
def test_likeness(one: Head, other: Head, expected: int) -> None:
    assert likeness(one, other) == likeness(other, one) == expected


def test_likeness_of_a_head_that_was_read_back_from_disk() -> None:
    whole = head(PROSE, "a")
    bare = Head(whole.model, whole.tools, whole.system)
    assert likeness(whole, bare) == 4
    assert likeness(head(PROSE, "b"), bare) == 0


def tip(name: str, like: Head) -> Tip:
    return Tip(name.encode(), b"", 0.0, "anthropic", like, ())


def test_the_likest_of_several_is_chosen_and_of_equals_the_newest() -> None:
    request = reading(anthropic([user("hi")], PROSE, tools=tools("a", "b")))
    far, near = tip("far", head(OTHER, "x")), tip("near", head(PROSE, "a"))
    twins = [tip("new", head(PROSE, "a", "b")), tip("old", head(PROSE, "b", "a"))]
    assert choose(request, 1, [far, near, *twins]) is twins[0]
    assert choose(request, 1, [far, near]) is near
    assert choose(request, 1, [far, tip("same tools", head(OTHER, "a", "b"))]) is None
    assert choose(request, 1, []) is None


def test_a_shared_answer_proves_kinship_whatever_the_head() -> None:
    request = reading(anthropic([user("hi"), answer("a"), user("more")], PROSE))
    stranger = tip("stranger", head(OTHER, "x"))
    assert choose(request, 1, [stranger]) is None
    assert choose(request, 2, [stranger]) is stranger
    assert choose(reading(anthropic([user("hi")])), 9, [stranger]) is None


# Over turns


def reference(plan: Plan) -> bytes | None:
    """Lineage that a request was put into, None if it began one."""
    assert plan.tip is not None
    return plan.tip.lineage if plan.tip.lineage != plan.tip.id else None


def test_two_agents_of_a_tenant_with_the_same_first_words_do_not_meet() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("hi")], PROSE, tools=tools("a")))
    plan = session.send(anthropic([user("hi")], OTHER, tools=tools("x")))
    assert (reference(plan), causes(plan), plan.diagnosis.tokens.reference) == (None, [], 0)
    for system, name in ((PROSE, "a"), (OTHER, "x")):
        grown = session.send(anthropic([user("hi"), answer(name), user("go")], system, tools=tools(name)))
        assert causes(grown) == []
        assert grown.diagnosis.tokens.after == grown.diagnosis.tokens.reference > 0


def test_interleaved_sessions_stay_apart() -> None:
    session = Session("anthropic")
    talks: dict[str, list[Any]] = {name: [user(f"{name} {PROSE}")] for name in "pqr"}
    lineages: dict[str, bytes] = {}
    for turn in range(4):
        for name, messages in talks.items():
            plan = session.send(anthropic(messages, PROSE))
            assert plan.tip is not None
            assert causes(plan) == []
            if turn:
                assert plan.tip.lineage == lineages[name]
                assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference
            lineages[name] = plan.tip.lineage
            messages += [answer(f"{name}{turn}"), user(f"next {turn}")]
    assert len(set(lineages.values())) == 3


def test_a_fork_belongs_to_the_lineage_and_shares_what_both_have() -> None:
    session = Session("anthropic")
    stem = [user(f"q {PROSE}"), answer("a")]
    first = session.send(anthropic(stem[:1], PROSE))
    left = session.send(anthropic([*stem, user("left")], PROSE))
    right = session.send(anthropic([*stem, user("right")], PROSE))
    assert [reference(p) for p in (left, right)] == [first.tip.id if first.tip else None] * 2
    for name, plan in (("left", left), ("right", right)):
        grown = session.send(anthropic([*stem, user(name), answer("k"), user("on")], PROSE))
        assert causes(grown) == causes(plan) == []
        assert grown.diagnosis.tokens.after == grown.diagnosis.tokens.reference


def test_a_retry_shares_all_of_the_first_try() -> None:
    session = Session("anthropic")
    body = anthropic([user("q"), answer("a"), user("b")], PROSE)
    session.send(body)
    plan = session.send(body)
    assert (causes(plan), plan.changed) == ([], False)
    assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.prompt == plan.diagnosis.attainable_tokens


def test_a_new_session_of_the_same_release_shares_its_head_and_begins_a_lineage() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("one"), answer("a"), user("two")], PROSE, tools=tools("a", "b")))
    plan = session.send(anthropic([user("three")], PROSE, tools=tools("b", "a")))
    assert reference(plan) is None
    assert causes(plan) == ["T1"]
    assert [tool["name"] for tool in sent(plan)["tools"]] == ["a", "b"]
    assert plan.diagnosis.tokens.after > plan.diagnosis.tokens.before


def test_a_side_request_of_the_same_release_with_another_history_is_no_break() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("one"), answer("a"), user("two")], PROSE))
    plan = session.send(anthropic([user("else"), answer("z"), user("there"), answer("y"), user("x")], PROSE))
    assert (causes(plan), plan.changed) == ([], False)


@pytest.mark.parametrize("policy", [Policy.LOSSLESS, Policy.ISOLATE])
def test_of_two_sessions_with_one_beginning_each_goes_on_with_its_own_clock(policy: Policy) -> None:
    session = Session("anthropic", policy)
    for clock in ("09:14", "09:15"):
        session.send(anthropic([user("hi")], f"{PROSE}\nIt is {clock}."))
    plan = session.send(anthropic([user("hi"), answer(), user("go")], f"{PROSE}\nIt is 09:15."))
    assert sent(plan)["system"].endswith("09:14." if policy is Policy.ISOLATE else "09:15.")
    assert plan.tip is not None
    assert plan.tip.head.system[0].tier is Tier.SYSTEM
