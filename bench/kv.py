"""Sessions that come back after a crash: KV state kept by Standfast, beside what llama.cpp has of its own.

    python bench/kv.py [--sessions 100] [--sample 8] [--json]

1. So many sessions, whose system prompt and tools are the same 1,500 tokens, send a first turn through
   ``standfast serve`` with the embedded model. Then it is killed (SIGKILL) and started again, and each sends its next
   turn: how much of it came from where, and how long its first byte took.
2. The same next turns of a sample go to a llama-server that has nothing of them (cold), to one into whose slot the
   state is restored by its own slot files, and to one that ran the first turns with its own prompt cache in RAM (which
   does not survive a restart; it is not restarted).

Attainable is the whole first turn, prompt and answer. All times are of streamed requests, to the first byte.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from machine import lines, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from standfast import config
from standfast.engines import cores, model
from standfast.engines.child import COMMAND, ChildConfig
from standfast.store.opening import archive

CONTEXT, SLOTS = 4096, 2
STEM = "You work for a library. " + " ".join(f"Rule {n}: shelf {n} holds {n * 7 % 13} books." for n in range(115))


@dataclass
class Session:
    """One conversation."""

    number: int
    said: list[dict[str, str]] = field(default_factory=list)
    prompt: int = 0
    """Tokens of its first turn, prompt and answer: what its second one could find."""

    def body(self, text: str) -> dict[str, Any]:
        """The next turn's request."""
        self.said.append({"role": "user", "content": text})
        messages = [{"role": "system", "content": STEM}, *self.said]
        return {"model": "m", "messages": messages, "max_tokens": 4, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}  # fmt: skip


@dataclass
class Turn:
    """What a turn took."""

    first_byte: float
    seconds: float
    prompt: int
    cached: int
    text: str
    kv: dict[str, float]


def ask(url: str, body: dict[str, Any]) -> Turn:
    """Send one streamed request."""
    usage: dict[str, Any] = {}
    started, first, text = time.perf_counter(), 0.0, ""
    with httpx.stream("POST", url + "/v1/chat/completions", json=body, timeout=300) as response:
        response.raise_for_status()
        kv = {k: float(v) for k, v in re.findall(r"(\w+)=([\d.]+)", response.headers.get("x-standfast-kv", ""))}
        for line in response.iter_lines():
            first = first or time.perf_counter() - started
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event.get("choices", []):
                    text += choice["delta"].get("content") or ""
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return Turn(first, time.perf_counter() - started, usage["prompt_tokens"], cached, text or ".", kv)


