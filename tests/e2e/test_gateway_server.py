"""The gateway as a process: signals, workers, a taken port."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from upstream import Served, Turn, serve

from standfast.errors import ConfigError, PortTaken
from standfast.gateway.server import listen

PROGRAM = Path(__file__).resolve().parent.parent / "gateway_process.py"
PATIENCE = 20.0
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
SLOW = Turn(text="one two three four five six", piece=4, event_delay=0.1)


class Process:
    """A gateway that runs as a program."""

    def __init__(self, child: subprocess.Popen[str], url: str) -> None:
        self.child = child
        self.url = url

    def end(self) -> tuple[int, str]:
        """Exit status and what it said on standard output since it was up."""
        assert self.child.stdout is not None
        said = self.child.stdout.read()
        return self.child.wait(PATIENCE), said


@contextlib.contextmanager
def process(upstream: Served, workers: int = 1, patience: float = 10.0) -> Iterator[Process]:
    command = [sys.executable, str(PROGRAM), upstream.url, "0", str(workers), str(patience)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield Process(child, child.stdout.readline().strip())
        finally:
            if child.poll() is None:
                child.kill()


@pytest.mark.parametrize("workers", [1, 2])
class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_lets_responses_finish(self, workers: int, number: signal.Signals) -> None:
        with serve([SLOW]) as upstream, process(upstream, workers) as gateway:
            with httpx.stream(
                "POST", gateway.url + "/v1/chat/completions", json={**CHAT, "stream": True}, timeout=PATIENCE
            ) as response:
                pieces = response.iter_raw()
                text = next(pieces)
                gateway.child.send_signal(number)
                time.sleep(0.3)
                with pytest.raises(httpx.TransportError):
                    httpx.get(gateway.url + "/healthz", timeout=0.5)
                text += b"".join(pieces)
            assert text.endswith(b"data: [DONE]\n\n")
            assert gateway.end() == (0, "ended\n")

    def test_the_second_cuts(self, workers: int) -> None:
        with serve([Turn(never=True)]) as upstream, process(upstream, workers, patience=60) as gateway, asking(gateway):
            upstream.wait_for(1)
            gateway.child.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            assert gateway.child.poll() is None
            gateway.child.send_signal(signal.SIGTERM)
            assert gateway.end() == (0, "ended\n")

    def test_patience_ends(self, workers: int) -> None:
        with (
            serve([Turn(never=True)]) as upstream,
            process(upstream, workers, patience=0.5) as gateway,
            asking(gateway),
        ):
            upstream.wait_for(1)
            gateway.child.send_signal(signal.SIGTERM)
            assert gateway.end() == (0, "ended\n")


@contextlib.contextmanager
def asking(gateway: Process) -> Iterator[None]:
    """A request that is under way."""
    with socket.create_connection(("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))) as peer:
        peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        yield


class TestWorkers:
    def test_share_port_and_metrics(self) -> None:
        with serve(lambda request: Turn(text="Hi")) as upstream, process(upstream, workers=2) as gateway:
            for _ in range(12):  # a connection each, so that both workers get some
                assert httpx.post(gateway.url + "/v1/chat/completions", json=CHAT).status_code == 200
            page = httpx.get(gateway.url + "/metrics").text
            assert re.search(
                r'standfast_requests_total\{dialect="openai_chat",status="2xx",upstream="up"\} 12\.0', page
            )
            gateway.child.terminate()
            assert gateway.end() == (0, "ended\n")

    def test_a_dead_one_is_replaced(self) -> None:
        with serve(lambda request: Turn(text="Hi")) as upstream, process(upstream, workers=2) as gateway:
            before = _children(gateway.child.pid)
            os.kill(before[-1], signal.SIGKILL)
            end = time.monotonic() + PATIENCE
            while len(set(_children(gateway.child.pid)) - set(before)) != 1 and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(1)
            for _ in range(4):
                assert httpx.post(gateway.url + "/v1/chat/completions", json=CHAT).status_code == 200
            gateway.child.terminate()
            assert gateway.end() == (0, "ended\n")

    def test_leave_with_their_parent(self) -> None:
        with serve() as upstream, process(upstream, workers=2) as gateway:
            workers = _children(gateway.child.pid)
            assert len(workers) == 2
            gateway.child.kill()
            gateway.child.wait()
            end = time.monotonic() + PATIENCE
            while any(_alive(pid) for pid in workers) and time.monotonic() < end:
                time.sleep(0.05)
            assert not any(_alive(pid) for pid in workers)


def _children(pid: int) -> list[int]:
    """The worker processes; multiprocessing's own resource tracker is not one."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return sorted(int(row[0]) for row in rows if row[1] == str(pid) and "spawn_main" in row[2])


def _alive(pid: int) -> bool:
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return told.strip() != "" and not told.startswith("Z")


class TestListen:
    def test_port_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use"):
                listen("127.0.0.1", port)

    @pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7"])
    def test_not_an_address_of_this_machine(self, host: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(host)):
            listen(host, 0)
