"""explain: case files, dialects, figures scaled to usage, times, and the two lines that show a change."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from unit.prompt.talking import PROSE, answer, anthropic, chat, user

from standfast import explain as module
from standfast.errors import BrokenBody, ConfigError
from standfast.explain import Case, Step, diff, explain, load, show
from standfast.policy import Leave, Policy
from standfast.prompt.drift import Drift
from standfast.prompt.model import Tier

TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in "ab"]
FIRST = anthropic([user("q " * 200)], PROSE, tools=TOOLS)
SECOND = anthropic([user("q " * 200), answer(), user("next")], PROSE, tools=TOOLS[::-1])


def case(*bodies: Any, **fields: Any) -> Case:
    return Case(tuple(b if isinstance(b, bytes) else json.dumps(b).encode() for b in bodies), **fields)


def one(*bodies: Any, **fields: Any) -> Step:
    """The only step of two requests."""
    (step,), _ = explain(case(*bodies, **fields))
    return step


def test_the_public_names() -> None:
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    assert sorted(n for n in own if not n.startswith("_")) == ["Case", "Step", "diff", "explain", "load", "show"]


# Case files


def written(folder: Path, text: str | bytes) -> list[Path]:
    file = folder / "case.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [file]


def test_a_case_keeps_the_bytes_of_its_bodies(tmp_path: Path) -> None:
    text = '{"note":1,"requests":[{"a" : 1.0},\n[ 2 ]],"usage":[null,{"x":1}],"times":[1, 2.5]}'
    found = load(written(tmp_path, text))
    assert found.requests == (b'{"a" : 1.0}', b"[ 2 ]")
    assert (found.usage, found.times) == ((None, {"x": 1}), (1.0, 2.5))


def test_files_of_one_body_each(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_text(f' {{"from": "{file.name}"}}\n')
    assert load(files) == Case((b'{"from": "a"}', b'{"from": "b"}'))


@pytest.mark.parametrize("rest", ["", ',"usage":null,"times":null', ',"usage":[],"times":[]'])
def test_usage_and_times_may_be_missing(tmp_path: Path, rest: str) -> None:
    assert load(written(tmp_path, f'{{"requests":[1,2]{rest}}}')) == Case((b"1", b"2"))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "7", "{}", "\ud800".encode("utf-8", "surrogatepass"), '{"requests":5}', '{"requests":[]}',
        '{"requests":[{}]}', '{"requests":[1,2],"times":5}', '{"requests":[1,2],"times":["noon"]}',
        '{"requests":[1,2],"times":[null]}',
    ],
)  # fmt: skip
def test_what_is_no_case_is_an_error_that_says_what_to_give(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"case.json: (give two bodies|a case needs two)"):
        load(written(tmp_path, text))


@pytest.mark.parametrize(
    "rest", ['"usage":5', '"usage":true', f'"times":[1{"0" * 400}]', f'"usage":{"[" * 20_000}{"]" * 20_000}']
)
def test_odd_usage_and_times_are_such_an_error_too(tmp_path: Path, rest: str) -> None:
    with pytest.raises(ConfigError):
        load(written(tmp_path, f'{{"requests":[1,2],{rest}}}'))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.json: cannot be read: No such file"):
        load([tmp_path / "absent.json"])


# Dialects


def test_a_dialect_that_is_not_known_passes_untouched() -> None:
    bedrock = {"inputText": "hi"}
    steps, sent = explain(case(bedrock, bedrock))
    assert sent == [json.dumps(bedrock).encode()] * 2
    step = steps[0].as_json()
    names = ("dialect", "cause", "tier", "repair", "title")
    assert [step[name] for name in names] == [None, None, None, "none", None]
    assert explain(case(FIRST, b'{"a":"\\ud800"}'))[0][0].dialect is None


@pytest.mark.parametrize("body", [b"{", b"", b"[1", b"\xff", b"[1]", b'"x"'])
def test_a_body_that_is_broken_is_an_error(body: bytes) -> None:
    with pytest.raises(BrokenBody):
        explain(case(FIRST, body))


def test_a_dialect_may_be_forced() -> None:
    talk = chat([{"role": "user", "content": "q"}])
    steps, _ = explain(case(talk, talk), "anthropic")
    assert steps[0].dialect == "anthropic"
    assert explain(case(talk, talk))[0][0].dialect == "openai_chat"
    with pytest.raises(ConfigError, match="'klingon': choose one of anthropic, openai_chat, openai_responses"):
        explain(case(talk, talk), "klingon")


def test_requests_of_two_dialects_are_not_compared() -> None:
    talk = {"model": "m", "input": "q"}
    steps, sent = explain(case(FIRST, talk, SECOND))
    assert [s.dialect for s in steps] == ["openai_responses", "anthropic"]
    assert [s.diagnosis.cause for s in steps] == [None, "T1"]
    assert sent[1] == json.dumps(talk).encode()


def test_a_body_that_could_be_of_two_dialects_is_of_the_one_that_the_session_speaks() -> None:
    doubtful = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "q"}]}
    assert one(doubtful, doubtful).dialect == "openai_chat"
    assert one(FIRST, doubtful).dialect == "anthropic"
    steps, _ = explain(case({"a": 1}, doubtful, {**SECOND, "max_tokens": 1}))
    assert [s.dialect for s in steps] == ["anthropic", "anthropic"]


def test_a_body_that_failed_open_is_no_reference() -> None:
    twice = b'{"model":"m","model":"n","max_tokens":1,"system":"s","messages":[]}'
    steps, sent = explain(case(FIRST, twice, SECOND))
    assert sent[1] == twice
    assert steps[1].diagnosis.cause == "T1"


def test_a_body_that_failed_open_is_said_to_have() -> None:
    twice = b'{"model":"m","model":"n","max_tokens":1,"system":"s","messages":[]}'
    steps, _ = explain(case(FIRST, twice))
    assert "nothing drifted" not in told(steps)


# Figures


def usage(prompt: int, cached: int) -> dict[str, int]:
    return {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": 1}


def test_figures_are_scaled_to_the_usage_that_is_known() -> None:
    plain, scaled = one(FIRST, SECOND), one(FIRST, SECOND, usage=(None, usage(1000, 40)))
    estimate, true = plain.as_json(), scaled.as_json()
    assert (estimate["tokens"], true["tokens"]) == ("estimated", "scaled to usage")
    assert (true["prompt_tokens"], true["cached_tokens_reported"]) == (1000, 40)
    assert estimate["cached_tokens_reported"] is None
    shared = one(FIRST, SECOND, usage=(usage(700, 0), usage(1000, 40))).as_json()
    assert shared["attainable_tokens"] == pytest.approx(700, abs=1)
    scale = 1000 / estimate["prompt_tokens"]
    for name in ("attainable_tokens", "hit_tokens_before", "hit_tokens_after", "lost_tokens"):
        assert true[name] == round(estimate[name] * scale)


@pytest.mark.parametrize("odd", [(), (None,), (None, None), (None, 7), (None, {}), (None, {"input_tokens": "x"})])
def test_odd_usage_is_no_usage(odd: Any) -> None:
    step = one(FIRST, SECOND, usage=odd)
    assert (step.scale, step.as_json()["tokens"]) in ((1.0, "estimated"), (0.0, "scaled to usage"))


def test_usage_with_fractions_is_read() -> None:
    loaded = {"input_tokens": 90, "output_tokens": 1, "cost": 0.25}
    assert one(FIRST, SECOND, usage=(None, loaded)).as_json()["prompt_tokens"] == 90


def test_usage_of_an_unknown_dialect_or_an_empty_prompt_scales_nothing() -> None:
    assert one({"a": 1}, {"a": 1}, usage=(None, usage(9, 0))).scale == 1.0
    assert one(anthropic([]), anthropic([]), usage=(None, usage(9, 0))).scale == 1.0


def test_gaps_between_requests() -> None:
    steps, _ = explain(case(FIRST, SECOND, SECOND, times=(10.0, 12.5)))
    assert [s.gap for s in steps] == [2.5, None]
    assert one(FIRST, SECOND).gap is None


def test_all_that_drifted_is_listed() -> None:
    step = one(FIRST, {**SECOND, "thinking": {"type": "enabled"}}).as_json()
    assert [(d["cause"], d["path"], d["tier"], d["repaired"]) for d in step["drifts"]] == [
        ("P1", "thinking", "params", False),  # the dearer of the two
        ("T1", "tools[0].name", "tools", True),
    ]
    assert (step["cause"], step["repaired"], step["tier"]) == ("T1", False, "tools")
    assert json.loads(json.dumps(step)) == step


def test_observe_writes_what_came() -> None:
    steps, sent = explain(case(FIRST, SECOND), leave=Leave(Policy.OBSERVE))
    assert sent == list(case(FIRST, SECOND).requests)
    assert (steps[0].diagnosis.cause, steps[0].diagnosis.repaired) == ("T1", False)


def test_a_request_without_a_common_word_is_compared_all_the_same() -> None:
    other = anthropic([user("quite another")], "Speak French.", tools=TOOLS[:1])
    drifts = one(FIRST, other).as_json()["drifts"]
    assert sorted(d["cause"] for d in drifts) == ["C1", "T4"]
    assert [d["lost_tokens"] for d in drifts] == sorted((d["lost_tokens"] for d in drifts), reverse=True)


# Diffs


def shown(before: str | bytes, after: str | bytes) -> list[str]:
    wires = [v if isinstance(v, bytes) else v.encode() for v in (before, after)]
    return diff(Drift("C1", "x", Tier.SYSTEM, wires[0], wires[1]))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("one two", "one six", ["- one two", "+ one six"]),
        ("", "new", ["- (nothing)", "+ new"]),
        ("a\nb", "a\nc", ["- a⏎b", "+ a⏎c"]),
        (b"\xffa", b"\xffb", ["- \ufffda", "+ \ufffdb"]),
        ('{"a":"\\u00e9"}', '{"a":"x"}', ['- {"a": "é"}', '+ {"a": "x"}']),
        ("{broken 1", "{broken 2", ["- {broken 1", "+ {broken 2"]),
        (b"[\xff", b"[", ["- [\ufffd", "+ ["]),
    ],
)
def test_diff(before: str | bytes, after: str | bytes, lines: list[str]) -> None:
    assert shown(before, after) == lines


def test_a_change_in_a_long_text_is_shown_with_its_surroundings() -> None:
    left, right = "l" * 100, "r" * 100
    assert shown(f"{left}1{right}", f"{left}2{right}") == [
        f"{sign} …{'l' * 32}{digit}{'r' * 32}…" for sign, digit in (("-", 1), ("+", 2))
    ]
    assert shown(f"{left}{right}", f"{left}new{right}")[0] == f"- …{'l' * 32}{'r' * 32}…"


def test_a_long_change_is_shown_by_its_ends() -> None:
    line = shown("", f"start{'x' * 1000}end")[1]
    assert line.startswith("+ start")
    assert line.endswith("end")
    assert line.count("…") == 1
    assert len(line) == 2 + 128 + 1


# For people


def told(steps: list[Step]) -> str:
    console = Console(file=io.StringIO(), width=300, no_color=True)
    show(steps, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_what_people_are_told() -> None:
    toggled = {**SECOND, "thinking": {"type": "enabled"}}
    found = case(FIRST, SECOND, toggled, {"a": 1}, usage=(None, usage(500, 7)), times=(1.0, 3.5))
    text = told(explain(found)[0])
    lines = text.splitlines()
    assert lines[0] == "request 1 → 2  T1 tools in another order  at tools[0].name  repaired"
    assert "prompt 500 (scaled to usage); the provider reported 7 cached; 2.5 s after the one before" in lines[1]
    assert [line[:6] for line in lines[2:4]] == ["    - ", "    + "]
    assert lines[4].strip() == "The order that was sent first is sent again."
    assert "request 2 → 3  T1 tools in another order" in text
    assert "also P1 prompt-affecting parameter changed at thinking: not repaired (report)" in text
    assert lines[-1] == "request 3 → 4  a dialect that Standfast does not know: passes untouched"


def test_a_clean_step_and_one_that_is_not_repaired() -> None:
    assert "nothing drifted" in told([one(FIRST, FIRST)])
    other = anthropic([user("q " * 200), answer(), user("next")], "Speak French.", tools=TOOLS)
    assert "C1 content changed  at system  not repaired (report)" in told([one(FIRST, other)])
