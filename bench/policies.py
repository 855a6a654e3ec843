"""Eviction policies of the KV store on recorded traces, beside an infinite cache and the clairvoyant optimum.

    python bench/policies.py [--data ../shared/data] [--sizes 1000,5000,20000] [--json]

The policies are the very objects that the store uses. A trace is a list of requests, each a chain of block ids; a block
is a hit if it and all blocks in front of it are in the cache when the request comes (Mooncake's traces: blocks of 512
tokens, real arrival order). Sizes are in blocks. Hit shares are of all blocks asked for.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from machine import lines, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from standfast.store.policies.arc import ARC
from standfast.store.policies.clairvoyant import Clairvoyant
from standfast.store.policies.gdsf import GDSF
from standfast.store.policies.lru import LRU
from standfast.store.policies.prefix import PrefixLRU
from standfast.store.policies.s3fifo import S3FIFO
from standfast.store.policies.sieve import Sieve
from standfast.store.policies.wtinylfu import WTinyLFU
from standfast.store.policy import Policy

Trace = list[list[int]]
POLICIES: dict[str, Callable[[], Policy[int]]] = {
    "LRU": LRU, "prefix LRU": PrefixLRU, "SIEVE": Sieve, "S3-FIFO": S3FIFO, "ARC": ARC, "W-TinyLFU": WTinyLFU,
    "GDSF": GDSF,
}  # fmt: skip
TRACES = ("mooncake-conversation", "mooncake-synthetic")


def read(path: Path) -> Trace:
    """Chains of block ids, in the order of arrival."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["hash_ids"] for line in file]


def hits(trace: Trace, policy: Policy[int], size: int) -> int:
    """Blocks served; a key that is in already when it is inserted was used."""
    served = 0
    for chain in trace:
        known = True
        for n, key in enumerate(chain):
            known = known and key in policy
            served += known
            if key in policy:
                policy.hit(key)
            else:
                policy.insert(key, 1, 1.0, chain[n - 1] if n else None)
        while len(policy) > size:
            policy.victim()
    return served


def infinite(trace: Trace) -> int:
    """Blocks that a cache of any size would serve."""
    seen, served = set[int](), 0
    for chain in trace:
        known = True
        for key in chain:
            known = known and key in seen
            served += known
        seen.update(chain)
    return served


def measure(trace: Trace, sizes: Sequence[int], name: str) -> dict[str, dict[str, float]]:
    """Hit share by policy and size, and million accesses a second."""
    asked = sum(map(len, trace))
    found: dict[str, dict[str, float]] = {"infinite": {str(size): infinite(trace) / asked for size in sizes}}
    ways: dict[str, Callable[[], Policy[int]]] = {
        **POLICIES, "clairvoyant": lambda: Clairvoyant(key for chain in trace for key in chain),
    }  # fmt: skip
    for policy, make in track(ways.items(), name, transient=True):
        found[policy] = {}
        for size in sizes:
            made, started = make(), time.perf_counter()
            found[policy][str(size)] = hits(trace, made, size) / asked
            found[policy]["accesses_m_s"] = asked / (time.perf_counter() - started) / 1e6
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sizes", default="1000,5000,20000,50000", help="blocks")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    paths = [path for path in (given.data / f"{name}.jsonl.gz" for name in TRACES) if path.exists()]
    if not paths:
        raise SystemExit(f"{given.data}: no traces there; give their folder with --data")
    found: dict[str, Any] = {path.name.partition(".")[0]: measure(read(path), sizes, path.name) for path in paths}
    facts = machine()
    if given.json:
        print(json.dumps({"machine": facts, "traces": found}, indent=1))
        return
    console = Console()
    console.print(lines(facts), highlight=False)
    for trace, rows in found.items():
        table = Table("policy", *[f"{size:,} blocks" for size in sizes], "M accesses/s", title=trace)
        for policy, row in rows.items():
            speed = f"{row['accesses_m_s']:.1f}" if "accesses_m_s" in row else ""
            table.add_row(policy, *_shares(row, sizes), speed)
        console.print(table)


def _shares(row: dict[str, float], sizes: Iterable[int]) -> list[str]:
    return [f"{row[str(size)]:.3f}" for size in sizes]


if __name__ == "__main__":
    main()
