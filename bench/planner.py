"""Where breakpoints stand: the planner beside three habits of clients, on recorded conversations. Simulated.

    python bench/planner.py --data ../shared/data [--conversations 40] [--json]

Every conversation is sent turn by turn to the simulated provider. Gaps between turns are drawn, seeded, from those of
recorded coding sessions (median 18 s, nine in ten under 130 s, one in fifty over half an hour); they are synthetic.
Money is in the provider's currency, or in uncached input tokens. *perfect* is what a cache that keeps everything and
charges nothing for writing what it serves would leave to pay.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import lines, machine

from standfast.lab import corpora
from standfast.lab.replay import RAW, Logged, Outcome, Replay
from standfast.policy import LOSSLESS, Breakpoints, Leave, Option, Policy
from standfast.providers.catalogue import Catalogue

MARK = {"type": "ephemeral"}
WAYS = [
    ("anthropic", "anthropic", "claude-opus-5"),
    ("anthropic", "anthropic", "claude-opus-5-5"),
    ("bedrock", "anthropic", "claude-sonnet-5"),
    ("qwen", "openai_chat", "qwen3-max"),
    ("openai", "openai_chat", "gpt-5.6"),
]
GAPS = [
    (0.50, (4.0, 18.0)),
    (0.90, (18.0, 130.0)),
    (0.95, (130.0, 309.0)),
    (0.98, (309.0, 1800.0)),
    (1.0, (1800.0, 5400.0)),
]


def none(body: dict[str, Any]) -> None:
    """No marks at all."""


def automatic(body: dict[str, Any]) -> None:
    """The provider's automatic mark, at the top of the body."""
    body["cache_control"] = MARK


def last_message(body: dict[str, Any]) -> None:
    """One mark, on the last part of the last message."""
    last = body["messages"][-1]
    if isinstance(last["content"], str):
        last["content"] = [{"type": "text", "text": last["content"]}]
    last["content"][-1]["cache_control"] = MARK


HABITS: list[Callable[[dict[str, Any]], None]] = [none, automatic, last_message]


def log(data: Path, count: int, dialect: str, model: str, habit: Callable[[dict[str, Any]], None]) -> Iterator[Logged]:
    """The conversations, one after the other."""
    rng, at = random.Random(11), 0.0
    tools, talks = corpora.conversations(data / "airline-agent.jsonl.gz")
    for talk in talks[:count]:
        at += 20.0
        for body in corpora.turns(tools, talk, dialect, model):
            share = rng.random()
            low, high = next(span for limit, span in GAPS if share <= limit)
            at += rng.uniform(low, high)
            copy = json.loads(json.dumps(body))
            if dialect == "anthropic":
                habit(copy)
            yield Logged(json.dumps(copy).encode(), at, dialect)


def row(name: str, outcome: Outcome) -> dict[str, Any]:
    bill = outcome.bill
    assert bill is not None
    return {
        "marks": name,
        "requests": outcome.requests,
        "hit_rate": outcome.cached_tokens / outcome.prompt_tokens,
        "of_attainable": outcome.cached_tokens / max(1, outcome.attainable_tokens),
        "written_tokens": outcome.written_tokens,
        "paid": bill.paid,
        "perfect": bill.perfect,
        "without_cache": bill.without_cache,
        "currency": bill.currency or "input tokens",
        "lost": dict(outcome.lost.most_common(4)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the recorded conversations")
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    catalogue = Catalogue.load()
    told: list[dict[str, Any]] = []
    long_life = Leave(Policy.LOSSLESS, frozenset({Option.TTL}))
    for provider, dialect, model in WAYS:
        habits = HABITS if dialect == "anthropic" else HABITS[:1]
        rows = []
        for habit in habits:
            requests = list(log(options.data, options.conversations, dialect, model, habit))
            run = Replay(catalogue.rules, provider, RAW, Breakpoints.CLIENT).run(requests)
            rows.append(row(habit.__name__.replace("_", " "), run))
        plain = list(log(options.data, options.conversations, dialect, model, none))
        for name, leave in (("planner", LOSSLESS), ("planner, ttl", long_life)):
            rows.append(row(name, Replay(catalogue.rules, provider, leave).run(plain)))
        told.append({"provider": provider, "model": model, "rows": rows})
    if options.json:
        print(json.dumps({"simulated": True, "machine": machine(), "ways": told}, indent=2))
        return
    print(lines(machine()))
    for way in told:
        print(f"\nsimulated {way['provider']}, {way['model']}")
        print(f"{'marks':16}{'requests':>9}{'hit':>8}{'of att.':>9}{'paid':>12}{'perfect':>12}{'no cache':>12}  in")
        for r in way["rows"]:
            print(
                f"{r['marks']:16}{r['requests']:>9,}{r['hit_rate']:>8.1%}{r['of_attainable']:>9.1%}{r['paid']:>12.4g}"
                f"{r['perfect']:>12.4g}{r['without_cache']:>12.4g}  {r['currency']}  lost {r['lost']}"
            )


if __name__ == "__main__":
    main()
