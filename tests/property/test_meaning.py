"""Invariant 3: a lossless repair leaves the meaning of the whole prompt as it was."""

from __future__ import annotations

from random import Random

from hypothesis import given
from property.drive import Drive, digests, rngs
from property.reading import meaning, valid
from property.talk import Habit, Talk, body, talk, wire


def _check(drive: Drive, raw: bytes, n: int) -> None:
    out = drive.send(raw, n).body
    assert valid(out, drive.dialect)
    assert digests(out, drive.dialect) == digests(raw, drive.dialect)
    assert meaning(out, drive.dialect) == meaning(raw, drive.dialect)


@given(rngs)
def test_meaning_is_kept_by_our_own_reading_and_by_an_independent_one(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive = Drive(t.dialect)
    for n in range(len(t.steps)):
        _check(drive, wire(body(t, Habit(rng, f"c{n}"), n + 1), rng), n)
    assert not drive.failures


def _changed(t: Talk, rng: Random) -> None:
    """Something really changes."""
    step = rng.choice(t.steps)
    kind = rng.randrange(5)
    if kind == 0 and t.tools:
        t.tools.pop(rng.randrange(len(t.tools)))
    elif kind == 1 and t.system:
        t.system[0] += rng.choice((" more", " at 12:31", "\n\ncch=2"))
    elif kind == 2 and step.calls:
        step.calls.reverse()
    elif kind == 3 and step.results:
        step.results = [*step.results[1:], step.results[0]]
    elif step.texts:
        step.texts[-1] += rng.choice((" more", " cch=2"))


@given(rngs)
def test_a_real_change_goes_out_as_it_is_meant(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive = Drive(t.dialect)
    for n in range(len(t.steps)):
        _check(drive, wire(body(t, Habit(rng, f"c{n}"), n + 1), rng), n)
        if rng.random() < 0.5:
            _changed(t, rng)


@given(rngs)
def test_the_independent_reading_tells_talks_apart_as_ours_does(rng: Random) -> None:
    left, right = talk(rng), talk(rng)
    right.dialect = left.dialect
    for other in (left, right):
        one, two = wire(body(left, Habit(rng)), rng), wire(body(other, Habit(rng)), rng)
        ours = digests(one, left.dialect)[:3] == digests(two, left.dialect)[:3]
        assert ours == (meaning(one, left.dialect)[:3] == meaning(two, left.dialect)[:3])
