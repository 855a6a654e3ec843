"""``standfast cache`` and the KV part of ``standfast check``, on a real archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kv_states import LAYOUT, NAMESPACE, body_of, states, tokens_of

from standfast.cli import app
from standfast.config import Settings
from standfast.gateway.warming import shortest, warm
from standfast.store.opening import archive, open_store


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with two contexts in its archive, in force by the environment."""
    monkeypatch.setenv("STANDFAST_STATE_DIR", str(tmp_path))
    store = open_store(Settings(state_dir=tmp_path))
    for n in range(2):
        tokens = tokens_of(range(40), [100 + n] * (10 + n))
        store.keep(NAMESPACE, tokens, [(bytes([n]) * 32, 50)], LAYOUT, body_of(states(tokens)))
    store.close()
    return tmp_path


def say(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False, standalone_mode=False)
    return result.output


def say_json(*words: str) -> Any:
    return json.loads(say(*words, "--json"))


def test_stat(state: Path) -> None:
    told = say_json("cache", "stat")
    assert (told["contexts"], told["blocks"], told["tokens"], told["broken"]) == (2, 6, 32 + 18 + 19, 0)
    assert told["ratio"] > 0
    assert "contexts" in say("cache", "stat")


def test_ls_and_rm(state: Path) -> None:
    rows = say_json("cache", "ls")
    assert [row["tokens"] for row in rows] == [51, 50]
    assert [row["tokens"] for row in say_json("cache", "ls", "--most", "1")] == [51]
    assert "and 1 more" in say("cache", "ls", "--most", "1")
    assert say("cache", "rm", rows[0]["context"][:12]) == "1 records deleted\n"
    assert [row["tokens"] for row in say_json("cache", "ls")] == [50]
    assert say("cache", "rm", "--namespace", "ffff" + rows[0]["namespace"]) == "0 records deleted\n"
    assert say("cache", "rm", "--namespace", rows[0]["namespace"]) == "7 records deleted\n"
    assert say_json("cache", "ls") == []


def test_export_and_import(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "states.sfkv"
    assert say("cache", "export", str(file)) == f"8 records in {file}\n"
    say("cache", "rm", "--all")
    assert say("cache", "import", str(file)) == "8 records taken\n"
    monkeypatch.setenv("STANDFAST_STATE_DIR", str(tmp_path / "other"))
    assert say("cache", "import", str(file)) == "8 records taken\n"


def test_check_and_repair(state: Path) -> None:
    assert "8 records, 0 out of reach, sound" in say("check")
    (tier,) = archive(Settings(state_dir=state))
    key = next(key for key, size in tier.shelf.medium.keys() if size > 1000)  # noqa: SIM118
    with tier.shelf.medium.get_many([key]) as (view,):
        value = bytearray(view or b"")
    value[-1] ^= 1
    tier.shelf.medium.delete_many([key])
    tier.shelf.medium.put_many([(key, [value])])
    tier.shelf.medium.close()
    with pytest.raises(Exception, match="1 damaged"):
        say("check")
    assert "deleted" in say("check", "--repair")
    assert "sound" in say("check")


@pytest.mark.parametrize(
    ("body", "path", "limit"),
    [
        ({"messages": [], "max_completion_tokens": 9}, "/v1/chat/completions", {"max_tokens": 1}),
        ({"messages": [], "system": "x", "max_tokens": 9}, "/v1/messages", {"max_tokens": 1}),
        ({"messages": [], "max_tokens": 9, "tools": [{"input_schema": {}}]}, "/v1/messages", {"max_tokens": 1}),
        ({"input": "x"}, "/v1/responses", {"max_output_tokens": 16}),
    ],
)
def test_the_shortest_answer(body: dict[str, Any], path: str, limit: dict[str, int]) -> None:
    where, sent = shortest(body)
    assert where == path
    assert limit.items() <= sent.items()
    assert sent["stream"] is False
    assert "max_completion_tokens" not in sent


async def test_what_cannot_be_sent_is_told() -> None:
    bodies = [b"no json", b"[]", b"{}", b'{"input": "x"}']
    told = await warm("http://127.0.0.1:9", "", bodies)
    assert told[:3] == ["not a request of a known API"] * 3
    assert told[3].startswith("not sent")
