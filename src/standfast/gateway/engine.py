"""What the gateway does for an engine that it runs itself: a slot for each request, with the state that was kept for
it, usage fields always there, and the state taken in again after the response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from standfast.engines.slots import OBEYED_BY, Lease, Slots, with_slot
from standfast.engines.usage import UsageStream, normalise
from standfast.events import EngineRestarted, Event, Observer, StatesServed, nobody
from standfast.gateway.headers import Pair
from standfast.prompt.replies.reply import Usage
from standfast.turn import Plan

if TYPE_CHECKING:  # the store is an extra
    from standfast.engines.states import Named, Placed, States


@dataclass(slots=True)
class Seat:
    """A request's place at the engine."""

    body: bytes
    dialect: str
    request_id: str = ""
    lease: Lease | None = None
    placed: Placed | None = None
    """The state that was put into its slot, where that was tried."""
    usage: Usage | None = None
    """What the response said, once it has ended."""
    began: float = 0.0
    computed_in: float | None = None
    """Seconds from then to the first byte of a stream."""

    def answered(self, *, streaming: bool) -> None:
        """A good response has begun, so the prompt has been computed; if it streams, just now."""
        if self.lease is not None:
            self.lease.answered = True
            self.computed_in = time.monotonic() - self.began if streaming else None

    def whole(self, body: bytes) -> bytes:
        """A non-streaming answer with all usage fields."""
        return normalise(self.dialect, body)

    def stream(self) -> UsageStream:
        """The same for a streaming one."""
        return UsageStream(self.dialect)

    def served(self, upstream: str, usage: Usage | None) -> StatesServed | None:
        """Where the prompt's state came from; without its usage only what was loaded is known. None: none is kept."""
        if (placed := self.placed) is None:
            return None
        loaded, left = dict[str, int](), placed.tokens if usage is None else usage.cached_tokens
        for tier, tokens in placed.by_tier.items():  # the server leaves what was loaded behind the prompt's own
            loaded[tier] = min(tokens, left)
            left -= loaded[tier]
        live, computed = (left, usage.prompt_tokens - usage.cached_tokens) if usage else (0, 0)
        return StatesServed(self.request_id, upstream, loaded, live, computed, placed.size, placed.seconds)

    def headers(self, usage: Usage | None) -> list[Pair]:
        """The same, for the caller."""
        if (served := self.served("", usage)) is None:
            return []
        told: dict[str, object] = {tier: served.loaded.get(tier, 0) for tier in ("l1", "l2", "l3")}
        if usage is not None:
            told |= {"live": served.live, "computed": served.computed}
        told |= {"bytes": served.load_bytes, "ms": f"{served.load_seconds * 1e3:.1f}"}
        return [(b"x-standfast-kv", ", ".join(f"{name}={value}" for name, value in told.items()).encode())]


class EngineSide:
    """One engine, at the upstream of that name.

    ``slots`` is None where several workers share the engine: none of them knows what the others left in a slot. With
    ``states`` and no ``slots`` the server is asked how many it has.
    """

    def __init__(
        self, upstream: str, slots: Slots | None, states: States | None = None, tell: Observer = nobody
    ) -> None:
        self.upstream = upstream
        self._tell = tell
        self._slots = slots
        self._states = states
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def open(self) -> None:
        """Remember the loop that serves requests; ``observe`` may be called from another thread."""
        self._loop = asyncio.get_running_loop()
        if self._states is not None:
            await self._states.open()
            if self._slots is None and self._states.slots:
                self._slots = Slots(self._states.slots)

    async def close(self) -> None:
        """Finish what is being taken in."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._states is not None:
            await self._states.close()

    def observe(self, event: Event) -> None:
        """An observer: forgets the slots when the engine was restarted."""
        if isinstance(event, EngineRestarted) and self._slots is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._slots.forget)

    @asynccontextmanager
    async def seat(self, dialect: str, body: bytes, plan: Plan | None, now: float) -> AsyncIterator[Seat]:
        """A place for the time of a ``with`` block. Without a plan the engine itself chooses the slot."""
        obeyed = dialect in OBEYED_BY
        chain = plan.chain if plan is not None and (obeyed or self._states) else ()
        if self._slots is None or plan is None or not chain:
            yield Seat(body, dialect)
            return
        lease = self._slots.take(chain, plan.sizes, now)
        seat = Seat(with_slot(body, lease.slot) if obeyed else body, dialect, plan.arrival.request_id, lease)
        named = None
        try:
            if self._states is not None and (named := self._states.name(plan.arrival.tenant, chain, plan.sizes)):
                seat.placed = await self._states.place(named, lease.slot, lease.shared) if lease.alone else None
            seat.began = time.monotonic()
            yield seat
        finally:
            self._slots.release(lease.slot, chain if lease.answered else ())
            if named is not None and lease.answered:
                task = asyncio.create_task(self._take_in(seat, lease, named, chain))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _take_in(self, seat: Seat, lease: Lease, named: Named, chain: tuple[bytes, ...]) -> None:
        """Keep what the slot holds now. The server does one thing after the other, so a request that gets the slot at
        once does not change what is saved."""
        if self._slots is None or self._states is None:
            return
        if served := seat.served(self.upstream, seat.usage):
            self._tell(served)
        if seat.usage and seat.computed_in:
            self._states.computed(seat.usage.prompt_tokens - seat.usage.cached_tokens, seat.computed_in)
        prompt, output = (seat.usage.prompt_tokens, seat.usage.output_tokens) if seat.usage else (0, 0)
        number = lease.slot
        if seat.dialect not in OBEYED_BY:
            number = await self._states.slot_of(prompt, output, lease.slot)
        if number != lease.slot:
            self._slots.landed(lease, number, chain, named.sizes)
        await self._states.take(named, number, prompt)
