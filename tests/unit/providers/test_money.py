"""Bills, keys, and tokens a byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.providers.affinity import Rates, cache_key
from standfast.providers.calibrate import PRIOR, Calibration
from standfast.providers.money import Bill, bill
from standfast.providers.rules import Rules

CLAUDE = Rules(
    "a", "m", read_price=0.1, write_price={"5m": 1.25, "1h": 2.0}, input_price=5.0, output_price=25.0, currency="USD"
)


def test_a_bill_by_hand() -> None:
    found = bill(CLAUDE, 10_000, 6_000, {"5m": 2_000, "1h": 1_000}, 400, 8_000)
    rest = 2_000 * 1.25 + 1_000 * 2.0 + 1_000
    assert found.paid == pytest.approx((6_000 * 0.1 + rest) * 5e-6 + 400 * 25e-6)
    assert found.without_cache == pytest.approx(10_000 * 5e-6 + 400 * 25e-6)
    assert found.perfect == pytest.approx((8_000 * 0.1 + 2_000 * rest / 4_000) * 5e-6 + 400 * 25e-6)
    assert found.as_json()["currency"] == "USD"


def test_without_a_price_it_is_in_input_tokens() -> None:
    found = bill(Rules("a", "m", read_price=0.1), 1_000, 500, {}, 100, 500)
    assert found == Bill(paid=550.0, without_cache=1_000.0, perfect=550.0)
    assert found.as_json()["currency"] == "input tokens"


def test_bills_add_up_in_one_currency() -> None:
    assert Bill(1, 2, 1, "USD") + Bill(2, 3, 2, "USD") == Bill(3, 5, 3, "USD")
    with pytest.raises(ValueError, match="do not add up"):
        Bill(1, 2, 1, "USD") + Bill(1, 2, 1, "CNY")


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_perfect_is_never_dearer_than_paid(prompt: int, cached: float, written: float, attainable: float) -> None:
    read = int(prompt * cached)
    found = bill(CLAUDE, prompt, read, {"5m": (prompt - read) * written}, 10, int(prompt * attainable))
    assert found.perfect <= found.paid + 1e-9
    assert found.paid >= 0


def test_one_key_while_few_many_keys_while_many() -> None:
    rules = Rules("o", "m", key_rate=15)
    sessions = [bytes([n]) * 16 for n in range(100)]
    assert len({cache_key(b"p" * 32, s, 3.0, rules) for s in sessions}) == 1
    assert len({cache_key(b"p" * 32, s, 150.0, rules) for s in sessions}) == 10
    assert cache_key(b"p" * 32, b"s" * 16, 3.0, rules) != cache_key(b"q" * 32, b"s" * 16, 3.0, rules)
    assert len(cache_key(b"p" * 32, b"s" * 16, 1e6, Rules("o", "m"))) == 24


def test_a_rate_rises_and_decays() -> None:
    rates = Rates()
    for second in range(120):
        steady = rates.per_minute(b"p", float(second))
    assert 45 < steady <= 61
    assert rates.per_minute(b"p", 119.0 + 600) < 1.1
    assert rates.per_minute(b"q", 0.0) == 1.0


def test_tokens_a_byte_are_learned_from_usage() -> None:
    known = Calibration()
    assert known.ratio("m") == PRIOR
    for size in range(1_000, 40_000, 1_000):
        known.learn("m", size, round(size * 0.31))
    assert known.ratio("m") == pytest.approx(0.31, rel=0.01)
    assert known.spread("m") < 0.02
    known.learn("m", 1_000, 1_000_000)
    known.learn("m", 0, 5)
    assert known.ratio("m") == pytest.approx(0.31, rel=0.01)
    assert known.ratio("other") == PRIOR
    for n in range(2_000):
        known.learn(f"m{n}", 100, 30)
    assert known.ratio("m") == PRIOR
