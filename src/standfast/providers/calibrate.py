"""How many tokens a rendered byte is, learned from the usage that providers report.

Without the model's tokenizer a token is taken as four bytes. Each response tells the true count of a prompt whose bytes
we know; the ratio of a model settles within a few of them. Its spread says how far an estimate may be off.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

PRIOR = 0.25
"""Tokens a byte before anything was learned."""
_WEIGHT = 0.1  # of the newest observation, once there are many
_MODELS = 1_000
_PLAUSIBLE = (0.02, 4.0)  # tokens a byte; anything else is an image, or a prompt that the provider holds
_UNKNOWN = 0.25  # relative spread of an estimate by the prior


@dataclass(slots=True)
class _Ratio:
    mean: float
    spread: float
    seen: int


class Calibration:
    """Ratios by model name; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._ratios: OrderedDict[str, _Ratio] = OrderedDict()

    def ratio(self, model: str) -> float:
        """Tokens a byte."""
        known = self._ratios.get(model)
        return known.mean if known else PRIOR

    def spread(self, model: str) -> float:
        """Mean absolute error of the ratio, as a share of it."""
        known = self._ratios.get(model)
        return known.spread / known.mean if known and known.seen > 1 else _UNKNOWN

    def learn(self, model: str, size: int, tokens: int) -> None:
        """One prompt of ``size`` rendered bytes had so many tokens."""
        if size <= 0 or not _PLAUSIBLE[0] <= tokens / size <= _PLAUSIBLE[1]:
            return
        told = tokens / size
        known = self._ratios.setdefault(model, _Ratio(told, 0.0, 0))
        self._ratios.move_to_end(model)
        known.seen += 1
        weight = max(_WEIGHT, 1 / known.seen)
        error = abs(told - known.mean)
        known.spread += weight * (error - known.spread)
        known.mean += weight * (told - known.mean)
        if len(self._ratios) > _MODELS:
            self._ratios.popitem(last=False)
