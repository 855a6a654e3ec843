"""What changed in a history, by name and place; and odd histories that are compared all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import (
    PROSE,
    Session,
    answer,
    anthropic,
    call,
    calling,
    causes,
    chat,
    result,
    returned,
    sent,
    use,
    user,
)

from standfast.explain import Case, explain
from standfast.policy import Policy
from standfast.prompt.canonical import decode
from standfast.prompt.drift import first_difference, text_of
from standfast.prompt.items import item
from standfast.prompt.model import Tier

Q, MORE = user("question"), [answer("done"), user("next")]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "data": data}}


def message(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
A, B = image("aaaa"), image("bbbb")
CHANGES: list[tuple[str, str, Any, Any]] = [
    # cause, path behind messages[2], the third message as sent, as it came
    ("H8", ".content[1]", message("user", text("a"), A), message("user", text("a"), B)),
    ("H1", ".content[1]", message("user", text("a"), text("now")), message("user", text("a"))),
    ("H8", ".content[0]", message("user", A, text("a")), message("user", text("a"))),
    ("H10", ".content[1]", message("assistant", text("a"), text("b")), message("assistant", text("a"))),
    ("C1", ".content[1]", message("user", text("a")), message("user", text("a"), text("b"))),
    ("C1", "", {**message("user", text("a")), "name": "x"}, {**message("user", text("a")), "name": "y"}),
    ("H1", ".content[0]", message("user", text("a\n<now>9</now>")), message("user", text("a"))),
    ("C1", ".content[0]", message("user", text("abc")), message("user", text("a"))),
    (
        "C1",
        ".content[0]",
        message("user", result("i", "A"), result("k", "B")),
        message("user", result("i", "B"), result("k", "A")),
    ),
    ("C1", "", message("user", text("a")), message("assistant", text("a"))),
    ("C1", ".content[0]", message("user", text("a")), message("user", A)),
    ("H7", ".content[0]", message("user", result("i", "long " * 9)), message("user", result("i", "cut"))),
    ("C1", ".content[0]", message("user", result("i", "cut")), message("user", result("i", "long " * 9))),
]


@pytest.mark.parametrize(("cause", "suffix", "before", "after"), CHANGES, ids=str)
def test_a_change_of_an_old_message(cause: str, suffix: str, before: Any, after: Any) -> None:
    start = [Q, message("assistant", use("i"))]
    session = Session("anthropic")
    session.send(anthropic([*start, before], PROSE))
    body = anthropic([*start, after, *MORE], PROSE)
    plan = session.send(body)
    assert session.failures == []
    assert (causes(plan), plan.changed) == ([cause], False)
    assert plan.diagnosis.path == f"messages[2]{suffix}"


def test_parts_of_a_message_go_out_in_the_order_first_sent() -> None:
    session, start = Session("anthropic"), [Q, answer("see")]
    session.send(anthropic([*start, message("user", A, text("a"))], PROSE))
    plan = session.send(anthropic([*start, message("user", text("a"), A), *MORE], PROSE))
    assert (causes(plan), plan.diagnosis.path, plan.diagnosis.repaired) == (["H10"], "messages[2].content[0]", True)
    assert sent(plan)["messages"][2]["content"] == [A, text("a")]


@pytest.mark.parametrize("signed", [True, False])
def test_signed_thinking_goes_out_again(signed: bool) -> None:
    thought = THOUGHT if signed else {k: v for k, v in THOUGHT.items() if k != "signature"}
    start = [Q, message("assistant", use("i"))]
    session = Session("anthropic")
    session.send(anthropic([*start, message("assistant", thought, text("a"))], PROSE))
    for more in ([], [message("assistant", text("late")), message("user", text("later"))]):
        plan = session.send(anthropic([*start, message("assistant", text("a")), *MORE, *more], PROSE))
        assert session.failures == []
        assert causes(plan) == (["H6"] if signed or not more else [])
        assert plan.changed is signed
        assert plan.diagnosis.repaired is signed
        if signed:
            assert sent(plan)["messages"][2]["content"] == [thought, text("a")]


@pytest.mark.parametrize("policy", [Policy.LOSSLESS, Policy.ISOLATE])
def test_a_decoration_goes_out_again_under_isolate_alone(policy: Policy) -> None:
    session = Session("anthropic", policy)
    decorated = message("user", text("a"), text("<reminder>"))
    session.send(anthropic([Q, answer(), decorated], PROSE))
    plan = session.send(anthropic([Q, answer(), user("a"), *MORE], PROSE))
    assert causes(plan) == ["H1"]
    assert sent(plan)["messages"][2] == (decorated if policy is Policy.ISOLATE else user("a"))


FORMS: list[tuple[str, str, Any, Any]] = [
    # cause, path, as sent, as it came: one meaning in two forms
    ("H3", "messages[1].tool_calls[0].id", [calling(call("x")), returned("x", "r")], None),
    ("H4", "messages[2].content", [calling(call("i")), returned("i", '{"a": 1, "b": 2}')], '{"b":2,"a":1}'),
    ("H2", "messages[2].content", [calling(call("i")), returned("i", "r\n")], "r"),
    ("H4", "messages[2].content", [calling(call("i")), returned("i", '{"a": 1}')], '{"a":1}'),
]


@pytest.mark.parametrize(("cause", "path", "before", "after"), FORMS, ids=str)
def test_a_form_of_a_result_or_its_call(cause: str, path: str, before: Any, after: Any) -> None:
    session, first = Session("openai_chat"), {"role": "user", "content": "q"}
    session.send(chat([first, *before]))
    came = [calling(call("new")), returned("new", "r")] if after is None else [before[0], returned("i", after)]
    plan = session.send(chat([first, *came, {"role": "assistant", "content": "k"}, first]))
    assert (plan.diagnosis.cause, plan.diagnosis.path, plan.diagnosis.repaired) == (cause, path, True)
    assert sent(plan)["messages"][:3] == [first, *before]


def test_results_in_one_message_in_another_order() -> None:
    calls, session = message("assistant", use("x", n=1), use("y", n=2)), Session("anthropic")
    results = [result("x", "A"), result("y", "B")]
    session.send(anthropic([Q, calls, message("user", *results)]))
    plan = session.send(anthropic([Q, calls, message("user", *results[::-1]), *MORE]))
    assert (plan.diagnosis.cause, plan.diagnosis.path) == ("H5", "messages[2].content[0]")
    assert sent(plan)["messages"][2]["content"] == results


def test_frames_that_differ_in_form_alone_are_named_at_the_content() -> None:
    session, first = Session("openai_chat"), {"role": "user", "content": "q"}
    session.send(chat([first, calling(call("i")), returned("i", "r")]))
    plan = session.send(chat([first, {**calling(call("i")), "content": ""}, returned("i", "r"), first]))
    assert (plan.diagnosis.cause, plan.diagnosis.path, plan.diagnosis.repaired) == ("H2", "messages[1]", True)


def test_x1_a_request_that_tells_the_others_history_again() -> None:
    tools = [{"name": name, "input_schema": {}} for name in "ab"]
    talk = [user("please look at the door"), answer("it is locked now"), user("then open it for me")]
    told = "\n".join(m["content"][0]["text"] for m in talk)
    bodies = [anthropic(talk, PROSE, tools=tools)]
    bodies += [
        anthropic([user(words)], PROSE, tools=tools[:1]) for words in (f"Tell in short:\n{told}", "Tell nothing.")
    ]
    raw = [json.dumps(body).encode() for body in bodies]
    for other, cause in ((raw[1], "X1"), (raw[2], "T5")):
        (step,), _ = explain(Case((raw[0], other)))
        assert (step.diagnosis.cause, step.diagnosis.path, len(step.diagnosis.drifts)) == (cause, "tools[1]", 1)


def test_turns_that_changed_places_are_another_content() -> None:
    session, talk = Session("anthropic"), [user("a"), answer("b"), user("c"), answer("d"), user("e")]
    session.send(anthropic(talk, PROSE))
    plan = session.send(anthropic([talk[0], talk[1], talk[3], talk[2], *talk[4:], *MORE], PROSE))
    assert (causes(plan), plan.diagnosis.path, plan.changed) == (["C1"], "messages[2]", False)


def test_another_story_after_another_answer_is_a_branch() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q, answer("a"), user("b"), answer("c"), user("d")], PROSE))
    plan = session.send(anthropic([Q, answer("z"), user("y"), answer("x"), user("w")], PROSE))
    assert (causes(plan), plan.changed) == ([], False)


# Odd histories


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_messages_without_any_part_are_told_apart_by_what_is_around(dialect: str) -> None:
    session = Session(dialect)
    talk = [message("user"), message("assistant"), message("user", text("a"))]
    session.send(chat(talk))
    plan = session.send(chat([*talk, message("assistant"), message("user")]))
    assert (causes(plan), plan.changed, session.failures) == ([], False, [])
    assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference > 0
    assert session.send(chat([message("assistant"), *talk[1:]])).diagnosis.tokens.after < 20


def test_a_stored_conversation_is_a_history_of_its_own() -> None:
    items = [{"role": role, "content": f"{role} says"} for role in ("user", "assistant", "user")]
    session = Session("openai_responses")
    body = {"model": "m", "previous_response_id": "r1", "input": items}
    session.send(body)
    plan = session.send({**body, "input": [items[0], {"role": "assistant", "content": "other"}, *items, *items]})
    assert (causes(plan), plan.changed) == ([], False)


@pytest.mark.parametrize("name", ["", None, 7])
def test_calls_without_an_id(name: Any) -> None:
    session, first = Session("openai_chat"), {"role": "user", "content": "q"}
    talk = [first, calling({**call("x", '{"a":1}'), "id": name}), {"role": "tool", "content": "r"}]
    session.send(chat(talk))
    talk[1] = calling({**call("x", '{"a": 1}'), "id": name})
    plan = session.send(chat([*talk, {"role": "assistant", "content": "k"}, first]))
    assert session.failures == []
    assert causes(plan) == (["H4"] if name == "" else ["C1"])


def test_a_token_in_a_system_prompt_of_lists_is_looked_for_in_vain() -> None:
    session = Session("anthropic")
    for body in (anthropic([Q], [["x cch=1"]]), anthropic([Q, *MORE], [["x cch=1"]])):
        assert not session.send(body).changed
    assert session.failures == []


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ".a.b[1]"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, ""),
        ([1], [1, 2], ""),
        ({"a": 1}, {"a": 1}, ""),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, ".a[0]"),
        (1, "1", ""),
    ],
)
def test_first_difference(before: Any, after: Any, path: str) -> None:
    assert first_difference(*(decode(json.dumps(v)) for v in (before, after)))[0] == path


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a", "a"),
        ({"text": "a"}, "a"),
        ({"content": "a"}, "a"),
        ({"content": [text("a"), 7, {"content": ["b"]}, {"text": 7}]}, "a\nb"),
        (7, ""),
    ],
)
def test_text_of(value: Any, words: str) -> None:
    assert text_of(item("openai_chat", Tier.MESSAGES, json.dumps(value).encode())) == words


ASKED, SPOKEN = (
    {"role": "user", "content": "q"},
    [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}],
)
LONG = "a long result " * 9


def speaking(words: str, *calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": words, "tool_calls": list(calls)}


BESIDE: list[tuple[str, list[Any], list[Any], list[tuple[str, str, bool]], list[Any]]] = [
    # dialect, as sent, as it came, what is named, as it goes out
    (
        "openai_chat",
        [ASKED, speaking("one", call("x", '{"a": 1, "b": 2}')), returned("x", "r")],
        [ASKED, speaking("two", call("y", '{"b":2,"a":1}')), returned("y", "r")],
        [
            ("C1", "messages[1].content", False),
            ("H3", "messages[1].tool_calls[0].id", True),
            ("H4", "messages[1].tool_calls[0].function.arguments", True),
            ("H3", "messages[2].content", True),
        ],
        [ASKED, speaking("two", call("x", '{"a": 1, "b": 2}')), returned("x", "r")],
    ),
    (
        "openai_chat",
        [ASKED, calling(call("x"), call("y")), returned("x", '{"a": 1}'), returned("y", LONG)],
        [ASKED, calling(call("x"), call("y")), returned("x", '{"a":1}'), returned("y", "[cut]")],
        [("H4", "messages[2].content", True), ("H7", "messages[3].content", False)],
        [ASKED, calling(call("x"), call("y")), returned("x", '{"a": 1}'), returned("y", "[cut]")],
    ),
    (
        "anthropic",
        [Q, message("assistant", use("x"), use("y")), message("user", result("x", "r\n"), result("y", LONG))],
        [Q, message("assistant", use("v"), use("w")), message("user", result("v", "r"), result("w", "[cut]"))],
        [
            ("H3", "messages[1].content[0].id", True),
            ("H7", "messages[2].content[1]", False),
            ("H3", "messages[2].content[0].tool_use_id", True),
            ("H2", "messages[2].content[0]", True),
        ],
        [Q, message("assistant", use("x"), use("y")), message("user", result("x", "r\n"), result("y", "[cut]"))],
    ),
    (
        "anthropic",
        [Q, message("assistant", {"type": "thinking", "thinking": "hm"}, use("x", a=1, b=2))],
        [Q, message("assistant", use("x", b=2, a=1))],
        [("H6", "messages[1].content[0]", False), ("H4", "messages[1].content[0].input", True)],
        [Q, message("assistant", use("x", a=1, b=2))],
    ),
    (  # whose ids would be one
        "openai_chat",
        [ASKED, speaking("", call("x", '{"a": 1}'), call("y", '{"b": 1}'))],
        [ASKED, speaking("", call("y", '{"a": 1}'), call("x", '{"b": 2}'))],
        [("C1", "messages[1].tool_calls[1]", False)],
        [ASKED, speaking("", call("y", '{"a": 1}'), call("x", '{"b": 2}'))],
    ),
    (  # whose shape is another, so that one part cannot stand in the other's place
        "anthropic",
        [Q, message("assistant", text("a\n"), text("b"))],
        [Q, {"role": "assistant", "content": "a"}],
        [("H10", "messages[1].content", False)],
        [Q, {"role": "assistant", "content": "a"}],
    ),
]


@pytest.mark.parametrize(("dialect", "before", "after", "named", "out"), BESIDE)
def test_a_form_beside_a_change(dialect: str, before: Any, after: Any, named: Any, out: Any) -> None:
    session, make = Session(dialect), chat if dialect == "openai_chat" else anthropic
    session.send(make(before, tools=[{"name": "f"}]))
    plan = session.send(make([*after, *SPOKEN], tools=[{"name": "f"}]))
    assert sent(plan)["messages"] == [*out, *SPOKEN]
    assert [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts] == named
    again = session.send(make([*after, *SPOKEN, *SPOKEN], tools=[{"name": "f"}]))
    assert sent(again)["messages"] == [*out, *SPOKEN, *SPOKEN]
    assert session.failures == []


def test_the_marker_of_now_stays_on_a_part_that_goes_out_in_its_first_form() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q, message("user", text("a\n"), text("old"))]))
    mark = {"cache_control": {"type": "ephemeral"}}
    plan = session.send(anthropic([Q, message("user", {**text("a"), **mark}, text("new")), *MORE]))
    assert sent(plan)["messages"][1]["content"] == [{**text("a\n"), **mark}, text("new")]


def test_parallel_results_in_another_order_are_no_change_beside_one() -> None:
    start = [Q, message("assistant", use("x"), use("y"))]
    session = Session("anthropic", Policy.ISOLATE)
    results = [result("x", "one"), result("y", "two"), text("<reminder>now</reminder>")]
    session.send(anthropic([*start, message("user", *results)]))
    plan = session.send(anthropic([*start, message("user", results[1], results[0]), *MORE]))
    assert causes(plan) == ["H1"]
    assert sent(plan)["messages"][2]["content"] == results
