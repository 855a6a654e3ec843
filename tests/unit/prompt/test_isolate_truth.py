"""What ``isolate`` tells is true and whole, and it touches nothing but volatile system text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.prompt.talking import PROSE, Session, anthropic, call, calling, chat, result, returned, sent, use

from standfast.policy import Policy
from standfast.prompt.quoted import shown

DIALECTS = ["anthropic", "openai_chat", "openai_responses"]


def body(dialect: str, system: str, turns: int, *, topic: str = "q") -> dict[str, Any]:
    """A conversation with a call and its result in each turn but the newest."""
    talk: list[Any] = []
    for n in range(turns):
        talk.append({"role": "user", "content": f"{topic}{n} at 09:14"})
        if n < turns - 1:
            answers: dict[str, list[Any]] = {
                "anthropic": [
                    {"role": "assistant", "content": [use(f"i{n}")]},
                    {"role": "user", "content": [result(f"i{n}", f"r{n} 09:14")]},
                    {"role": "assistant", "content": f"k{n}"},
                ],
                "openai_chat": [
                    calling(call(f"i{n}")),
                    returned(f"i{n}", f"r{n} 09:14"),
                    {"role": "assistant", "content": f"k{n}"},
                ],
                "openai_responses": [
                    {"type": "function_call", "call_id": f"i{n}", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": f"i{n}", "output": f"r{n} 09:14"},
                    {"role": "assistant", "content": f"k{n}"},
                ],
            }
            talk += answers[dialect]
    if dialect == "anthropic":
        return anthropic(talk, system, tools=[{"name": "f"}])
    if dialect == "openai_chat":
        return chat([{"role": "system", "content": system}, *talk], tools=[{"function": {"name": "f"}}])
    return {"model": "m", "instructions": system, "input": talk, "tools": [{"type": "function", "name": "f"}]}


def system_of(value: Any) -> str:
    return str(value["system"] if "system" in value else value.get("instructions") or value["messages"][0]["content"])


def told_in(value: Any) -> str:
    """The last update in a body; empty if there is none."""
    texts = [text for text in _strings(value) if "<system-update>" in text]
    return texts[-1].rpartition("<system-update>")[2].partition("</system-update>")[0] if texts else ""


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _strings(one)]


def found(plan: Any) -> list[tuple[str, bool, str]]:
    return [(d.cause, d.repaired, str(d.repair)) for d in plan.diagnosis.drifts]


def isolated(dialect: str, *systems: str) -> Any:
    """What goes out last of a session whose system prompt was each of these in turn, and its plan."""
    session = Session(dialect, Policy.ISOLATE)
    for n, system in enumerate(systems, 1):
        plan = session.send(body(dialect, system, n))
    assert session.failures == []
    return sent(plan), plan


TOLD = [
    ("The time is 09:14.", "The time is 09:15.", "now says:\nThe time is 09:15."),
    ("Memory:\n- tea\n- dogs", "Memory:\n- tea", "no longer says:\n- dogs"),
    ("Memory:\n- tea", "Memory:\n- tea\n- dogs", "now says:\n- dogs"),
    ("Memory:\n- tea\n- dogs", "Memory:\n- cats", "now says:\n- cats\nand no longer says:\n- tea\n- dogs"),
    ("Repo a\nstatus: clean\nRepo b\nstatus: dirty", "Repo a\nstatus: clean\nRepo b\nstatus: clean",
     "now says:\nRepo b\nstatus: clean"),
    ("Date: 2026-10-02\nOpen files: a.py", "Date: 2026-10-03\nOpen files: b.py",
     "now says:\nDate: 2026-10-03\nOpen files: b.py"),
    ("Files:\n M a.py\n M b.py", "Files:\n M c.py\n M b.py", "now says:\n M c.py\nand no longer says:\n M a.py"),
]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("before", "after", "told"), TOLD)
def test_what_is_told(dialect: str, before: str, after: str, told: str) -> None:
    out, plan = isolated(dialect, *(f"{PROSE}\n{text}\n\nBe kind." for text in (before, after)))
    assert system_of(out) == f"{PROSE}\n{before}\n\nBe kind."
    assert told_in(out) == f"\nThe system prompt applies as written, except that it {told}\n"
    assert all(d.repaired for d in plan.diagnosis.drifts)


def test_an_update_replaces_the_one_before() -> None:
    """A line that is again what it was is not among what is told, and all that is not told is as written."""
    states = [("09:14", "clean"), ("09:15", "dirty"), ("09:16", "clean")]
    out, _ = isolated("anthropic", *(f"{PROSE}\nThe time is {a}.\n\ngit status: {b}" for a, b in states))
    assert told_in(out) == "\nThe system prompt applies as written, except that it now says:\nThe time is 09:16.\n"


def test_what_is_gone_here_and_stands_there_cannot_be_told() -> None:
    texts = [f"{PROSE}\nMemory of Ann:\n- tea\n{dogs}\nMemory of Bo:\n- dogs" for dogs in ("- dogs", "")]
    out, plan = isolated("anthropic", *texts)
    assert system_of(out) == texts[1]
    assert [repaired for _, repaired, _ in found(plan)] == [False]


SHOWN = [
    "Log so:\n```\n{} up\n```",
    "Log so: `{} up`.",
    "Log so:\n\n    {} up\n\nAlways.",
    "<example>\nIt is {}.\n</example>",
    'For example: {{"at": "{}"}}',
    'Answer in this format:\n{{\n  "at": "{}"\n}}',
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", SHOWN)
def test_a_clock_in_code_or_in_an_example_stays_where_it_is(dialect: str, text: str) -> None:
    systems = [f"{PROSE}\n{text.format(clock)}\n\nBe kind." for clock in ("09:14:07", "09:15:12")]
    out, plan = isolated(dialect, *systems)
    assert system_of(out) == systems[1]
    assert found(plan) == [("S1", False, "source")]
    assert told_in(out) == ""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_session_of_the_agent_gets_the_frozen_text_and_its_own_time(dialect: str) -> None:
    first = Session(dialect, Policy.ISOLATE)
    text = f"{PROSE}\nThe time is {{}}.\nBe kind."
    first.send(body(dialect, text.format("09:14"), 1))
    for n, clock in enumerate(("10:20", "11:40")):
        session = Session(dialect, Policy.ISOLATE, turns=first.turns)
        plan = session.send(body(dialect, text.format(clock), 1, topic=f"another {n} "))
        assert system_of(sent(plan)) == text.format("09:14")
        assert f"The time is {clock}." in told_in(sent(plan))
        plan = session.send(body(dialect, text.format("12:00"), 2, topic=f"another {n} "))
        assert system_of(sent(plan)) == text.format("09:14")
        assert "The time is 12:00." in told_in(sent(plan))


@pytest.mark.parametrize("kept", ["Memory:\n- likes {}", "Open files:\n- {}.py", "The user is {}."])
def test_what_only_its_heading_names_is_not_kept_for_another_session(kept: str) -> None:
    first = Session("anthropic", Policy.ISOLATE)
    for n, value in enumerate(("ann", "bo", "cy")):
        session = Session("anthropic", Policy.ISOLATE, turns=first.turns)
        system = f"{PROSE}\n{kept.format(value)}\n\n{PROSE}"
        assert system_of(sent(session.send(body("anthropic", system, 1, topic=f"t{n} ")))) == system


@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_a_system_message_in_the_midst_of_the_history(dialect: str) -> None:
    def request(clock: str, turns: int) -> Any:
        value = body(dialect, PROSE, turns)
        history = value["messages" if dialect == "openai_chat" else "input"]
        first = next(i for i, item in enumerate(history) if item.get("role") == "user")
        history.insert(first + 1, {"role": "developer", "content": f"Go on.\nThe time is {clock}."})
        return value

    session = Session(dialect, Policy.ISOLATE)
    session.send(request("09:14", 2))
    for n in (3, 4, 5):
        plan = session.send(request("09:15", n))
        assert found(plan) == [("S1", True, "policy")]
        assert "Go on.\nThe time is 09:14." in _strings(sent(plan))
        assert told_in(sent(plan)).endswith("now says:\nThe time is 09:15.\n")
        assert json.dumps(sent(plan)).count("system-update>") == 2
    assert session.failures == []
    session = Session(dialect)
    session.send(request("09:14", 2))
    plan = session.send(request("09:15", 3))
    assert found(plan) == [("S1", False, "policy")]
    assert not plan.changed


LINES = st.lists(
    st.sampled_from(
        ["The time is {}.", "git status: {}", "Be kind.", "`{}`", "```", "- {}", "Memory:", "", "Example: {}",
         "cwd: /{}", "09:{}", "    {}", "Uptime: {} days", "<example>", "</example>"]
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip
VALUES = st.sampled_from(["14", "15", "16"])


@given(st.sampled_from(DIALECTS), LINES, st.lists(VALUES, min_size=2, max_size=4), st.lists(st.booleans(), min_size=8))
def test_what_goes_out_and_what_is_told_is_all_that_came(
    dialect: str, lines: list[str], values: list[str], kept: list[bool]
) -> None:
    session = Session(dialect, Policy.ISOLATE)
    for n, value in enumerate(values, 1):
        those = [line for line, keep in zip(lines, kept, strict=False) if keep or n % 2]
        came = body(dialect, "\n".join([PROSE, *(line.format(value) for line in those), PROSE]), n)
        out = sent(session.send(came))
        system, told = system_of(out), told_in(out)
        if system != system_of(came):
            known = {*system.splitlines(), *told.splitlines()}
            assert all(line in known for line in system_of(came).splitlines() if line.strip())
            assert shown(system) == shown(system_of(came))
        _same_words(came, out)
    assert session.failures == []


def _same_words(came: Any, out: Any) -> None:
    """What users said and tools gave is what it was; only an update may stand behind it."""
    wanted = [text for text in _strings(came) if "09:14" in text and PROSE not in text]
    there = [
        text.partition("\n\n<system-update>")[0] for text in _strings(out) if not text.startswith("<system-update>")
    ]
    assert [text for text in there if "09:14" in text and PROSE not in text] == wanted
    assert json.dumps(came["tools"]) == json.dumps(out["tools"])
