"""What reading, fingerprinting, comparing and repairing costs a byte, beside the limit: one BLAKE3 and one JSON parse.

    python bench/core.py [--quick] [--json]

In this process, without sockets, on an in-memory ledger. Three clients: *append* sends its history again and adds to
it; *drift* also shuffles its tools and makes new call ids for the whole history at every request, so that every
message is another; *cold* never sends the same conversation twice. The limit is measured on the same bodies in the
same run, turn about, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3
from bodies import Session, sized
from machine import lines, machine

from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.turn import Arrival, Turns

SIZES = (10_000, 100_000, 1_000_000)
DIALECTS = ("openai_chat", "anthropic", "openai_responses")
SESSIONS = 4


def _bodies(client: str, dialect: str, size: int, sessions: int) -> Iterator[tuple[bytes, bool]]:
    """Bodies, and whether each counts: the first of a growing session is cold and does not."""
    for number in range(sessions):
        session = sized(f"{client}{number}", dialect, size, drift=client == "drift")
        if client == "cold":
            yield from (
                (sized(f"{number}-{k}", dialect, size, private=True).body(_middle(session)), True) for k in range(5)
            )
        else:
            yield from ((body, i > 0) for i, body in enumerate(session.bodies()))


def _middle(session: Session) -> int:
    return sum(session.turns) // 2


def _measure(client: str, dialect: str, size: int, sessions: int) -> dict[str, Any]:
    turns = Turns(MemoryLedger(512 << 20), budget_ms=float("inf"))
    parse = msgspec.json.Decoder().decode
    ours: list[float] = []
    limit: list[float] = []
    length = 0
    for n, (body, counts) in enumerate(_bodies(client, dialect, size, sessions)):
        arrival = Arrival(body, dialect, "bench", bytes(32), Policy.LOSSLESS, float(n), str(n))
        begin = time.perf_counter()
        turns.plan(arrival)
        middle = time.perf_counter()
        blake3(body).digest()
        parse(body)
        end = time.perf_counter()
        if counts:
            ours.append((middle - begin) / len(body))
            limit.append((end - middle) / len(body))
            length = len(body)
    mine, least = 1e9 * statistics.median(ours), 1e9 * statistics.median(limit)
    return {
        "client": client, "dialect": dialect, "bytes": length, "requests": len(ours),
        "ns_per_byte": mine, "limit_ns_per_byte": least, "ratio": mine / least, "ms": mine * length / 1e6,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one dialect, one session each")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    facts = machine()
    dialects, sessions = (DIALECTS[:1], 1) if options.quick else (DIALECTS, SESSIONS)
    gc.freeze()
    rows = [
        _measure(client, dialect, size, sessions)
        for client in ("append", "drift", "cold")
        for dialect in dialects
        for size in SIZES
    ]
    if options.json:
        print(json.dumps({"machine": facts, "rows": rows}, indent=2))
        return
    print(lines(facts))
    print(f"\n{'client':8}{'dialect':18}{'bytes':>10}{'ms p50':>9}{'ns/byte':>9}{'limit':>8}{'ratio':>8}")
    for r in rows:
        print(
            f"{r['client']:8}{r['dialect']:18}{r['bytes']:>10,}{r['ms']:>9.2f}{r['ns_per_byte']:>9.2f}"
            f"{r['limit_ns_per_byte']:>8.2f}{r['ratio']:>7.1f}x"
        )


if __name__ == "__main__":
    main()
