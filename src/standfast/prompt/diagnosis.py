"""What a request shares with what was sent before, and what kept it from sharing more."""

from __future__ import annotations

from dataclasses import dataclass, field

from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift
from standfast.prompt.measure import Tokens


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """See the module."""

    drifts: tuple[Drift, ...] = ()
    """In render order."""
    tokens: Tokens = field(default_factory=Tokens)
    resumed: bool = False
    """The body began with the bytes of an earlier one, so only the rest was parsed."""

    @property
    def primary(self) -> Drift | None:
        """The first drift in render order: the one that ends the shared prefix."""
        return self.drifts[0] if self.drifts else None

    @property
    def cause(self) -> str | None:
        return self.primary.cause if self.primary else None

    @property
    def path(self) -> str | None:
        return self.primary.path if self.primary else None

    @property
    def repair(self) -> Repair:
        return self.primary.repair if self.primary else Repair.NONE

    @property
    def repaired(self) -> bool:
        return bool(self.drifts) and all(d.repaired for d in self.drifts)

    @property
    def attainable_tokens(self) -> int:
        return self.tokens.attainable

    @property
    def lost_tokens(self) -> int:
        return self.tokens.lost if self.drifts else 0
