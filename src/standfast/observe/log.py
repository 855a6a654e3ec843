"""The log: one line a request, and one for whatever went wrong. No prompt text, no credential, no query string.

A line is ``name=value`` pairs, so that both people and programs can read it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable

from standfast.events import EngineRestarted, Event, FailedOpen, Finished, Observer, Planned

logger = logging.getLogger("standfast.requests")

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class RequestLog:
    """An observer that writes the lines."""

    def __init__(self) -> None:
        self._planned: dict[str, Planned] = {}

    def __call__(self, event: Event) -> None:
        """Write the line of an event."""
        match event:
            case Planned():
                self._planned[event.request_id] = event
            case Finished():
                plan = self._planned.pop(event.request_id, None)
                if logger.isEnabledFor(logging.INFO):
                    logger.info("%s", _request_line(event, plan))
            case FailedOpen():
                logger.warning(
                    "failed open id=%s upstream=%s stage=%s reason=%r",
                    event.request_id,
                    event.upstream,
                    event.stage,
                    event.reason,
                )
            case EngineRestarted():
                logger.warning("engine restarted exit_code=%d restarts=%d", event.exit_code, event.restarts)


def _request_line(event: Finished, plan: Planned | None) -> str:
    line = f"request id={event.request_id} upstream={event.upstream or '-'} dialect={event.dialect}"
    line += f" status={event.status}"
    if plan is not None:
        line += f" policy={plan.policy} cause={plan.cause or 'none'} repaired={plan.repaired:d}"
    if event.prompt_tokens is not None:
        line += f" prompt={event.prompt_tokens} cached={event.cached_tokens} output={event.output_tokens}"
    line += f" first_ms={event.first_byte_seconds * 1e3:.1f} ms={event.seconds * 1e3:.1f}"
    return line + (" disconnected=1" if event.disconnected else "")


def all_of(*observers: Observer) -> Observer:
    """One observer that tells several. Each hears every event, even if one before it raised."""

    def tell(event: Event) -> None:
        for observer in observers:
            try:
                observer(event)
            except Exception as error:
                logger.error("an observer failed: %s", type(error).__name__)

    return tell


def set_up(level: str, write: Callable[[str], object] | None = None) -> None:
    """Send our lines, and what the server has to say, to standard error (or to ``write``)."""
    # What our lines do not show need not be gathered (the logging HOWTO, "Optimization").
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr) if write is None else _Writer(write)
    handler.setFormatter(logging.Formatter(_FORMAT))
    ours, server = logging.getLogger("standfast"), logging.getLogger("uvicorn.error")
    for target, at in ((ours, level.upper()), (server, "WARNING")):
        target.handlers[:] = [handler]
        target.setLevel(at)
        target.propagate = False
    server.filters[:] = [_is_news]


class _Writer(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self.format(record))


_KNOWN = ("Unsupported upgrade request", "No supported WebSocket library")


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the server's tells something. A connection that we cut on purpose has its own line."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, asyncio.CancelledError) or type(error).__name__ == "Cut":
        return False
    return not record.getMessage().startswith(_KNOWN)
