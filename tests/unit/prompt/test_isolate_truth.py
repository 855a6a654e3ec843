"""What ``isolate`` tells is true and whole, and it touches nothing but volatile system text."""

from __future__ import annotations

import itertools
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


TEA, DOGS, NOW, KIND = "Memories:\n- likes tea", "Memories:\n- likes dogs", "It is 09:14.", "Be kind."
CAME: list[tuple[list[str], list[str], list[str], str]] = [
    # blocks of the first request, of the second, causes, what is told
    ([PROSE, KIND], [PROSE, TEA, KIND], ["S4"], f"now says:\n{TEA}"),
    ([PROSE, TEA, KIND], [PROSE, KIND], ["S4"], f"no longer says:\n{TEA}"),
    ([PROSE], [NOW, PROSE], ["S1"], f"now says:\n{NOW}"),
    ([PROSE, TEA, NOW], [PROSE, DOGS], ["S4", "S1"],
     f"now says:\n- likes dogs\nand no longer says:\n- likes tea\n{NOW}"),
    ([PROSE, TEA, KIND], [PROSE, KIND, NOW], ["S4", "S1"], f"now says:\n{NOW}\nand no longer says:\n{TEA}"),
    ([PROSE, NOW], [PROSE, TEA], ["S1", "S4"], f"now says:\n{TEA}\nand no longer says:\n{NOW}"),
]  # fmt: skip


def in_blocks(dialect: str, blocks: list[str], turns: int) -> dict[str, Any]:
    """The same conversation with a system prompt of several blocks."""
    value = body(dialect, PROSE, turns)
    if dialect == "anthropic":
        return {**value, "system": [{"type": "text", "text": text} for text in blocks]}
    leading = [{"role": "developer", "content": text} for text in blocks]
    if dialect == "openai_chat":
        return {**value, "messages": [*leading, *value["messages"][1:]]}
    return {**value, "input": [*leading, *value["input"]]}


def blocks_of(value: Any) -> list[str]:
    if isinstance(value.get("system"), str):
        return [value["system"]]
    blocks = [block["text"] for block in value.get("system", ())]
    messages = value["input" if "input" in value else "messages"]
    leading = itertools.takewhile(lambda message: message.get("role") == "developer", messages)
    return blocks + [message["content"] for message in leading]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("before", "after", "named", "news"), CAME)
def test_blocks_that_come_and_go(dialect: str, before: Any, after: Any, named: list[str], news: str) -> None:
    session = Session(dialect, Policy.ISOLATE)
    first = sent(session.send(in_blocks(dialect, before, 1)))
    field = "input" if "input" in first else "messages"
    for turns in (2, 3):
        plan = session.send(in_blocks(dialect, after, turns))
        out = sent(plan)
        assert [cause for cause, repaired, _ in found(plan) if repaired] == named
        assert blocks_of(out) == before
        assert told_in(out) == f"\nThe system prompt applies as written, except that it {news}\n"
        assert json.dumps(out).count("<system-update>") == 1
        assert out[field][: len(first[field])] == first[field]
        first = out
    assert blocks_of(sent(session.send(in_blocks(dialect, before, 4)))) == before
    assert session.failures == []


KEPT: list[tuple[list[str], list[str], str]] = [
    ([PROSE, KIND], [PROSE, TEA, "Be bold."], "more than that changed in the system prompt"),
    ([PROSE, KIND], [PROSE, f"{TEA} in `sh`", KIND], "it stands in code or in an example"),
    (
        [PROSE, TEA, TEA + " too"],
        [PROSE, TEA + " too"],
        "an update cannot tell it: more than text changed, too much of it, or a line that is gone stands elsewhere",
    ),
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("before", "after", "why"), KEPT)
def test_blocks_that_stay_as_they_came(dialect: str, before: Any, after: Any, why: str) -> None:
    session = Session(dialect, Policy.ISOLATE)
    session.send(in_blocks(dialect, before, 1))
    plan = session.send(in_blocks(dialect, after, 2))
    assert blocks_of(sent(plan)) == after
    assert [d.remedy.endswith(f"; not here, for {why}.") for d in plan.diagnosis.drifts if d.cause == "S4"] == [True]
    lossless = Session(dialect)
    lossless.send(in_blocks(dialect, before, 1))
    plan = lossless.send(in_blocks(dialect, after, 2))
    assert any("not here" in d.remedy for d in plan.diagnosis.drifts) == why.startswith("it stands")


def test_a_system_prompt_that_is_a_string_now_and_a_list_then() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    listed = [{"type": "text", "text": PROSE}, {"type": "text", "text": TEA, **mark}]
    for before, after, out in [
        (PROSE, listed, [{"type": "text", "text": PROSE, **mark}]),
        (listed, PROSE, [listed[0], {"type": "text", "text": TEA}]),
    ]:
        session = Session("anthropic", Policy.ISOLATE)
        session.send({**body("anthropic", PROSE, 2), "system": before})
        plan = session.send({**body("anthropic", PROSE, 3), "system": after})
        assert sent(plan)["system"] == out
        assert session.failures == []


def test_no_system_prompt_is_frozen_where_there_was_none_or_where_nothing_can_be_told() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    start = body("anthropic", PROSE, 2)
    session.send({k: v for k, v in start.items() if k != "system"})
    plan = session.send(in_blocks("anthropic", [TEA], 3))
    assert blocks_of(sent(plan)) == [TEA]
    session = Session("openai_responses", Policy.ISOLATE)
    session.send(
        {"model": "m", "instructions": PROSE, "input": [{"role": "developer", "content": NOW}, *start_input()]}
    )
    plan = session.send({"model": "m", "instructions": PROSE, "input": "q0 at 09:14"})
    assert sent(plan)["input"] == "q0 at 09:14"
    assert session.failures == []


def start_input() -> list[Any]:
    return list(body("openai_responses", PROSE, 1)["input"])


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
