"""What the gateway does for an engine that it runs itself: a slot for each request, usage fields always there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from standfast.engines.slots import OBEYED_BY, Lease, Slots, with_slot
from standfast.engines.usage import UsageStream, normalise
from standfast.events import EngineRestarted, Event
from standfast.turn import Plan


@dataclass(slots=True)
class Seat:
    """A request's place at the engine."""

    body: bytes
    dialect: str
    lease: Lease | None = None

    def answered(self) -> None:
        """A good response has begun, so the prompt has been computed."""
        if self.lease is not None:
            self.lease.answered = True

    def whole(self, body: bytes) -> bytes:
        """A non-streaming answer with all usage fields."""
        return normalise(self.dialect, body)

    def stream(self) -> UsageStream:
        """The same for a streaming one."""
        return UsageStream(self.dialect)


class EngineSide:
    """One engine, at the upstream of that name.

    ``slots`` is None where several workers share the engine: none of them knows what the others left in a slot.
    """

    def __init__(self, upstream: str, slots: Slots | None) -> None:
        self.upstream = upstream
        self._slots = slots
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Remember the loop that serves requests; ``observe`` may be called from another thread."""
        self._loop = asyncio.get_running_loop()

    def observe(self, event: Event) -> None:
        """An observer: forgets the slots when the engine was restarted."""
        if isinstance(event, EngineRestarted) and self._slots is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._slots.forget)

    @contextmanager
    def seat(self, dialect: str, body: bytes, plan: Plan | None, now: float) -> Iterator[Seat]:
        """A place for the time of a ``with`` block. Without a plan the engine itself chooses the slot."""
        obeyed = self._slots is not None and dialect in OBEYED_BY
        chain = plan.chain if obeyed and plan is not None else ()
        if self._slots is None or plan is None or not chain:
            yield Seat(body, dialect)
            return
        with self._slots.lease(chain, plan.sizes, now) as lease:
            yield Seat(with_slot(body, lease.slot), dialect, lease)
