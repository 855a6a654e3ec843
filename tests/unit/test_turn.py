"""The life of a request: what fails open and where, what is learnt, what each policy may do, who shares with whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from unit.prompt.talking import KEY, PROSE, Session, answer, anthropic, chat, user

from standfast import turn
from standfast.errors import BrokenBody, LedgerError, reason
from standfast.events import Event, FailedOpen, Planned
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.prompt.replies import Reply
from standfast.turn import Arrival, Plan, Turns

NAMES = ["Arrival", "Diagnosis", "Plan", "Turns"]
TALK = [user("q"), answer("a"), user("b")]
TOOLS = [{"name": name, "input_schema": {}} for name in "ab"]


def arrival(body: Any, dialect: str = "anthropic", **fields: Any) -> Arrival:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    made = {"upstream": "up", "tenant": KEY, "policy": Policy.LOSSLESS, "now": 0.0, "request_id": "r", **fields}
    return Arrival(raw, dialect, **made)


def reply(*produced: Any, complete: bool = True) -> Reply:
    wires = tuple(p if isinstance(p, bytes) else json.dumps(p).encode() for p in produced)
    return Reply(None, wires, None, complete)


def test_the_public_names() -> None:
    assert sorted(turn.__all__) == NAMES
    assert all(hasattr(turn, name) for name in NAMES)


# Failing open


class Clock:
    """Seconds that pass between the looks at it; the last one stays."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def __call__(self) -> float:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


# the clock is read at the start, after reading, around the lookup (twice), after repairing, after rendering, at the end
OVER = {
    "reading": (0, 1),
    "repairing": (0, 0, 0, 0, 1),
    "rendering": (0, 0, 0, 0, 0, 1),
}


@pytest.mark.parametrize("stage", OVER)
def test_each_stage_that_runs_over_its_budget_lets_the_body_through(stage: str) -> None:
    events: list[Event] = []
    body = anthropic(TALK, PROSE, tools=TOOLS[::-1])
    turns = Turns(MemoryLedger(1 << 20), clock=lambda: 0.0)
    turns.plan(arrival(anthropic(TALK[:1], PROSE, tools=TOOLS)))
    turns._clock, turns._observe = Clock(*OVER[stage]), events.append
    plan = turns.plan(arrival(body))
    assert not plan.changed
    assert (plan.model, plan.diagnosis.cause, plan.tip, plan.chain, plan.sizes) == ("m", None, None, (), ())
    (event,) = events
    assert isinstance(event, FailedOpen)
    assert (event.stage, event.request_id, event.upstream) == ("plan", "r", "up")
    assert event.reason.startswith(f"OverBudget: {stage} ")


def test_a_slow_ledger_is_no_reason_to_give_up() -> None:
    turns = Turns(MemoryLedger(1 << 20), clock=Clock(0, 0, 0, 100, 100, 100, 100))
    assert turns.plan(arrival(anthropic(TALK))).tip is not None


@pytest.mark.parametrize(("size", "seconds", "fits"), [(10, 0.049, True), (10, 0.051, False), (4 << 20, 0.2, True)])
def test_the_budget_grows_with_the_body_from_a_megabyte_on(size: int, seconds: float, fits: bool) -> None:
    turns = Turns(MemoryLedger(1 << 20), clock=Clock(0, seconds), budget_ms=5)
    assert (turns.plan(arrival(anthropic([user("x" * size)]))).tip is not None) == fits


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"7", b"\xff", b'{"a":1}x'])
def test_what_is_no_json_object_is_refused_at_once(raw: bytes, policy: Policy) -> None:
    events: list[Event] = []
    with pytest.raises(BrokenBody):
        Turns(MemoryLedger(1 << 20), observe=events.append).plan(arrival(raw, policy=policy))
    assert events == []


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"m","stream":true}',
        b'{"model":"m","stream":true,"messages":[],"messages":[]}',
        b'{"model":"m","stream":true,"messages":[],"x":%s}' % (b"[" * 50_000 + b"]" * 50_000),
        b'{"model":"m","stream":true,"messages":[],"x":"\\ud800"}',
        b'{"model":"m","stream":true,"messages":[],"x":NaN}',
    ],
)
def test_what_has_two_readings_passes_untouched(raw: bytes) -> None:
    session = Session("anthropic")
    plan = session.send(raw)
    assert plan.body is raw
    assert [reason.split(":")[0] for reason in session.failures] == ["Ambiguous"]


