"""The rules of one provider's prompt cache for one model, as they hold on one day.

Made from dated facts (``facts``); nothing else in Standfast knows a provider by name. All durations are seconds, all
sizes tokens, all prices multiples of the price of an uncached input token unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Regime(StrEnum):
    """What a cache can serve."""

    PREFIX = "prefix"
    """The longest common prefix with anything computed before."""
    MARKS = "marks"
    """A prefix that ends where an earlier request set a mark, found from a mark of this one."""
    BOUNDARIES = "boundaries"
    """A prefix that ends at a mark, or at an end that the provider chose by itself."""
    NONE = "none"
    """No cache."""


@dataclass(frozen=True, slots=True)
class Rules:
    """See the module. The defaults are those of an engine with a plain prefix cache and no prices."""

    provider: str
    model: str
    regime: Regime = Regime.PREFIX
    minimum: int = 0
    """A shorter prefix is never cached."""
    step: int = 1
    """A hit is a multiple of this many tokens (PREFIX)."""
    ttls: Mapping[str, float] = field(default_factory=dict)
    """Lives that an entry may be given: name → seconds. Empty: no known end."""
    default_ttl: str = ""
    """Name of the life that an entry has when none is asked for."""
    refreshed: bool = True
    """Whether a hit begins an entry's life anew."""
    marker: str = ""
    """Field that sets a mark: cache_control, prompt_cache_breakpoint, cachePoint; empty if there is none."""
    most_marks: int = 4
    lookback: int = 0
    """MARKS: how many blocks a read walks back from a mark, the marked one included; BOUNDARIES: how many of the
    latest boundaries of a request are tried. 0: no limit."""
    writes_at: tuple[str, ...] = ()
    """BOUNDARIES: ends chosen by the provider: ``input`` (end of the newest input), ``output`` (end of the answer),
    ``common`` (a common prefix once two requests had it), ``interval`` (each ``interval`` tokens). PREFIX: ``output``
    where what was generated is held as what was sent is."""
    interval: int = 0
    automatic: bool = False
    """Whether a top-level field marks the last cacheable block (it takes one of the marks)."""
    unmarkable: tuple[str, ...] = ()
    """Types of block on which a mark is refused, as thinking: what a simulated provider holds our marks to."""
    invalidates: Mapping[str, str] = field(default_factory=dict)
    """What changed → the first tier that is lost by it."""
    readable: str = "first_byte"
    """When what a request wrote can be read: ``first_byte`` of its response, its ``end``, or at ``once``."""
    read_price: float = 1.0
    write_price: Mapping[str, float] = field(default_factory=dict)
    """Price of a token that is written, by the name of its life; one that is missing costs 1."""
    input_price: float | None = None
    """Price of a million uncached input tokens, in ``currency``."""
    output_price: float | None = None
    currency: str = ""
    key_field: str = ""
    """Field of the body that keeps requests of one prefix on one machine, as prompt_cache_key."""
    key_header: str = ""
    """Header that does the same, as x-grok-conv-id."""
    key_rate: float = 0.0
    """Requests a minute that one key bears; 0: no limit known."""
    allowed_tools: bool = False
    """Whether tool_choice can restrict the tools without touching the cached list."""
    tool_changes: tuple[str, str] | None = None
    """Header with which tools may be added and withdrawn in the midst of a conversation; None: they may not."""
    diagnostics: str = ""
    """Field of the body that asks for the provider's own diagnosis; empty if it gives none."""
    diagnostics_first: bool = False
    """Whether it remembers only requests that ask, so that the first must ask too, and name none before it."""
    diagnostics_header: tuple[str, str] | None = None
    """Header that this needs."""
    template_field: str = ""
    """Field of the body with arguments for the chat template; empty if there is none."""
    date_argument: Mapping[str, str] = field(default_factory=dict)
    """Argument of the template that pins the date it writes → how that is written (strftime)."""
    thinking_argument: Mapping[str, bool] = field(default_factory=dict)
    """Argument of the template → the value under which it keeps the thinking of earlier turns."""

    @property
    def life(self) -> float:
        """Seconds that an entry lives by default; infinite if no end is known."""
        return self.ttls.get(self.default_ttl, float("inf"))


@dataclass(frozen=True, slots=True)
class Blocks:
    """A prompt as caches see it: blocks in render order (a tool, a system block, a part of a message), numbered from 0.

    Half-open: blocks [0, tools) are tools, [tools, system) system blocks, [system, len(ends)) the history.
    """

    ends: tuple[float, ...]
    """Tokens up to and including each block."""
    tools: int
    system: int
    markable: frozenset[int]
    """Blocks on which a mark may stand."""
    marks: Mapping[int, str] = field(default_factory=dict)
    """Marks that the client set: block → name of the life it asked for (empty: the default)."""
    automatic: str | None = None
    """The life that a top-level mark asks for; None: there is none."""
    volatile: frozenset[int] = frozenset()
    """Blocks known to change from request to request."""

    def tokens(self, count: int) -> float:
        """Tokens of the first ``count`` blocks."""
        return self.ends[count - 1] if count else 0.0
