"""The system prompt: sections that moved, text in front, blocks that came and went, and what is learned to vary."""

from __future__ import annotations

from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, answer, anthropic, chat, sent, user
from unit.prompt.test_sections import BOUND, FREE

from standfast.policy import Policy

Q, K, N = ({"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "k"), ("user", "n")))


def block(text: str) -> Any:
    return {"type": "text", "text": text}


def found(plan: Any) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]


@pytest.mark.parametrize(("before", "after"), FREE)
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_sections_go_out_in_the_order_first_sent(dialect: str, before: str, after: str) -> None:
    session = Session(dialect)
    make = anthropic if dialect == "anthropic" else _chat
    session.send(make([Q], PROSE + "\n\n" + before))
    plan = session.send(make([Q, K, N], PROSE + "\n\n" + after))
    path = "system" if dialect == "anthropic" else "messages[0].content"
    assert found(plan) == [("S5", path, True)]
    assert PROSE + "\n\n" + before in str(sent(plan)).replace("\\n", "\n")
    assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.attainable


def _chat(messages: Any, system: str) -> Any:
    return chat([{"role": "system", "content": system}, *messages])


@pytest.mark.parametrize(("before", "after"), BOUND)
def test_steps_and_sentences_stay_where_the_client_put_them(before: str, after: str) -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic([Q], PROSE + "\n\n" + before))
    plan = session.send(anthropic([Q, K, N], PROSE + "\n\n" + after))
    assert found(plan) == [("S5", "system", False)]
    assert plan.diagnosis.repair == "source"
    assert sent(plan)["system"] == PROSE + "\n\n" + after


def test_blocks_that_moved() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], [block(PROSE), block("a"), block("b")]))
    plan = session.send(anthropic([Q, K, N], [block(PROSE), block("b"), block("a")]))
    assert found(plan) == [("S5", "system[1]", True)]
    assert [b["text"] for b in sent(plan)["system"]] == [PROSE, "a", "b"]


def test_blocks_that_came_and_went_are_told_each() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q, K, N], [block(PROSE), block("Rules."), block("Today is 2026-10-03."), block("More.")]))
    plan = session.send(
        anthropic([Q, K, N, K, Q], [block("Git status: clean"), block(PROSE), block("Rules."), block("More.")])
    )
    assert found(plan) == [("S3", "system[0]", False), ("S1", "system[3]", False)]


def test_text_of_one_user_in_front_of_text_of_all() -> None:
    first, second, third = Session("anthropic"), None, None
    first.send(anthropic([Q], [block("Repository of Ann: alder, birch."), block(PROSE)], tools=[{"name": "a"}]))
    second = Session("anthropic", turns=first.turns)
    other = [{"role": "user", "content": "Something else altogether."}]
    plan = second.send(anthropic(other, [block("Repository of Bo: cedar."), block(PROSE)], tools=[{"name": "a"}]))
    assert found(plan) == [("S7", "system[0]", False)]
    third = Session("anthropic", turns=first.turns)
    plan = third.send(anthropic([N], [block(PROSE), block("Repository of Cy.")], tools=[{"name": "a"}]))
    assert "S7" not in [cause for cause, _, _ in found(plan)]


def test_what_varies_again_is_volatile_whatever_it_looks_like() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    talk: list[Any] = [Q]
    causes = []
    for n, mood in enumerate(("sunny", "gloomy", "tired", "sunny")):
        plan = session.send(anthropic(talk, f"{PROSE}\nThe office is {mood} this morning.\nBe kind."))
        causes.append(found(plan))
        talk = [*talk, {"role": "assistant", "content": f"k{n}"}, {"role": "user", "content": f"n{n}"}]
    assert causes == [[], [("C1", "system", False)], [("S3", "system", True)], [("S3", "system", True)]]
    assert "The office is gloomy" in sent(plan)["system"]
    assert "The office is sunny this morning." in str(sent(plan)["messages"][-1])


