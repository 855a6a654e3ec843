from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from standfast.config import Settings
from standfast.engines import embedded
from standfast.engines.embedded import EmbeddedEngine
from standfast.errors import EngineFailed, ModelBroken, ModelMissing
from standfast.events import EngineRestarted, Event, nobody

pytestmark = pytest.mark.engine
CHAT = {"max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def started(settings: Settings, observe: Callable[[Event], None] = nobody) -> AsyncIterator[EmbeddedEngine]:
    engine = EmbeddedEngine(settings, observe)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def chat(url: str) -> int:
    async with httpx.AsyncClient(timeout=60) as client:
        return (await client.post(f"{url}/v1/chat/completions", json=CHAT)).status_code


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


async def kill_and_wait(engine: EmbeddedEngine) -> None:
    assert engine.pid is not None
    engine._settled.clear()  # the watcher does this when it sees the death, which may be after the next line
    os.kill(engine.pid, signal.SIGKILL)
    await asyncio.wait_for(engine.ready(), 60)


async def test_start_and_stop(own_settings: Settings) -> None:
    async with started(own_settings) as engine:
        pid, url = engine.pid, engine.base_url
        assert pid is not None
        await engine.ready()
        assert await chat(url) == 200
        assert (engine.context, engine.slots) == (1024, 2)
        mode = stat.S_IMODE(engine.log_path.stat().st_mode)
        assert mode == 0o600
        waiter = asyncio.create_task(engine.wait())
    assert gone(pid)
    await waiter
    assert engine.pid is None
    with pytest.raises(EngineFailed, match="not started"):
        _ = engine.base_url
    await engine.stop()
    with pytest.raises(httpx.ConnectError):
        await chat(url)


async def test_a_killed_child_is_restarted_at_the_same_address(own_settings: Settings) -> None:
    events: list[Event] = []
    async with started(own_settings, events.append) as engine:
        url, first = engine.base_url, engine.pid
        await kill_and_wait(engine)
        assert engine.base_url == url
        assert engine.pid != first
        assert await chat(url) == 200
        assert engine.restarts == 1
        assert engine.log_path.with_name("engine.log.1").exists()
    assert events == [EngineRestarted("", -signal.SIGKILL, 1)]


async def test_an_observer_that_fails_does_not_end_the_supervision(own_settings: Settings) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError(event)

    async with started(own_settings, broken) as engine:
        await kill_and_wait(engine)
        await kill_and_wait(engine)
        assert await chat(engine.base_url) == 200


async def test_it_is_given_up_when_it_keeps_dying(own_settings: Settings, model_file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    shutil.copy(model_file, mine)
    async with started(replace(own_settings, engine_model=mine)) as engine:
        assert engine.pid is not None
        mine.unlink()  # mapped by the running child, gone for the next
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match=r"died 5 times within 60 s .*failed to open GGUF file"):
            await asyncio.wait_for(engine.wait(), 60)
        with pytest.raises(EngineFailed, match="given up"):
            await engine.ready()


async def test_stop_while_it_restarts(own_settings: Settings) -> None:
    async with started(own_settings) as engine:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        await asyncio.sleep(0.15)
    assert engine.pid is None


async def test_a_model_that_cannot_be_loaded(own_settings: Settings, model_file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "cut.gguf"
    with model_file.open("rb") as file:
        broken.write_bytes(file.read(3_000_000))
    with pytest.raises(EngineFailed, match=r"exit status 1.*corrupted or incomplete") as caught:
        await EmbeddedEngine(replace(own_settings, engine_model=broken)).start()
    assert "\n" not in str(caught.value)
    broken.write_bytes(b"junk")
    with pytest.raises(ModelBroken):
        await EmbeddedEngine(replace(own_settings, engine_model=broken)).start()
    with pytest.raises(ModelMissing):
        await EmbeddedEngine(replace(own_settings, state_dir=tmp_path / "empty")).start()


async def test_a_start_that_takes_too_long(own_settings: Settings) -> None:
    engine = EmbeddedEngine(own_settings, start_seconds=0.01)
    with pytest.raises(EngineFailed, match="was not up after"):
        await engine.start()
    assert engine.pid is None


async def test_a_cancelled_start_leaves_nothing(own_settings: Settings) -> None:
    engine = EmbeddedEngine(own_settings)
    task = asyncio.create_task(engine.start())
    while engine.pid is None:
        await asyncio.sleep(0.01)
    pid = engine.pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(pid)


async def test_a_child_that_does_not_leave_is_killed(own_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.2)
    async with started(own_settings) as engine:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
    assert engine.pid is None


async def test_ctrl_c_does_not_reach_the_child(own_settings: Settings) -> None:
    async with started(own_settings) as engine:
        pid = engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        await asyncio.sleep(0.2)
        assert engine.pid == pid
        os.kill(pid, signal.SIGTERM)
        assert await asyncio.to_thread(gone, pid)


PARENT = """
import asyncio, sys, pathlib
from standfast.config import Settings
from standfast.engines.embedded import EmbeddedEngine

async def main():
    engine = EmbeddedEngine(Settings(state_dir=pathlib.Path(sys.argv[1]), engine_model=pathlib.Path(sys.argv[2])))
    await engine.start()
    sys.stdout.write(f"{engine.pid}\\n")
    sys.stdout.flush()
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_the_child_leaves_when_its_parent_is_killed(own_settings: Settings) -> None:
    command = [sys.executable, "-c", PARENT, str(own_settings.state_dir), str(own_settings.engine_model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert gone(pid)


def test_running_has_a_loop_of_its_own(engine: EmbeddedEngine, client: httpx.Client) -> None:
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while engine.pid in (None, pid) or not answers(client):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def test_running_passes_a_failed_start_on(own_settings: Settings) -> None:
    with pytest.raises(ModelMissing), embedded.running(replace(own_settings, engine_model=Path("/no/such.gguf"))):
        pass


def test_the_port_is_kept_from_strangers() -> None:
    held = embedded._hold_port()
    with held, socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(held.getsockname())
