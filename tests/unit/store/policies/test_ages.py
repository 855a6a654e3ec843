"""Learning when keys are used again."""

from __future__ import annotations

import numpy as np
import pytest

from standfast.store.policies.ages import CLASSES, SAMPLE, SPANS, Ages, density, span


def test_two_spans_an_octave() -> None:
    assert [span(age) for age in (0, 1, 2, 3, 4, 6, 8, 1 << 40)] == [0, 1, 3, 4, 5, 6, 7, SPANS - 1]


def test_a_steady_rate_is_its_own_density() -> None:
    scores = density(np.full((CLASSES, SPANS), 1 / 500), 30)
    assert scores[:, :30] == pytest.approx(np.full((CLASSES, 30), 1 / 500))
    assert not scores[:, 30:].any(), "beyond the horizon nothing is hoped for"


def test_looks_ahead_to_a_time_when_keys_come_back() -> None:
    rates = np.zeros((CLASSES, SPANS))
    rates[0, span(1000)] = 0.01
    scores = density(rates, SPANS)[0]
    assert 0 < scores[1] < scores[span(500)] < scores[span(900)]
    assert scores[span(3000)] < 1e-9


def test_learns_the_class_and_the_age_at_which_keys_come_back() -> None:
    ages: Ages[tuple[str, int]] = Ages()
    now = 0
    for turn in range(4000):
        now += 1
        ages.use(("never again", turn), 1, now)
        if turn >= 300:
            now += 1
            ages.use(("after 300", turn - 300), 3, now)
        now += 1
        ages.use(("after 300", turn), 2, now)
    scores = ages.learn(now, 5000)
    young = span(100)
    assert scores[1, young] > 3 * scores[0, young]
    assert scores[1, young] > 3 * scores[2, young]


def test_follows_no_more_than_its_sample() -> None:
    ages: Ages[int] = Ages()
    for now in range(5 * SAMPLE):
        ages.use(now, 1, now)
    assert len(ages._followed) <= SAMPLE
