"""The gateway with the embedded model as a process among others: signals, crashes, restarts, workers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from serving import Program

pytestmark = pytest.mark.engine

Start = Callable[..., AbstractContextManager[Program]]
NAMES = ("find_book", "lend_book", "return_book")
CHAT: Any = {
    "model": "smollm2-135m-instruct",
    "max_tokens": 4,
    "tools": [
        {"type": "function", "function": {"name": name, "description": f"To {name}.", "parameters": {"type": "object"}}}
        for name in NAMES
    ],
    "messages": [{"role": "system", "content": "You serve readers."}, {"role": "user", "content": "A book on bees?"}],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def ask(program: Program, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Ask over a connection of its own."""
    told = {"authorization": "Bearer any", **headers}
    answer = httpx.post(program.url + "/v1/chat/completions", json=body, headers=told, timeout=60)
    answer.raise_for_status()
    return answer


def grown(body: dict[str, Any], answer: httpx.Response) -> dict[str, Any]:
    """The next turn of a client that shuffles its tools."""
    said = {"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]}
    tools = [*body["tools"][1:], body["tools"][0]]
    return {**body, "tools": tools, "messages": [*body["messages"], said, {"role": "user", "content": "Go on."}]}


def children(pid: int, part: str) -> list[int]:
    """The child processes whose command has this part."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return sorted(int(row[0]) for row in rows if row[1] == str(pid) and part in row[2])


def is_alive(pid: int) -> bool:
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return told.strip() != "" and not told.startswith("Z")


def test_a_killed_engine_comes_back(embedded: Program) -> None:
    first = ask(embedded, CHAT)
    (engine,) = children(embedded.child.pid, "engines.child")
    os.kill(engine, signal.SIGKILL)
    second = ask(embedded, grown(CHAT, first))  # waits for the engine, and fails for nobody
    assert second.headers["x-standfast-cause"] == "T1"
    embedded.wait_for_line(r"engine restarted exit_code=-9 restarts=1")
    (again,) = children(embedded.child.pid, "engines.child")
    assert again != engine
    body, answer = grown(grown(CHAT, first), second), second
    for _ in range(2):  # the request that was waiting has its slot forgotten with all the others
        before, answer = answer, ask(embedded, body)
        body = grown(body, answer)
    cached, _ = map(int, answer.headers["x-standfast-hit"].split("/"))
    assert cached >= before.json()["usage"]["prompt_tokens"]


def test_a_running_stream_ends_in_good_order(start_embedded: Start, home: Path) -> None:
    with start_embedded(home) as program:
        (engine,) = children(program.child.pid, "engines.child")
        with openai.OpenAI(base_url=program.url + "/v1", api_key="any", max_retries=0, timeout=60) as client:
            stream: Any = client.chat.completions.create(**{**CHAT, "max_tokens": 60}, stream=True)
            chunks = [next(stream)]
            program.child.send_signal(signal.SIGTERM)
            chunks += list(stream)
        assert chunks[-1].choices[0].finish_reason in ("length", "stop")
        assert program.child.wait(20) == 0
        assert not is_alive(engine)
        assert "Traceback" not in program.said


def test_a_restarted_gateway_knows_the_session(start_embedded: Start, home: Path) -> None:
    with start_embedded(home) as program:
        first = ask(program, CHAT)
        assert program.stop() == 0
    with start_embedded(home) as program:
        second = ask(program, grown(CHAT, first))
        assert (second.headers["x-standfast-cause"], second.headers["x-standfast-repaired"]) == ("T1", "1")
        # The first prompt's KV state died with the engine; the bytes that were sent are what is known.
        third = ask(program, grown(grown(CHAT, first), second))
        cached, _ = map(int, third.headers["x-standfast-hit"].split("/"))
        assert cached >= second.json()["usage"]["prompt_tokens"]
        assert program.stop(signal.SIGINT) == 0


@contextlib.contextmanager
def asleep(pid: int) -> Iterator[None]:
    """A process that takes no part for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_workers_share_what_they_know(start_embedded: Start, tmp_path: Path) -> None:
    """Each turn of a session is made to go to the other worker, by letting one sleep."""
    with start_embedded(tmp_path, "--workers", "2") as program:
        workers = _workers(program)
        body, answer = CHAT, None
        for turn in range(3):  # a fourth would have the tools in their first order again
            with asleep(workers[turn % 2]):
                body = body if answer is None else grown(body, answer)
                answer = ask(program, body)
                verdict = answer.headers["x-standfast-cause"], answer.headers["x-standfast-repaired"]
                assert verdict == (("T1", "1") if turn else ("none", "0"))
                time.sleep(0.2)  # what it learned from the answer goes to the file behind the request
        cached, prompt = map(int, answer.headers["x-standfast-hit"].split("/")) if answer else (0, 1)
        assert cached > 0.7 * prompt
        assert program.stop() == 0
        assert not any(map(is_alive, workers))


def _workers(program: Program) -> list[int]:
    """Both workers, once both take requests: each answers while the other sleeps."""
    end = time.monotonic() + 30
    while len(found := children(program.child.pid, "spawn_main")) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    for pid in found:
        with asleep(pid):
            assert httpx.get(program.url + "/healthz", timeout=30).text == "alive\n"
    return found
