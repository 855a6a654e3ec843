"""Puts the gateway together: ledger, turns, observers, upstreams."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from standfast.config import Settings, Upstream
from standfast.engines.keeping import states_of
from standfast.engines.slots import Slots
from standfast.events import Event, Observer
from standfast.gateway.app import Gateway
from standfast.gateway.engine import EngineSide
from standfast.ledger import Ledger
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.observe.bills import Bills
from standfast.observe.log import RequestLog, all_of
from standfast.observe.metrics import Metrics
from standfast.providers.catalogue import Catalogue
from standfast.turn import Turns

EMBEDDED = "embedded"
"""Name of the embedded engine among the upstreams."""
_YOUNG_OBJECTS = 50_000


class Listeners:
    """An observer to which others can be added after whatever tells it things was started."""

    def __init__(self, *first: Observer) -> None:
        self._all = list(first)

    def add(self, observer: Observer) -> None:
        self._all.append(observer)

    def __call__(self, event: Event) -> None:
        all_of(*self._all)(event)


def open_ledger(settings: Settings) -> Ledger:
    """The ledger that the settings ask for. Raises LedgerError if its file cannot be used."""
    memory = MemoryLedger(settings.ledger_memory_mb << 20)
    if settings.ledger == "memory":
        return memory
    return SqliteLedger(settings.database, settings.ledger_disk_mb << 20, memory, alone=settings.workers <= 1)


def make_app(
    settings: Settings, metrics: Metrics, engine_url: str | None = None, listeners: Listeners | None = None
) -> Gateway:
    """The application of one worker process. ``engine_url`` is given where the embedded engine runs."""
    closing = ExitStack()
    observe = all_of(metrics, RequestLog())
    if settings.ledger != "memory":  # else nothing is to be left on disk
        bills = Bills(settings.bills)
        closing.callback(bills.close)
        observe = all_of(observe, bills)
    ledger = open_ledger(settings)
    closing.callback(ledger.close)
    catalogue = Catalogue.load(settings.providers_file, settings.price_profile)
    turns = Turns(
        ledger,
        budget_ms=settings.budget_ms,
        observe=observe,
        rules_of=catalogue.rules,
        memory_bytes=settings.ledger_memory_mb << 19,
    )
    engine, upstreams = None, tuple(_known(upstream, catalogue) for upstream in settings.upstreams)
    if engine_url is not None:
        alone = settings.workers <= 1
        slots = Slots(max(1, settings.engine_slots)) if alone else None
        engine = EngineSide(EMBEDDED, slots, states_of(settings, engine_url) if alone else None, observe)
        upstreams = (Upstream(EMBEDDED, engine_url, provider="llama.cpp"),)
        if listeners is not None:
            listeners.add(engine.observe)
    elif settings.workers <= 1 and (served := next((u for u in upstreams if u.slots != Path()), None)):
        engine = EngineSide(served.name, None, states_of(settings, served.url, served.slots), observe)
    _calm_collector()
    return Gateway(
        settings,
        turns,
        upstreams,
        metrics=metrics,
        observe=observe,
        engine=engine,
        probe=lambda: ledger.first(b"probe"),
        close=closing.close,
        flush=ledger.flush if settings.workers > 1 else None,
    )


def _known(upstream: Upstream, catalogue: Catalogue) -> Upstream:
    """An upstream with its provider, by its host if it was not given. Raises ConfigError for one that is not known."""
    provider = upstream.provider or catalogue.provider_of(upstream.url)
    if provider:
        catalogue.provider(provider)
    return replace(upstream, provider=provider)


def _calm_collector() -> None:
    """What was loaded lives for ever, and requests make few cycles: a full collection is a pause for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
