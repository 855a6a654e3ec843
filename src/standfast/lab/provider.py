"""A simulated provider: the cache of the original by its rules, its usage, its findings; no model behind it.

``Provider`` is what happens to one request and can be called as it is (replays do); ``Front`` puts HTTP around it,
and ``python -m standfast.lab.provider --provider anthropic --port 8900`` serves it. Every response says
``x-simulated: 1``. For tests its clock can be moved and its state read: ``POST /_sim/clock {"advance": 301}``,
``GET /_sim/state``.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import click
from aiohttp import web

from standfast.lab import answers
from standfast.lab.answers import Answer, Event
from standfast.lab.caches import REGIMES, Cache, Served
from standfast.lab.reading import Block, Prompt, Refused, read
from standfast.providers.catalogue import Catalogue
from standfast.providers.rules import Rules

PATHS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}
_ROUTED_BY = 1024  # bytes of a prompt's opening that choose a machine: about 256 tokens
_BREAKS_AT = 3  # events of a stream that breaks off
_REMEMBERED = 1_000  # requests that a diagnosis may compare with


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and how often (0 to 1); seeded."""

    overloaded: float = 0.0
    evicted: float = 0.0
    """Before a request one machine loses all it holds."""
    untold: float = 0.0
    """Usage comes without the cache's fields."""
    broken: float = 0.0
    """A stream breaks off in the middle."""


@dataclass(slots=True)
class Exchange:
    """One request, served."""

    prompt: Prompt
    dialect: str
    answer: Answer
    cache: Cache
    scope: bytes
    breaks: bool = False

    @property
    def served(self) -> Served:
        return self.answer.served

    @property
    def body(self) -> dict[str, Any]:
        """The whole response, in the form of the original."""
        return _WHOLE[self.dialect](self.answer)


