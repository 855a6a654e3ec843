"""One small pair of requests for each class that can be seen in bytes: is it named, placed and mended rightly?"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from standfast.explain import Case, Step, explain
from standfast.policy import Leave, Policy

Body = dict[str, Any]
Change = Callable[[Body], None]


def chat() -> Body:
    """An OpenAI chat session after two turns with parallel calls."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"The tool {name}.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}},
            },
        }
        for name in ("search", "open", "close")
    ]
    call = {"type": "function", "function": {"name": "search", "arguments": '{"q": "Tromsø", "n": 1.0}'}}
    return {
        "model": "gpt-5.5",
        "prompt_cache_key": "k1",
        "tools": tools,
        "messages": [
            {"role": "system", "content": "You help.\nCurrent time: 2026-10-02T09:14:07Z\nBe brief and kind, always."},
            {"role": "user", "content": "Look both up.\n"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **call}, {"id": "b", **call}]},
            {"role": "tool", "tool_call_id": "a", "content": '{"hits": [1, 2], "ok": true}'},
            {"role": "tool", "tool_call_id": "b", "content": "none, cch=00000"},
        ],
    }


def grown(body: Body) -> Body:
    """The same session one turn on."""
    more = copy.deepcopy(body)
    more["messages"] += [{"role": "assistant", "content": "Two hits."}, {"role": "user", "content": "Open one."}]
    return more


def compared(before: Body, after: Body, policy: Policy = Policy.LOSSLESS) -> tuple[Step, Body, Body]:
    """The step between two bodies, and both as they go out."""
    steps, sent = explain(Case((json.dumps(before).encode(), json.dumps(after).encode())), leave=Leave(policy))
    return steps[0], json.loads(sent[0]), json.loads(sent[1])


def messages(body: Body) -> list[Body]:
    found: list[Body] = body["messages"]
    return found


def _system(new: str) -> Change:
    def change(body: Body) -> None:
        messages(body)[0]["content"] = new

    return change


def _arguments(body: Body) -> None:
    for call in messages(body)[2]["tool_calls"]:
        call["function"]["arguments"] = '{"n":1,"q":"Troms\\u00f8"}'


def _new_ids(body: Body) -> None:
    for call, new in zip(messages(body)[2]["tool_calls"], ("x", "y"), strict=True):
        call["id"] = new
    messages(body)[3]["tool_call_id"], messages(body)[4]["tool_call_id"] = "x", "y"


def _swap_results(body: Body) -> None:
    messages(body)[3:5] = reversed(messages(body)[3:5])


def _token(body: Body) -> None:
    messages(body)[4]["content"] = "none, cch=4e0d1"


def _function(body: Body) -> Body:
    found: Body = body["tools"][0]["function"]
    return found


def _schema(body: Body) -> None:
    function = body["tools"][1]["function"]
    function["parameters"] = dict(reversed(function["parameters"].items()))


LOSSLESS: list[tuple[str, str, Change]] = [
    ("T1", "tools[0].function.name", lambda b: b["tools"].reverse()),
    ("T2", "tools[1].function.parameters", _schema),
    ("H2", "messages[1].content", lambda b: messages(b)[1].update(content="Look both up.")),
    (
        "H2",
        "messages[1].content[0]",
        lambda b: messages(b)[1].update(content=[{"type": "text", "text": "Look both up."}]),
    ),
    (
        "H2",
        "messages[0].content",
        _system("You help.\nCurrent time: 2026-10-02T09:14:07Z\nBe brief and kind, always.\n"),
    ),
    ("H3", "messages[2].tool_calls[0].id", _new_ids),
    ("H4", "messages[2].tool_calls[0].function.arguments", _arguments),
    ("H4", "messages[3].content", lambda b: messages(b)[3].update(content='{"ok":true,"hits":[1,2]}')),
    ("H5", "messages[3]", _swap_results),
    ("H9", "messages[4].content", _token),
    ("I1", "prompt_cache_key", lambda b: b.update(prompt_cache_key="k2")),
]


@pytest.mark.parametrize(("cause", "path", "change"), LOSSLESS, ids=lambda v: v if isinstance(v, str) else "")
def test_a_lossless_drift_is_named_placed_and_sent_as_it_was_first_sent(cause: str, path: str, change: Change) -> None:
    after = grown(chat())
    change(after)
    step, _, sent = compared(chat(), after)
    assert (step.diagnosis.cause, step.diagnosis.path, step.diagnosis.repaired) == (cause, path, True)
    assert sent == grown(chat())
    figures = step.as_json()
    assert figures["hit_tokens_after"] == figures["attainable_tokens"]
    assert (figures["lost_tokens"] > 0) == (cause != "I1")