def test_nothing_is_learned_across_sessions() -> None:
    first = Session("anthropic", Policy.ISOLATE)
    for n, person in enumerate(("Ann", "Bo", "Cy", "Di")):
        session = Session("anthropic", Policy.ISOLATE, turns=first.turns)
        said = [{"role": "user", "content": f"Question {n}"}]
        plan = session.send(anthropic(said, f"{PROSE}\nYou serve {person} only.\nBe kind.", tools=[{"name": "a"}]))
        assert f"You serve {person} only." in sent(plan)["system"]


def test_a_clock_in_an_example_of_code_stays() -> None:
    text = f"{PROSE}\nLog like this:\n```\n%s started\n```\nBe kind."
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic([Q], text % "09:14:07"))
    plan = session.send(anthropic([Q, K, N], text % "09:15:12"))
    assert found(plan) == [("S1", "system", False)]
    assert "09:15:12" in sent(plan)["system"]


# Block by block

ASK, MORE = user("question"), [user("question"), answer(), user("more")]
TOOL = {"name": "a", "input_schema": {"type": "object"}}
SYSTEMS: list[tuple[Any, Any, list[tuple[str, str, bool]]]] = [
    ([block(PROSE), block("b")], [block(PROSE)], [("C1", "system[1]", False)]),
    ([block(PROSE)], [block(PROSE), block("b")], [("C1", "system[1]", False)]),
    ([block(PROSE)], [block(PROSE), block("Now: 09:14")], [("S1", "system[1]", False)]),
    ([block("a"), block(PROSE)], [block(PROSE)], [("C1", "system[0]", False)]),
    ([block("a"), block(PROSE)], [block("b"), block(PROSE)], [("C1", "system[0]", False)]),
    ([block("a\n"), block(PROSE)], [block("a"), block(PROSE)], [("H2", "system[0]", True)]),
    ([block("a\n"), block("b")], [block("a"), block("c")], [("H2", "system[0]", True), ("C1", "system[1]", False)]),
    (PROSE, f"{PROSE} More.", [("C1", "system", False)]),
    (PROSE, [block(f"{PROSE} More.")], [("C1", "system[0]", False)]),
]


@pytest.mark.parametrize(("before", "after", "expected"), SYSTEMS, ids=str)
def test_system_blocks(before: Any, after: Any, expected: Any) -> None:
    session = Session("anthropic")
    session.send(anthropic([ASK], before, tools=[TOOL]))
    plan = session.send(anthropic(MORE, after, tools=[TOOL]))
    assert found(plan) == expected
    assert session.failures == []


def test_a_system_prompt_that_went_is_named_at_its_field() -> None:
    session = Session("anthropic")
    session.send(anthropic([ASK, *MORE[1:]], PROSE))
    plan = session.send(anthropic([*MORE, answer(), user("x")]))
    assert found(plan) == [("C1", "system", False)]
    assert "system" not in sent(plan)


