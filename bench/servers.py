"""Starts and stops what a bench talks to: the dummy upstream, Standfast, the LiteLLM proxy. One process each."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bodies import MODEL
from load import KEY

HERE = Path(__file__).resolve().parent
STANDFAST = f"{shlex.quote(sys.executable)} -m standfast serve --upstream {{upstream}} --port {{port}}"
"""Command line of the gateway under test."""

_LITELLM = """\
model_list:
  - model_name: {model}
    litellm_params:
      model: openai/{model}
      api_base: {upstream}/v1
      api_key: sk-bench
litellm_settings:
  callbacks: []
  num_retries: 0
  request_timeout: 60
  set_verbose: false
"""


class NotStarted(Exception):
    """A child did not come up."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to send requests to."""

    name: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """CPU time that its processes have used; 0 where the system does not tell (it has no /proc)."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # that process has just ended
            if int(fields[3]) == self.pid:  # its session: each target leads one of its own
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def dummy() -> Iterator[Target]:
    """The dummy upstream."""
    port = free_port()
    argv = [sys.executable, str(HERE / "dummy_upstream.py"), "--port", str(port)]
    with _child("direct", argv, {}, port, "/count", 10, HERE) as pid:
        yield Target("direct", port, pid)


@contextmanager
def standfast(
    upstream: Target, folder: Path, *, name: str = "standfast", command: str = STANDFAST,
    env: Mapping[str, str] | None = None,
) -> Iterator[Target]:  # fmt: skip
    """The gateway in front of the dummy upstream, with a state folder of its own and no configuration file."""
    port = free_port()
    argv = shlex.split(command.format(upstream=f"http://127.0.0.1:{upstream.port}", port=port))
    folder.mkdir(parents=True, exist_ok=True)
    empty = folder / "standfast.toml"
    empty.write_text("", encoding="utf-8")
    settings = {"STANDFAST_STATE_DIR": str(folder), "STANDFAST_CONFIG": str(empty), **(env or {})}
    with _child(name, argv, settings, port, "/readyz", 30, folder) as pid:
        yield Target(name, port, pid)


@contextmanager
def litellm(upstream: Target, venv: Path, folder: Path, extra: Sequence[str] = ()) -> Iterator[Target]:
    """The LiteLLM proxy: one worker, no database, no callbacks, logging off."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(model=MODEL, upstream=f"http://127.0.0.1:{upstream.port}"), encoding="utf-8")
    argv = [str(venv / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--num_workers", "1", *extra]
    env = {
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_BLOG_POSTS": "True",
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    with _child("litellm", argv, env, port, "/health/liveliness", 120, folder) as pid:
        yield Target("litellm", port, pid)


@contextmanager
def _child(
    name: str, argv: Sequence[str], env: Mapping[str, str], port: int, ready: str, wait: float, folder: Path
) -> Iterator[int]:
    log = folder / f"{name}.log" if folder != HERE else Path(os.devnull)
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv, env={**os.environ, **env}, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder
        )
        try:
            _await(name, process, port, ready, wait, log)
            yield process.pid
        finally:
            _stop(process)


def _await(name: str, process: subprocess.Popen[bytes], port: int, ready: str, wait: float, log: Path) -> None:
    end = time.monotonic() + wait
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        if _answers(port, ready):
            return
        time.sleep(0.1)
    tail = log.read_text(encoding="utf-8", errors="replace")[-2_000:] if log.is_file() else ""
    raise NotStarted(f"{name} did not answer {ready} on port {port}; its output ends:\n{tail}")


def _answers(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
            return b" 200 " in s.recv(64)
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started: they are a process group of their own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                continue
    return
