"""The option ``window``: pruned turns go out whole until many prunings are worth making at once (H7).

A client that prunes a little with every request pays for its whole prompt each time. What it prunes is sent again as it
was sent, and counted; once that would be too much, or when the cache is cold anyway, all prunings go out together and
counting begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from standfast.policy import Leave, Option
from standfast.prompt.model import Item, Sent, Unit

HELD_LEAST = 64_000
"""Bytes that may be held back however short the history is: about 16,000 tokens, a tenth of the windows that clients
prune for, so that what is held back crowds nothing out."""


def is_open(leave: Leave) -> bool:
    """Whether what the client prunes may be held back now."""
    return Option.WINDOW in leave.options and not leave.cold


def fits(held: int, size: int) -> bool:
    """Whether so many bytes may be held back beside a history of that size: half of it, or a fixed least."""
    return held <= max(HELD_LEAST, size // 2)


def weight(sent: Iterable[Item], came: Iterable[Item]) -> int:
    """Bytes that go out for some items beyond those that came."""
    return max(0, sum(item.size for item in sent) - sum(item.size for item in came))


def held(sent: Iterable[Sent], units: Iterable[Unit]) -> int:
    """Bytes that are held back in the first units of a request."""
    return sum(weight(s.items, u.items) for s, u in zip(sent, units, strict=False) if s.ours)
