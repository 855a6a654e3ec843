"""A gateway as a program of its own, for tests of signals and workers: UPSTREAM_URL PORT WORKERS SHUTDOWN_TIMEOUT."""

from __future__ import annotations

import sys

from standfast.config import Settings, Upstream
from standfast.gateway.app import Gateway
from standfast.gateway.caller import ASGI
from standfast.gateway.server import serve
from standfast.ledger.memory import MemoryLedger
from standfast.observe import log
from standfast.observe.metrics import Metrics, opened
from standfast.turn import Turns


def make_app(settings: Settings, metrics: Metrics) -> ASGI:
    """The application, in whichever process serves it."""
    observe = log.all_of(metrics, log.RequestLog())
    turns = Turns(MemoryLedger(64 << 20), budget_ms=5000, observe=observe)
    return Gateway(settings, turns, settings.upstreams, metrics=metrics, observe=observe)


def main() -> None:
    """Serve until told to stop, and say so."""
    url, port, workers, patience = sys.argv[1:]
    settings = Settings(
        port=int(port), workers=int(workers), shutdown_timeout=float(patience), upstreams=(Upstream("up", url),)
    )
    log.set_up("info")
    with opened(settings.workers) as metrics:
        serve(settings, make_app, metrics, lambda at: print(at, flush=True))
    print("ended", flush=True)


if __name__ == "__main__":
    main()
