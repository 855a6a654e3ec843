"""Invariants 1 and 2: nothing to repair, nothing changed; and what went out stays as it went out."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from property.drive import Drive, reading, rngs
from property.reading import shown
from property.talk import DIALECTS, Habit, body, talk, wire

from standfast.policy import Policy
from standfast.prompt.mended import untouched
from standfast.prompt.render import render


@given(rngs)
def test_render_of_read_is_the_body(rng: Random) -> None:
    t = talk(rng)
    raw = wire(body(t, Habit(rng)), rng)
    request = reading(raw, t.dialect)
    assert render(request, untouched(request)) is raw
    for (start, end), item in zip(request.ranges, request.items, strict=True):
        assert raw[start:end] == item.wire


@given(rngs)
def test_without_drift_or_under_observe_the_very_bytes_go_out(rng: Random) -> None:
    t = talk(rng)
    watched = Drive(t.dialect, Policy.OBSERVE)
    repaired = Drive(t.dialect)
    for n in range(len(t.steps)):
        plain = wire(body(t, Habit(), n + 1))
        assert repaired.send(plain, n).body is plain
        odd = wire(body(t, Habit(rng), n + 1), rng)
        assert watched.send(odd, n).body is odd
    assert not repaired.failures
    assert not watched.failures


def _up_to_last_message(raw: bytes, dialect: str) -> bytes:
    return raw[: reading(raw, dialect).ranges[-1][1]]


@given(rngs)
def test_growth_never_changes_a_byte_that_went_out(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive = Drive(t.dialect)
    before = b""
    for n in range(len(t.steps)):
        made = body(t, Habit(), n + 1)
        made = {
            **{k: v for k, v in made.items() if k != "messages"},
            **{k: made[k] for k in ("messages",) if k in made},
        }
        out = drive.send(wire(made), n).body
        assert out.startswith(before)
        before = _up_to_last_message(out, t.dialect)


@given(rngs)
def test_growth_never_changes_what_the_model_was_shown_whatever_the_habits(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive = Drive(t.dialect)
    before: list[str] = []
    for n in range(len(t.steps)):
        plan = drive.send(wire(body(t, Habit(rng, f"c{n}"), n + 1), rng), n)
        after = shown(plan.body, t.dialect)
        assert after[: len(before)] == before, plan.diagnosis.drifts
        assert n == 0 or plan.diagnosis.repaired or plan.diagnosis.cause is None
        before = after
    assert not drive.failures


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_restart_between_requests_changes_nothing(dialect: str) -> None:
    for seed in range(20):
        t = talk(Random(seed), steps=8, dialect=dialect)
        one, other = Drive(dialect), Drive(dialect)
        rng = Random(seed)
        for n in range(len(t.steps)):
            raw = wire(body(t, Habit(rng, f"c{n}"), n + 1), rng)
            other.restart()
            kept, restarted = one.send(raw, n), other.send(raw, n)
            assert kept.body == restarted.body
            assert kept.diagnosis.drifts == restarted.diagnosis.drifts
            assert kept.diagnosis.tokens == restarted.diagnosis.tokens