def test_system_messages_of_chat_are_placed_in_the_list() -> None:
    session = Session("openai_chat")
    talk: list[Any] = [{"role": "user", "content": "q"}]
    system = [{"role": "system", "content": text} for text in (PROSE, "a")]
    session.send(chat([*system, *talk]))
    talk += [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = session.send(chat([system[0], {"role": "system", "content": "b"}, *talk]))
    assert found(plan) == [("C1", "messages[1].content", False)]
    plan = session.send(chat([system[0], *talk]))
    assert found(plan) == [("C1", "messages[1].content", False)]


def test_a_system_message_that_has_no_place_for_the_marker_of_now_goes_out_as_it_came() -> None:
    session, talk = Session("openai_chat"), [{"role": "user", "content": "q"}]
    session.send(chat([{"role": "system", "content": f"{PROSE}\n"}, *talk]))
    marked = [{**block(PROSE), "cache_control": {"type": "ephemeral"}}]
    talk += [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = session.send(chat([{"role": "system", "content": marked}, *talk]))
    assert found(plan) == [("H2", "messages[0].content", False)]
    assert not plan.changed


def test_instructions_and_leading_messages_of_responses_are_placed_apart() -> None:
    def body(first: str, second: str, *more: Any) -> Any:
        items = [{"role": "developer", "content": second}, {"role": "user", "content": "q"}, *more]
        return {"model": "m", "instructions": first, "input": items}

    more = [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    session = Session("openai_responses")
    session.send(body(PROSE, f"{PROSE}b"))
    assert found(session.send(body(PROSE, f"{PROSE}c", *more))) == [("C1", "input[0].content", False)]
    assert found(session.send(body(f"{PROSE}!", f"{PROSE}c", *more)))[0] == ("C1", "instructions", False)


def isolated(before: Any, after: Any) -> Any:
    """The plan of a request with another system prompt, in a session that has an answer."""
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(MORE, before))
    plan = session.send(anthropic([*MORE, answer(), ASK], after))
    assert session.failures == []
    return plan


def test_isolate_freezes_all_blocks_or_none() -> None:
    clocks = [block(f"Now: 09:1{i}") for i in (4, 5)]
    plan = isolated([clocks[0], block(PROSE)], [clocks[1], block(f"{PROSE} Be bold.")])
    assert found(plan) == [("S1", "system[0]", False), ("C1", "system[1]", False)]
    assert not plan.changed
    plan = isolated([clocks[0], block(f"{PROSE}\n"), clocks[0]], [clocks[1], block(PROSE), clocks[0]])
    assert found(plan) == [("S1", "system[0]", True), ("H2", "system[1]", True)]
    assert sent(plan)["system"] == [clocks[0], block(f"{PROSE}\n"), clocks[0]]


def test_isolate_leaves_what_is_not_text() -> None:
    image = {"type": "image", "source": {"at": "09:14"}}
    assert not isolated([block(PROSE), block("Now: 09:14")], [block(PROSE), image]).diagnosis.repaired

    def body(*parts: Any) -> Any:
        return [{"role": "system", "content": [block(PROSE), *parts]}, Q]

    session = Session("openai_chat", Policy.ISOLATE)
    session.send(chat(body(block("Now: 09:14"))))
    plan = session.send(chat([*body(block("Now: 09:15"), {"type": "file", "file": {}}), K, N]))
    assert not plan.diagnosis.repaired
    assert not plan.changed


def test_isolate_leaves_a_block_in_which_more_than_the_text_changed() -> None:
    later = {**block("Now: 09:15"), "citations": [{"title": "new"}]}
    plan = isolated([block(PROSE), block("Now: 09:14")], [block(PROSE), later])
    assert "citations" in sent(plan)["system"][1]


@pytest.mark.parametrize(("texts", "repaired"), [(("Be brief.", "Cite."), True), (("1. Ask.", "2. Greet."), False)])
def test_parts_of_a_system_message_that_moved(texts: tuple[str, str], repaired: bool) -> None:
    def body(*parts: str) -> Any:
        return [{"role": "system", "content": [block(PROSE), *map(block, parts)]}, Q]

    session = Session("openai_chat")
    session.send(chat(body(*texts)))
    plan = session.send(chat([*body(*texts[::-1]), K, N]))
    assert found(plan) == [("S5", "messages[0].content", repaired)]
    assert plan.diagnosis.repair == ("lossless" if repaired else "source")
    assert plan.changed == repaired


@pytest.mark.parametrize("texts", [("Tools:", "- a", "- b"), ("1. Ask.", "2. Greet.", "Done.")])
def test_blocks_that_follow_each_other_stay_where_the_client_put_them(texts: tuple[str, ...]) -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], [block(PROSE), *map(block, texts)]))
    plan = session.send(anthropic([Q, K, N], [block(PROSE), *map(block, texts[::-1])]))
    assert found(plan) == [("S5", "system[1]", False)]
    assert not plan.changed


def test_each_place_of_a_block_is_named_and_frozen_if_all_are_volatile() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    texts = [f"{PROSE}\nNow: {a}\nOpen files: {b}\n{c}" for a, b, c in (("09:14", "a.py", "x"), ("09:15", "b.py", "x"))]
    session.send(anthropic([Q], texts[0]))
    plan = session.send(anthropic([Q, K, N], texts[1]))
    assert found(plan) == [("S1", "system", True), ("S3", "system", True)]
    assert sent(plan)["system"] == texts[0]
    plan = session.send(anthropic([Q, K, N, K, N], texts[1] + "yz"))
    assert found(plan) == [("S1", "system", False), ("S3", "system", False), ("C1", "system", False)]
    assert sent(plan)["system"] == texts[1] + "yz"
