"""Eviction policies on recorded traces: the policies of the store, on keys only. Simulated.

    python bench/policies.py --data ../shared/data [--quick] [--json] [--svg docs/store-policies.svg]

A share is that of all blocks asked for that were served: in, and all blocks in front of them too. *infinite* never lets
anything go, *clairvoyant* knows the future. Arrivals of the claude-code traces are synthetic (Poisson, seeded), since
they are recorded within conversations only, and a sample of the conversations is taken. The second half of each trace
is shown by itself: the constants of ``density`` were chosen by the first half of mooncake-conversation.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chart import Curves, chart
from machine import lines, machine
from rich.console import Console
from rich.table import Table

from standfast.lab.traces import Request, arriving, conversations, mooncake
from standfast.store.ghosts import Ghost
from standfast.store.policies import POLICIES
from standfast.store.policies.clairvoyant import Clairvoyant
from standfast.store.policies.lru import LRU
from standfast.store.policy import Policy

BLOCK = 512
SIZES = (1_000, 2_500, 5_000, 10_000, 20_000)
"""Blocks that fit."""
TRACES = ("mooncake-conversation", "mooncake-synthetic", "claude-code-v8", "claude-code-v1")
BETWEEN = 120.0
"""Seconds from the start of one conversation to the next, on average: synthetic."""
SEED = 1


class Share(NamedTuple):
    trace: str
    policy: str
    size: int
    """Blocks; 0 for no bound."""
    share: float
    late: float
    """In the second half of the trace, by blocks asked for."""
    seconds: float


def requests(path: Path, keep: float) -> list[Request]:
    if path.name.startswith("mooncake"):
        return list(mooncake(path))
    return list(arriving(conversations(path, BLOCK), between=BETWEEN, seed=SEED, block=BLOCK, keep=keep))


def measure(trace: list[Request], policy: Policy[int], size: float) -> tuple[float, float]:
    """Share of blocks served in all of a trace and in its second half."""
    ghost, ones = Ghost(policy, size), [1] * max(len(r.chain) for r in trace)
    total = sum(len(r.chain) for r in trace)
    asked = served = served_early = asked_early = 0
    for request in trace:
        served += ghost.serve(request.chain, ones)
        asked += len(request.chain)
        if asked <= total / 2:
            served_early, asked_early = served, asked
    return served / total, (served - served_early) / (total - asked_early)


def shares(name: str, trace: list[Request], sizes: tuple[int, ...]) -> Iterator[Share]:
    def one(label: str, policy: Policy[int], size: int) -> Share:
        started = time.perf_counter()
        share, late = measure(trace, policy, size or float("inf"))
        return Share(name, label, size, share, late, time.perf_counter() - started)

    yield one("infinite", LRU(), 0)
    for size in sizes:
        for label, make in POLICIES.items():
            yield one(label, make(), size)
        yield one("clairvoyant", Clairvoyant(key for r in trace for key in r.chain), size)


def table(found: list[Share], late: bool) -> Table:
    infinite, *bounded = found
    part = ", second half" if late else ""
    out = Table(title=f"{infinite.trace}{part}: served; infinite {_cell(infinite, late)}", title_justify="left")
    out.add_column("blocks")
    sizes = sorted({share.size for share in bounded})
    for size in sizes:
        out.add_column(f"{size:,}", justify="right")
    for label in dict.fromkeys(share.policy for share in bounded):
        out.add_row(label, *(_cell(share, late) for share in bounded if share.policy == label))
    return out


def _cell(share: Share, late: bool) -> str:
    return f"{share.late if late else share.share:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the recorded traces")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one")
    parser.add_argument("--keep", type=float, default=1 / 4, help="share of the claude-code conversations to take")
    parser.add_argument("--quick", action="store_true", help="one size")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", type=Path, help="draw the shares into this file")
    args = parser.parse_args()
    facts, console, found = machine(), Console(), dict[str, list[Share]]()
    if not args.json:
        print(lines(facts))
    for name in args.trace or TRACES:
        trace = requests(args.data / f"{name}.jsonl.gz", args.keep)
        found[name] = list(shares(name, trace, SIZES[2:3] if args.quick else SIZES))
        if not args.json:
            console.print(table(found[name], late=False), table(found[name], late=True))
    if args.json:
        print(json.dumps({"machine": facts, "shares": [s._asdict() for each in found.values() for s in each]}))
    if args.svg:
        args.svg.write_text(chart({name: _curves(each) for name, each in found.items()}), encoding="utf-8")


def _curves(found: list[Share]) -> Curves:
    curves: Curves = {}
    for share in found[1:]:
        curves.setdefault(share.policy, []).append((share.size, share.share))
    return curves


if __name__ == "__main__":
    main()
