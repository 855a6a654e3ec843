"""Several worker processes behind one listening socket. The parent starts, watches and ends them; it serves nothing."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType

from standfast.config import Settings
from standfast.errors import EngineFailed
from standfast.gateway import server
from standfast.observe import log
from standfast.observe.metrics import Metrics

logger = logging.getLogger("standfast.gateway")

_POLL = 0.1
_MAX_DEATHS, _DEATHS_WITHIN = 5, 30.0
_KILL_AFTER = 5.0
"""Seconds that a worker gets beyond its own shutdown timeout."""


class Workers:
    """The processes. They begin from nothing ("spawn"): forking a process with threads is not safe."""

    def __init__(
        self, settings: Settings, make_app: server.AppFactory, metrics: Metrics, listener: socket.socket
    ) -> None:
        self._settings = settings
        self._make_app = make_app
        self._metrics = metrics
        self._listener = listener
        self._spawn = multiprocessing.get_context("spawn")
        self._up = self._spawn.Event()
        self._processes: list[BaseProcess] = []
        self._deaths: deque[float] = deque(maxlen=_MAX_DEATHS)
        self._signals = 0

    def run(self, announce: Callable[[], None]) -> None:
        """Serve until a signal. Raises EngineFailed if workers die as fast as they are started."""
        before = {number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._processes = [self._start() for _ in range(self._settings.workers)]
            announced = False
            while not self._signals:
                if not announced and self._up.is_set():
                    announce()
                    announced = True
                self._replace_dead()
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _start(self) -> BaseProcess:
        process = self._spawn.Process(
            target=_work,
            args=(self._settings, self._make_app, self._metrics.directory, self._listener, self._up),
            name="standfast-worker",
        )
        process.start()
        return process

    def _replace_dead(self) -> None:
        connection.wait([p.sentinel for p in self._processes], timeout=_POLL)
        for index, process in enumerate(self._processes):
            if process.exitcode is None or self._signals:
                continue
            self._bury(process)
            self._deaths.append(time.monotonic())
            recent = sum(time.monotonic() - death <= _DEATHS_WITHIN for death in self._deaths)
            if recent >= _MAX_DEATHS:
                raise EngineFailed(f"workers died {recent} times within {_DEATHS_WITHIN:.0f} s; the log above says why")
            logger.warning("worker ended exit_code=%s; another is started", process.exitcode)
            self._processes[index] = self._start()

    def _end(self) -> None:
        """Ask each worker to end; ask again after a second signal; kill what stays."""
        asked = 1
        self._listener.close()  # who calls now is refused, and does not wait for a worker that will not come
        self._terminate()
        patience = time.monotonic() + self._settings.shutdown_timeout + _KILL_AFTER
        while any(p.exitcode is None for p in self._processes) and time.monotonic() < patience:
            connection.wait([p.sentinel for p in self._processes if p.exitcode is None], timeout=_POLL)
            if self._signals > 1 and asked == 1:
                asked = 2
                self._terminate()
                patience = min(patience, time.monotonic() + _KILL_AFTER)
        for process in self._processes:
            if process.exitcode is None:
                process.kill()
            self._bury(process)

    def _terminate(self) -> None:
        for process in self._processes:
            process.terminate()

    def _bury(self, process: BaseProcess) -> None:
        process.join()
        if process.pid is not None:
            self._metrics.worker_ended(process.pid)


def _work(
    settings: Settings, make_app: server.AppFactory, directory: Path | None, listener: socket.socket, up: Event
) -> None:
    """A worker's whole life."""
    # Ctrl-C reaches the whole process group; the parent passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.set_up(settings.log_level)
    app = make_app(settings, Metrics(directory))
    _Worker(server.config_of(settings, app), up.set).run(sockets=[listener])


class _Worker(server.Server):
    """A server that takes its orders from the parent, and does not outlive it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # uvicorn has set its own handler by now
        parent = multiprocessing.parent_process()
        if parent is not None:
            asyncio.get_running_loop().add_reader(parent.sentinel, self._orphaned, parent.sentinel)
        await super().startup(sockets)

    def _orphaned(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        self.should_exit = True
