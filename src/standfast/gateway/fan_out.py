"""Leader first: requests that begin with a prefix that is just being written wait until it can be read (B5).

A cache entry can be read once the response of the request that writes it has begun. Eight siblings sent at once pay
eight times for what one of them would have written for all. The first goes out, the others wait for the first byte of
its response, for a bounded time, and never if there is nothing to gain.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from standfast.turn import Plan

WORTH = 1024.0
"""Tokens that must be gained: fewer are computed faster than a response begins."""


@dataclass(slots=True)
class _Leader:
    cached: float
    """Tokens that were in the cache before it: what its siblings share with it beyond these, it writes for them."""
    began: asyncio.Event = field(default_factory=asyncio.Event)


class FanOut:
    """Who leads, and who waits. Per process: siblings that went to other workers are not seen."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._leaders: dict[bytes, _Leader] = {}

    async def hold(self, plan: Plan) -> None:
        """Wait for a leader, if there is one and there is leave to; then lead. The plan notes which it was."""
        if plan.tip is None or plan.outlook is None:
            return
        outlook = plan.outlook
        leader = self._leaders.get(plan.follows)
        gain = outlook.blocks.tokens(outlook.shared) - leader.cached if leader else 0.0
        if leader is None or leader.began.is_set() or gain < max(WORTH, outlook.rules.minimum):
            self._leaders[plan.tip.id] = _Leader(outlook.expected.cached)
            return
        self._leaders[plan.tip.id] = leader  # who follows this one waits for the same
        plan.waited = self._wait > 0 and plan.arrival.policy.repairs
        if plan.waited:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait):
                    await leader.began.wait()

    def began(self, plan: Plan) -> None:
        """The response of a request has begun, or will not: those that wait for it go on."""
        if plan.tip is not None and (leader := self._leaders.pop(plan.tip.id, None)):
            leader.began.set()
