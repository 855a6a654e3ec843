"""Bodies sent through turns, as a gateway would."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st

from standfast.events import Event, FailedOpen
from standfast.ledger import Ledger
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items
from standfast.prompt.request import Request, read
from standfast.turn import Arrival, Plan, Turns

KEY = bytes(range(32))
CI = os.environ.get("STANDFAST_CI") == "1"
rngs = st.randoms(use_true_random=CI)
"""Choices: drawn one by one at home, so that failures shrink; from a drawn seed in CI, which is ten times as fast."""


def fewer(share: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For tests that need no 10,000 examples: that share of them, the default elsewhere."""
    return settings(max_examples=max(100, settings.default.max_examples // share) if settings.default else 100)


@dataclass
class Drive:
    """Turns over a ledger of its own, with what it told its observer."""

    dialect: str
    policy: Policy = Policy.LOSSLESS
    ledger: Ledger = field(default_factory=lambda: MemoryLedger(64 << 20))
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Another process over the same ledger."""
        self.turns = Turns(self.ledger, clock=lambda: 0.0, observe=self.events.append)

    def send(self, body: bytes, n: int = 0) -> Plan:
        return self.turns.plan(Arrival(body, self.dialect, "up", KEY, self.policy, float(n), str(n)))

    @property
    def failures(self) -> list[FailedOpen]:
        return [e for e in self.events if isinstance(e, FailedOpen)]


def reading(body: bytes, dialect: str) -> Request:
    """A body read from scratch."""
    return read(body, DIALECTS[dialect], KEY, Items())


def digests(body: bytes, dialect: str) -> tuple[bytes, bytes, bytes, dict[str, bytes], Sequence[bytes]]:
    """What the meaning of a body is called: model aside, everything but the order of tools."""
    request = reading(body, dialect)
    return request.end, request.head.tool_set, request.head.system_text, request.head.params, request.links
