"""Turns in front of a simulated provider, in one process and on one clock; and that provider on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from standfast.events import Event, FailedOpen
from standfast.lab.provider import Clock, Exchange, Front, Provider
from standfast.lab.reading import read
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Breakpoints, Leave, Policy
from standfast.prompt.replies import reader
from standfast.providers.catalogue import Catalogue
from standfast.turn import Arrival, Plan, Turns

CATALOGUE = Catalogue.load()
KEY = bytes(range(32))
MODELS = {"anthropic": "claude-opus-5", "openai_chat": "gpt-5.6-sol", "openai_responses": "gpt-5.6-sol"}


@dataclass
class Line:
    """One client's way to a simulated provider, through Standfast."""

    provider: str
    dialect: str
    leave: Leave = Leave(Policy.LOSSLESS)
    breakpoints: Breakpoints = Breakpoints.PLAN
    asks: bool = False
    now: float = 1_000_000.0
    simulated: Provider | None = None
    events: list[Event] = field(default_factory=list)
    count: int = 0
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.simulated = self.simulated or Provider(
            lambda model: CATALOGUE.rules(self.provider, model), now=lambda: self.now
        )
        self.turns = Turns(
            MemoryLedger(64 << 20), budget_ms=float("inf"), observe=self.events.append, rules_of=CATALOGUE.rules
        )

    def send(self, body: Any, *, after: float = 1.0) -> tuple[Plan, Exchange]:
        """One request, ``after`` seconds from the last one: planned, served, learnt."""
        assert self.simulated is not None
        self.now += after
        self.count += 1
        plan = self.turns.plan(
            Arrival(
                body if isinstance(body, bytes) else json.dumps(body).encode(),
                self.dialect,
                "up",
                KEY,
                self.leave.policy,
                self.now,
                f"r{self.count}",
                options=self.leave.options,
                provider=self.provider,
                breakpoints=self.breakpoints,
                asks=self.asks,
            )
        )
        exchange = self.simulated.complete(plan.body, self.dialect, headers=dict(plan.headers))
        told = reader(self.dialect, streaming=False)
        told.feed(json.dumps(exchange.body).encode())
        self.turns.learn(plan, told.finish())
        assert [e for e in self.events if isinstance(e, FailedOpen)] == []
        self.keys.append(str(json.loads(plan.body).get("prompt_cache_key")))
        return plan, exchange

    def simulated_tokens(self, body: Any) -> int:
        """Tokens that the provider counts in a body."""
        return sum(block.tokens for block in read(json.dumps(body).encode(), self.dialect).blocks)


@contextlib.contextmanager
def served(provider: str, *, delay: float = 0.0, **more: Any) -> Iterator[tuple[str, Provider]]:
    """A simulated provider on a socket of its own: its URL, and itself."""
    clock = Clock()
    simulated = Provider(lambda model: CATALOGUE.rules(provider, model), now=clock, **more)
    address: list[str] = []
    up, down = threading.Event(), asyncio.Event()

    async def run() -> None:
        runner = web.AppRunner(Front(simulated, clock, delay).app(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        address.append(f"http://{host}:{port}")
        loops.append(asyncio.get_running_loop())
        up.set()
        await down.wait()
        await runner.cleanup()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        yield address[0], simulated
    finally:
        loops[0].call_soon_threadsafe(down.set)
        thread.join(10)
