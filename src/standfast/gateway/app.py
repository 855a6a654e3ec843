"""The ASGI application: the gateway's own pages, and an exchange for everything else."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence

from standfast.config import Settings, Upstream
from standfast.errors import RequestError, StandfastError, Unauthorized, place
from standfast.events import Observer, nobody
from standfast.gateway import auth, faults
from standfast.gateway.caller import Caller, Receive, Scope, Send
from standfast.gateway.engine import EngineSide
from standfast.gateway.exchange import Exchange, Parts
from standfast.gateway.fan_out import FanOut
from standfast.gateway.relay import Relay
from standfast.gateway.routes import Routes
from standfast.observe.metrics import Metrics
from standfast.turn import Turns

_ENGINE_ANSWERS_IN = 2.0
_LAST_WORDS = 1.0
_TEXT = b"text/plain; charset=utf-8"


class Gateway:
    """The application.

    ``probe`` is called by /readyz and raises if the ledger cannot be used. ``close`` is called once the last request
    has ended, at shutdown.
    """

    def __init__(
        self,
        settings: Settings,
        turns: Turns,
        upstreams: Sequence[Upstream],
        *,
        metrics: Metrics,
        observe: Observer = nobody,
        engine: EngineSide | None = None,
        probe: Callable[[], object] | None = None,
        close: Callable[[], object] | None = None,
        flush: Callable[[], object] | None = None,
    ) -> None:
        self._relay = Relay(settings)
        self._parts = Parts(
            settings, turns, Routes(upstreams), self._relay, observe, engine, FanOut(settings.fan_out_wait), flush
        )
        self._metrics = metrics
        self._probe = probe
        self._close = close
        self._running = 0
        self._engine_url = next((u.url for u in upstreams if engine and u.name == engine.upstream), None)
        self._pages = {"/healthz": self._health, "/readyz": self._ready, "/metrics": self._show_metrics}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        match scope["type"]:
            case "http" if (page := self._pages.get(scope["path"])) and scope["method"] in ("GET", "HEAD"):
                await page(Caller(scope["headers"], receive, send))
            case "http":
                await self._exchange(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1003, "reason": "websockets are not supported"})

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._running += 1
        try:
            with self._metrics.in_flight():
                await Exchange(self._parts, scope, receive, send, "sf-" + secrets.token_hex(12)).run()
        finally:
            self._running -= 1

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._relay.open()
                if self._parts.engine is not None:
                    await self._parts.engine.open()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._shut_down()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _shut_down(self) -> None:
        # Requests that were cut off may still be on their way out, and each tells the ledger how it ended.
        end = time.monotonic() + _LAST_WORDS
        while self._running and time.monotonic() < end:
            await asyncio.sleep(0.01)
        if self._parts.engine is not None:
            await self._parts.engine.close()
        await self._relay.close()
        if self._close is not None:
            self._close()

    async def _health(self, caller: Caller) -> None:
        await caller.answer(200, b"alive\n", _TEXT, [])

    async def _ready(self, caller: Caller) -> None:
        reason = self._ledger_fault() or await self._engine_fault()
        if reason is None:
            await caller.answer(200, b"ready\n", _TEXT, [])
        else:
            await caller.answer(503, f"not ready: {reason}\n".encode(), _TEXT, [])

    def _ledger_fault(self) -> str | None:
        try:
            if self._probe is not None:
                self._probe()
        except Exception as error:
            return f"the ledger cannot be used ({place(error)})"
        return None

    async def _engine_fault(self) -> str | None:
        if self._engine_url is None:
            return None
        try:
            async with asyncio.timeout(_ENGINE_ANSWERS_IN):
                response = await self._relay.send("engine", "GET", self._engine_url + "/health", [], None)
                response.close()
        except TimeoutError:
            return f"the engine did not answer within {_ENGINE_ANSWERS_IN:g} s"
        except StandfastError as error:
            return str(error)
        return None if response.status == 200 else f"the engine answers {response.status}"

    async def _show_metrics(self, caller: Caller) -> None:
        try:
            auth.admit(caller.headers, self._parts.settings.gateway_key, bearer=True)
        except Unauthorized as error:
            await self._refuse_page(caller, error)
            return
        body, kind = self._metrics.page()
        await caller.answer(200, body, kind.encode(), [])

    async def _refuse_page(self, caller: Caller, error: RequestError) -> None:
        body = faults.body("openai_chat", error.status, str(error), "")
        await caller.answer(error.status, body, b"application/json", [])
