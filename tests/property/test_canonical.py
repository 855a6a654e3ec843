"""JSON by value: equal exactly where an independent comparator of exact decimals says so."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from property.drive import rngs
from property.reading import exact
from property.talk import value, wire

from standfast.prompt import canonical

_digits = st.text("0123456789", min_size=1, max_size=12)


@st.composite
def literals(draw: st.DrawFn) -> str:
    """A JSON number of a few digits, so that equal values in other spellings are common."""
    whole = draw(st.sampled_from(["0", "1", "10", "100", "12", "120", "9007199254740993"]) | _digits)
    whole = whole.lstrip("0") or "0"
    fraction = draw(st.sampled_from(["", "", ".0", ".5", ".50", ".001"]))
    exponent = draw(st.sampled_from(["", "", "e0", "E1", "e-1", "e+2", "e-3", "e39", "e40", "e41", "e999", "e-999"]))
    return draw(st.sampled_from(["", "", "-"])) + whole + fraction + exponent


def _exact(text: str | bytes) -> Any:
    return exact(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def _form(text: str | bytes) -> bytes:
    return canonical.meaning_form(canonical.decode_values(text))


def _negative_zero(text: str) -> bool:
    return text.startswith("-") and not text[1:].split("e")[0].split("E")[0].strip("0.")


@given(literals(), literals())
def test_numbers_are_equal_exactly_if_their_decimals_are(left: str, right: str) -> None:
    if _negative_zero(left) or _negative_zero(right):
        assert (_form(left) == _form(right)) <= (Decimal(left) == Decimal(right))
    else:
        assert (_form(left) == _form(right)) == (Decimal(left) == Decimal(right))


def test_negative_zero_with_a_fraction_is_no_zero() -> None:
    assert _form("-0.0") != _form("0.0")
    assert _form("-0.0") != _form("0")
    assert _form("1") == _form("1.0") == _form("10e-1") == _form("0.1e1")
    assert _form("1e40") == _form("1" + "0" * 40)
    assert _form("0.1") != _form("0.1000000000000000055511151231257827")
    assert len(_form("1e999999999")) < 20


@given(rngs)
def test_values_are_equal_exactly_if_the_independent_reading_says_so(rng: Random) -> None:
    left = value(rng, 3)
    right = left if rng.random() < 0.5 else value(rng, 3)
    one, other = wire(left, rng), wire(right, rng)
    assert (_form(one) == _form(other)) == (_exact(one) == _exact(other))


@given(rngs)
def test_the_key_form_keeps_order_and_spelling_and_reads_the_same(rng: Random) -> None:
    item = value(rng, 3)
    one, other = (canonical.key_form(canonical.decode(wire(item, rng))) for _ in range(2))
    assert one == other
    assert json.loads(one, parse_float=str, object_pairs_hook=list) == json.loads(
        wire(item), parse_float=str, object_pairs_hook=list
    )


@given(st.lists(st.integers(0, 3), max_size=5), st.lists(st.integers(0, 3), max_size=5))
def test_arrays_are_never_reordered(left: list[int], right: list[int]) -> None:
    assert (_form(json.dumps(left)) == _form(json.dumps(right))) == (left == right)


@given(st.lists(st.tuples(st.sampled_from("ab\u00e9"), st.integers(0, 2)), min_size=1, max_size=4), st.booleans())
def test_a_key_that_comes_twice_is_found(pairs: list[tuple[str, int]], deep: bool) -> None:
    escaped = ["\\u0061" if name == "a" and i % 2 else name for i, (name, _) in enumerate(pairs)]
    raw = "{" + ", ".join(f'"{name}": {number}' for name, (_, number) in zip(escaped, pairs, strict=True)) + "}"
    raw = f'[1.50, {{"x": {raw}}}]' if deep else raw
    twice = len({name for name, _ in pairs}) < len(pairs)
    assert canonical.has_duplicate_keys(raw.encode(), canonical.decode(raw)) == twice
    assert (canonical.json_text(raw) is None) == twice


@given(
    st.text(max_size=40) | st.sampled_from(["{", "[1", " [1] ", '{"a":1}', "[" * 3000, "NaN", "\ud800", '["\ud800"]'])
)
def test_json_text_takes_objects_and_arrays_alone(text: str) -> None:
    try:
        found = json.loads(text) if text.lstrip(" \t\r\n")[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        found = None
    form = canonical.json_text(text)
    if form is not None:
        assert msgspec.json.decode(form) == found
    if isinstance(found, dict | list) and not any(c in text for c in "N\ud800"):
        assert form is not None
