"""Every airline conversation, turn by turn, with each habit of real clients and with all of them together."""

from __future__ import annotations

import json
import random
from typing import Any

import perturb
import pytest
from shared import airline

from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.turn import Arrival, Turns

WANTED = 0.999


@pytest.mark.parametrize("habit", [*perturb.LOSSLESS, perturb.all_together], ids=lambda habit: habit.__name__)
def test_every_habit_is_repaired_and_no_meaning_changed(habit: perturb.Habit) -> None:
    tools, conversations = airline()
    hit = attainable = raw_hit = turns_seen = 0
    for number, conversation in enumerate(conversations):
        rng = random.Random(f"{habit.__name__} {number}")
        turns = Turns(MemoryLedger(64 << 20), budget_ms=10_000)
        before: list[str] | None = None
        raw_before: list[str] = []
        for n, body in enumerate(_requests(tools, conversation)):
            sent = perturb.perturbed(body, habit, rng)
            raw = json.dumps(sent).encode()
            plan = turns.plan(
                Arrival(raw, "openai_chat", "test", bytes(32), Policy.LOSSLESS, float(n), f"{number}-{n}")
            )
            out = json.loads(plan.body)
            assert perturb.meaning(out) == perturb.meaning(body)
            prompt, raw_prompt = perturb.prompt(out), perturb.prompt(sent)
            if before is not None:
                attainable += sum(map(len, before))
                hit += perturb.common(before, prompt)
                raw_hit += perturb.common(raw_before, raw_prompt)
            before, raw_before = prompt, raw_prompt
            turns_seen += 1
    print(
        f"\n{habit.__name__}: hit / attainable {raw_hit / attainable:.4f} raw, {hit / attainable:.6f} repaired, "
        f"{turns_seen} requests"
    )
    assert hit / attainable >= WANTED


def _requests(tools: list[Any], messages: list[Any]) -> list[dict[str, Any]]:
    """One body for each answer of the assistant. Runs of calls are made parallel, so that results have an order."""
    return [
        {"model": "gpt-test", "tools": tools, "messages": messages[:i], "prompt_cache_key": "session"}
        for i, message in enumerate(messages)
        if message["role"] == "assistant"
    ]
