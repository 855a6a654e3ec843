"""When keys are used again, learned from a sample of them: the hit density of a key by its uses and its age."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K", bound=Hashable)
Table = npt.NDArray[np.float64]

CLASSES = 3
"""Keys used once, twice, more often."""
SPANS = 66
"""Spans of age, two an octave: ages up to 2^32 calls are told apart."""
SAMPLE = 4096
"""Most keys that are followed."""
FADE = 0.95
"""What is left of what was learned each time that something is added."""
GUESS, WEIGHT = 0.3, 4.0
"""Before anything is known, a key is used again at a rate of 0.3 ÷ age; the guess weighs as much as four keys."""

_STARTS = 2.0 ** ((np.arange(SPANS + 1) - 1) / 2)
_WIDTHS = np.diff(_STARTS)
_UPPER = np.triu(np.ones((SPANS, SPANS), dtype=bool))


def span(age: int) -> int:
    """The span in which an age in calls lies: 2 · log2(age), rounded down, plus one."""
    return min((age * age).bit_length(), SPANS - 1)


class Ages(Generic[K]):
    """Follows a sample of keys, whether they are in or not.

    The sample is chosen by hash and thinned out when it grows too large, as in Waldspurger, Park, Garthwaite, Ahmad,
    "Efficient MRC construction with SHARDS", FAST 2015.
    """

    def __init__(self) -> None:
        self._followed: OrderedDict[K, tuple[int, int]] = OrderedDict()
        """Class and time of the last use, from the oldest use on."""
        self._uses = np.zeros((CLASSES, SPANS))
        """Uses, by what the key was when it was used: its class, its age."""
        self._calls = np.zeros((CLASSES, SPANS))
        """Calls that keys have lived through, by class and age."""
        self._mask = 0
        self._learned = 0

    def use(self, key: K, uses: int, now: int) -> None:
        """The key is used for the ``uses``-th time, at the call ``now``."""
        if self._mask and _sampled(key) & self._mask:
            return
        before = self._followed.pop(key, None)
        if before is not None:
            self._uses[before[0], span(now - before[1])] += 1
        self._followed[key] = (min(uses, CLASSES) - 1, now)
        if len(self._followed) > SAMPLE:
            self._thin()

    def _thin(self) -> None:
        """Follow half of the keys."""
        self._mask = 2 * self._mask + 1
        kept = ((key, use) for key, use in self._followed.items() if not _sampled(key) & self._mask)
        self._followed = OrderedDict(kept)

    def learn(self, now: int, horizon: int) -> Table:
        """Hit density by class and span: uses to be had for a call of room, if a key is kept for the best time.

        Keys unused for longer than ``horizon`` calls are not followed, and no use later than that is hoped for.
        """
        followed = self._followed
        while followed and now - next(iter(followed.values()))[1] > horizon:
            followed.popitem(last=False)
        self._uses *= FADE
        self._calls *= FADE
        for kind, last in followed.values():
            self._calls[kind, span(now - last)] += now - self._learned
        self._learned = now
        guess = WEIGHT * GUESS * _WIDTHS / _STARTS[:-1]
        rates = (self._uses + guess) / (self._calls + WEIGHT * _WIDTHS)
        return density(rates, span(horizon) + 1)


def density(rates: Table, spans: int) -> Table:
    """The index of Gittins, "Bandit processes and dynamic allocation indices", 1979.

    For a key of class c and span s the greatest ratio, over all times to give up, of the chance that it is used before
    to the calls that it stays in. ``rates``: uses a call, by class and span; ``spans``: how many of them count.
    """
    rates = np.maximum(rates, 1e-99)
    mass = rates * _WIDTHS
    passed = np.cumsum(mass, axis=1) - mass
    alive = np.exp(np.minimum(passed[:, :, None] - passed[:, None, :], 0.0)) * _UPPER
    used = alive * -np.expm1(-mass)[:, None, :]
    time = np.cumsum(used / rates[:, None, :], axis=2)
    ratio = np.cumsum(used, axis=2) / np.where(_UPPER, time, np.inf)
    best: Table = ratio[:, :, :spans].max(axis=2)
    return best


def _sampled(key: Hashable) -> int:
    return hash(key) * 0x9E3779B97F4A7C15 >> 32
