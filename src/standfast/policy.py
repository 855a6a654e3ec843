"""How far a repair may go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """How far a repair may go."""

    OFF = "off"
    """Forward untouched, look at nothing."""
    OBSERVE = "observe"
    """Diagnose, change nothing."""
    LOSSLESS = "lossless"
    """Send again the bytes that were sent before, where the meaning is the same."""
    ISOLATE = "isolate"
    """Also freeze volatile text in the system prompt and tell its new value at the tail."""

    @property
    def repairs(self) -> bool:
        """Whether anything may go out otherwise than it came."""
        return self in (Policy.LOSSLESS, Policy.ISOLATE)


class Breakpoints(StrEnum):
    """Who sets cache breakpoints, where a provider has them."""

    PLAN = "plan"
    """Standfast, with respect for the client's own."""
    MEND = "mend"
    """The client; Standfast only where the client's own would miss."""
    CLIENT = "client"
    """The client: they go out as they came."""


class Option(StrEnum):
    """What may be done beyond a policy that repairs, each by its own leave."""

    PIN = "pin"
    """Send a tool definition as it was first sent, though an id, a path or a time in it has changed (T3)."""
    TOOLS = "tools"
    """Keep the tools of a session together once declared, and restrict what may be called instead (T4, T5)."""
    WINDOW = "window"
    """Send pruned turns whole until the cache is cold anyway or the window is full, then prune all at once (H7)."""
    MODEL = "model"
    """Keep a session on the model that it began with (P2)."""
    TTL = "ttl"
    """Ask for the long life of an entry where a session's gaps need it (B4)."""
    TEMPLATE = "template"
    """Send arguments that pin the date a chat template writes, and keep earlier thinking in it (E1, E2)."""


Options = frozenset[Option]
NO_OPTIONS: Options = frozenset()


@dataclass(frozen=True, slots=True)
class Leave:
    """All that may be done to one request."""

    policy: Policy
    options: Options = NO_OPTIONS
    pin_billing: bool = True
    """Whether a per-request billing block may be sent as it was first sent; false for an upstream that reads it."""
    allowed_tools: bool = False
    """Whether the upstream lets tool_choice restrict the tools that are declared."""
    tool_changes: tuple[str, str] | None = None
    """Header with which the upstream takes changes of the tools in the midst of a conversation; None: it takes none."""
    cold: bool = False
    """Whether the upstream's cache holds nothing of the session any more, so that a change costs nothing now."""

    def __str__(self) -> str:
        return ", ".join([self.policy, *sorted(self.options)])


LOSSLESS = Leave(Policy.LOSSLESS)
"""What is done if nothing is said."""

FORM = f"{', '.join(Policy)}; behind it, after commas, options: {', '.join(Option)}"
"""How a policy is written."""


def parse(text: str) -> Leave:
    """``"isolate, tools"``: a policy and the options beside it. Raises ValueError, naming what may stand there."""
    policy, *options = (word.strip().lower() for word in text.split(","))
    try:
        return Leave(Policy(policy), frozenset(map(Option, options)))
    except ValueError:
        raise ValueError(FORM) from None