@pytest.mark.parametrize(
    ("raw", "model", "stream"),
    [
        (b'{"model":"m","stream":true}', "m", True),
        (b'{"model":7,"stream":"true"}', "", False),
        (b'{"model":"m","stream":false}', "m", False),
        (b'{"model":"m","stream":true,"x":NaN}', "", False),
        (b'{"model":"\\ud800"}', "", False),
        (b"{}", "", False),
    ],
)
def test_off_looks_at_model_and_stream_alone(raw: bytes, model: str, stream: bool) -> None:
    session = Session("anthropic", Policy.OFF)
    plan = session.send(raw)
    assert (plan.body, plan.model, plan.stream, plan.tip) == (raw, model, stream, None)
    assert not plan.changed
    (event,) = session.events
    assert isinstance(event, Planned)
    session.turns.learn(plan, reply(answer()))
    assert len(session.events) == 1


def test_reasons_tell_our_own_words_and_of_others_the_place_alone() -> None:
    class Broken(MemoryLedger):
        error: Exception = LedgerError("the disk is full")

        def tips_at(self, links: Any) -> Any:
            raise self.error

    ledger, events = Broken(1 << 20), list[Event]()
    turns = Turns(ledger, observe=events.append)
    turns.plan(arrival(anthropic(TALK)))
    ledger.error = KeyError("SECRET")
    turns.plan(arrival(anthropic(TALK)))
    reasons = [e.reason for e in events if isinstance(e, FailedOpen)]
    assert reasons[0] == "LedgerError: the disk is full"
    assert reasons[1].startswith("KeyError in test_turn.py:")
    assert "SECRET" not in reasons[1]
    assert reason(KeyError("SECRET")) == "KeyError"


def test_an_unknown_dialect_passes_untouched() -> None:
    events: list[Event] = []
    plan = Turns(MemoryLedger(1 << 20), observe=events.append).plan(arrival(anthropic(TALK), "klingon"))
    assert not plan.changed
    assert [type(e) for e in events] == [FailedOpen]


def test_an_observer_that_fails_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    def observe(event: Event) -> None:
        raise RuntimeError("SECRET")

    plan = Turns(MemoryLedger(1 << 20), observe=observe).plan(arrival(anthropic(TALK)))
    assert plan.tip is not None
    assert "RuntimeError in test_turn.py" in caplog.text
    assert "SECRET" not in caplog.text


# Policies

DRIFTING: list[tuple[Any, Any, str]] = [
    (anthropic(TALK[:1], PROSE, tools=TOOLS), anthropic(TALK, PROSE, tools=TOOLS[::-1]), "T1"),
    (anthropic([user(f"\n{PROSE}")]), anthropic([user(PROSE), *TALK[1:]]), "H2"),
    (anthropic(TALK[:1], f"{PROSE} 09:14"), anthropic(TALK, f"{PROSE} 09:15"), "S1"),
    (anthropic(TALK[:1]), {**anthropic(TALK), "model": "other"}, "P2"),
]


@pytest.mark.parametrize(("before", "after", "cause"), DRIFTING)
def test_observe_names_the_same_and_changes_no_byte(before: Any, after: Any, cause: str) -> None:
    for policy in (Policy.OBSERVE, Policy.LOSSLESS, Policy.ISOLATE):
        session = Session("anthropic", policy)
        session.send(before)
        plan = session.send(after)
        diagnosis = plan.diagnosis
        assert (diagnosis.cause, session.failures) == (cause, [])
        if policy is Policy.OBSERVE:
            assert not plan.changed
            assert not any(d.repaired for d in diagnosis.drifts)
            assert diagnosis.tokens.after == diagnosis.tokens.before
            assert diagnosis.lost_tokens > 0
        planned = session.events[-1]
        assert isinstance(planned, Planned)
        assert (planned.cause, planned.path, planned.repaired) == (cause, diagnosis.path, diagnosis.repaired)
        assert (planned.policy, planned.lost_tokens) == (policy, diagnosis.lost_tokens)


def test_a_plan_without_drift_has_nothing_to_say() -> None:
    diagnosis = Session("anthropic").send(anthropic(TALK)).diagnosis
    assert (diagnosis.primary, diagnosis.cause, diagnosis.path, diagnosis.repair) == (None, None, None, "none")
    assert (diagnosis.repaired, diagnosis.lost_tokens, diagnosis.attainable_tokens) == (False, 0, 0)


def _clock_session(policies: list[Policy]) -> tuple[Session, list[Plan]]:
    """A session whose system prompt tells another time each turn, under a policy a turn."""
    session, messages, plans = Session("anthropic"), [user("q " * 400)], []
    for n, session.policy in enumerate(policies):
        plans.append(session.send(anthropic(messages, f"{PROSE}\nIt is 09:1{n}.")))
        messages = [*messages, answer(f"a{n}"), user(f"u{n}")]
    return session, plans