class Provider:
    """One provider, on one or several machines."""

    def __init__(
        self,
        rules_of: Callable[[str], Rules],
        *,
        now: Callable[[], float] = time.time,
        machines: int = 1,
        capacity: int = 0,
        faults: Faults = Faults(),
        seed: int = 0,
    ) -> None:
        self._rules_of = rules_of
        self._now = now
        self._machines = machines
        self._capacity = capacity
        self._faults = faults
        self._random = random.Random(seed)
        self._caches: dict[tuple[str, int], Cache] = {}
        self._known: OrderedDict[str, Prompt] = OrderedDict()
        self.requests = 0

    def serve(self, body: bytes, dialect: str, tenant: str = "", headers: Mapping[str, str] | None = None) -> Exchange:
        """Begin one request; ``begin`` and ``finish`` follow. Raises Refused."""
        prompt = read(body, dialect)
        rules = self._rules_of(prompt.model)
        self.requests += 1
        scope = blake2b(f"{tenant}\0{prompt.body.get('cache_salt', '')}".encode(), digest_size=16).digest()
        cache = self._machine(rules, prompt, headers or {})
        if self._happens(self._faults.evicted):
            cache.forget(1 << 30)
        served = cache.look_up(prompt, scope, self._now())
        text = "sim " + blake2b(b"".join(b.key for b in prompt.blocks), digest_size=24).hexdigest()
        finding = self._compare(prompt, dialect, rules, served)
        told = not self._happens(self._faults.untold)
        answer = Answer(self.requests, prompt.model, text, served, rules, finding, told)
        self._known[str(_WHOLE[dialect](answer)["id"])] = prompt
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return Exchange(prompt, dialect, answer, cache, scope, self._happens(self._faults.broken))

    def begin(self, exchange: Exchange) -> None:
        """Its response begins: what it wrote can be read."""
        exchange.cache.begin(exchange.served, self._now())

    def finish(self, exchange: Exchange) -> None:
        """Its response has ended."""
        part = {"type": "text", "text": exchange.answer.text}
        key = json.dumps(["assistant", part], separators=(",", ":")).encode()
        block = Block("messages", key, -(-len(key) // 4))
        exchange.cache.finish(exchange.prompt, exchange.scope, block, self._now())

    def complete(
        self, body: bytes, dialect: str, tenant: str = "", headers: Mapping[str, str] | None = None
    ) -> Exchange:
        """All of one request at once."""
        exchange = self.serve(body, dialect, tenant, headers)
        self.begin(exchange)
        self.finish(exchange)
        return exchange

    def overloaded(self) -> bool:
        """Whether the next request is turned away."""
        return self._happens(self._faults.overloaded)

    def state(self) -> dict[str, Any]:
        """What it holds."""
        return {"requests": self.requests, "entries": sum(len(cache.entries) for cache in self._caches.values())}

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _machine(self, rules: Rules, prompt: Prompt, headers: Mapping[str, str]) -> Cache:
        number = 0
        if self._machines > 1:
            opening = b"".join(block.key for block in prompt.blocks)[:_ROUTED_BY]
            key = headers.get(rules.key_header, "") if rules.key_header else prompt.route
            if rules.key_header and not key:
                number = self._random.randrange(self._machines)  # nothing says where it belongs
            else:
                number = int.from_bytes(blake2b(opening + key.encode(), digest_size=4).digest()) % self._machines
        name = (f"{rules.provider}/{rules.model}", number)
        if name not in self._caches:
            self._caches[name] = REGIMES[rules.regime](rules, self._capacity)
        return self._caches[name]

    def _compare(self, prompt: Prompt, dialect: str, rules: Rules, served: Served) -> dict[str, Any] | None:
        if prompt.asked is None or not rules.diagnostics:
            return None
        known = self._known.get(prompt.asked)
        found = _difference(known, prompt) if known else None
        missed = max(0, served.total - served.cached)
        if dialect == "anthropic":
            if not prompt.asked:
                return None
            reason = f"{found}_changed" if found else None if known else "previous_message_not_found"
            return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": missed}} if reason else None
        if known is None:
            return {"type": "comparison_response_not_found"}
        if found is None:
            return {"type": "cache_hit"}
        reason = "input" if found in ("system", "messages") else found
        return {"type": "cache_miss", "reason": f"{reason}_changed", "cache_missed_tokens": missed}


def _difference(before: Prompt, after: Prompt) -> str | None:
    """The first tier in which an earlier prompt is no head of a later one."""
    if before.model != after.model:
        return "model"
    for tier in ("tools", "system", "messages"):
        old, new = ([b.key for b in p.blocks if b.tier == tier] for p in (before, after))
        if new[: len(old)] != old or (tier != "messages" and new != old):
            return tier
    return None


_WHOLE: dict[str, Callable[[Answer], dict[str, Any]]] = {
    "anthropic": answers.anthropic,
    "openai_chat": answers.chat,
    "openai_responses": answers.responses,
}


def _events(exchange: Exchange) -> Iterator[Event]:
    match exchange.dialect:
        case "anthropic":
            return answers.anthropic_events(exchange.answer)
        case "openai_chat":
            options = exchange.prompt.body.get("stream_options") or {}
            return answers.chat_events(exchange.answer, usage=options.get("include_usage") is True)
    return answers.responses_events(exchange.answer)


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
            return _error(dialect, 529 if dialect == "anthropic" else 429, "simulated overload")
        try:
            exchange = self._provider.serve(await request.read(), dialect, tenant, request.headers)
        except Refused as error:
            return _error(dialect, 400, str(error))
        await asyncio.sleep(self._delay)
        self._provider.begin(exchange)
        if exchange.prompt.stream:
            return await self._stream(request, exchange)
        self._provider.finish(exchange)
        return web.json_response(exchange.body, headers={"x-simulated": "1"})

    async def _stream(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-simulated": "1"})
        await response.prepare(request)
        for number, (name, data) in enumerate(_events(exchange)):
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
    kind = {400: "invalid_request_error", 429: "rate_limit_error"}.get(status, "overloaded_error")
    error = {"type": kind, "message": message}
    body = {"type": "error", "error": error} if dialect == "anthropic" else {"error": {**error, "code": None}}
    return web.json_response(body, status=status, headers={"x-simulated": "1"})


@click.command()
@click.option("--provider", default="anthropic", show_default=True, help="`standfast providers` lists them.")
@click.option("--model", default="", help="Rules of this model, whatever a request asks for; empty: the request's own.")
@click.option("--port", default=8900, show_default=True)
@click.option("--machines", default=1, show_default=True, help="Machines with a cache of their own.")
@click.option("--capacity", default=0, help="Tokens that a machine holds; 0: all.")
@click.option("--delay", default=0.0, help="Seconds until a response begins.")
@click.option("--seed", default=0, help="Of machines and faults.")
@click.option("--evicted", default=0.0, help="How often (0 to 1) a machine loses all it holds.")
def main(
    provider: str, model: str, port: int, machines: int, capacity: int, delay: float, seed: int, evicted: float
) -> None:
    """Serve a simulated provider on 127.0.0.1: its cache and its usage, and no model behind it."""
    catalogue, clock = Catalogue.load(), Clock()
    catalogue.provider(provider)
    simulated = Provider(
        lambda asked: catalogue.rules(provider, model or asked),
        now=clock,
        machines=machines,
        capacity=capacity,
        faults=Faults(evicted=evicted),
        seed=seed,
    )
    click.echo(f"simulated {provider} on http://127.0.0.1:{port}")
    web.run_app(Front(simulated, clock, delay).app(), host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
