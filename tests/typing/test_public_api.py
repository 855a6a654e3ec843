"""The public API as a user would type it: mypy checks these lines, and they run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

from rich.console import Console

from standfast import explain as explaining
from standfast import turn
from standfast.events import Event, Observer
from standfast.explain import Case, Step, diff, explain, load, show
from standfast.ledger import Ledger
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Leave, Policy
from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift
from standfast.prompt.measure import Tokens
from standfast.prompt.model import Tip
from standfast.prompt.replies import Reply, ReplyReader, Usage, reader
from standfast.turn import Arrival, Diagnosis, Plan, Turns

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()


def test_public_names_of_turn_and_explain() -> None:
    assert sorted(turn.__all__) == ["Arrival", "Diagnosis", "Plan", "Turns"]
    own = [name for name, value in vars(explaining).items() if getattr(value, "__module__", "") == "standfast.explain"]
    assert sorted(name for name in own if name[0] != "_") == ["Case", "Step", "diff", "explain", "load", "show"]


def test_a_gateway_of_ones_own() -> None:
    told: list[Event] = []
    observe: Observer = told.append
    clock: Callable[[], float] = lambda: 0.0  # noqa: E731
    ledger: Ledger = MemoryLedger(1 << 20)
    turns = Turns(ledger, clock=clock, budget_ms=5.0, observe=observe, memory_bytes=1 << 20)
    arrival = Arrival(BODY, "openai_chat", "up", bytes(32), Policy.LOSSLESS, 0.0, "r1", pin_billing=True)
    plan = turns.plan(arrival)
    assert_type(plan, Plan)
    assert_type(plan.body, bytes)
    assert_type(plan.model, str)
    assert_type(plan.stream, bool)
    assert_type(plan.changed, bool)
    assert_type(plan.chain, tuple[bytes, ...])
    assert_type(plan.sizes, tuple[int, ...])
    assert_type(plan.tip, Tip | None)
    _diagnosis(plan.diagnosis)
    replies: ReplyReader = reader("openai_chat", streaming=False)
    replies.feed(b'{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}')
    reply = replies.finish()
    assert_type(reply, Reply)
    assert_type(reply.usage, Usage | None)
    turns.learn(plan, reply)
    assert plan.body is BODY
    assert [type(event).__name__ for event in told] == ["Planned", "Judged"]
    assert plan.tip is not None
    assert len(plan.tip.produced) == 1


def _diagnosis(diagnosis: Diagnosis) -> None:
    assert_type(diagnosis.drifts, tuple[Drift, ...])
    assert_type(diagnosis.primary, Drift | None)
    assert_type(diagnosis.cause, str | None)
    assert_type(diagnosis.path, str | None)
    assert_type(diagnosis.repair, Repair)
    assert_type(diagnosis.repaired, bool)
    assert_type(diagnosis.resumed, bool)
    assert_type(diagnosis.tokens, Tokens)
    assert_type(diagnosis.attainable_tokens + diagnosis.lost_tokens, int)


def test_explaining_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_bytes(b'{"requests":[%s,%s]}' % (BODY, BODY))
    case = load([file])
    assert_type(case, Case)
    steps, sent = explain(case, "openai_chat", Leave(Policy.OBSERVE))
    assert_type(steps, list[Step])
    assert_type(sent, list[bytes])
    assert_type(steps[0].as_json(), dict[str, Any])
    assert_type(steps[0].gap, float | None)
    if drift := steps[0].diagnosis.primary:
        assert_type(diff(drift), list[str])
    show(steps, Console(quiet=True))
    assert sent == [BODY, BODY]
