"""Listens, serves, and ends in good order; one process, or several behind one socket.

The first SIGTERM or SIGINT stops accepting and lets running responses finish, for ``shutdown_timeout`` seconds at most.
The second cuts them off.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from standfast.config import Settings
from standfast.errors import ConfigError, PortTaken
from standfast.gateway.caller import ASGI
from standfast.observe.metrics import Metrics

AppFactory = Callable[[Settings, Metrics], ASGI]
"""Makes the application. With several workers it is called in each of them, so it must be picklable: a function of a
module, or a ``functools.partial`` of one."""
Announce = Callable[[str], None]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_KEEP_ALIVE = 75  # seconds; SDKs keep a connection for a minute and must not find it closed
_BACKLOG = 2048


def serve(settings: Settings, make_app: AppFactory, metrics: Metrics, announce: Announce = lambda url: None) -> None:
    """Serve until told to stop. ``announce`` gets the address once requests are taken.

    Raises PortTaken or ConfigError if the address cannot be listened on; nothing has been started then.
    """
    listener = listen(settings.host, settings.port)
    try:
        if settings.workers > 1:
            from standfast.gateway.workers import Workers

            Workers(settings, make_app, metrics, listener).run(lambda: announce(url_of(listener)))
        else:
            run(settings, make_app(settings, metrics), listener, lambda: announce(url_of(listener)))
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises PortTaken, or ConfigError for a host that is not this machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise ConfigError(f"host {host!r} cannot be resolved; give an address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Listening at once tells a port that is taken, and makes early callers wait instead of being refused.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _reason(error, host, port) from None
    return listener


def _reason(error: OSError, host: str, port: int) -> PortTaken | ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTaken(f"port {port} on {host} is in use; stop what listens there, or give another --port")
        case errno.EACCES:
            return PortTaken(f"port {port} on {host} needs more rights than this user has; give a --port over 1023")
        case _:
            return ConfigError(f"cannot listen on {host} port {port}: {error.strerror}")


def url_of(listener: socket.socket) -> str:
    """The address to reach a listener at."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def run(settings: Settings, app: ASGI, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve with this process alone."""
    Server(config_of(settings, app), announce).run(sockets=[listener])


def config_of(settings: Settings, app: ASGI) -> uvicorn.Config:
    """How uvicorn is set up: nothing of its own in requests, responses or the log."""
    return uvicorn.Config(
        app,
        http=Protocol,
        loop="auto",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        # None would wait for ever; 0 seconds is taken as it is.
        timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]  # a float is as good
    )


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; it also tells the application of an absolute request target, which ASGI hides."""

    def on_headers_complete(self) -> None:
        """The request's head is there."""
        if not self.url.startswith(b"/"):
            self.scope["state"]["absolute_target"] = True
        super().on_headers_complete()


class Server(uvicorn.Server):
    """uvicorn's server, with our handling of signals."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self._tell_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving, then leave them as they were.

        uvicorn's own raises them again at the end, which kills the process before its caller has cleaned up.
        """
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            self.should_exit = True
        else:
            self.cut()

    def cut(self) -> None:
        """Do not wait for running responses: break their connections off. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        # uvicorn's own force_exit would skip the application's shutdown, and leave its sessions open.
        for connection in list(self.server_state.connections):
            transport: Any = connection.transport
            if transport is not None:
                transport.abort()
