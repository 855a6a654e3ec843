"""Breaks made on purpose: enough of them, always the same ones, and true to what they say was done."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.drive import fewer

from standfast.lab.breaks import media
from standfast.lab.breaks.quiet import QUIET
from standfast.lab.breaks.reader import common, meaning, shown
from standfast.lab.perturb import CLASSES, PAIRS, Variant, negatives, pairs, variants

FORM_ALONE = {"T1", "T2", "H2", "H3", "H4", "H5", "H9", "I1"}
"""Classes whose breaks change no meaning."""
ANEW = {"T5", "S7", "X1", "B1", "B6"}
"""Classes in which the later request begins another conversation."""
PLACED_OUTSIDE = {"P1", "P2", "I1", "I2"}

classes = st.sampled_from(sorted(CLASSES))
seeds = st.integers(0, 10_000)


def first(cause: str, seed: int) -> Variant:
    return next(variants(cause, seed))


@pytest.mark.parametrize("cause", CLASSES)
def test_fifty_of_each_class_and_no_two_alike(cause: str) -> None:
    some = list(islice(variants(cause, 3), 50))
    assert len({v.id for v in some}) == len({(v.before, v.after) for v in some}) == 50
    assert {v.cause for v in some} == {cause}
    assert len({v.dialect for v in some}) > 1 or cause in ("B1", "B2", "I2")


@fewer(50)
@given(classes, seeds)
def test_the_same_seed_makes_the_same_variant(cause: str, seed: int) -> None:
    assert first(cause, seed) == first(cause, seed)
    assert first(cause, seed).before != first(cause, seed + 1).before or cause in PLACED_OUTSIDE


@fewer(50)
@given(classes, seeds)
def test_without_the_break_the_session_only_grows(cause: str, seed: int) -> None:
    v = first(cause, seed)
    before, clean = shown(v.before, v.dialect), shown(v.clean, v.dialect)
    assert 0 < common(before, clean) <= sum(map(len, before))
    if cause not in ANEW:
        assert clean[: len(before)] == before


@fewer(50)
@given(classes, seeds)
def test_the_break_changes_the_bytes_and_the_meaning_only_where_it_says_so(cause: str, seed: int) -> None:
    v = first(cause, seed)
    means = [meaning(body, v.dialect) for body in (v.after, v.clean)]
    if cause in FORM_ALONE:
        assert means[0] == means[1]
    if cause in ("S1", "S3", "S4", "S6", "T3", "T4", "H7", "H10", "P1", "P2"):
        assert means[0] != means[1]
    assert v.after != v.clean or cause in ("B2", "T5")


@fewer(50)
@given(classes, seeds)
def test_a_path_leads_to_something(cause: str, seed: int) -> None:
    v = first(cause, seed)
    if cause in (*PLACED_OUTSIDE, "T4", "T5", "X1", "H6"):  # what is gone has a place all the same
        assert v.path.partition("[")[0] in (*json.loads(v.before), *json.loads(v.after), v.path)
        return
    value: Any = json.loads(v.after)
    for step in v.path.replace("[", ".[").split("."):
        value = value[int(step[1:-1])] if step.startswith("[") else value[step]
    assert value


@fewer(50)
@given(seeds)
def test_pairs_have_both_breaks(seed: int) -> None:
    for one, other in PAIRS:
        v = next(pairs(one, other, seed))
        assert (v.cause, [cause for cause, _ in v.also]) == (one, [other])
        assert v.after != v.clean


def test_three_hundred_requests_in_which_nothing_broke() -> None:
    some = list(islice(negatives(5), 304))
    assert len({(v.before, v.after) for v in some}) > 295
    assert {v.cause for v in some} == {""}
    assert len({v.note for v in some}) == len(QUIET) - 1  # one of them twice


@fewer(50)
@given(seeds)
def test_where_nothing_broke_old_turns_read_the_same(seed: int) -> None:
    for v in islice(negatives(seed), len(QUIET)):
        prompts = [shown(body, v.dialect) for body in (v.before, v.after)]
        assert common(*prompts) > sum(map(len, prompts[0])) / 3


def test_the_truth_owes_nothing_to_the_core() -> None:
    code = "import sys, standfast.lab.perturb; print(any(m.startswith('standfast.prompt') for m in sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert told == "False\n"


@fewer(50)
@given(seeds)
def test_a_picture_again_has_the_same_pixels_in_other_bytes(seed: int) -> None:
    picture = media.png(Random(seed))
    again, changed = media.again(picture, Random(seed)), media.changed(picture, Random(seed))
    assert again != picture
    assert media.pixels(again) == media.pixels(picture)
    assert media.pixels(changed) != media.pixels(picture)


def test_the_shared_head_of_two_prompts() -> None:
    assert common(["ab", "cd"], ["ab", "ce"]) == 3
    assert common(["ab"], ["ab", "x"]) == 2
    assert common([], ["a"]) == 0
    assert common(["a"], ["ab"]) == 1


def test_no_session_fits_is_said() -> None:
    with pytest.raises(KeyError):
        next(variants("Z9", 0))
