"""One request's way through the gateway, from the caller's headers to the last byte of the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import aiohttp

from standfast.config import Settings, Upstream
from standfast.errors import RequestError, UpstreamError, place
from standfast.events import Observer
from standfast.gateway import auth, faults, headers, routes
from standfast.gateway.answer import Answer
from standfast.gateway.caller import Caller, Cut, Gone, Receive, Scope, Send
from standfast.gateway.engine import EngineSide, Seat
from standfast.gateway.fan_out import FanOut
from standfast.gateway.headers import Pair, value_of
from standfast.gateway.record import Record
from standfast.gateway.relay import Relay
from standfast.policy import FORM, Leave, Policy, parse
from standfast.turn import Arrival, Plan, Turns

logger = logging.getLogger("standfast.gateway")

_REFUSALS = frozenset({400, 413, 422})
"""Statuses that speak of what is in a request."""
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Parts:
    """What all exchanges of a gateway share."""

    settings: Settings
    turns: Turns
    routes: routes.Routes
    relay: Relay
    observe: Observer
    engine: EngineSide | None
    fan_out: FanOut
    flush: Callable[[], object] | None = None
    """Given where several workers share the ledger: makes what was learned visible to all of them."""

    @property
    def body_limit(self) -> int:
        """Bytes of a request body."""
        return self.settings.max_body_mb << 20

    def engine_at(self, upstream: Upstream) -> EngineSide | None:
        """The engine, if this upstream is it."""
        return self.engine if self.engine is not None and self.engine.upstream == upstream.name else None


class Exchange:
    """One request. ``run`` does all of it, and raises only to cut the connection."""

    def __init__(self, parts: Parts, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        self._parts = parts
        self._scope = scope
        self._method: str = scope["method"]
        self._headers: Sequence[Pair] = scope["headers"]
        self._caller = Caller(self._headers, receive, send)
        self._record = Record(parts.turns, parts.observe, request_id, parts.flush)
        self._form = "openai_chat"
        """The dialect in which errors are told."""

    async def run(self) -> None:
        """Serve the request, whatever happens."""
        try:
            await self._serve()
        except Gone:
            pass
        except asyncio.CancelledError:
            if not self._caller.left:
                raise
            _uncancel()  # by our own watch over the caller; nobody is there to be answered
        except Exception as error:
            await self._refuse(error)
        finally:
            self._caller.unwatch()
            self._record.close(left=self._caller.left)

    async def _serve(self) -> None:
        path = self._checked_path()
        auth.admit(self._headers, self._parts.settings.gateway_key)
        body = await self._body_if_model_decides(path)
        model = routes.model_of(body) if body is not None else ""
        route = self._parts.routes.choose(self._method, path, self._scope["query_string"], model)
        self._record.upstream, self._record.dialect = route.upstream.name, route.dialect
        if route.dialect == routes.OTHER:
            await self._pass_through(route, body)
        else:
            self._form = route.dialect
            await self._converse(route, self._leave(route.upstream), body)

    def _checked_path(self) -> str:
        raw: bytes = self._scope["raw_path"]
        loose = raw.decode("latin-1")
        dialect = routes.dialect_of(self._method, loose)
        if dialect != routes.OTHER:
            self._form = self._record.dialect = dialect
        elif routes.looks_anthropic(loose, frozenset(name for name, _ in self._headers)):
            self._form = "anthropic"
        if self._scope.get("state", {}).get("absolute_target"):
            raise RequestError("The request target must be a path, not an absolute URL.")
        if (value_of(self._headers, b"upgrade") or b"").lower() == b"websocket":
            raise faults.NotSupported("This gateway does not carry websockets; use HTTP with streaming.")
        return routes.checked(raw)

    def _leave(self, upstream: Upstream) -> Leave:
        """The request's own, else the upstream's, else the gateway's."""
        asked = value_of(self._headers, b"x-standfast-policy")
        if asked is None:
            return upstream.policy or self._parts.settings.policy
        try:
            return parse(asked.decode("latin-1"))
        except ValueError:
            raise RequestError(f"The header x-standfast-policy is {FORM}.") from None

    async def _body_if_model_decides(self, path: str) -> bytes | None:
        """The body, read early where the upstream depends on the model in it."""
        if self._method != "POST" or not self._parts.routes.needs_model(path):
            return None
        length = self._caller.length
        is_json = b"json" in (value_of(self._headers, b"content-type") or b"")
        if self._record.dialect == routes.OTHER and not (is_json and length and length <= self._parts.body_limit):
            return None  # an upload: passed through in pieces, to the default upstream
        return await self._caller.body(self._parts.body_limit)

    async def _pass_through(self, route: routes.Route, body: bytes | None) -> None:
        content: bytes | AsyncIterator[bytes] | None = body
        if content is None:
            content = await self._caller.short_body_or_chunks()
        if content == b"" and not any(name in _FRAMING for name, _ in self._headers):
            content = None  # a GET has no body, which is not the same as an empty one
        self._caller.watch()
        out = headers.to_upstream(self._headers, length=None, identity=False)
        response = await self._parts.relay.send(route.upstream.name, self._method, route.url, out, content)
        try:
            await Answer(self._caller, response, self._record).pass_through()
        finally:
            response.close()

    async def _converse(self, route: routes.Route, leave: Leave, body: bytes | None) -> None:
        """A request of one of the three dialects."""
        if body is None:
            body = await self._caller.body(self._parts.body_limit)
        self._caller.watch()
        self._record.plan = plan = self._plan(route.upstream, leave, body)
        sent = body if plan is None else plan.body
        async with AsyncExitStack() as places:
            if plan is not None and self._parts.engine_at(route.upstream) is None:
                await self._parts.fan_out.hold(plan)
                places.callback(self._parts.fan_out.began, plan)
                if plan.outlook is None or plan.outlook.rules.readable != "end":
                    self._record.on_first = partial(self._parts.fan_out.began, plan)
            seat = await self._take_seat(places, route, sent, plan)
            response = await self._ask(route, sent if seat is None else seat.body, leave.policy, own=seat is not None)
            if seat is None and plan is not None and plan.changed and response.status in _REFUSALS:
                response = await self._ask_again(route, plan, response)
            try:
                await Answer(self._caller, response, self._record).converse(seat)
            finally:
                response.close()
                if seat is not None:
                    seat.usage = self._record.reply().usage

    def _plan(self, upstream: Upstream, leave: Leave, body: bytes) -> Plan | None:
        """What to send instead; None to send what came. Raises only for a fault of the caller's."""
        encoding = (value_of(self._headers, b"content-encoding") or b"identity").strip().lower()
        if leave.policy is Policy.OFF or encoding != b"identity":
            return None
        try:
            return self._parts.turns.plan(
                Arrival(
                    body=body,
                    dialect=self._record.dialect,
                    upstream=upstream.name,
                    tenant=auth.tenant(self._headers),
                    policy=leave.policy,
                    options=leave.options,
                    provider=upstream.provider,
                    breakpoints=upstream.breakpoints,
                    asks=self._parts.settings.provider_diagnostics,
                    now=time.time(),
                    request_id=self._record.request_id,
                    pin_billing=upstream.billing_block == "pin",
                )
            )
        except RequestError:
            raise
        except Exception as error:
            self._record.failed("plan", error)
            return None

    async def _take_seat(
        self, places: AsyncExitStack, route: routes.Route, body: bytes, plan: Plan | None
    ) -> Seat | None:
        engine = self._parts.engine_at(route.upstream)
        if engine is None:
            return None
        try:
            return await places.enter_async_context(engine.seat(route.dialect, body, plan, time.monotonic()))
        except Exception as error:
            self._record.failed("slot", error)
            return Seat(body, route.dialect)

    async def _ask(self, route: routes.Route, body: bytes, policy: Policy, *, own: bool) -> aiohttp.ClientResponse:
        # Uncompressed, so that usage can be read; under "off" nothing is touched.
        identity = own or policy is not Policy.OFF
        plan = self._record.plan
        came = headers.with_ours(self._headers, plan.headers) if plan else self._headers
        out = headers.to_upstream(came, length=len(body), identity=identity)
        return await self._parts.relay.send(route.upstream.name, self._method, route.url, out, body, patient=own)

    async def _ask_again(
        self, route: routes.Route, plan: Plan, refusal: aiohttp.ClientResponse
    ) -> aiohttp.ClientResponse:
        """Send what the client wrote: it must not be refused for what we made of it."""
        refusal.close()
        self._record.plan = self._parts.turns.refused(plan)
        response = await self._ask(route, plan.arrival.body, plan.arrival.policy, own=False)
        if response.status < min(_REFUSALS):
            self._record.failed("sent", UpstreamError(f"The upstream refused a mended request with {refusal.status}."))
        return response

    async def _refuse(self, error: Exception) -> None:
        """Answer with an error of ours; if an answer has begun, all that is left is to break it off."""
        if self._caller.left:
            return
        if not isinstance(error, RequestError | UpstreamError | Cut):
            logger.error("request %s failed: %s", self._record.request_id, place(error))
        if self._caller.started:
            raise Cut from error
        self._record.status = status = faults.status_of(error)
        body = faults.body(self._form, status, faults.message_of(error), self._record.request_id)
        own = [(b"x-standfast-request-id", self._record.request_id.encode())]
        await self._caller.answer(status, body, b"application/json", own)


def _uncancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
