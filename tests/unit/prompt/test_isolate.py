"""The policy ``isolate``: volatile system text frozen, its news told at the tail, once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, answer, anthropic, causes, chat, returned, sent, user

from standfast.policy import Option, Policy
from standfast.prompt import isolate
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.drift import meaning
from standfast.prompt.items import Items
from standfast.prompt.model import Tier


def _at(clock: str) -> str:
    return f"{PROSE}\nThe time is {clock}.\nBe brief."


def _texts(body: Any) -> str:
    return json.dumps(body["messages"])


def _history(n: int) -> list[Any]:
    return [user(f"q{i // 2}") if i % 2 == 0 else answer(f"a{i // 2}") for i in range(2 * n - 1)]


def test_over_several_turns_the_tail_stays_and_each_value_is_told_once() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    before: list[Any] = []
    for n, clock in enumerate(["12:00", "12:01", "12:01", "12:02", "12:00", "12:00"], 1):
        plan = session.send(anthropic(_history(n), _at(clock)))
        body = sent(plan)
        assert body["system"] == _at("12:00")
        assert body["messages"][: len(before)] == before
        before = body["messages"]
    told = _texts({"messages": before})
    assert [told.count(text) for text in ("12:00", "12:01", "12:02", "applies again")] == [0, 1, 1, 1]
    assert session.failures == []


def test_a_retry_with_a_new_value_does_not_count_as_told() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(_history(1), _at("12:00")))
    session.send(anthropic(_history(1), _at("12:01")))
    assert "12:01" in _texts(sent(session.send(anthropic(_history(2), _at("12:01")))))


def test_a_line_that_went_is_told_or_not_hidden() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(_history(1), f"{PROSE}\nThe time is 12:00."))
    body = sent(session.send(anthropic(_history(2), PROSE)))
    assert "12:00" not in body["system"] or "system-update" in _texts(body)


def test_a_line_that_went_is_not_told_to_stand_again() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    for n, system in enumerate([_at("12:00"), _at("12:01"), f"{PROSE}\nBe brief."], 1):
        body = sent(session.send(anthropic(_history(n), system)))
    assert body["system"] == f"{PROSE}\nBe brief." or "applies again exactly" not in _texts(body)


def test_a_prefilled_answer_gets_no_words_put_in_its_mouth() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(_history(1), _at("12:00")))
    prefill = {"role": "assistant", "content": "{"}
    body = sent(session.send(anthropic([*_history(2), prefill], _at("12:01"))))
    assert body["messages"][-1] == prefill


def test_text_that_is_not_volatile_goes_through() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(_history(1), _at("12:00")))
    plan = session.send(anthropic(_history(2), _at("12:00") + " Be polite."))
    assert causes(plan) == ["C1"]
    assert not plan.changed


@pytest.mark.parametrize("last", ["user text", "user list", "tool"])
def test_chat_tells_at_the_end_of_a_user_message_or_behind_a_result(last: str) -> None:
    def body(clock: str, more: bool) -> Any:
        messages: list[Any] = [{"role": "system", "content": _at(clock)}, {"role": "user", "content": "q"}]
        if more and last == "tool":
            call = {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
            messages += [{"role": "tool", "tool_call_id": "i", "content": "r"}]
        elif more:
            content: Any = "n" if last == "user text" else [{"type": "text", "text": "n"}]
            messages += [{"role": "assistant", "content": "k"}, {"role": "user", "content": content}]
        return chat(messages)

    session = Session("openai_chat", Policy.ISOLATE)
    session.send(body("12:00", False))
    told = sent(session.send(body("12:01", True)))
    assert told["messages"][0]["content"] == _at("12:00")
    assert "12:01" in json.dumps(told["messages"][-1])
    grown = body("12:01", True)
    grown["messages"] += [{"role": "assistant", "content": "k"}, {"role": "user", "content": "o"}]
    plan = session.send(grown)
    assert sent(plan)["messages"][: len(told["messages"])] == told["messages"]
    assert json.dumps(sent(plan)).count("12:01") == 1


def test_responses_tell_by_a_developer_message() -> None:
    session = Session("openai_responses", Policy.ISOLATE)
    items = [{"role": "user", "content": "q"}]
    session.send({"model": "m", "instructions": _at("12:00"), "input": items})
    items = [*items, {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    body = sent(session.send({"model": "m", "instructions": _at("12:01"), "input": items}))
    assert body["instructions"] == _at("12:00")
    assert body["input"][-1]["role"] == "developer"
    assert "12:01" in body["input"][-1]["content"]


def test_a_decoration_of_an_old_turn_is_sent_again() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    decorated = {"role": "user", "content": [{"type": "text", "text": t} for t in ("plan", "<reminder>3</reminder>")]}
    plain = {"role": "user", "content": decorated["content"][:1]}
    first = sent(session.send(anthropic([decorated], PROSE)))
    for more in ([answer(), user("b")], [answer(), user("b"), answer(), user("c")]):
        plan = session.send(anthropic([plain, *more], PROSE))
        assert sent(plan)["messages"][0] == first["messages"][0]
        assert plan.diagnosis.repaired or causes(plan) == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_a_message_in_the_midst_that_changes_again_is_not_held_against_our_own_update(dialect: str) -> None:
    def body(clock: str, turns: int) -> Any:
        talk: list[Any] = [{"role": "user", "content": "q0"}, {"role": "developer", "content": f"It is {clock}."}]
        for n in range(1, turns):
            talk += [{"role": "assistant", "content": f"a{n}"}, {"role": "user", "content": f"q{n}"}]
        return chat(talk) if dialect == "openai_chat" else {"model": "m", "input": talk}

    session, before = Session(dialect, Policy.ISOLATE), list[Any]()
    for n, clock in enumerate(["09:14", "09:15", "09:16", "09:16", "09:17"], 1):
        plan = session.send(body(clock, n + 1))
        out = sent(plan)["messages" if dialect == "openai_chat" else "input"]
        assert causes(plan) == ["S1"] * (n not in (1, 4))
        assert out[: len(before)] == before
        assert (f"It is {clock}." in json.dumps(out[-2:])) == (n not in (1, 4))
        before = out
    assert session.failures == []


def test_what_the_model_goes_on_with_stands_behind_the_news() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    session.send(anthropic(_history(1), _at("12:00")))
    prefill = {"role": "assistant", "content": "{"}
    body = sent(session.send(anthropic([*_history(1), prefill], _at("12:01"))))
    assert body["system"] == _at("12:00")
    assert "12:01" in json.dumps(body["messages"][0])
    assert body["messages"][1] == prefill


def test_what_was_told_in_a_turn_that_is_held_back_is_not_told_again() -> None:
    session = Session("openai_chat", Policy.ISOLATE, Option.WINDOW)

    def body(clock: str, *turns: int) -> Any:
        talk: list[Any] = [{"role": "system", "content": _at(clock)}]
        for n in turns:
            talk += [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"}]
        return chat(talk[:-1])

    session.send(body("12:00", 0, 1))
    told = sent(session.send(body("12:01", 0, 1, 2)))
    session.send(body("12:01", 0, 1, 2, 3))
    plan = session.send(body("12:01", 0, 3, 4))
    assert causes(plan) == ["S1", "H7"]
    assert sent(plan)["messages"][: len(told["messages"])] == told["messages"]
    assert _texts(sent(plan)).count("<system-update>") == 1


TAILS: list[tuple[str, Any]] = [
    ("anthropic", {"role": "user", "content": "q"}),
    ("anthropic", {"role": "user", "content": [{"type": "text", "text": "q"}]}),
    ("anthropic", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "r"}]}),
    ("openai_chat", {"role": "user", "content": "q\n\n"}),
    ("openai_chat", {"role": "user", "content": [{"type": "text", "text": "q"}]}),
    ("openai_chat", {"role": "tool", "tool_call_id": "i", "content": "r"}),
    ("openai_responses", "q"),
    ("openai_responses", {"role": "user", "content": "q"}),
    ("openai_responses", {"type": "function_call_output", "call_id": "i", "output": "r"}),
]


@pytest.mark.parametrize(("dialect", "value"), TAILS, ids=str)
@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("marked", [False, True])
def test_what_was_told_can_be_taken_off_again(dialect: str, value: Any, updates: int, marked: bool) -> None:
    items, known = Items(), DIALECTS[dialect]
    elements = [value]
    for n in range(updates):
        text = f"<system-update>\nIt is {n}:00.\n\nBe kind.\n</system-update>"
        elements[-1:] = known.with_tail(elements[-1], text)
    if marked and isinstance(elements[-1], dict) and isinstance(elements[-1].get("content"), str):
        elements[-1]["content"] = [{"type": known.text_part, "text": elements[-1]["content"], "cache_control": {}}]
    made = [items.get(known, Tier.MESSAGES, json.dumps(element).encode()) for element in elements]
    less = [item for one in made if (item := isolate.bare(known, one, items))]
    assert [meaning(item) for item in less] == [meaning(items.get(known, Tier.MESSAGES, json.dumps(value).encode()))]


def test_a_result_that_ends_like_an_update_is_left() -> None:
    items, value = Items(), returned("i", "r\n\n<system-update>\nx\n</system-update>")
    item = items.get(DIALECTS["openai_chat"], Tier.MESSAGES, json.dumps(value).encode())
    assert isolate.bare(DIALECTS["openai_chat"], item, items) is item


@pytest.mark.parametrize(
    "text", ["q", "<system-update> is a tag", "q <system-update>\nx\n</system-update>", "\n</system-update>"]
)
def test_a_text_that_only_speaks_of_updates_is_left(text: str) -> None:
    items = Items()
    item = items.get(DIALECTS["openai_chat"], Tier.MESSAGES, json.dumps({"role": "user", "content": text}).encode())
    assert isolate.bare(DIALECTS["openai_chat"], item, items) is item
