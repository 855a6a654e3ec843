"""The frequency sketch."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from standfast.store.sketch import FADE, MOST, Sketch


@given(st.lists(st.integers(0, 200), max_size=600))
def test_never_counts_too_little_before_it_fades(keys: list[int]) -> None:
    sketch = Sketch(64)
    for key in keys:
        sketch.add(key)
    assert all(sketch.count(key) >= min(n, MOST) for key, n in Counter(keys).items())


def test_few_keys_are_counted_exactly() -> None:
    sketch = Sketch(1024)
    for key in range(1000):
        for _ in range(1 + key % 3):
            sketch.add(key)
    assert sum(sketch.count(key) == 1 + key % 3 for key in range(1000)) >= 990


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=200), st.integers(1, 100_000))
def test_growing_keeps_all_counts(keys: list[bytes], wide: int) -> None:
    sketch = Sketch(32)
    for key in keys:
        sketch.add(key)
    before = [sketch.count(key) for key in keys]
    sketch.fit(wide)
    assert [sketch.count(key) for key in keys] == before


def test_counts_are_halved_in_time() -> None:
    sketch = Sketch(16)
    for _ in range(8):
        sketch.add("once popular")
    for other in range(FADE * 16 - 8):
        sketch.add(other)
    assert sketch.count("once popular") <= 5
