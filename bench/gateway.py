"""What the gateway adds: latency and throughput against no proxy and against the LiteLLM proxy.

    python bench/gateway.py [--quick] [--json] [--litellm VENV | --no-litellm] [--dialect openai_chat]

All on one machine, with one dummy upstream that answers at once. Bodies of 10 KB, 100 KB and 1 MB: 12 tools, a system
text and sessions that grow from 40 to 60 turns. The same bodies go to every target, target by target in blocks of one
session, the order rotating, so that the machine's drift hits all alike. Figures are milliseconds; "added" is the
difference of percentiles to the direct connection. Traffic:

  append    a stable client: each request is the one before it, one turn longer
  drift     the same with the tools shuffled and the call ids made anew for each request
  cold      each request is a conversation never seen, with tools and a system text never seen

See bench/README.md for how to read the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import servers
from bodies import FIRST, LAST, PATHS, sized
from dummy_upstream import TEXT
from load import Connection, get, one_by_one, percentile, post, side_by_side
from machine import lines, machine
from servers import Target

SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}
TRAFFIC = ("append", "drift", "cold")
PERCENTILES = (50, 95, 99)
LANES = 8
VENV = Path(__file__).resolve().parent / ".venv-litellm"

Row = dict[str, Any]


def say(text: str) -> None:
    """Progress, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def session(traffic: str, dialect: str, nominal: int, seed: str) -> tuple[list[bytes], list[bytes]]:
    """(bodies that open a session and are not counted, bodies that are) of one block."""
    count = LAST - FIRST
    if traffic == "cold":
        each = (sized(f"{seed}/{i}", dialect, nominal, private=True) for i in range(count))
        return [], [s.body(FIRST + i) for i, s in enumerate(each)]
    bodies = list(sized(seed, dialect, nominal, drift=traffic == "drift").bodies())
    return bodies[:1], bodies[1:]


def rotated(targets: Sequence[Target], by: int) -> Iterator[Target]:
    """The targets, another one first each time."""
    for i in range(len(targets)):
        yield targets[(i + by) % len(targets)]


def check(target: Target, direct: Connection, dialect: str, nominal: int) -> str:
    """How the body that the upstream got differs from the one sent to ``target``. Raises SystemExit if it lacks any."""
    body = sized(f"check/{target.name}", dialect, nominal).body(FIRST)
    connection = Connection(target.port)
    answer = connection.exchange(post(PATHS[dialect], body, connection.host))
    connection.close()
    if TEXT.encode() not in answer.body:
        raise SystemExit(f"{target.name}: the answer is not the dummy upstream's: {answer.body[:200]!r}")
    arrived = direct.exchange(get("/last", direct.host)).body
    if arrived == body:
        return "same bytes"
    sent, got = json.loads(body), json.loads(arrived)
    if sent == got:
        return "same JSON, other bytes"
    if without_null(sent) == without_null(got):
        return "same JSON but for null fields, other bytes"
    keys = sorted(key for key in sent.keys() | got.keys() if sent.get(key) != got.get(key))
    raise SystemExit(f"{target.name}: did not forward {', '.join(keys)} as sent")


def without_null(value: Any) -> Any:
    """The value without object fields that are null."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


@dataclass(slots=True)
class Sample:
    """What one target took for one size and traffic."""

    seconds: list[float] = field(default_factory=list)
    """Of every counted request."""
    cpu: float = 0.0
    """CPU seconds of the target's processes, all requests together."""
    sent: int = 0
    """All requests."""
    failed_open: int = 0
    """Requests that Standfast gave up planning and sent as they came: its figure for them is not one of a plan."""


def failed_open(target: Target) -> int:
    """How many requests the gateway has sent unplanned so far, from its metrics; 0 for any other target."""
    if not target.name.startswith("standfast"):
        return 0
    connection = Connection(target.port)
    page = connection.exchange(get("/metrics", connection.host)).body.decode()
    connection.close()
    counts = (line.rpartition(" ")[2] for line in page.splitlines() if line.startswith("standfast_failed_open_total"))
    return int(sum(map(float, counts)))


