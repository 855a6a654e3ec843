"""The demo's stage: the embedded engine, and a gateway in front of it, for as long as the demo runs."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import uvicorn
from rich.console import Console

from standfast.config import Settings
from standfast.demo.figures import DemoResult
from standfast.demo.report import demo
from standfast.demo.run import empty_slots
from standfast.engines.embedded import EmbeddedEngine
from standfast.gateway import build, server
from standfast.observe import log
from standfast.observe.metrics import Metrics


async def play(settings: Settings, console: Console, as_json: bool) -> DemoResult:
    """Run the demo. Raises EngineError or UpstreamError."""
    async with stage(settings) as (engine, gateway):
        return await demo(engine, gateway, console, as_json, lambda: empty_slots(engine))


@contextlib.asynccontextmanager
async def stage(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """Addresses of an engine and of a gateway in front of it. Raises EngineError."""
    log.set_up("warning")
    with tempfile.TemporaryDirectory(prefix="standfast-demo-") as folder:
        # One slot and no kept states, so that all runs find the same engine; a ledger of its own, so that nothing is
        # known beforehand.
        settings = replace(settings, workers=1, engine_slots=1, kv=False, ledger="memory", upstreams=())
        engine = EmbeddedEngine(replace(settings, state_dir=_beside_models(settings, Path(folder))))
        await engine.start()
        try:
            async with _gateway(settings, engine) as url:
                yield engine.base_url, url
        finally:
            await engine.stop()


def _beside_models(settings: Settings, folder: Path) -> Path:
    """A state folder of the demo's own that has the installed models: a gateway that runs keeps its engine log."""
    (folder / "models").symlink_to(settings.models_dir.resolve())
    return folder


class _Server(uvicorn.Server):
    """A server inside another program: signals are that program's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _gateway(settings: Settings, engine: EmbeddedEngine) -> AsyncIterator[str]:
    app = build.make_app(settings, Metrics(), engine.base_url)
    with contextlib.closing(server.listen("127.0.0.1", 0)) as listener:
        serving = _Server(server.config_of(settings, app))
        task = asyncio.create_task(serving.serve(sockets=[listener]))
        try:
            yield server.url_of(listener)
        finally:
            serving.should_exit = True
            await task
