"""Tools that arrive in another order with every request, on the embedded engine: what is lost, what Standfast saves.

    python bench/shuffle.py [--json]

The demo's conversation (26 turns, 12 tools) is sent four times to one llama.cpp slot, emptied before each: as it is
and with its tools shuffled, raw and through the gateway (policy ``lossless``). Every figure is the engine's own usage;
the share leaves out the first request, which nothing could serve.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from machine import lines, machine
from rich.console import Console
from rich.table import Table

from standfast.config import Settings
from standfast.demo.habits import Habit, Spell, client
from standfast.demo.run import Step, empty_slots, run
from standfast.demo.script import load
from standfast.demo.stage import stage

POLICY = {"x-standfast-policy": "lossless"}


def hit(steps: list[Step]) -> float:
    """Share of prompt tokens that came from the cache."""
    later = steps[1:]
    return sum(step.cached_tokens for step in later) / sum(step.prompt_tokens for step in later)


async def measure() -> dict[str, dict[str, float]]:
    """Share of tokens served and tokens computed, by what was sent and how."""
    script = load()
    shuffled = [Spell(Habit.TOOLS_ORDER, 1, len(script.turns))]
    found: dict[str, dict[str, float]] = {}
    async with stage(Settings()) as (engine, gateway):
        for sent, schedule in (("as it is", []), ("tools shuffled", shuffled)):
            requests = client(script, schedule=schedule)
            for way, url, headers in (("raw", engine, {}), ("through Standfast", gateway, POLICY)):
                await empty_slots(engine)
                steps = await run(url, requests, headers, lambda step: None)
                computed = sum(step.computed_tokens for step in steps)
                found[f"{sent}, {way}"] = {"hit": hit(steps), "computed_tokens": computed}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    facts, found = machine(), asyncio.run(measure())
    if args.json:
        print(json.dumps({"machine": facts, "ways": found}, indent=2))
        return
    print(lines(facts))
    table = Table("sent", "hit", "tokens computed")
    for name, row in found.items():
        table.add_row(name, f"{row['hit']:.1%}", f"{row['computed_tokens']:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
