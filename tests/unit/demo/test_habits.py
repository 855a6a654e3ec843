"""Habits change bytes and never a meaning; what "meaning" is, is written here once more, independently."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from standfast.demo import script
from standfast.demo.habits import SCHEDULE, ClientRequest, Habit, Spell, client

STORY = script.load()
IDEAL = client(STORY, schedule=())


def meaning(raw: bytes, *, with_clock: bool = True) -> Any:
    """Tools as a set, JSON by value, calls by their place, results by the call that they answer."""
    body = json.loads(raw)
    numbers: dict[str, int] = {}
    messages: list[Any] = []
    for message in body.pop("messages"):
        text = message.get("content")
        if isinstance(text, list):
            (part,) = text
            assert set(part) == {"type", "text"}
            text = part["text"]
        if message["role"] == "user":
            text = text.rstrip("\n")
        if message["role"] == "system" and not with_clock:
            text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "", text)
        if message["role"] == "tool":
            entry = (numbers[message["tool_call_id"]], json.dumps(json.loads(text), sort_keys=True))
            if isinstance(messages[-1], set):
                messages[-1].add(entry)
            else:
                messages.append({entry})
            continue
        calls = []
        for call in message.get("tool_calls", ()):
            numbers[call["id"]] = len(numbers)
            function = call["function"]
            calls.append((call["type"], function["name"], json.loads(function["arguments"])))
        messages.append((message["role"], text, calls))
    tools = {json.dumps(tool, sort_keys=True) for tool in body.pop("tools")}
    return body, tools, messages


def only(habit: Habit, seed: int = 1) -> list[ClientRequest]:
    return client(STORY, seed, (Spell(habit, 1, len(STORY.turns)),))


@pytest.mark.parametrize("habit", Habit)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_habit_keeps_the_meaning(habit: Habit, seed: int) -> None:
    with_clock = habit is not Habit.CLOCK
    for ideal, sent in zip(IDEAL, only(habit, seed), strict=True):
        assert meaning(sent.body, with_clock=with_clock) == meaning(ideal.body, with_clock=with_clock)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_habits_together_keep_the_meaning(seed: int) -> None:
    everything = [Spell(habit, 1, len(STORY.turns)) for habit in Habit if habit is not Habit.CLOCK]
    for ideal, sent in zip(IDEAL, client(STORY, seed, everything), strict=True):
        assert meaning(sent.body) == meaning(ideal.body)


def test_the_clock_changes_one_line_of_the_system_prompt() -> None:
    seen = set()
    for ideal, sent in zip(IDEAL, only(Habit.CLOCK), strict=True):
        old, new = json.loads(ideal.body), json.loads(sent.body)
        before, after = (body["messages"].pop(0)["content"].split("\n") for body in (old, new))
        assert old == new
        assert [a != b for a, b in zip(before, after, strict=True)] == [False, False, True]
        assert re.fullmatch(r"Current time: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", after[-1])
        seen.add(after[-1])
    assert sorted(seen) == list(dict.fromkeys(sorted(seen)))
    assert len(seen) == len(IDEAL)


def test_every_habit_of_the_schedule_shows_on_each_of_its_turns() -> None:
    for ideal, sent in zip(IDEAL, client(STORY), strict=True):
        assert (sent.body != ideal.body) == bool(sent.habits), f"turn {sent.turn}"


def test_the_schedule_has_every_habit_and_clean_turns() -> None:
    assert {spell.habit for spell in SCHEDULE} == set(Habit)
    requests = client(STORY)
    assert sum(not request.habits for request in requests) >= 8
    assert all(spell.first <= spell.last <= len(requests) for spell in SCHEDULE)


def test_the_newest_message_is_sent_as_the_script_has_it() -> None:
    for habit in (Habit.NEWLINE, Habit.SHAPE, Habit.RESULTS_ORDER):
        for ideal, sent in zip(IDEAL, only(habit), strict=True):
            assert json.loads(ideal.body)["messages"][-1] == json.loads(sent.body)["messages"][-1]


def test_calls_just_received_are_sent_as_they_came() -> None:
    for ideal, sent in zip(IDEAL, only(Habit.ARGUMENTS), strict=True):
        if sent.kind == "tools":
            before, after = (
                [message for message in json.loads(request.body)["messages"] if "tool_calls" in message][-1]
                for request in (ideal, sent)
            )
            assert before == after


def test_newline_is_lost_in_a_list_of_one_text_too() -> None:
    spells = [Spell(Habit.SHAPE, 25, 25), Spell(Habit.NEWLINE, 25, 25)]
    messages = json.loads(client(STORY, 1, spells)[-1].body)["messages"][:-1]
    contents = [message["content"] for message in messages if message["role"] == "user"]
    assert any(isinstance(content, list) for content in contents)
    assert not any(text.endswith("\n") for content in contents for text in _texts(content))


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert client(STORY, 7) == client(STORY, 7)
    assert client(STORY, 7) != client(STORY, 8)


def test_ids_are_new_in_every_request() -> None:
    ids = [re.findall(rb'"id":"(call_[0-9a-f]+)"', request.body) for request in only(Habit.CALL_IDS)]
    flat = [name for names in ids for name in names]
    assert len(flat) == len(set(flat)) > 100


def test_the_script_itself_is_left_alone() -> None:
    before = json.dumps([turn.body for turn in STORY.turns])
    client(STORY)
    assert json.dumps([turn.body for turn in STORY.turns]) == before


def test_token_budget(offline: Any) -> None:
    """Under three minutes at 250 tokens a second: the bounds of what each client makes an engine compute."""
    computed = {}
    for name, requests in (("ideal", IDEAL), ("raw", client(STORY))):
        offline.slots = [b"", b""]
        counts = [offline.charge(json.loads(request.body)) for request in requests]
        computed[name] = sum(prompt - cached for prompt, cached in counts)
        assert 1_800 <= counts[-1][0] <= 2_400
    assert computed["ideal"] < 2_500
    assert 10_000 < computed["raw"] < 22_000
