"""Keys that keep requests of one prefix on one machine (I1).

A vendor's key is hashed with the opening of the prompt and names a machine, which bears only so many requests a minute.
So all sessions that begin alike share one key while they are few, and are spread over as many keys as their rate wants
once they are many; a session stays on the key that it was first given.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from standfast.providers.rules import Rules

_PREFIXES = 10_000
_FADE = 0.997
_MODELS = 1_000
_WINDOW = 60.0  # seconds over which a rate is taken


class Rates:
    """Requests a minute of each prefix, decaying; bounded, the least recently used go first."""

    def __init__(self) -> None:
        self._counts: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def per_minute(self, prefix: bytes, now: float) -> float:
        """Count one request of a prefix at ``now`` (seconds), and tell its rate."""
        count, at = self._counts.get(prefix, (0.0, now))
        count = count * math.exp(-max(0.0, now - at) / _WINDOW) + 1.0
        self._counts[prefix] = (count, now)
        self._counts.move_to_end(prefix)
        if len(self._counts) > _PREFIXES:
            self._counts.popitem(last=False)
        return count


class Lateness:
    """How often a session's next request comes when the default life is over and the longest is not, by model."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}

    def learn(self, rules: Rules, gap: float) -> None:
        """Two requests of a session were so many seconds apart."""
        late, seen = self._seen.get(rules.model, (0.0, 0.0))
        is_late = rules.life < gap <= max(rules.ttls.values(), default=rules.life)
        self._seen[rules.model] = (late * _FADE + is_late, seen * _FADE + 1.0)
        if len(self._seen) > _MODELS:
            self._seen.pop(next(iter(self._seen)))

    def share(self, rules: Rules) -> float:
        """Of the latest few hundred requests; a guess of one in fifty where few were seen."""
        late, seen = self._seen.get(rules.model, (0.0, 0.0))
        return (late + 1.0) / (seen + 50.0)


def cache_key(prefix: bytes, session: bytes, per_minute: float, rules: Rules) -> str:
    """The key for a session that has none yet: 24 hexadecimal digits, the last 8 telling the bucket.

    ``prefix`` and ``session`` are digests keyed by tenant, so a key tells nothing and meets no other tenant's.
    """
    buckets = math.ceil(per_minute / rules.key_rate) if rules.key_rate else 1
    bucket = int.from_bytes(session[:8]) % max(1, buckets)
    return f"{prefix[:8].hex()}{bucket:08x}"
