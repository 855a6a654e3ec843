"""What a repair works with and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from standfast.prompt.drift import Drift
from standfast.prompt.model import Item, Sent
from standfast.prompt.request import Request


class Firsts(Protocol):
    """The forms and the order in which things were first sent, whatever the session."""

    def item(self, item: Item) -> Item:
        """The item to send for one that stands in no reference: the first form ever sent of its meaning."""
        ...

    def order(self, tools: tuple[Item, ...]) -> tuple[Item, ...]:
        """The same tools in the order in which this set was first sent."""
        ...

    def varied(self, around: bytes, lines: bytes) -> bool:
        """Whether what stands at a place (a digest of its surroundings) has been something else again before now."""
        ...


@dataclass(slots=True)
class Mended:
    """What goes out, and why it differs from what came in."""

    tools: tuple[Item, ...]
    system: tuple[Item, ...]
    sent: list[Sent]
    drifts: list[Drift] = field(default_factory=list)
    shared: int = 0
    """Units at the front that the reference has too."""
    news: str = ""
    """What volatile system text says now, where the system prompt goes out as it first did."""
    fields: dict[str, bytes] = field(default_factory=dict)
    """Top-level fields that go out with another value than the client gave, or that it did not give."""
    ids: dict[str, str] = field(default_factory=dict)
    """Call ids of this client → ids that were sent first."""
    offers: tuple[Item, ...] | None = None
    """The tools that the client declares, where the conversation says so and the list goes out as it first did."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Headers without which what goes out is not understood."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier plan already decided about the units that a request took over from it."""

    units: int
    sent: Sequence[Sent]
    ids: Mapping[str, str]
    drifts: tuple[Drift, ...]


def settle(drifts: list[Drift], found: Sequence[Drift], *, repaired: bool) -> None:
    """Note what was found, and whether it goes out repaired."""
    drifts.extend(replace(d, repaired=repaired) for d in found)


def untouched(request: Request) -> Mended:
    """The request as it came."""
    sent = [Sent(unit.items, unit.links) for unit in request.units]
    return Mended(request.head.tools, request.head.system, sent)
