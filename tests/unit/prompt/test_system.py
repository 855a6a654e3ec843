"""The system prompt: sections that moved, text in front, blocks that came and went, and what is learned to vary."""

from __future__ import annotations

from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, anthropic, chat, sent

from standfast.policy import Policy
from standfast.prompt.sections import Order, compare

Q, K, N = ({"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "k"), ("user", "n")))


def block(text: str) -> Any:
    return {"type": "text", "text": text}


def found(plan: Any) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]


FREE = [
    ("Paths:\n- /a/b\n- /c/d\n- /e/f", "Paths:\n- /e/f\n- /a/b\n- /c/d"),
    ("Read:\n/srv/one\n/srv/two\nDone.", "Read:\n/srv/two\n/srv/one\nDone."),
    ("<a>Be brief. Be kind.</a>\n<b>Cite.</b>", "<b>Cite.</b>\n<a>Be brief. Be kind.</a>"),
    ("Hi.\n# One\nDo this.\nThen that.\n# Two\nMore.\n", "Hi.\n# Two\nMore.\n# One\nDo this.\nThen that.\n"),
    ("user: ann\nteam: larch\nrole: dev", "team: larch\nuser: ann\nrole: dev"),
    ("* ä\n* ö", "* ö\n* ä"),
    ("Never lie to users.\n\nAnswer at once please.", "Answer at once please.\n\nNever lie to users."),
]
BOUND = [
    ("1. Open it.\n2. Read it.", "2. Read it.\n1. Open it."),
    ("First ask her name.\nThen greet her.", "Then greet her.\nFirst ask her name."),
    ("Ask her name.\n\nThen greet her.", "Then greet her.\n\nAsk her name."),
]
OTHER = [
    ("- a\n- b", "- a\n- c"),
    ("- a\n- b", "- a\n- b\n- c"),
    ("abc", "cba"),
    ("Paths:\n- ab", "Paths:\n- ba"),
    ("<a>x</a> and <b>y</b>", "<b>x</b> and <a>y</a>"),
]


@pytest.mark.parametrize(
    ("pairs", "order"), [(FREE, Order.FREE), (BOUND, Order.BOUND), (OTHER, None)], ids=["free", "bound", "other"]
)
def test_what_a_permutation_says(pairs: list[tuple[str, str]], order: Order | None) -> None:
    for before, after in pairs:
        assert compare(before, after) is order, (before, after)
        assert compare(after, before) is order
        assert compare(before, before) is Order.SAME


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
    for n, user in enumerate(("Ann", "Bo", "Cy", "Di")):
        session = Session("anthropic", Policy.ISOLATE, turns=first.turns)
        said = [{"role": "user", "content": f"Question {n}"}]
        plan = session.send(anthropic(said, f"{PROSE}\nYou serve {user} only.\nBe kind.", tools=[{"name": "a"}]))
        assert f"You serve {user} only." in sent(plan)["system"]


def test_a_clock_in_an_example_of_code_stays() -> None:
    text = f"{PROSE}\nLog like this:\n```\n%s started\n```\nBe kind."
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic([Q], text % "09:14:07"))
    plan = session.send(anthropic([Q, K, N], text % "09:15:12"))
    assert found(plan) == [("S1", "system", False)]
    assert "09:15:12" in sent(plan)["system"]
