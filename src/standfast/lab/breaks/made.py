"""What a break is: first something is planted in both requests, then the later one is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from standfast.lab.breaks.places import Place, places
from standfast.lab.breaks.sessions import Body, Session, Unfit

Change = Callable[[Body], str]
"""Breaks the later request; returns the path of the first thing that is another now."""

LOSSLESS, POLICY, SOURCE, REPORT = "lossless", "policy", "source", "report"


@dataclass(frozen=True, slots=True)
class Made:
    """A break, ready to happen."""

    change: Change
    note: str
    repair: str = ""
    """What can be done about this one, where that is not what is said of its whole class."""
    by: str | None = None
    """The policy or option that mends it, likewise; empty: none does, once the first request is out."""


Break = Callable[[Session, Random], Made]
"""Plants in both requests what the change needs. Raises Unfit."""


def at(body: Body, dialect: str, path: str) -> Place:
    """The thing at a path. Raises Unfit if nothing stands there."""
    for place in places(body, dialect):
        if place.path == path:
            return place
    raise Unfit(path)


def shuffled(values: list[Any], rng: Random) -> list[Any]:
    """The values in another order. Raises Unfit if they have but one."""
    for _ in range(20):
        other = rng.sample(values, len(values))
        if other != values:
            return other
    raise Unfit("one order only")
