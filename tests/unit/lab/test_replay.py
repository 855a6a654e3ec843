"""Logs, and what the command makes of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast.cli import app
from standfast.errors import ConfigError
from standfast.lab.corpora import turns
from standfast.lab.replay import GAP, load

TALK: list[Any] = [
    {"role": "system", "content": "You help. " * 300},
    {"role": "user", "content": "Find it."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":"it"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "Here it is."},
    {"role": "user", "content": "Thanks."},
    {"role": "assistant", "content": "Welcome."},
]
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}}}
]
MODELS = {"anthropic": "claude-opus-5", "openai_chat": "gpt-5.5", "openai_responses": "gpt-5.6"}


def bodies(dialect: str) -> list[Any]:
    return list(turns(TOOLS, TALK, dialect, MODELS[dialect]))


@pytest.mark.parametrize("dialect", MODELS)
def test_conversations_become_bodies_of_each_dialect(dialect: str, tmp_path: Path) -> None:
    found = bodies(dialect)
    assert len(found) == 3
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(body) for body in found))
    assert [(r.dialect, r.at) for r in load(log)] == [(dialect, GAP * n) for n in (1, 2, 3)]


def test_a_log_with_times_and_tenants(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    rows: list[Any] = [{"body": b, "at": 100 * n, "tenant": "t"} for n, b in enumerate(bodies("anthropic"), 1)]
    rows.append({"body": bodies("anthropic")[0], "dialect": "anthropic"})
    log.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode() + b"\n\n"))
    assert [(r.at, r.tenant) for r in load(log)] == [(100, "t"), (200, "t"), (300, "t"), (300 + GAP, "")]


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"a":1}', '{"body":{"messages":[]},"dialect":"klingon"}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(bodies("anthropic")[0]) + "\n" + line)
    with pytest.raises(ConfigError, match=r"log.jsonl, line 2"):
        load(log)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.jsonl")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_whatif_says_what_it_would_have_saved(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(body) for body in bodies("anthropic") * 2))
    told = json.loads(run("whatif", str(log), "--json", "--profile", "article-2026"))
    assert told["simulated"] is True
    assert told["raw"]["cached_tokens"] == 0
    assert told["standfast"]["cached_tokens"] >= 0.99 * told["standfast"]["attainable_tokens"] > 0
    assert told["standfast"]["money"]["paid"] < told["raw"]["money"]["paid"]
    assert told["standfast"]["money"]["currency"] == "CNY"
    assert "B1" in told["raw"]["lost_tokens"]
    shown = run("whatif", str(log))
    assert "simulated anthropic" in shown
    assert "lost to B1" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--provider", "nobody"], "anthropic"),
        (["--policy", "hard"], "off, observe"),
        (["--profile", "cheap"], "article-2026"),
    ],
)
def test_whatif_refuses_what_it_does_not_know(tmp_path: Path, arguments: list[str], message: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(bodies("anthropic")[0]))
    result = CliRunner().invoke(app, ["whatif", str(log), *arguments])
    assert result.exit_code != 0
    assert message in (result.output + str(result.exception))


def test_providers_and_bill_for_people_and_machines(tmp_path: Path) -> None:
    assert "Anthropic Messages API" in run("providers")
    assert "claude-opus-5" in run("providers", "anthropic")
    told = json.loads(run("providers", "openai", "--model", "gpt-5.6", "--json"))
    assert [provider["id"] for provider in told] == ["openai"]
    config = tmp_path / "standfast.toml"
    config.write_text(f'state_dir = "{tmp_path}"\n')
    assert "nothing yet" in run("bill", "--config", str(config))
    assert json.loads(run("bill", "--json", "--config", str(config))) == []
