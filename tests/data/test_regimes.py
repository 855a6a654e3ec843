"""Recorded conversations against each cache regime, simulated: as they are and with the tools shuffled every turn."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from shared import path

from standfast.lab import corpora
from standfast.lab.replay import RAW, Logged, Outcome, Replay
from standfast.policy import Breakpoints
from standfast.providers.catalogue import Catalogue

CONVERSATIONS = 16
CATALOGUE = Catalogue.load()
WAYS = [
    ("anthropic", "anthropic", "claude-opus-5"),
    ("bedrock", "anthropic", "claude-sonnet-5"),
    ("openai", "openai_chat", "gpt-5.5"),
    ("openai", "openai_responses", "gpt-5.6"),
    ("deepseek", "openai_chat", "deepseek-v4-pro"),
    ("kimi", "openai_chat", "kimi-k2"),
    ("vllm", "openai_chat", "any"),
    ("llama.cpp", "openai_chat", "any"),
]


def log(dialect: str, model: str, *, shuffled: bool) -> Iterator[Logged]:
    rng = random.Random(7)
    tools, talks = corpora.conversations(path("data/airline-agent.jsonl.gz"))
    at = 0.0
    for talk in talks[:CONVERSATIONS]:
        for body in corpora.turns(tools, talk, dialect, model):
            at += 10.0
            if shuffled:
                rng.shuffle(body["tools"])
            yield Logged(json.dumps(body).encode(), at, dialect)


def rate(outcome: Outcome) -> float:
    return outcome.cached_tokens / outcome.prompt_tokens


@pytest.mark.parametrize(("provider", "dialect", "model"), WAYS, ids=lambda v: v)
def test_shuffled_tools_cost_nothing(provider: str, dialect: str, model: str) -> None:
    found = {}
    for shuffled in (False, True):
        requests = list(log(dialect, model, shuffled=shuffled))
        raw = Replay(CATALOGUE.rules, provider, RAW, Breakpoints.CLIENT).run(requests)
        ours = Replay(CATALOGUE.rules, provider).run(requests)
        found[shuffled] = (rate(raw), rate(ours))
        assert ours.refused == 0
        rounding = CATALOGUE.rules(provider, model).step * ours.requests
        assert ours.cached_tokens >= 0.99 * ours.attainable_tokens - rounding
        assert rate(ours) >= rate(raw)
    (_, calm), (broken, mended) = found[False], found[True]
    print(
        f"\n{provider} {model} (simulated): tools shuffled {broken:.1%} raw, {mended:.1%} through Standfast; ", end=""
    )
    print(f"not shuffled {found[False][0]:.1%} and {calm:.1%}")
    assert mended == pytest.approx(calm, abs=1e-9)
    assert broken < 0.1
