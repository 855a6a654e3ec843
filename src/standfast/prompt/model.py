"""The pieces of a request, in render order.

A body holds *items*: one tool, one system block, one message, one input item (an element of a JSON array, or a
string that stands for one). An item holds *parts*: a text, a call, a result, an image. Items of the history are
gathered into *units*, the steps of alignment: a unit is one item, or a run of consecutive tool results, whose order
among themselves has no meaning.

Everything here is immutable and shared freely between requests of a lineage: a history of 200 items costs 200
pointers, not 200 copies. What there is much of is a msgspec Struct that the garbage collector does not track: made
in a tenth of the time, and never walked (they hold no cycles).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from msgspec import Struct

Meaning = NewType("Meaning", bytes)
"""32-byte digest of a meaning form."""
Key = NewType("Key", bytes)
"""32-byte digest of a key form: equal keys are equal to the provider's cache."""
Link = NewType("Link", bytes)
"""32-byte link of a fingerprint chain, keyed by tenant: names a whole head, not only the piece at its end."""


SYSTEM_ROLES = ("system", "developer")
"""Roles of messages that speak as the system prompt does."""


class Tier(StrEnum):
    """Where in the render order a segment lies; listed in that order."""

    MODEL = "model"
    TOOLS = "tools"
    SYSTEM = "system"
    PARAMS = "params"
    MESSAGES = "messages"
    ROUTE = "route"


class Kind(StrEnum):
    """What a part is."""

    TEXT = "text"
    CALL = "call"
    RESULT = "result"
    THINKING = "thinking"
    MEDIA = "media"
    OTHER = "other"


class Part(Struct, frozen=True, gc=False):
    """One addressable piece of an item."""

    suffix: str
    """Path inside the item, as ``.content[1]``."""
    kind: Kind
    meaning: Meaning
    """Without the call id: that is kept apart, below."""
    key: Key
    size: int
    """Bytes of its key form; tokens are estimated from it."""
    call_id: str | None = None
    """Id that a call introduces, or that a result answers."""
    plain: bytes | None = None
    """The meaning form itself, kept only where a per-request token may stand in it (see ``volatile``)."""


class Item(Struct, frozen=True, gc=False):
    """One element as it stands in a body."""

    wire: bytes
    tier: Tier
    role: str
    """Role of a message, name of a tool, type of an input item."""
    frame: Meaning
    """Digest of what surrounds the parts: role, name and other fields."""
    parts: tuple[Part, ...]
    key: Key
    """Digest of the whole key form."""
    marked: bool
    """Carries a cache marker."""
    size: int = 0

    @property
    def is_result(self) -> bool:
        """Whether all of it answers calls (so that its place in a run of results has no meaning)."""
        return bool(self.parts) and all(part.kind is Kind.RESULT for part in self.parts)


class Unit(Struct, frozen=True, gc=False):
    """One step of the history, with the chain up to and including it."""

    items: tuple[Item, ...]
    first: int
    """Index of its first item in the array."""
    links: tuple[Link, ...]
    """Chain after each part, in canonical order (results by the call that they answer)."""
    answers: tuple[int, ...] = ()
    """For each result in it, which call of the conversation it answers, in wire order."""

    @property
    def link(self) -> Link:
        return self.links[-1]


@dataclass(frozen=True, slots=True)
class Head:
    """All of a request that stands in front of its history."""

    model: str
    tools: tuple[Item, ...]
    system: tuple[Item, ...]
    params: dict[str, bytes] = field(default_factory=dict)
    """Prompt-affecting parameters: path → meaning form."""
    routes: dict[str, bytes] = field(default_factory=dict)
    """Fields that choose a machine, as prompt_cache_key: path → wire."""
    tool_set: bytes = b""
    """Digest of the tools whatever their order; empty in a head that was read back from a ledger."""
    system_text: bytes = b""
    """Digest of the meaning of the system items; likewise."""


class Sent(Struct, frozen=True, gc=False):
    """A unit as it went out."""

    items: tuple[Item, ...]
    links: tuple[Link, ...]
    """Chain of the unit as the client means it: what the next request will be matched against."""
    ours: bool = False
    """Carries text that a policy of ours put there, so it differs from what the client sent."""

    @property
    def link(self) -> Link:
        return self.links[-1]


class Entry(Struct, frozen=True, gc=False):
    """One prefix of a request that the provider keeps, as far as we know."""

    blocks: int
    """It ends behind this many blocks of the request: tools, system blocks, then the parts of the history."""
    ttl: str
    """Name of its life, as ``5m``; empty where the provider has but one."""
    until: float
    """Unix seconds: the end of its life unless it is hit before."""


@dataclass(frozen=True, slots=True)
class Tip:
    """One request as it went out, and what came back: an end of a lineage."""

    id: bytes
    """16 bytes, unique."""
    lineage: bytes
    """16 bytes, shared by the requests that extend each other."""
    at: float
    """Unix seconds."""
    dialect: str
    head: Head
    sent: tuple[Sent, ...]
    produced: tuple[Sent, ...] = ()
    """What the model answered, in the form in which a request would carry it."""
    fingerprint: bytes = b""
    """Serialised RequestFingerprint."""
    entries: tuple[Entry, ...] = ()
    """What the provider should hold of it, those it had from the request before among them."""
    response_id: str = ""
    """The provider's name for the answer; empty until it has come."""
