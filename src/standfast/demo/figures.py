"""What the steps of two runs add up to. Pure arithmetic over the engine's own token counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from standfast.demo.run import Step
from standfast.prompt.causes import CAUSES
from standfast.providers.facts import profiles


@dataclass(frozen=True, slots=True)
class PriceProfile:
    """Price of input tokens. Output is the same in both runs and left out."""

    name: str
    currency: str
    hit: float
    """Per million tokens read from the cache."""
    miss: float
    """Per million tokens computed."""

    def cost(self, hit_tokens: int, computed_tokens: int) -> float:
        return (hit_tokens * self.hit + computed_tokens * self.miss) / 1_000_000


_ARTICLE = profiles()["article-2026"]
ARTICLE_2026 = PriceProfile(_ARTICLE.name, "yuan", hit=_ARTICLE.read, miss=_ARTICLE.input)


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    prompt_tokens: int
    hit_tokens: int
    computed_tokens: int
    recomputed_tokens: int
    """Computed although a perfect cache would have served them: attainable less hit."""
    hit_rate: float
    hit_of_attainable: float
    first_token_p50: float
    first_token_p95: float
    seconds: float
    cost: float


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One cause that Standfast named. ``id`` is None for the turns without one."""

    id: str | None
    title: str
    turns: tuple[int, ...]
    repaired: int
    raw_recomputed: int
    """Tokens that the raw run computed again on these turns."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Both runs of the same requests, one or more."""

    title: str
    tools: int
    raw: tuple[Step, ...]
    standfast: tuple[Step, ...]
    profile: PriceProfile = ARTICLE_2026

    @property
    def attainable(self) -> list[int]:
        """Tokens of each turn that a perfect cache would have served.

        The script only appends, so that is the whole prompt of the turn before, and never all of the turn itself: an
        engine computes at least one token. Of the two runs' counts the smaller is taken: a habit may write a prompt
        longer, and so may the line that tells the new time, but neither makes more of it attainable.
        """
        sizes = [min(a.prompt_tokens, b.prompt_tokens) for a, b in zip(self.raw, self.standfast, strict=True)]
        return [0, *(min(before, size - 1) for before, size in pairwise(sizes))]

    def recomputed(self, steps: Sequence[Step]) -> list[int]:
        """Tokens of each turn that were attainable and computed all the same."""
        return [max(0, most - step.cached_tokens) for most, step in zip(self.attainable, steps, strict=True)]

    def figures(self, steps: Sequence[Step]) -> Figures:
        """The sums of one of the two runs."""
        prompt = sum(step.prompt_tokens for step in steps)
        hit = sum(step.cached_tokens for step in steps)
        again = sum(self.recomputed(steps))
        most = sum(self.attainable)
        waits = [step.first_token_seconds for step in steps]
        return Figures(
            prompt_tokens=prompt,
            hit_tokens=hit,
            computed_tokens=prompt - hit,
            recomputed_tokens=again,
            hit_rate=_share(hit, prompt),
            hit_of_attainable=_share(most - again, most),
            first_token_p50=percentile(waits, 0.5),
            first_token_p95=percentile(waits, 0.95),
            seconds=sum(step.seconds for step in steps),
            cost=self.profile.cost(hit, prompt - hit),
        )

    def causes(self) -> list[CauseRow]:
        """What Standfast found, in order of appearance; the turns without a cause come last."""
        again = self.recomputed(self.raw)
        groups: dict[str | None, list[int]] = {}
        for index, step in enumerate(self.standfast):
            groups.setdefault(step.cause, []).append(index)
        clean = groups.pop(None, [])
        rows = [self._row(cause, indices, again) for cause, indices in groups.items()]
        return [*rows, self._row(None, clean, again)]

    def _row(self, cause: str | None, indices: list[int], again: list[int]) -> CauseRow:
        known = CAUSES.get(cause or "")
        return CauseRow(
            id=cause,
            title=known.title if known else "",
            turns=tuple(self.standfast[index].turn for index in indices),
            repaired=sum(self.standfast[index].repaired for index in indices),
            raw_recomputed=sum(again[index] for index in indices),
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "title": self.title,
            "turns": len(self.raw),
            "tools": self.tools,
            "policy": "isolate",
            "profile": asdict(self.profile),
            "raw": asdict(self.figures(self.raw)),
            "standfast": asdict(self.figures(self.standfast)),
            "causes": [asdict(row) for row in self.causes()],
            "attainable": self.attainable,
            "steps": {"raw": [asdict(s) for s in self.raw], "standfast": [asdict(s) for s in self.standfast]},
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured. 0.0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
