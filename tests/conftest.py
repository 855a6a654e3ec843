"""Settings of the whole suite: how many examples Hypothesis tries."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_CI_EXAMPLES = 5_000
"""Of each test. Every core invariant is held by at least two, so it is tried on 10,000 examples or more."""

settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "ci", max_examples=_CI_EXAMPLES, deadline=None, suppress_health_check=_SLOW, derandomize=True, database=None
)
settings.load_profile("ci" if os.environ.get("STANDFAST_CI") == "1" else "default")
