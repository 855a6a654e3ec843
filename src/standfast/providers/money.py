"""What a request costs, what it would have cost without a cache, and with a perfect one.

All prices are per token, as multiples of the price of an uncached input token times that price; where no price is
known it is 1, and the currency is empty: sums are then in uncached input tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from standfast.providers.rules import Rules

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Bill:
    """Money of one request, or of many; only bills of one currency add up."""

    paid: float
    without_cache: float
    """Every prompt token at the full price."""
    perfect: float
    """All that was attainable read from the cache, each other token at what such a token cost on average."""
    currency: str = ""

    def as_json(self) -> dict[str, float | str]:
        return {
            "paid": self.paid,
            "without_cache": self.without_cache,
            "perfect": self.perfect,
            "currency": self.currency or "input tokens",
        }

    def __add__(self, other: Bill) -> Bill:
        if self.currency != other.currency:
            raise ValueError(f"bills in {self.currency!r} and {other.currency!r} do not add up")
        return Bill(
            self.paid + other.paid,
            self.without_cache + other.without_cache,
            self.perfect + other.perfect,
            self.currency,
        )


def bill(rules: Rules, prompt: int, cached: int, written: Mapping[str, float], output: int, attainable: int) -> Bill:
    """The bill of one request by its usage.

    ``prompt`` counts all prompt tokens; of these ``cached`` were read and ``written`` were written, by life.
    """
    price = rules.input_price / _MILLION if rules.input_price is not None else 1.0
    out = output * (rules.output_price or 0.0) / _MILLION
    wrote = sum(tokens * rules.write_price.get(life, 1.0) for life, tokens in written.items())
    rest = max(0.0, prompt - cached - sum(written.values())) + wrote
    fresh = rest / (prompt - cached) if prompt > cached else 1.0  # what a token that was not served cost on average
    best = max(cached, min(attainable, prompt))
    return Bill(
        paid=price * (cached * rules.read_price + rest) + out,
        without_cache=price * prompt + out,
        perfect=price * (best * rules.read_price + (prompt - best) * fresh) + out,
        currency=rules.currency if rules.input_price is not None else "",
    )