SYSTEM = "You help.\nCurrent time: 2026-10-02T09:14:{}Z\nBe brief and {}, always."
CHANGES: list[tuple[str, str, str, Change]] = [
    ("T3", "tools[0].function.description", "source", lambda b: _function(b).update(description="See /tmp/x-9b22")),
    ("T4", "tools[3]", "policy", lambda b: b["tools"].append({**b["tools"][0], "function": {"name": "new"}})),
    ("T4", "tools[1]", "policy", lambda b: b["tools"].pop(1)),
    ("S1", "messages[0].content", "policy", _system(SYSTEM.format("31", "kind"))),
    ("C1", "messages[0].content", "report", _system(SYSTEM.format("07", "rude"))),
    ("H7", "messages[3].content", "report", lambda b: messages(b)[3].update(content="[removed]")),
    ("H7", "messages[1]", "report", lambda b: messages(b).__delitem__(slice(1, 5))),
    ("C1", "messages[1].content", "report", lambda b: messages(b)[1].update(content="Look one up.")),
    ("P1", "tool_choice", "report", lambda b: b.update(tool_choice="none")),
    ("P1", "reasoning_effort", "report", lambda b: b.update(reasoning_effort="high")),
    ("P1", "response_format", "report", lambda b: b.update(response_format={"type": "json_object"})),
    ("P2", "model", "report", lambda b: b.update(model="gpt-5.6")),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "path", "repair", "change"), CHANGES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_real_change_is_named_and_left_alone(cause: str, path: str, repair: str, change: Change) -> None:
    before = chat()
    if path == "tools[0].function.description":
        before["tools"][0]["function"]["description"] = "See /tmp/x-0f6c"
    after = grown(before)
    change(after)
    if path == "messages[1]":  # a window: the request before must hold what the later one begins with
        before = grown(before)
    step, _, sent = compared(before, after)
    assert (step.diagnosis.cause, step.diagnosis.path, step.diagnosis.repaired) == (cause, path, False)
    assert step.diagnosis.repair == repair
    assert sent == after
    assert step.as_json()["lost_tokens"] > 0


HARMLESS: list[Change] = [
    lambda b: None,
    lambda b: b.update(temperature=0.5, stream=True, max_tokens=7, metadata={"a": "b"}, user="someone"),
    lambda b: b.update(tool_choice="auto"),
    lambda b: b.update(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
    lambda b: b.update(dict(reversed([(k, b.pop(k)) for k in list(b)]))),
    lambda b: messages(b).append({"role": "assistant", "content": "Done."}),
]


@pytest.mark.parametrize("change", HARMLESS)
def test_nothing_is_reported_where_nothing_broke(change: Change) -> None:
    after = grown(chat())
    change(after)
    step, _, sent = compared(chat(), after)
    assert step.diagnosis.cause is None
    assert sent == after
    assert list(sent) == list(after)


def test_another_newest_message_is_a_fork_and_no_drift() -> None:
    before = grown(chat())
    after = copy.deepcopy(before)
    messages(after)[-1]["content"] = "Open the other."
    step, _, sent = compared(before, after)
    assert step.diagnosis.cause is None
    assert sent == after
    assert 0 < step.diagnosis.tokens.after < step.diagnosis.tokens.reference


def test_users_words_about_a_token_are_never_touched() -> None:
    before = grown(chat())
    messages(before)[-1]["content"] = "What does cch=1 mean?"
    after = copy.deepcopy(before)
    messages(after)[-1]["content"] = "What does cch=2 mean?"
    _, _, sent = compared(before, grown(after))
    assert sent == grown(after)


SYSTEMS = [
    ("S1", "Current time: 09:14:07", "Current time: 09:14:31"),
    ("S1", "Today's date is 2026-08-01.", "Today's date is 2026-08-02."),
    ("S1", "It is Saturday, August 1, 2026.", "It is Sunday, August 2, 2026."),
    ("S1", "Now: 1 Aug 2026 at 9:05 PM", "Now: 1 Aug 2026 at 9:06 PM"),
    ("S1", "timestamp: 1759396447", "timestamp: 1759396500"),
    ("S1", "Last sync 2 minutes ago.", "Last sync 3 minutes ago."),
    ("S1", "Datum: 01.08.2026", "Datum: 02.08.2026"),
    ("S2", "Session 0b6f6a9e-6d5c-4d4e-9a2b-0f1e2d3c4b5a", "Session 7c1f6a9e-6d5c-4d4e-9a2b-0f1e2d3c4b5b"),
    ("S2", "request_id: req_8f31ac", "request_id: req_77b0de"),
    ("S3", "cwd: /home/a", "cwd: /home/b"),
    ("S3", "Working directory is '/a'", "Working directory is '/b'"),
    ("S3", "git status: clean", "git status: M f"),
    ("S3", "Status:\n(clean)", "Status:\n M src/f.py"),
    ("S3", "Current branch: main", "Current branch: fix"),
    ("S3", "199000 tokens left", "198000 tokens left"),
    ("S4", "Memories:\n- likes tea", "Memories:\n- likes tea\n- has a dog"),
    ("S6", "channel=a", "channel=b"),
    ("C1", "Always answer in French.", "Always answer in German."),
    ("C1", "Use library 1.2.3.", "Use library 1.2.4."),
    ("C1", "Server 10.0.12.1", "Server 10.0.12.7"),
]


@pytest.mark.parametrize(("cause", "old", "new"), SYSTEMS, ids=[s[1] for s in SYSTEMS])
def test_a_change_of_the_system_prompt_is_named_by_what_changed(cause: str, old: str, new: str) -> None:
    base = "You are a helpful agent of a shop that sells parts for bicycles.\n\n{}\n\nNever invent a price."
    before = chat()
    messages(before)[0]["content"] = base.format(old)
    after = grown(before)
    messages(after)[0]["content"] = base.format(new)
    step, _, sent = compared(before, after)
    assert (step.diagnosis.cause, step.diagnosis.repaired) == (cause, False)
    assert sent == after
    step, _, sent = compared(before, after, Policy.ISOLATE)
    moved = cause in ("S1", "S2", "S3", "S4")
    assert step.diagnosis.repaired == moved
    assert messages(sent)[0] == messages(before if moved else after)[0]
    if moved:
        told = messages(sent)[-1]["content"]
        assert told.startswith("Open one.\n\n<system-update>\n")
        assert all(line in told for line in new.splitlines() if line not in old.splitlines())
