"""How the work of a plan grows: with the new bytes of a request, not with its history.

    python bench/scaling.py [--quick] [--dialect openai_chat]

Runs ``standfast.turn`` in this process, without sockets, on an in-memory ledger. First the history grows and every
request appends the same 2 KB; then the history stays and what is appended grows. Beside each: what one parse of the
whole body costs (msgspec, into Python values), which a gateway that reads every request anew pays at least.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from bodies import PATHS, Session
from dummy_upstream import ANSWERS
from machine import lines, machine

from standfast.events import Event, FailedOpen, Planned
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.prompt.replies import Reply, reader
from standfast.turn import Arrival, Plan, Turns

TURN = 2_000
"""Bytes of text in a turn of the history."""
HISTORIES = (10_000, 40_000, 100_000, 400_000, 1_000_000, 4_000_000)
GROWTHS = (2_000, 20_000, 200_000, 1_000_000)
REQUESTS = 8
"""Requests of a session that append."""

Row = dict[str, Any]


class _Watch:
    """Remembers what the plan told."""

    def __init__(self) -> None:
        self.planned: list[Planned] = []
        self.failed: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.planned.append(event)
        elif isinstance(event, FailedOpen):
            self.failed.append(event.reason)


def _timed(call: Any, *args: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = call(*args)
    return 1e3 * (time.perf_counter() - begin), result


def one(dialect: str, history: int, growth: int, repeats: int) -> Row:
    """Plan sessions of ``history`` bytes that grow by ``growth``; medians in ms."""
    cold: list[float] = []
    append: list[float] = []
    learn: list[float] = []
    parse: list[float] = []
    bodies: list[bytes] = []
    watch = _Watch()
    turns = Turns(MemoryLedger(256 * 2**20), observe=watch)
    for repeat in range(repeats):
        first = max(2, history // TURN)
        session = Session(
            f"{history}/{growth}/{repeat}", dialect, TURN // 2, turns=(first, first + REQUESTS), tools=3,
            system_bytes=300, growth=growth,
        )  # fmt: skip
        for number, body in enumerate(session.bodies()):
            gc.collect()
            gc.disable()
            arrival = Arrival(body, dialect, "bench", bytes(32), Policy.LOSSLESS, time.time(), f"{repeat}-{number}")
            plan_ms, plan = _timed(turns.plan, arrival)
            learn_ms, _ = _timed(_learn, turns, plan, _reply(dialect))
            gc.enable()
            (append if number else cold).append(plan_ms)
            if number:
                learn.append(learn_ms)
                bodies.append(body)
        parse.append(_timed(msgspec.json.decode, bodies[-1])[0])
    resumed = sum(event.resumed for event in watch.planned)
    return {
        "history": len(bodies[0]) - growth, "new": growth, "plan_cold_ms": statistics.median(cold),
        "plan_ms": statistics.median(append), "learn_ms": statistics.median(learn),
        "parse_ms": statistics.median(parse), "resumed": resumed / (repeats * REQUESTS), "failed_open": watch.failed,
    }  # fmt: skip


def _learn(turns: Turns, plan: Plan, reply: Reply) -> None:
    turns.learn(plan, reply)


def _reply(dialect: str) -> Reply:
    read = reader(dialect, streaming=False)
    read.feed(ANSWERS[dialect])
    return read.finish()


def measure(dialect: str, repeats: int) -> list[Row]:
    """All rows: the history grows, then what is appended grows."""
    one(dialect, HISTORIES[0], GROWTHS[0], 1)
    grown = [one(dialect, history, TURN, repeats) for history in HISTORIES]
    return grown + [one(dialect, 1_000_000, growth, repeats) for growth in GROWTHS[1:]]


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    names = ("history KB", "new KB", "plan, appended", "plan, cold", "learn", "one parse", "resumed")
    out = ["".join(f"{name:>16}" for name in names)]
    for row in rows:
        sizes = f"{row['history'] / 1e3:16.0f}{row['new'] / 1e3:16.0f}"
        times = "".join(f"{row[key]:16.3f}" for key in ("plan_ms", "plan_cold_ms", "learn_ms", "parse_ms"))
        failed = f"  {len(row['failed_open'])} failed open: {row['failed_open'][0]}" if row["failed_open"] else ""
        out.append(f"{sizes}{times}{row['resumed']:16.0%}{failed}")
    return "\n".join(out)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dialect", choices=PATHS, default="openai_chat")
    args = parser.parse_args()
    rows = measure(args.dialect, 2 if args.quick else 6)
    if args.json:
        print(json.dumps({"machine": machine(), "dialect": args.dialect, "scaling": rows}, indent=1))
    else:
        print(f"{lines(machine())}\n{args.dialect}, milliseconds\n\n{table(rows)}")


if __name__ == "__main__":
    main()