def test_a_policy_may_change_in_the_midst_of_a_session() -> None:
    policies = [Policy.ISOLATE, Policy.LOSSLESS, Policy.OBSERVE, Policy.ISOLATE, Policy.OFF] * 2
    session, plans = _clock_session(policies)
    assert session.failures == []
    for plan, policy in zip(plans, policies, strict=True):
        if policy in (Policy.OBSERVE, Policy.OFF):
            assert not plan.changed


def test_no_words_of_ours_go_out_under_lossless() -> None:
    _, plans = _clock_session([Policy.ISOLATE, Policy.ISOLATE, Policy.LOSSLESS])
    assert b"system-update" in plans[1].body
    assert b"system-update" not in plans[2].body


# Tenants, upstreams, dialects


@pytest.mark.parametrize("other", [{"tenant": bytes(32)}, {"upstream": "elsewhere"}])
def test_who_is_not_the_same_shares_nothing(other: dict[str, Any]) -> None:
    turns = Turns(MemoryLedger(1 << 20), clock=lambda: 0.0)
    body = anthropic([user("q " * 600), answer(), user("b")], PROSE, tools=TOOLS)
    first = turns.plan(arrival(body, request_id="1"))
    second = turns.plan(arrival(body, request_id="2", **other))
    assert (second.diagnosis.tokens.reference, second.diagnosis.resumed) == (0, False)
    assert first.tip is not None
    assert second.tip is not None
    links = [{link for s in plan.sent for link in s.links} for plan in (first.tip, second.tip)]
    assert links[0].isdisjoint(links[1])
    assert first.tip.id != second.tip.id
    assert first.tip.fingerprint != second.tip.fingerprint
    drifted = anthropic(TALK, PROSE, tools=TOOLS[::-1])
    third = turns.plan(arrival(drifted, request_id="3", tenant=bytes([9]) * 32))
    assert (third.changed, third.diagnosis.cause) == (False, None)
    again = turns.plan(arrival(body, request_id="4"))
    assert again.diagnosis.tokens.reference > 0


# Forgetting


def _growing(turns: int) -> Iterator[list[Any]]:
    messages = [user("q " * 400)]
    for n in range(turns):
        yield messages
        messages = [*messages, answer(f"a{n}"), user(f"u{n}")]


@pytest.mark.parametrize("policy", [Policy.LOSSLESS, Policy.ISOLATE])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_ledger_that_forgets_in_mid_session_costs_a_hit_and_no_more(at: int, policy: Policy) -> None:
    ledger, events = MemoryLedger(1 << 22), list[Event]()
    turns = Turns(ledger, clock=lambda: 0.0, observe=events.append)
    for n, messages in enumerate(_growing(7)):
        if n == at:
            ledger.max_bytes = 0
            ledger.keep_first(b"x", b"x")
            assert len(ledger) == 0
            ledger.max_bytes = 1 << 22
        body = anthropic(messages, f"{PROSE}\nIt is 09:1{n if n < at else at}.")
        plan = turns.plan(arrival(body, policy=policy, request_id=str(n), now=float(n)))
        turns.learn(plan, reply(answer(f"a{n}")))
        assert [e for e in events if isinstance(e, FailedOpen)] == []
        if n == at:
            assert (plan.changed, plan.diagnosis.tokens.reference) == (False, 0)
        if n > at:
            assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference > 0
            assert not plan.changed


def test_a_ledger_with_no_room_at_all_lets_everything_through() -> None:
    turns = Turns(MemoryLedger(0), clock=lambda: 0.0, memory_bytes=0)
    for n, messages in enumerate(_growing(4)):
        plan = turns.plan(arrival(anthropic(messages, PROSE), request_id=str(n)))
        turns.learn(plan, reply(answer(f"a{n}")))
        assert (plan.changed, plan.diagnosis.tokens.reference) == (False, 0)


# What goes out, piece by piece


def test_chains_agree_as_far_as_prompts_do() -> None:
    session = Session("openai_chat")
    talk: list[Any] = [{"role": "system", "content": PROSE}, {"role": "user", "content": "q"}]
    tools = [{"type": "function", "function": {"name": name}} for name in "ab"]
    first = session.send(chat(talk, tools=tools))
    more = [*talk, {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    second = session.send(chat(more, tools=tools[::-1], stream=True))
    assert second.chain[: len(first.chain)] == first.chain
    assert (len(first.chain), len(second.chain), len(second.sizes)) == (4, 6, 6)
    assert all(size > 0 for size in second.sizes)
    assert (first.stream, second.stream, second.changed) == (False, True, True)
