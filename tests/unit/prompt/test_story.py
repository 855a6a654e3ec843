"""Several changes of one past: all told with cause and place, and what can be mended is; forks are told of nothing."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from property.reading import shown
from unit.prompt.talking import PROSE, Session, causes

from standfast.events import FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Option, Policy
from standfast.turn import Plan, Turns

LONG = "line of a log that nobody reads\n" * 20
DIALECTS = ("anthropic", "openai_chat", "openai_responses")
KINDS = {"anthropic": "text", "openai_chat": "text", "openai_responses": "input_text"}
FIELD = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}


def said(dialect: str, role: str, *texts: str) -> Any:
    kind = "output_text" if role == "assistant" and dialect == "openai_responses" else KINDS[dialect]
    return {"role": role, "content": [{"type": kind, "text": text} for text in texts]}


def round_trip(dialect: str, n: int, result: str = LONG) -> list[Any]:
    """A signed thought, a call and its result."""
    name, arguments = f"call_{n}", {"path": f"{n}.py", "line": n}
    thought = {"type": "thinking", "thinking": f"hm {n}", "signature": f"s{n}"}
    if dialect == "anthropic":
        use = {"type": "tool_use", "id": name, "name": "f", "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": name, "content": f"{n}: {result}"}
        return [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [answer]}]
    if dialect == "openai_chat":
        call = {"id": name, "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
        made = {"role": "assistant", "content": None, "reasoning_content": f"hm {n}", "tool_calls": [call]}
        return [made, {"role": "tool", "tool_call_id": name, "content": f"{n}: {result}"}]
    call = {"type": "function_call", "call_id": name, "name": "f", "arguments": json.dumps(arguments)}
    thinking = {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"e{n}"}
    return [thinking, call, {"type": "function_call_output", "call_id": name, "output": f"{n}: {result}"}]


def talk(dialect: str) -> list[Any]:
    """Three turns, each with a call."""
    made: list[Any] = []
    for n in range(3):
        made += [said(dialect, "user", f"question {n}", f"<file>notes {n}: buy milk, bread and tea</file>")]
        made += [*round_trip(dialect, n), said(dialect, "assistant", f"answer {n}")]
    return [*made, said(dialect, "user", "and now?")]


def grown(dialect: str, items: list[Any], n: int = 1) -> list[Any]:
    more = [[said(dialect, "assistant", f"late {i}"), said(dialect, "user", f"later {i}")] for i in range(n)]
    return [*items, *(item for pair in more for item in pair)]


def body(dialect: str, items: list[Any]) -> Any:
    head = {"anthropic": {"system": PROSE}, "openai_chat": {}, "openai_responses": {"instructions": PROSE}}[dialect]
    return {"model": "m", **head, FIELD[dialect]: items}


def told(plan: Plan) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path.removeprefix("messages").removeprefix("input"), d.repaired) for d in plan.diagnosis.drifts]


# The changes, each to one turn of the three


def result_of(items: list[Any], n: int) -> tuple[int, Any, str]:
    """Where the n-th result stands: its element, the object that holds it, the field."""
    rows = []
    for i, item in enumerate(items):
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            if block["type"] == "tool_result":
                rows.append((i, block, "content"))
        if item.get("role") == "tool":
            rows.append((i, item, "content"))
        if item.get("type") == "function_call_output":
            rows.append((i, item, "output"))
    return rows[n]


def pruned(items: list[Any], n: int) -> tuple[str, int]:
    i, holder, field = result_of(items, n)
    holder[field] = "[removed]"
    return "H7", i


def forgotten(items: list[Any], n: int) -> tuple[str, int]:
    i = result_of(items, n)[0]
    if items[i - 2].get("type") == "reasoning":
        del items[i - 2]
        return "H6", i - 2
    if "reasoning_content" in items[i - 1]:
        del items[i - 1]["reasoning_content"]
    else:
        del items[i - 1]["content"][0]
    return "H6", i - 1


def respelt(items: list[Any], n: int) -> tuple[str, int]:
    i = result_of(items, n)[0] - 1
    call = items[i]
    if "arguments" in call:
        call["arguments"] = json.dumps(json.loads(call["arguments"]), indent=1)
    elif "tool_calls" in call:
        function = call["tool_calls"][0]["function"]
        function["arguments"] = json.dumps(json.loads(function["arguments"]), indent=1)
    else:
        block = call["content"][-1]
        block["input"] = dict(reversed(block["input"].items()))
    return "H4", i


def question(items: list[Any], n: int) -> int:
    return next(i for i, item in enumerate(items) if f"question {n}" in json.dumps(item))


def detached(items: list[Any], n: int) -> tuple[str, int]:
    i = question(items, n)
    del items[i]["content"][1]
    return "H10", i


def split(items: list[Any], n: int) -> tuple[str, int]:
    i = question(items, n)
    one, two = items[i]["content"]
    items[i : i + 1] = [{"role": "user", "content": [one]}, {"role": "user", "content": [two]}]
    return "H11", i


def reworded(items: list[Any], n: int) -> tuple[str, int]:
    i = question(items, n)
    items[i]["content"][0]["text"] = "something else"
    return "C1", i


Edit = Callable[[list[Any], int], tuple[str, int]]
LOSSLESS = (forgotten, respelt, split)
COMBINATIONS: list[list[tuple[Edit, int]]] = [
    [(pruned, 0), (forgotten, 1), (respelt, 2)],
    [(forgotten, 0), (respelt, 1), (pruned, 2)],
    [(reworded, 0), (pruned, 1), (respelt, 2)],
    [(split, 0), (forgotten, 1)],
    [(detached, 0), (detached, 1), (forgotten, 2)],
    [(forgotten, 0), (forgotten, 1), (forgotten, 2)],
    [(respelt, 0), (split, 1), (reworded, 2)],
    [(pruned, 0), (pruned, 1), (pruned, 2)],
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("edits", COMBINATIONS, ids=lambda edits: "-".join(f.__name__ for f, _ in edits))
def test_all_changes_are_told_and_the_lossless_ones_mended(dialect: str, edits: list[tuple[Edit, int]]) -> None:
    before = talk(dialect)
    after, expected = copy.deepcopy(before), []
    for edit, n in edits:
        cause, i = edit(after, n)
        expected.append((cause, i, edit in LOSSLESS))
    session = Session(dialect)
    first = session.send(body(dialect, before))
    plan = session.send(body(dialect, grown(dialect, after)))
    assert session.failures == []
    found = [(cause, int(path[1 : path.index("]")]), repaired) for cause, path, repaired in told(plan)]
    assert found == expected
    was, now = shown(first.body, dialect), shown(plan.body, dialect)
    if all(mended for *_, mended in expected):
        assert now[: len(was)] == was
    for again in (2, 3):  # what goes out stays as it went, and the past is told of no more
        plan = session.send(body(dialect, grown(dialect, after, again)))
        assert shown(plan.body, dialect)[: len(now)] == now
        assert all(repaired for *_, repaired in told(plan))
        now = shown(plan.body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_lies_behind_a_change_goes_out_as_it_went(dialect: str) -> None:
    before, after = talk(dialect), talk(dialect)
    pruned(after, 0)
    text = json.dumps(grown(dialect, after)).replace("answer 2", "answer 2\\n")
    text = re.sub(r'"call_(\d)"', r'"id_\1"', text)
    session = Session(dialect)
    first = session.send(body(dialect, before))
    plan = session.send(body(dialect, json.loads(text)))
    was, now = shown(first.body, dialect), shown(plan.body, dialect)
    assert [a == b for a, b in zip(was, now, strict=False)].count(False) == 1
    assert {"H7", "H3", "H2"} == set(causes(plan))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_attachment_that_moved_goes_back_and_stays_away_from_where_it_moved_to(dialect: str) -> None:
    before, after = talk(dialect), talk(dialect)
    moved = after[0]["content"].pop(1)
    after = grown(dialect, after)
    after[-1]["content"].append(moved)
    session = Session(dialect)
    first = session.send(body(dialect, before))
    for n in (1, 2):
        plan = session.send(body(dialect, grown(dialect, after, n - 1) if n > 1 else after))
        was, now = shown(first.body, dialect), shown(plan.body, dialect)
        assert now[: len(was)] == was
        assert plan.body.decode().count("notes 0") == 1
        assert session.failures == []


# Stories that are no changed past


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["retry", "newest", "rewound", "regenerated", "fork", "two new messages"])
def test_a_fork_is_told_of_nothing(dialect: str, kind: str) -> None:
    items = talk(dialect)
    question = said(dialect, "user", "another question")
    branch = [said(dialect, "assistant", "another answer"), question, said(dialect, "assistant", "and one more")]
    after = {
        "retry": items,
        "newest": [*items[:-1], question],
        "rewound": [*items[:4], question] if dialect != "openai_responses" else [*items[:5], question],
        "regenerated": [*items[:1], *branch, question],
        "fork": [*items[:-2], *branch, question],
        "two new messages": [*grown(dialect, items), question],
    }[kind]
    session = Session(dialect)
    session.send(body(dialect, items))
    plan = session.send(body(dialect, after))
    assert (told(plan), plan.changed, session.failures) == ([], False, [])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_session_that_calls_the_same_tools_is_another_session(dialect: str) -> None:
    head = body(dialect, [])
    session = Session(dialect)
    session.send({**head, FIELD[dialect]: talk(dialect)[:5]})
    other = [said(dialect, "user", "of another user"), *round_trip(dialect, 0, "other"), said(dialect, "user", "go on")]
    plan = session.send({**head, FIELD[dialect]: other})
    assert (told(plan), plan.changed) == ([], False)


# The window


def _window(dialect: str) -> tuple[Session, list[Any], Plan]:
    session, items = Session(dialect, Policy.LOSSLESS, Option.WINDOW), talk(dialect)
    return session, items, session.send(body(dialect, items))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("how", ["pruned", "cut off", "summarised"])
def test_what_is_pruned_is_held_back(dialect: str, how: str) -> None:
    session, items, first = _window(dialect)
    after = copy.deepcopy(items)
    second = question(items, 1)
    if how == "pruned":
        pruned(after, 0)
        pruned(after, 1)
    else:
        summary = [said(dialect, "user", "<summary>so far</summary>"), said(dialect, "assistant", "I see.")]
        after[:second] = summary if how == "summarised" else []
    was = shown(first.body, dialect)
    for n in (1, 2, 3):
        plan = session.send(body(dialect, grown(dialect, after, n)))
        now = shown(plan.body, dialect)
        assert now[: len(was)] == was
        assert session.failures == []
        was = now


@pytest.mark.parametrize("dialect", DIALECTS)
def test_held_back_turns_are_let_go_together_when_they_are_too_many(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.prompt.window.HELD_LEAST", len(LONG) + 100)
    session, items, first = _window(dialect)
    after = copy.deepcopy(items)
    for holder in (i for i in items if "answer 2" in json.dumps(i)):
        after[items.index(holder)] = said(dialect, "assistant", "answer 2")
    pruned(after, 0)
    plan = session.send(body(dialect, grown(dialect, after)))
    assert shown(plan.body, dialect)[: len(shown(first.body, dialect))] == shown(first.body, dialect)
    pruned(after, 1)
    pruned(after, 2)
    plan = session.send(body(dialect, grown(dialect, after, 2)))
    assert json.loads(plan.body) == body(dialect, grown(dialect, after, 2))
    assert [(cause, mended) for cause, _, mended in told(plan)] == [("H7", False)] * 3
    now = shown(plan.body, dialect)
    plan = session.send(body(dialect, grown(dialect, after, 3)))
    assert (shown(plan.body, dialect)[: len(now)], told(plan)) == (now, [])


def test_turns_whose_call_ids_are_used_again_are_not_put_back() -> None:
    session = Session("openai_chat", Policy.LOSSLESS, Option.WINDOW)
    items = talk("openai_chat")
    session.send(body("openai_chat", items))
    cut = items[question(items, 1) :]
    text = json.dumps(grown("openai_chat", cut)).replace("call_1", "call_0").replace("call_2", "call_1")
    plan = session.send(body("openai_chat", json.loads(text)))
    ids = [c["id"] for m in json.loads(plan.body)["messages"] for c in m.get("tool_calls") or ()]
    assert len(ids) == len(set(ids))


def test_a_restart_between_requests_changes_nothing() -> None:
    for dialect in DIALECTS:
        events: list[Any] = []
        ledger = MemoryLedger(64 << 20)
        one, other = Session(dialect), Session(dialect, turns=Turns(ledger, clock=lambda: 0.0, observe=events.append))
        items = talk(dialect)
        after = copy.deepcopy(items)
        split(after, 0)
        forgotten(after, 1)
        pruned(after, 2)
        for n, history in enumerate([items, *(grown(dialect, after, n) for n in (1, 2, 3))]):
            kept, restarted = (s.send(body(dialect, history)) for s in (one, other))
            assert (kept.body, told(kept)) == (restarted.body, told(restarted)), n
            other.turns = Turns(ledger, clock=lambda: 0.0, observe=events.append)
        assert not [e for e in events if isinstance(e, FailedOpen)]
