"""The arithmetic of the table, on steps whose sums can be done by hand."""

from __future__ import annotations

import json

import pytest

from standfast.demo.figures import ARTICLE_2026, DemoResult, percentile
from standfast.demo.run import Step


def step(turn: int, prompt: int, cached: int, wait: float = 0.1, cause: str | None = None, ok: bool = False) -> Step:
    return Step(turn, "user", (), prompt, cached, wait, wait * 2, cause, ok)


RESULT = DemoResult(
    "Shop",
    12,
    raw=(step(1, 100, 0, 1.0), step(2, 120, 100, 0.2), step(3, 151, 10, 3.0), step(4, 160, 10, 2.0)),
    standfast=(
        step(1, 100, 0, 1.0), step(2, 120, 100, 0.2), step(3, 150, 120, 0.3, "T1", True), step(4, 190, 149, 0.4, "S1"),
    ),
)  # fmt: skip


def test_attainable_is_the_prompt_before_by_the_smaller_count() -> None:
    assert RESULT.attainable == [0, 100, 120, 150]


def test_an_identical_prompt_leaves_one_token_to_compute() -> None:
    twice = (step(1, 100, 0), step(2, 100, 99))
    result = DemoResult("Shop", 12, twice, twice)
    assert result.attainable == [0, 99]
    assert result.figures(twice).hit_of_attainable == 1.0


def test_figures_of_the_raw_run() -> None:
    raw = RESULT.figures(RESULT.raw)
    assert raw.prompt_tokens == 531
    assert raw.hit_tokens == 120
    assert raw.computed_tokens == 411
    assert raw.recomputed_tokens == 110 + 140
    assert raw.hit_rate == pytest.approx(120 / 531)
    assert raw.hit_of_attainable == pytest.approx(120 / 370)
    assert (raw.first_token_p50, raw.first_token_p95) == (1.0, 3.0)
    assert raw.seconds == pytest.approx(12.4)
    assert raw.cost == pytest.approx((120 * 0.12 + 411 * 3.15) / 1e6)


def test_figures_of_the_standfast_run() -> None:
    ours = RESULT.figures(RESULT.standfast)
    assert ours.recomputed_tokens == 1
    assert ours.hit_of_attainable == pytest.approx(369 / 370)


def test_more_cached_than_attainable_makes_up_for_nothing() -> None:
    raw = (step(1, 100, 0), step(2, 120, 100), step(3, 130, 120))
    ours = (step(1, 140, 0), step(2, 160, 139), step(3, 170, 0))
    assert DemoResult("Shop", 12, raw, ours).figures(ours).hit_of_attainable == pytest.approx(100 / 220)


def test_causes_are_counted_with_what_they_cost_the_raw_run() -> None:
    rows = {row.id: row for row in RESULT.causes()}
    assert list(rows) == ["T1", "S1", None]
    assert rows["T1"].title == "tools in another order"
    assert (rows["T1"].turns, rows["T1"].repaired, rows["T1"].raw_recomputed) == ((3,), 1, 110)
    assert (rows["S1"].turns, rows["S1"].repaired, rows["S1"].raw_recomputed) == ((4,), 0, 140)
    assert rows[None].turns == (1, 2)
    assert sum(row.raw_recomputed for row in rows.values()) == RESULT.figures(RESULT.raw).recomputed_tokens


def test_an_unknown_cause_is_shown_by_its_id() -> None:
    steps = (step(1, 10, 0, cause="Z9"),)
    assert [(row.id, row.title) for row in DemoResult("Shop", 12, steps, steps).causes()] == [("Z9", ""), (None, "")]


def test_percentiles_are_measured_values() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([3.0], 0.95) == 3.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.95) == 95.0


def test_the_price_profile_is_that_of_the_article() -> None:
    assert ARTICLE_2026.cost(1_000_000, 0) == pytest.approx(0.12)
    assert ARTICLE_2026.cost(0, 1_000_000) == pytest.approx(3.15)


def test_as_dict_is_json() -> None:
    data = json.loads(json.dumps(RESULT.as_dict()))
    assert data["policy"] == "isolate"
    assert data["profile"]["name"] == "article-2026"
    assert data["raw"]["recomputed_tokens"] == 250
    assert [row["id"] for row in data["causes"]] == ["T1", "S1", None]
    assert len(data["steps"]["standfast"]) == 4