def measure(targets: Sequence[Target], dialect: str, size: str, traffic: str, rounds: int) -> dict[str, Sample]:
    """Send the same sessions to every target."""
    samples = {t.name: Sample() for t in targets}
    connections = {t.name: Connection(t.port) for t in targets}
    for number in range(-1, rounds):
        opening, counted = session(traffic, dialect, SIZES[size], f"{traffic}/{size}/{number}")
        for target in rotated(targets, number):
            connection = connections[target.name]
            ready = [post(PATHS[dialect], body, connection.host) for body in (*opening, *counted)]
            before, failed = target.cpu_seconds(), failed_open(target)
            taken = one_by_one(connection, ready)[len(opening) :]
            if number >= 0:  # round -1 warms up
                sample = samples[target.name]
                sample.seconds += taken
                sample.cpu += target.cpu_seconds() - before
                sample.sent += len(ready)
                sample.failed_open += failed_open(target) - failed
    for connection in connections.values():
        connection.close()
    return samples


def latency(targets: Sequence[Target], dialect: str, rounds: int) -> list[Row]:
    """One row a size, traffic and target."""
    rows = []
    for size in SIZES:
        for traffic in TRAFFIC:
            say(f"latency {size} {traffic} …")
            samples = measure(targets, dialect, size, traffic, rounds)
            base = {p: 1e3 * percentile(samples["direct"].seconds, p) for p in PERCENTILES}
            for name, sample in samples.items():
                row: Row = {"size": size, "traffic": traffic, "target": name, "requests": len(sample.seconds)}
                for p in PERCENTILES:
                    row[f"p{p}"] = 1e3 * percentile(sample.seconds, p)
                    row[f"added_p{p}"] = row[f"p{p}"] - base[p]
                row["per_second"] = len(sample.seconds) / sum(sample.seconds)
                row["cpu_ms"] = 1e3 * sample.cpu / sample.sent
                row["failed_open"] = sample.failed_open
                row["sent"] = sample.sent
                rows.append(row)
    for row in rows:
        _compare(row, rows)
    return rows


def _compare(row: Row, rows: Sequence[Row]) -> None:
    """Give a LiteLLM row its ratio to Standfast's, unless more than 1 % of Standfast's requests were not planned."""
    if row["target"] != "litellm":
        return
    for other in rows:
        planned = other["failed_open"] * 100 <= other["sent"]
        if planned and other["target"] == "standfast" and all(other[k] == row[k] for k in ("size", "traffic")):
            for p in PERCENTILES:
                ours = other[f"added_p{p}"]
                row[f"ratio_p{p}"] = row[f"added_p{p}"] / ours if ours > 0 else None


def throughput(targets: Sequence[Target], dialect: str, rounds: int) -> list[Row]:
    """Requests a second with LANES connections at once, each its own growing session; one row a size and target."""
    rows = []
    for size, nominal in SIZES.items():
        say(f"throughput {size} …")
        total: dict[str, float] = {t.name: 0.0 for t in targets}
        count = 0
        for number in range(rounds):
            seeds = [f"side/{size}/{number}/{lane}" for lane in range(LANES)]
            lanes = [list(sized(seed, dialect, nominal).bodies())[5:-4] for seed in seeds]
            count += sum(len(lane) - 1 for lane in lanes)
            for target in rotated(targets, number):
                connections = [Connection(target.port) for _ in lanes]
                ready = [[post(PATHS[dialect], body, connections[0].host) for body in lane] for lane in lanes]
                for connection, own in zip(connections, ready, strict=True):
                    connection.exchange(own[0])  # opens the session; not counted
                total[target.name] += side_by_side(connections, [own[1:] for own in ready])
                for connection in connections:
                    connection.close()
        rows += [{"size": size, "target": n, "requests": count, "per_second": count / s} for n, s in total.items()]
    return rows


def latency_table(rows: Sequence[Row]) -> str:
    """The latency rows as text."""
    columns = "".join(f"{f'p{p}':>9}" for p in PERCENTILES) + "".join(f"{f'+p{p}':>9}" for p in PERCENTILES)
    label = f"{'size':<7} {'traffic':<8} {'target':<14}"
    out = [f"{label}{columns}{'req/s':>9}{'CPU':>7}  LiteLLM added / Standfast added (p50 p95 p99)"]
    for row in rows:
        figures = "".join(f"{row[f'p{p}']:9.2f}" for p in PERCENTILES)
        added = "".join(f"{row[f'added_p{p}']:9.2f}" for p in PERCENTILES) if row["target"] != "direct" else " " * 27
        ratios = [row.get(f"ratio_p{p}", 0) for p in PERCENTILES]
        ratio = " ".join("–" if r is None else f"{r:.1f}×" for r in ratios) if any(r != 0 for r in ratios) else ""
        if row["failed_open"]:
            ratio = f"{row['failed_open']} of {row['sent']} failed open: not planned"
        label = f"{row['size']:<7} {row['traffic']:<8} {row['target']:<14}"
        out.append(f"{label}{figures}{added}{row['per_second']:9.0f}{row['cpu_ms']:7.2f}  {ratio}".rstrip())
    return "\n".join(out)


