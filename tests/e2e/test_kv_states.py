"""KV state kept by the gateway: over other sessions, over a crash, apart by tenant, and never a wrong token."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Program, serving

from standfast.config import Settings
from standfast.engines import model
from standfast.engines.child import COMMAND, ChildConfig

pytestmark = pytest.mark.engine

STEM = "You help a small library. " + " ".join(f"Rule {n}: shelf {n} holds {n * 7 % 13} books." for n in range(40))
Start = Callable[..., AbstractContextManager[Program]]
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


class Talk:
    """One session with the gateway."""

    def __init__(self, name: str, dialect: str = "chat", key: str = "any") -> None:
        self.dialect, self.key, self.name = dialect, key, name
        self.said: list[dict[str, Any]] = []

    def ask(self, program: Program, text: str) -> dict[str, int]:
        """One turn; tokens by where their state came from."""
        self.said.append({"role": "user", "content": f"{self.name}: {text}"})
        body: dict[str, Any] = {"model": "m", "temperature": 0}
        match self.dialect:
            case "chat":
                body |= {"messages": [{"role": "system", "content": STEM}, *self.said], "max_tokens": 4}
            case "messages":
                body |= {"system": STEM, "messages": self.said, "max_tokens": 4}
            case "responses":
                body |= {"instructions": STEM, "input": self.said, "max_output_tokens": 4}
        response = httpx.post(
            program.url + PATHS[self.dialect], json=body, headers={"authorization": f"Bearer {self.key}"}, timeout=120
        )
        assert response.status_code == 200, response.text
        self.said.append({"role": "assistant", "content": _text(response.json())})
        told = re.findall(r"(\w+)=(\d+)", response.headers["x-standfast-kv"])
        cached, prompt = map(int, response.headers["x-standfast-hit"].split("/"))
        found = {name: int(value) for name, value in told} | {"prompt": prompt}
        assert found["l1"] + found["l2"] + found["l3"] + found["live"] == cached
        return found


def _text(answer: Any) -> str:
    if "choices" in answer:
        return str(answer["choices"][0]["message"]["content"])
    parts = answer["content"] if "content" in answer else answer["output"][-1]["content"]
    return "".join(part.get("text", "") for part in parts) or "."


def archived(program: Program, least: int, tokens: int = 1) -> None:
    """Wait until so many contexts of so many tokens are archived."""
    from standfast.store.opening import archive

    end = time.monotonic() + 30
    settings = Settings(state_dir=program.state)
    while True:
        (tier,) = archive(settings)
        keys = [key for key, _ in tier.shelf.medium.keys()]  # noqa: SIM118
        heads = [head for head in tier.shelf.peek(keys, 12) if head is not None and head[5] == 3]
        contexts = sum(int.from_bytes(head[8:12], "little") >= tokens for head in heads)
        tier.shelf.medium.close()
        if contexts >= least:
            return
        assert time.monotonic() < end, f"{contexts} contexts are archived"
        time.sleep(0.1)


def test_sessions_come_back_after_others_and_after_a_crash(start_embedded: Start, tmp_path: Path) -> None:
    talks = [Talk("Ada", "chat"), Talk("Bob", "messages"), Talk("Cyd", "responses"), Talk("Dan", "chat")]
    prompts = {}
    with start_embedded(tmp_path) as program:
        for talk in talks:
            prompts[talk.name] = talk.ask(program, "Where is the map? " * 8)["prompt"]
        for talk in talks:  # four sessions, two slots
            seen = talk.ask(program, "And the globe?")
            assert seen["computed"] <= seen["prompt"] - prompts[talk.name]
            prompts[talk.name] = seen["prompt"]
        archived(program, 4, min(prompts.values()))
        program.stop(signal.SIGKILL)
    with start_embedded(tmp_path) as program:
        for talk in talks:
            seen = talk.ask(program, "And the atlas?")
            assert seen["computed"] <= seen["prompt"] - prompts[talk.name]
            assert seen["l3"] > 0
        program.stop()


def test_a_tenant_gets_nothing_of_another_s(start_embedded: Start, tmp_path: Path) -> None:
    with start_embedded(tmp_path, "--engine-slots", "1") as program:
        Talk("Ada", key="one").ask(program, "Where is the map?")
        archived(program, 1)
        Talk("Eve", key="two").ask(program, "Something else altogether? " * 20)
        seen = Talk("Ada", key="two").ask(program, "Where is the map?")
        assert seen["l1"] + seen["l3"] < seen["prompt"] - 20  # the rules that its own session had, not the question


def test_kv_can_be_switched_off(start_embedded: Start, tmp_path: Path) -> None:
    with start_embedded(tmp_path, "--no-kv") as program:
        body = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
        response = httpx.post(program.url + PATHS["chat"], json=body, timeout=60)
        assert "x-standfast-kv" not in response.headers
        assert not (program.state / "kv").exists()


def test_a_llama_server_by_its_url(models: Path, tmp_path: Path) -> None:
    """Its slot folder is all that it takes; it is not ours, so nothing is known of it but what it says."""
    folder, home = tmp_path / "slots", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    told = ChildConfig(str(model.find(Settings(state_dir=models.parent))), "m", slots=1, context=2048, threads=1,
                       slot_folder=str(folder))  # fmt: skip
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(told.line())
        child.stdin.flush()
        url = json.loads(child.stdout.readline())["url"]
        config = home / "standfast.toml"
        config.write_text(f'[[upstream]]\nname = "there"\nurl = "{url}"\nprovider = "llama.cpp"\nslots = "{folder}"\n')
        with serving(home, "--config", str(config)) as program:
            talks = [Talk("Ada"), Talk("Bob", "messages")]
            prompts = [talk.ask(program, "Where is the map?")["prompt"] for talk in talks]
            for talk, prompt in zip(talks, prompts, strict=True):  # two sessions, one slot
                seen = talk.ask(program, "And the globe?")
                assert seen["computed"] <= seen["prompt"] - prompt
                assert seen["l1"] > 0
            program.stop()
        child.stdin.close()
    assert list(folder.iterdir()) == []
