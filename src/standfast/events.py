"""What an observer is told. Events are frozen, carry no prompt text and no credential."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all. ``request_id`` is the one in the ``x-standfast-request-id`` response header."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Planned(Event):
    """A request was read, compared and made ready to go out."""

    upstream: str
    dialect: str
    policy: str
    cause: str | None
    path: str | None
    repaired: bool
    attainable_tokens: int
    """Estimated; see docs/cli.md for the definition."""
    lost_tokens: int
    resumed: bool
    """The body began with the bytes of an earlier one, so only the rest was parsed."""
    seconds: float


@dataclass(frozen=True, slots=True)
class FailedOpen(Event):
    """Something inside Standfast failed or was in doubt: the client's own bytes went out."""

    upstream: str
    stage: str
    """plan, sent (refused by the upstream), slot, learn, ledger or read (the response)."""
    reason: str
    """Class of the error, and our own message or the place where it arose; never prompt text."""


@dataclass(frozen=True, slots=True)
class StatesServed(Event):
    """Where the state of a prompt came from, at an engine whose states are kept."""

    upstream: str
    loaded: Mapping[str, int]
    """Tokens by tier: ``l1``, ``l2``, ``l3``."""
    live: int
    """Tokens that the engine's slot held already."""
    computed: int
    """Tokens that had to be computed."""
    load_bytes: int
    load_seconds: float
    """Time to find the state and to put it into the slot."""


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The response is complete (or broke off)."""

    upstream: str
    dialect: str
    model: str
    status: int
    prompt_tokens: int | None
    """None where the upstream told no usage."""
    cached_tokens: int | None
    output_tokens: int | None
    first_byte_seconds: float
    seconds: float
    disconnected: bool
    """The client left before the end."""


@dataclass(frozen=True, slots=True)
class Judged(Event):
    """The verdict on a request whose response is complete: a full hit, or why not, and what it cost."""

    upstream: str
    dialect: str
    model: str
    tenant: str
    """First 8 bytes of the caller's keyed digest, in hex."""
    session: str
    """Likewise of the lineage."""
    hit: bool
    cause: str | None
    path: str | None
    repaired: bool
    attainable_tokens: int
    expected_tokens: int | None
    """Cached tokens that the rules of the provider's cache foresaw; None where they are not known."""
    prompt_tokens: int | None
    cached_tokens: int | None
    """Both as the upstream told them."""
    lost_tokens: int
    since: float | None
    """Unix seconds at which this session first lost to this cause."""
    finding: str | None
    """The provider's own diagnosis, where it was asked."""
    agrees: bool | None
    """Whether it names the same place as we do."""
    currency: str
    """Empty: in uncached input tokens, for want of a price."""
    paid: float
    without_cache: float
    perfect: float
    """What a perfect cache would have left to pay."""
    lost_money: float


@dataclass(frozen=True, slots=True)
class EngineRestarted(Event):
    """The embedded engine's process died and was started again."""

    exit_code: int
    restarts: int


Observer = Callable[[Event], None]


def nobody(event: Event) -> None:
    """The observer when nobody listens."""
