"""What other policies would have kept: caches of keys only, fed with a sample of the requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from standfast.store.policy import Policy

K = TypeVar("K", bound=Hashable)

ONE_IN = 16
"""Share of the requests that are followed, if not said otherwise."""
FADE = 0.999
"""Weight of a sampled request beside the one after it: some 1,000 of them count."""


class Ghost(Generic[K]):
    """A bounded cache of keys under a policy: the store without its values, for the lab and for live comparison."""

    def __init__(self, policy: Policy[K], capacity: float) -> None:
        self.capacity = capacity
        self.used = 0
        self._policy = policy
        self._sizes: dict[K, int] = {}

    def serve(self, chain: Sequence[K], sizes: Sequence[int], costs: Sequence[float] | None = None) -> int:
        """A request for a chain; costs default to the sizes. How many keys were in, up to the first that was not."""
        hit, known, served, parent = self._policy.hit, self._sizes, len(chain), None
        for place, key in enumerate(chain):
            if key in known:
                hit(key)
            else:
                served = min(served, place)
                size = sizes[place]
                self._admit(key, size, size if costs is None else costs[place], parent)
            parent = key
        return served

    def _admit(self, key: K, size: int, cost: float, parent: K | None) -> None:
        if size > self.capacity:
            return
        self.used += size
        while self.used > self.capacity:
            self.used -= self._sizes.pop(self._policy.victim())
        self._sizes[key] = size
        self._policy.insert(key, size, cost, parent)


@dataclass(frozen=True, slots=True)
class Regret:
    """How the chosen policy does beside the others, lately."""

    chosen: str
    shares: dict[str, float]
    """Hits ÷ what was asked for, in bytes, by policy."""

    @property
    def best(self) -> str:
        return max(self.shares, key=lambda name: self.shares[name])

    @property
    def regret(self) -> float:
        """Share that the best policy would have had more than the chosen one."""
        return self.shares[self.best] - self.shares[self.chosen]


class Ghosts(Generic[K]):
    """Follows one in so many units, whole, as SHARDS does with keys (Waldspurger et al., FAST 2015).

    A unit is what shares chains: a conversation. What units have in common (tools, system prompt) is told apart, since
    it is in every sample: a key of a unit stands for ``one_in`` keys, a common one for itself. So the capacity is the
    true one, and the work is ``len(policies) ÷ one_in`` calls a key of a request, on average.
    """

    def __init__(
        self, chosen: str, policies: Mapping[str, Callable[[], Policy[K]]], capacity: float, *, one_in: int = ONE_IN
    ) -> None:
        self._chosen, self._one_in = chosen, one_in
        self._ghosts = {name: Ghost(make(), capacity) for name, make in policies.items()}
        self._hits = dict.fromkeys(policies, 0.0)
        self._asked = 0.0

    def serve(self, unit: Hashable, chain: Sequence[K], sizes: Sequence[int], common: int = 0) -> None:
        """A request. ``common``: how many keys, from the first, other units have too."""
        if (hash(unit) * 0x9E3779B97F4A7C15 >> 32) % self._one_in:
            return
        room = [*sizes[:common], *(size * self._one_in for size in sizes[common:])]
        self._asked = FADE * self._asked + sum(sizes)
        for name, ghost in self._ghosts.items():
            self._hits[name] = FADE * self._hits[name] + sum(sizes[: ghost.serve(chain, room)])

    def regret(self) -> Regret:
        """Costs nothing: for metrics."""
        return Regret(self._chosen, {name: hits / max(self._asked, 1.0) for name, hits in self._hits.items()})
