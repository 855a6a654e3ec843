"""`standfast serve` as a user starts it: a program of its own, with a state folder of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

START, STOP = 90.0, 30.0
_LISTENING = re.compile(r"is listening\s+on\s+(http://\S+)")


@dataclass
class Program:
    """A gateway that runs."""

    child: subprocess.Popen[bytes]
    url: str
    state: Path
    console: Path
    """What it writes to standard error."""

    @property
    def said(self) -> str:
        """Its standard error so far: the announcement and the log."""
        return self.console.read_text(encoding="utf-8")

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """The first match of a pattern in what it says."""
        end = time.monotonic() + STOP
        while not (found := re.search(pattern, self.said, re.M)):
            if time.monotonic() > end:
                raise TimeoutError(f"it did not say {pattern!r}:\n{self.said}")
            time.sleep(0.02)
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end, and wait; its exit status."""
        self.child.send_signal(number)
        return self.child.wait(STOP)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which no setting of this machine's user is seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STANDFAST_", "XDG_"))}
    # Proxies are for the world outside, and everything here is on this machine.
    kept = {name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}
    return {**kept, "HOME": str(home), "COLUMNS": "200", "OMP_NUM_THREADS": "1", **more}


def run(*arguments: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "standfast", *arguments]
    return subprocess.run(
        command, env=environment(home, **more), cwd=home, capture_output=True, text=True, timeout=START, check=False
    )


@contextlib.contextmanager
def serving(home: Path, *arguments: str, **more: str) -> Iterator[Program]:
    """Run ``standfast serve`` on a free port. Its state folder is ``home/state``, and outlives it."""
    state, console = home / "state", home / "console"
    # A busy machine must not turn a test of something else into one of the work budget.
    command = [sys.executable, "-m", "standfast", "serve", "--port", "0", "--state-dir", str(state)]
    command += ["--budget-ms", "2000", *arguments]
    with (
        console.open("wb") as out,
        subprocess.Popen(command, env=environment(home, **more), cwd=home, stdout=out, stderr=out) as child,
    ):
        program = Program(child, "", state, console)
        try:
            program.url = _await_url(program)
            yield program
        finally:
            if child.poll() is None:
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(STOP)
            if child.poll() is None:
                child.kill()


def _await_url(program: Program) -> str:
    end = time.monotonic() + START
    while not (found := _LISTENING.search(program.said)):
        if program.child.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the gateway did not start:\n{program.said}")
        time.sleep(0.02)
    return found[1]
