"""Each recorded class of prefix break: noticed, named, placed; the lossless ones repaired; controls left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from property.reading import shown, valid
from shared import FOLDER, path

from standfast import explain
from standfast.policy import Leave, Policy

CASES: dict[str, tuple[str, str, str, bool]] = {
    # file: cause, path, repair, repaired by default
    "01-mcp-tool-order": ("T1", "tools[0].name", "lossless", True),
    "02-schema-key-order": ("T2", "tools[0]", "lossless", True),
    "04-tool-added-midsession": ("T4", "tools[2]", "policy", False),
    "05-billing-header": ("S2", "system[0]", "lossless", True),
    "06-clock-in-system": ("S1", "messages[0].content", "policy", False),
    "08-ephemeral-reminder": ("H1", "messages[0].content[1]", "policy", False),
    "09-string-array-flip": ("H2", "messages[1].content", "lossless", True),
    "11-tool-call-id-regenerated": ("H3", "messages[2].tool_calls[0].id", "lossless", True),
    "12-tool-arguments-reserialised": ("H4", "messages[2].tool_calls[0].function.arguments", "lossless", True),
    "15-old-tool-result-pruned": ("H7", "messages[2].content[0]", "report", False),
    "16-param-toggle": ("P1", "thinking", "report", False),
    "17-breakpoint-on-volatile-tail": ("B1", "messages[0].content[1]", "lossless", True),
    "19-cache-key-unstable": ("I1", "prompt_cache_key", "lossless", True),
    "21-compaction-fork": ("X1", "tools[0]", "source", False),
    "41-tool-order-hashmap": ("T1", "tools[0].name", "lossless", True),
    "45-schema-key-order-sync": ("T2", "tools[0].input_schema.properties", "lossless", True),
    "47-tool-result-key-order": ("H4", "messages[1].content[0].input", "lossless", True),
    "49-budget-marker-tail-of-system": ("S3", "system[0]", "policy", False),
    "51-clock-hour-bucket": ("S1", "system[0]", "policy", False),
    "53-resume-drops-block": ("H10", "messages[0].content[1]", "report", False),
    "55-tool-description-session-url": ("T3", "tools[0].description", "source", False),
    "57-cwd-line": ("S3", "system[0]", "policy", False),
    "59-tool-leaves-on-mcp-timeout": ("T4", "tools[2]", "policy", False),
}
LOSSLESS = [name for name, (cause, _, repair, _) in CASES.items() if repair == "lossless" and cause != "B1"]
ISOLATED = ["06-clock-in-system", "08-ephemeral-reminder", "49-budget-marker-tail-of-system", "51-clock-hour-bucket"]


def _case(name: str) -> Path:
    return path(f"cases/{name}.json")


def _explained(file: Path, policy: Policy = Policy.LOSSLESS) -> tuple[dict[str, Any], bytes, bytes, str]:
    steps, sent = explain.explain(explain.load([file]), None, Leave(policy))
    assert len(steps) == 1
    return steps[0].as_json(), sent[0], sent[1], steps[0].dialect or "unknown"


def test_the_table_names_every_case() -> None:
    known = {file.stem for file in path("cases").glob("*.json")}
    assert known == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_noticed_named_and_placed(name: str) -> None:
    step, _, _, _ = _explained(_case(name))
    assert (step["cause"], step["path"], step["repair"], step["repaired"]) == CASES[name]
    case = json.loads(_case(name).read_bytes())
    assert case["class"].split()[0] == step["cause"]
    assert case["repair"] == step["repair"]


@pytest.mark.parametrize("name", CASES)
def test_figures_hang_together(name: str) -> None:
    step, _, _, _ = _explained(_case(name))
    assert 0 <= step["hit_tokens_before"] <= step["hit_tokens_after"] <= step["attainable_tokens"]
    assert step["lost_tokens"] >= 0
    if step["repair"] == "lossless":
        assert step["hit_tokens_after"] == step["attainable_tokens"]


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_repaired_request_extends_the_one_before(name: str) -> None:
    _, first, second, dialect = _explained(_case(name))
    raw = [json.dumps(r).encode() for r in json.loads(_case(name).read_bytes())["requests"]]
    before, after = shown(first, dialect), shown(second, dialect)
    assert valid(second, dialect)
    assert after[: len(before)] == before
    assert before == shown(raw[0], dialect)
    assert len(after) == len(shown(raw[1], dialect))
    assert json.loads(second).get("prompt_cache_key") == json.loads(first).get("prompt_cache_key")


def test_a_breakpoint_is_set_where_the_next_request_finds_it() -> None:
    step, _, second, _ = _explained(_case("17-breakpoint-on-volatile-tail"))
    marked = json.loads(second)
    assert marked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert marked["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert {mark["path"] for mark in step["breakpoints"]} == {
        "system[0]",
        "messages[0].content[0]",
        "messages[0].content[1]",
    }


@pytest.mark.parametrize("name", ISOLATED)
def test_isolate_keeps_what_was_sent_and_tells_the_news_at_the_tail(name: str) -> None:
    step, first, second, dialect = _explained(_case(name), Policy.ISOLATE)
    before, after = shown(first, dialect), shown(second, dialect)
    assert after[: len(before)] == before
    assert step["repaired"]
    assert valid(second, dialect)


@pytest.mark.parametrize("name", CASES)
def test_observe_names_the_same_and_changes_nothing(name: str) -> None:
    step, first, second, _ = _explained(_case(name), Policy.OBSERVE)
    assert (step["cause"], step["path"], step["repaired"]) == (*CASES[name][:2], False)
    case = explain.load([_case(name)])
    assert (first, second) == case.requests


def _controls() -> list[str]:
    return sorted(file.stem for file in (FOLDER / "cases/controls").glob("*.json")) or ["absent"]


@pytest.mark.parametrize("name", _controls())
@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.LOSSLESS, Policy.ISOLATE])
def test_controls_break_nothing_and_go_out_as_they_came(name: str, policy: Policy) -> None:
    step, *sent, _ = _explained(_case(f"controls/{name}"), policy)
    assert (step["cause"], step["path"], step["repair"], step["repaired"]) == (None, None, "none", False)
    assert tuple(sent) == explain.load([_case(f"controls/{name}")]).requests
    assert step["lost_tokens"] == 0


def _cli(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "standfast", "explain", *arguments],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    "name", ["11-tool-call-id-regenerated", "19-cache-key-unstable", "controls/K6-identical-retry"]
)
def test_the_command_line_says_and_writes_the_same(name: str, tmp_path: Path) -> None:
    step, first, second, _ = _explained(_case(name))
    (told,) = json.loads(_cli(str(_case(name)), "--json", "--emit", str(tmp_path / "out")))
    assert told == step
    assert [(tmp_path / f"out/request-{i}.json").read_bytes() for i in (1, 2)] == [first, second]


def test_two_files_of_one_body_each_are_a_case_too(tmp_path: Path) -> None:
    files = []
    for i, body in enumerate(explain.load([_case("01-mcp-tool-order")]).requests):
        files.append(str(tmp_path / f"{i}.json"))
        Path(files[-1]).write_bytes(body)
    (told,) = json.loads(_cli(*files, "--json"))
    assert told == _explained(_case("01-mcp-tool-order"))[0]
    assert "T1" in _cli(*files)
