"""Invariant 7: whatever fails inside, the client's request goes out as it came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.drive import KEY, rngs
from property.talk import DIALECTS, Habit, body, talk, wire

from standfast.errors import RequestError
from standfast.events import Event, FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.prompt.model import Link, Tip
from standfast.prompt.replies import Reply
from standfast.turn import Arrival, Turns


class Fault(Exception):
    """What breaks."""


class Countdown:
    """Raises at the k-th call of anything that is wired to it."""

    def __init__(self, k: int, error: type[Exception] = Fault) -> None:
        self.left = k
        self.error = error
        self.raised = 0

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.raised += 1
            raise self.error("broken on purpose")


class FaultyLedger(MemoryLedger):
    """A ledger that raises where the countdown says."""

    def __init__(self, countdown: Countdown) -> None:
        super().__init__(64 << 20)
        self.countdown = countdown

    def tips_at(self, links: Sequence[Link]) -> tuple[int, list[Tip]]:
        self.countdown.tick()
        return super().tips_at(links)

    def tips_of_head(self, head: bytes) -> list[Tip]:
        self.countdown.tick()
        return super().tips_of_head(head)

    def keep_first(self, name: bytes, value: bytes) -> bytes:
        self.countdown.tick()
        return super().keep_first(name, value)

    def record(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        self.countdown.tick()
        super().record(tip, links, head, kin)


_ERRORS = (Fault, MemoryError, RecursionError, KeyError, OSError, UnicodeError)


@given(rngs, st.integers(1, 40), st.sampled_from(_ERRORS), st.sampled_from(list(Policy)))
def test_a_ledger_or_clock_that_raises_costs_the_repair_alone(
    rng: Random, k: int, error: type[Exception], policy: Policy
) -> None:
    t = talk(rng, steps=5)
    countdown = Countdown(k, error)
    events: list[Event] = []

    def clock() -> float:
        countdown.tick()
        return 0.0

    turns = Turns(FaultyLedger(countdown), clock=clock, observe=events.append)
    answer = json.dumps({"role": "assistant", "content": "ok"}).encode()
    for n in range(len(t.steps)):
        raw = wire(body(t, Habit(rng, f"c{n}"), n + 1), rng)
        raised = countdown.raised
        plan = turns.plan(Arrival(raw, t.dialect, "up", KEY, policy, float(n), str(n)))
        if countdown.raised > raised:
            assert plan.body is raw
            assert [e.stage for e in events if isinstance(e, FailedOpen)] == ["plan"]
        turns.learn(plan, Reply(None, (answer,), None, True))
    assert sum(isinstance(e, FailedOpen) for e in events) == countdown.raised


@pytest.mark.parametrize("k", range(1, 8))
def test_an_observer_that_raises_costs_no_request(k: int) -> None:
    countdown = Countdown(k)

    def observe(event: Event) -> None:
        countdown.tick()

    turns = Turns(MemoryLedger(1 << 20), observe=observe)
    for n in range(8):
        raw = wire({"model": "m", "messages": [{"role": "user", "content": str(n)}] if n % 2 else 3})
        assert turns.plan(Arrival(raw, "anthropic", "up", KEY, Policy.LOSSLESS, 0.0, str(n))).body is raw


@given(st.binary(max_size=60), st.sampled_from(DIALECTS), st.sampled_from(list(Policy)))
def test_bytes_that_are_no_json_object_are_refused_and_nothing_else_is_raised(
    raw: bytes, dialect: str, policy: Policy
) -> None:
    _plan_or_refuse(raw, dialect, policy)


_PIECES: list[bytes] = [
    *(c.encode() for c in "{}[],: "),
    *(f'"{name}"'.encode() for name in ("model", "messages", "input", "role", "content", "a", "\\ud800")),
    *(b"1", b"1.5", b"-0", b"null", b"NaN", b"true", b"\xff", b"\xef\xbb\xbf"),
    *(b"9" * 5000, b"[" * 2000, b'{"a":' * 2000),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join), st.sampled_from(DIALECTS))
def test_torn_json_is_refused_or_passes_untouched(raw: bytes, dialect: str) -> None:
    _plan_or_refuse(raw, dialect, Policy.LOSSLESS)
    _plan_or_refuse(b'{"model":' + raw + b"}", dialect, Policy.LOSSLESS)


def _plan_or_refuse(raw: bytes, dialect: str, policy: Policy) -> None:
    turns = Turns(MemoryLedger(1 << 20))
    try:
        plan = turns.plan(Arrival(raw, dialect, "up", KEY, policy, 0.0, "r"))
    except RequestError:
        assert not _is_object(raw)
    else:
        assert plan.body is raw


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False


@given(rngs, st.sampled_from(DIALECTS), st.sampled_from(list(Policy)))
def test_json_of_the_wrong_shape_passes_untouched_twice(rng: Random, dialect: str, policy: Policy) -> None:
    made: Any = body(talk(rng, dialect=dialect), Habit(rng))
    for _ in range(2):
        _break(made, rng)
    events: list[Event] = []
    turns = Turns(MemoryLedger(1 << 20), clock=lambda: 0.0, observe=events.append)
    for n in range(2):
        raw = wire(made)
        assert turns.plan(Arrival(raw, dialect, "up", KEY, policy, 0.0, str(n))).body is raw
    reasons = [e.reason for e in events if isinstance(e, FailedOpen)]
    assert all("Ambiguous" in reason for reason in reasons), reasons


def _break(made: Any, rng: Random) -> None:
    """Put something wrong somewhere."""
    while isinstance(made, dict | list) and made:
        name: Any = rng.choice(list(made)) if isinstance(made, dict) else rng.randrange(len(made))
        if rng.random() < 0.3 or not isinstance(made[name], dict | list) or not made[name]:
            made[name] = rng.choice([None, 3, "x", [], {}, [None], {"type": {"a": 1}}, [[1]], True])
            return
        made = made[name]


@given(rngs, st.lists(st.binary(max_size=30) | st.just(b'{"role":"assistant","content":"ok"}'), max_size=3))
def test_learn_never_raises_and_the_next_plan_works(rng: Random, produced: list[bytes]) -> None:
    t = talk(rng)
    turns = Turns(MemoryLedger(1 << 20), clock=lambda: 0.0)
    raw = wire(body(t, Habit()))
    for n in range(2):
        plan = turns.plan(Arrival(raw, t.dialect, "up", KEY, Policy.LOSSLESS, 0.0, str(n)))
        assert plan.body is raw
        turns.learn(plan, Reply(None, tuple(produced), None, rng.random() < 0.8))