@contextlib.contextmanager
def gateway(state: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """``standfast serve`` on a port of its own."""
    console = state / "console"
    command = [sys.executable, "-m", "standfast", "serve", "--port", "0", "--state-dir", str(state),
               "--engine-context", str(CONTEXT), "--engine-slots", str(SLOTS)]  # fmt: skip
    with console.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as child:
        try:
            while not (found := re.search(r"listening\s+on\s+(http://\S+)", console.read_text(encoding="utf-8"))):
                time.sleep(0.05)
                if child.poll() is not None:
                    raise SystemExit(console.read_text(encoding="utf-8"))
            yield found[1], child
        finally:
            if child.poll() is None:
                child.terminate()


@contextlib.contextmanager
def llama_server(folder: Path, cache_mib: int = 0) -> Iterator[str]:
    """llama.cpp's server alone, set up as the embedded engine is."""
    settings = config.load()
    told = ChildConfig(str(model.find(settings)), "m", slots=SLOTS, context=CONTEXT,
                       threads=cores.threads(settings.engine_threads), slot_folder=str(folder),
                       cache_ram_mib=cache_mib)  # fmt: skip
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(told.line())
        child.stdin.flush()
        try:
            yield json.loads(child.stdout.readline())["url"]
        finally:
            child.stdin.close()


def through_standfast(sessions: list[Session], state: Path) -> tuple[list[Turn], dict[str, float]]:
    """Both turns of all sessions, with a crash between them, and what the archive holds."""
    with gateway(state) as (url, child):
        for session in track(sessions, "first turns", transient=True):
            turn = ask(url, session.body(f"Session {session.number}: where is book {session.number}? " * 12))
            session.said.append({"role": "assistant", "content": turn.text})
            session.prompt = turn.prompt
        time.sleep(2)
        child.send_signal(signal.SIGKILL)
        child.wait()
    (tier,) = archive(config.load({"state_dir": str(state)}))
    sizes = dict(tier.shelf.medium.keys())
    contexts = sum(head is not None and head[5] == 3 for head in tier.shelf.peek(list(sizes), 8))
    tier.shelf.medium.close()
    turns = []
    with gateway(state) as (url, _):
        for session in track(sessions, "after the crash", transient=True):
            turns.append(ask(url, session.body("And the atlas?")))
    return turns, {"contexts": contexts, "stored_bytes": sum(sizes.values())}


def cold_and_own(sessions: list[Session], folder: Path) -> tuple[list[Turn], list[Turn], int]:
    """Second turns computed from nothing, and after llama.cpp's own restore; bytes of a slot file."""
    cold, own, size = [], [], 0
    with llama_server(folder) as url:

        def slot(action: str, name: str = "") -> Any:
            answer = httpx.post(f"{url}/slots/0?action={action}", json={"filename": name}, timeout=60)
            answer.raise_for_status()
            return answer.json()

        for session in track(sessions, "llama.cpp alone", transient=True):
            second = {**Session(0, session.said[:-1]).body(session.said[-1]["content"]), "id_slot": 0}
            slot("erase")
            cold.append(ask(url, second))
            slot("erase")
            ask(url, {**Session(0).body(session.said[0]["content"]), "id_slot": 0})
            size = max(size, slot("save", "own")["n_written"])
            slot("erase")
            started = time.perf_counter()
            slot("restore", "own")
            restored = time.perf_counter() - started
            turn = ask(url, second)
            turn.first_byte += restored
            turn.seconds += restored
            own.append(turn)
    return cold, own, size


def ram_cache(sessions: list[Session], folder: Path) -> list[Turn]:
    """Second turns with llama.cpp's prompt cache in RAM, which kept the first ones."""
    with llama_server(folder, cache_mib=8192) as url:
        for session in track(sessions, "llama.cpp's RAM cache", transient=True):
            ask(url, Session(0).body(session.said[0]["content"]))
        return [ask(url, Session(0, session.said[:-1]).body(session.said[-1]["content"])) for session in sessions]


def row(turns: list[Turn], prompts: list[int]) -> dict[str, float]:
    """Figures of one way."""
    return {
        "cached_of_attainable": sum(min(t.cached, p) for t, p in zip(turns, prompts, strict=True)) / sum(prompts),
        "least": min(min(t.cached, p) / p for t, p in zip(turns, prompts, strict=True)),
        "first_byte_ms": median(t.first_byte for t in turns) * 1e3,
        "load_ms": median(t.kv.get("ms", 0.0) for t in turns),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--sample", type=int, default=8, help="sessions that also go to llama.cpp alone")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts = machine()
    sessions = [Session(n) for n in range(given.sessions)]
    with tempfile.TemporaryDirectory(prefix="standfast-bench-") as name:
        folder = Path(name)
        (folder / "models").symlink_to(config.load().models_dir.resolve())
        turns, stored = through_standfast(sessions, folder)
        sample = sessions[: given.sample]
        cold, own, slot_bytes = cold_and_own(sample, folder)
        ram = ram_cache(sample, folder)
    prompts = [session.prompt for session in sessions]
    ways = {"Standfast, restarted": row(turns, prompts)}
    for way, found in (("llama.cpp, cold", cold), ("llama.cpp, own slot file", own), ("llama.cpp, RAM cache", ram)):
        ways[way] = row(found, prompts[: len(found)])
    stored |= {"slot_files_bytes": slot_bytes * given.sessions, "prompt_tokens": median(prompts),
               "load_share": median(t.kv["ms"] / 1e3 / t.seconds for t in turns)}  # fmt: skip
    if given.json:
        print(json.dumps({"machine": facts, "ways": ways, "stored": stored}, indent=1))
        return
    table = Table("next turn", "cached of attainable", "least of a session", "first byte (median)", "load")
    for way, f in ways.items():
        table.add_row(way, f"{f['cached_of_attainable']:.2%}", f"{f['least']:.2%}", f"{f['first_byte_ms']:.0f} ms",
                      f"{f['load_ms']:.0f} ms" if f["load_ms"] else "")  # fmt: skip
    console = Console()
    console.print(lines(facts), highlight=False)
    console.print(table)
    console.print(
        f"{given.sessions} sessions of {stored['prompt_tokens']:.0f} tokens: {stored['contexts']:.0f} contexts in "
        f"{stored['stored_bytes'] / 1e6:.0f} MB; as slot files {stored['slot_files_bytes'] / 1e6:.0f} MB. "
        f"Finding, loading and restoring took {stored['load_share']:.1%} of a request (median).", highlight=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
