"""The HTTP side of a simulated provider, for real clients.

``python -m standfast.lab.provider --provider anthropic --port 8900`` serves one. Every response says
``x-simulated: 1``. For tests its clock can be moved and its state read: ``POST /_sim/clock {"advance": 301}``,
``GET /_sim/state``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from dataclasses import dataclass

import click
from aiohttp import web

from standfast.lab import answers
from standfast.lab.reading import Refused
from standfast.lab.simulated import Exchange, Faults, Provider
from standfast.providers.catalogue import Catalogue

__all__ = ["PATHS", "Clock", "Exchange", "Faults", "Front", "Provider"]

PATHS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}
_BREAKS_AT = 3  # events of a stream that breaks
_OVERLOADED = {"anthropic": 529}
_KINDS = {400: "invalid_request_error", 429: "rate_limit_error", 503: "server_error", 529: "overloaded_error"}


@dataclass(slots=True)
class Clock:
    """Real time, and what was added to it."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Front:
    """The HTTP side. ``delay``: seconds until a response begins."""

    def __init__(self, provider: Provider, clock: Clock | None = None, delay: float = 0.0) -> None:
        self._provider = provider
        self._clock = clock
        self._delay = delay

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.add_routes([web.post(path, self._converse) for path in PATHS])
        app.add_routes([web.post("/_sim/clock", self._advance), web.get("/_sim/state", self._state)])
        return app

    async def _converse(self, request: web.Request) -> web.StreamResponse:
        dialect = PATHS[request.path]
        tenant = request.headers.get("x-api-key", "") or request.headers.get("authorization", "")
        if self._provider.overloaded():
            return _error(dialect, _OVERLOADED.get(dialect, 503), "simulated overload")
        if self._provider.limited():
            return _error(dialect, 429, "simulated rate limit")
        try:
            exchange = self._provider.serve(await request.read(), dialect, tenant, request.headers)
        except Refused as error:
            return _error(dialect, 400, str(error))
        await asyncio.sleep(self._delay)
        self._provider.begin(exchange)
        if exchange.prompt.fields.get("stream") is True:
            return await self._stream(request, exchange)
        self._provider.finish(exchange)
        return web.json_response(exchange.body, headers={"x-simulated": "1"})

    async def _stream(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-simulated": "1"})
        await response.prepare(request)
        for number, (name, data) in enumerate(answers.stream(exchange.answer, exchange.prompt)):
            if exchange.breaks and number == _BREAKS_AT:
                if request.transport is not None:
                    request.transport.abort()
                return response
            event = f"event: {name}\n" if name else ""
            await response.write(f"{event}data: {json.dumps(data)}\n\n".encode())
        if exchange.dialect == "openai_chat":
            await response.write(b"data: [DONE]\n\n")
        self._provider.finish(exchange)
        return response

    async def _advance(self, request: web.Request) -> web.Response:
        if self._clock is not None:
            self._clock.ahead += float((await request.json())["advance"])
        return web.json_response({"ahead": self._clock.ahead if self._clock else 0.0})

    async def _state(self, _request: web.Request) -> web.Response:
        return web.json_response(self._provider.state())


def _error(dialect: str, status: int, message: str) -> web.Response:
    error = {"type": _KINDS[status], "message": message}
    body = {"type": "error", "error": error} if dialect == "anthropic" else {"error": {**error, "code": None}}
    return web.json_response(body, status=status, headers={"x-simulated": "1"})


@click.command()
@click.option("--provider", default="anthropic", show_default=True, help="`standfast providers` lists them.")
@click.option("--model", default="", help="Rules of this model, whatever a request asks for; empty: the request's own.")
@click.option("--port", default=8900, show_default=True, help="0: any that is free.")
@click.option("--machines", default=1, show_default=True, help="Machines with a cache of their own.")
@click.option("--capacity", default=0, help="Tokens that a machine holds; 0: all.")
@click.option("--delay", default=0.0, help="Seconds until a response begins.")
@click.option("--seed", default=0, help="Of machines and faults.")
@click.option("--overloaded", default=0.0, help="How often (0 to 1) a request is turned away with 529 or 503.")
@click.option("--limited", default=0.0, help="How often with 429.")
@click.option("--evicted", default=0.0, help="How often a machine loses all it holds.")
@click.option("--untold", default=0.0, help="How often usage says nothing of the cache.")
@click.option("--broken", default=0.0, help="How often a stream breaks off.")
@click.option("--retokenised", default=0.0, help="How often an answer is held under other tokens than its text has.")
def main(
    provider: str, model: str, port: int, machines: int, capacity: int, delay: float, seed: int, **faults: float
) -> None:
    """Serve a simulated provider on 127.0.0.1: its cache and its usage, and no model behind it."""
    catalogue, clock = Catalogue.load(), Clock()
    catalogue.provider(provider)
    simulated = Provider(
        lambda asked: catalogue.rules(provider, model or asked),
        now=clock,
        machines=machines,
        capacity=capacity,
        faults=Faults(**faults),
        seed=seed,
    )
    with socket.create_server(("127.0.0.1", port)) as listening:
        click.echo(f"simulated {provider} on http://127.0.0.1:{listening.getsockname()[1]}")
        web.run_app(Front(simulated, clock, delay).app(), sock=listening, print=None)


if __name__ == "__main__":
    main()
