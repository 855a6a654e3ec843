"""A simulated provider: the cache of the original by its rules, its usage, its findings; no model behind it.

    body ─read→ Prompt ─machine→ Cache ─look up→ Served ─answer→ Exchange … begin, finish

It can be called as it is, and replays do; ``provider`` puts HTTP around it.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from standfast.lab.answers import Answer, answer, whole
from standfast.lab.caches import REGIMES, Cache, Served
from standfast.lab.past import Past
from standfast.lab.reading import BYTES_A_TOKEN, Prompt, answer_blocks, read
from standfast.providers.rules import Regime, Rules

_ROUTED_BY = 256 * BYTES_A_TOKEN  # bytes of a prompt's opening that choose a machine
_MINUTE = 60.0
_PLACES = 10_000  # of which the rate is known
_SALTS = ("cache_salt", "extra_key")


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and how often (0 to 1); seeded."""

    overloaded: float = 0.0
    limited: float = 0.0
    evicted: float = 0.0
    """Before a request one machine loses ``lost`` of what it holds."""
    lost: float = 1.0
    untold: float = 0.0
    """Usage comes without the cache's fields."""
    broken: float = 0.0
    """A stream breaks off in the middle."""
    retokenised: float = 0.0
    """An answer is held under other tokens than its text has in the next prompt."""


@dataclass(slots=True)
class Exchange:
    """One request, served."""

    prompt: Prompt
    dialect: str
    answer: Answer
    cache: Cache
    breaks: bool = False

    @property
    def served(self) -> Served:
        return self.answer.served

    @property
    def body(self) -> dict[str, Any]:
        """The whole response, in the form of the original."""
        return whole(self.dialect, self.answer)


class Provider:
    """One provider, on one or several machines, each of them with a cache of its own for each model."""

    def __init__(
        self,
        rules_of: Callable[[str], Rules],
        *,
        now: Callable[[], float] = time.time,
        machines: int = 1,
        capacity: int = 0,
        faults: Faults = Faults(),
        seed: int = 0,
    ) -> None:
        self._rules_of = rules_of
        self._now = now
        self._machines = machines
        self._capacity = capacity
        self._faults = faults
        self._random = random.Random(seed)
        self._caches: dict[tuple[str, int], Cache] = {}
        self._recent: dict[bytes, deque[float]] = {}
        self._past = Past()
        self.requests = 0

    def serve(self, body: bytes, dialect: str, tenant: str = "", headers: Mapping[str, str] | None = None) -> Exchange:
        """Begin one request; ``begin`` and ``finish`` follow. Raises Refused."""
        prompt = self._past.continued(read(body, dialect), tenant)
        rules = self._rules_of(prompt.model)
        cache = self._machine(rules, prompt, headers or {})
        if self._happens(self._faults.evicted):
            cache.forget(self._faults.lost, self._random)
        self.requests += 1
        served = cache.look_up(prompt, _scope(prompt, tenant), self._now())
        told = replace(
            answer(prompt, self.requests, served, rules),
            finding=self._past.compare(prompt, served, rules, tenant),
            tells_usage=rules.regime is not Regime.NONE and not self._happens(self._faults.untold),
        )
        exchange = Exchange(prompt, dialect, told, cache, self._happens(self._faults.broken))
        response = exchange.body
        self._past.remember(str(response["id"]), prompt, answer_blocks(dialect, response), tenant)
        return exchange

    def begin(self, exchange: Exchange) -> None:
        """Its response begins."""
        exchange.cache.begin(exchange.served, self._now())

    def finish(self, exchange: Exchange) -> None:
        """Its response has ended."""
        said = () if self._happens(self._faults.retokenised) else answer_blocks(exchange.dialect, exchange.body)
        exchange.cache.finish(exchange.served, said, self._now())

    def complete(
        self, body: bytes, dialect: str, tenant: str = "", headers: Mapping[str, str] | None = None
    ) -> Exchange:
        """All of one request at once. Raises Refused."""
        exchange = self.serve(body, dialect, tenant, headers)
        self.begin(exchange)
        self.finish(exchange)
        return exchange

    def overloaded(self) -> bool:
        """Whether the next request is turned away."""
        return self._happens(self._faults.overloaded)

    def limited(self) -> bool:
        """Whether the next request is one too many."""
        return self._happens(self._faults.limited)

    def state(self) -> dict[str, Any]:
        """What it holds."""
        return {"requests": self.requests, "entries": sum(len(cache) for cache in self._caches.values())}

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _machine(self, rules: Rules, prompt: Prompt, headers: Mapping[str, str]) -> Cache:
        number = self._route(rules, prompt, headers) if self._machines > 1 else 0
        name = (f"{rules.provider}/{rules.model}", number)
        if name not in self._caches:
            self._caches[name] = REGIMES[rules.regime](rules, self._capacity)
        return self._caches[name]

    def _route(self, rules: Rules, prompt: Prompt, headers: Mapping[str, str]) -> int:
        """The machine by the opening of the prompt and the key, and the next ones for what is beyond the key's rate.

        Nothing says where a request without a key belongs, unless the provider routes by the opening alone; those are
        the ones that name a rate. Marked prefixes are found on every machine.
        """
        if rules.regime is Regime.MARKS:
            return 0
        key = headers.get(rules.key_header, "") if rules.key_header else prompt.fields.get(rules.key_field) or ""
        if not key and not rules.key_rate:
            return self._random.randrange(self._machines)
        opening = b"".join(block.key for block in prompt.blocks)[:_ROUTED_BY]
        place = blake2b(opening + str(key).encode(), digest_size=8).digest()
        return (int.from_bytes(place) + self._spill(place, rules.key_rate)) % self._machines

    def _spill(self, place: bytes, rate: float) -> int:
        """How many machines are full with requests for this place in the last minute."""
        if len(self._recent) > _PLACES:
            self._recent.clear()
        now, recent = self._now(), self._recent.setdefault(place, deque())
        while recent and recent[0] <= now - _MINUTE:
            recent.popleft()
        full = int(len(recent) // rate) if rate else 0
        recent.append(now)
        return full


def _scope(prompt: Prompt, tenant: str) -> bytes:
    salts = [str(prompt.fields.get(name, "")) for name in _SALTS]
    return blake2b("\0".join([tenant, *salts]).encode(), digest_size=16).digest()