def throughput_table(rows: Sequence[Row]) -> str:
    """The throughput rows as text: a line a size, a column a target."""
    names = list(dict.fromkeys(row["target"] for row in rows))
    out = [f"{'size':<7}" + "".join(f"{name:>16}" for name in names)]
    for size in dict.fromkeys(row["size"] for row in rows):
        mine = {row["target"]: row["per_second"] for row in rows if row["size"] == size}
        out.append(f"{size:<7}" + "".join(f"{mine[name]:16.0f}" for name in names))
    return "\n".join(out)


def start(stack: ExitStack, args: argparse.Namespace, folder: Path) -> list[Target]:
    """Start every target that is wanted, the direct one first."""
    upstream = stack.enter_context(servers.dummy())
    targets = [upstream]
    if not args.no_standfast:
        say("starting standfast …")
        gateway = servers.standfast(upstream, folder / "standfast", command=args.standfast)
        targets.append(stack.enter_context(gateway))
    if args.off:
        off = {"STANDFAST_POLICY": "off"}
        gateway = servers.standfast(upstream, folder / "off", name="standfast-off", command=args.standfast, env=off)
        targets.append(stack.enter_context(gateway))
    if args.litellm:
        say("starting litellm …")
        targets.append(stack.enter_context(servers.litellm(upstream, args.litellm, folder / "litellm")))
    return targets


def run(args: argparse.Namespace) -> Row:
    """Measure everything that is asked for."""
    result: Row = {"machine": machine(args.litellm), "dialect": args.dialect, "quick": args.quick}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="standfast-bench-")))
        targets = start(stack, args, folder)
        direct = Connection(targets[0].port)
        result["forwarded"] = {t.name: check(t, direct, args.dialect, SIZES["1 MB"]) for t in targets}
        direct.close()
        result["latency"] = latency(targets, args.dialect, args.rounds or (5 if args.quick else 25))
        result["throughput"] = throughput(targets, args.dialect, 1 if args.quick else 5)
    if not args.no_standfast:
        import scaling  # needs the package; the rest of this bench does not

        say("scaling …")
        result["scaling"] = scaling.measure(args.dialect, 2 if args.quick else 6)
    return result


def report(result: Row) -> str:
    """The result as text."""
    arrived = "; ".join(f"{name}: {what}" for name, what in result["forwarded"].items())
    parts = [
        f"{lines(result['machine'])}\n{result['dialect']}; what the upstream got: {arrived}",
        "Latency, one client, keep-alive, non-streaming, ms (+p50: added to direct; CPU: the target's own, a request)",
        latency_table(result["latency"]),
        f"Requests a second, {LANES} clients at once, append traffic (client and upstream share the cores)",
        throughput_table(result["throughput"]),
    ]
    if "scaling" in result:
        import scaling

        parts += ["Planning alone, in process, ms", scaling.table(result["scaling"])]
    return "\n\n".join(parts)


def arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds: p99 is then the maximum")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dialect", choices=PATHS, default="openai_chat", help="LiteLLM: the default only")
    parser.add_argument("--rounds", type=int, help="sessions a size and traffic")
    parser.add_argument("--litellm", type=Path, help=f"virtual environment with litellm[proxy] (default: {VENV.name})")
    parser.add_argument("--no-litellm", action="store_true", help="leave LiteLLM out")
    parser.add_argument("--standfast", default=servers.STANDFAST, help="command line with {upstream} and {port}")
    parser.add_argument("--no-standfast", action="store_true", help="leave Standfast out")
    parser.add_argument("--off", action="store_true", help="also Standfast with policy off: the cost of the hop alone")
    args = parser.parse_args()
    if args.no_litellm or args.dialect != "openai_chat":
        args.litellm = None
    elif args.litellm is None and VENV.is_dir():
        args.litellm = VENV
    elif args.litellm is None:
        say("bench/.venv-litellm is not there: LiteLLM is left out (see bench/README.md)")
    return args


def main() -> None:
    """Run and print."""
    args = arguments()
    result = run(args)
    print(json.dumps(result, indent=1) if args.json else report(result))


if __name__ == "__main__":
    main()
