"""A log of requests, sent again to a simulated provider: as it is, and through Standfast. All figures are simulated.

The log is JSON lines: a request body, or an object with ``body`` and, if they are known, ``at`` (Unix seconds),
``dialect`` and ``tenant``. Requests without a time follow each other by ``GAP`` seconds.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blake3 import blake3

from standfast.errors import ConfigError
from standfast.lab.provider import Exchange, Provider
from standfast.lab.reading import Refused
from standfast.ledger.memory import MemoryLedger
from standfast.policy import LOSSLESS, Breakpoints, Leave, Policy
from standfast.prompt.dialects import DIALECTS, detect
from standfast.prompt.replies import Reply, reader
from standfast.providers.money import Bill
from standfast.providers.rules import Rules
from standfast.turn import Arrival, Plan, Turns

GAP = 10.0
"""Seconds between requests of which no time is known."""
RAW = Leave(Policy.OBSERVE)


@dataclass(frozen=True, slots=True)
class Logged:
    """One request of a log."""

    body: bytes
    at: float
    dialect: str
    tenant: str = ""


@dataclass(slots=True)
class Outcome:
    """What became of a log."""

    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    attainable_tokens: int = 0
    full_hits: int = 0
    bill: Bill | None = None
    lost: Counter[str] = field(default_factory=Counter)
    """Tokens lost, by cause."""

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "refused": self.refused,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "written_tokens": self.written_tokens,
            "attainable_tokens": self.attainable_tokens,
            "full_hits": self.full_hits,
            "money": self.bill.as_json() if self.bill else None,
            "lost_tokens": dict(self.lost.most_common()),
        }


def load(path: Path) -> list[Logged]:
    """Read a log, gzipped or not. Raises ConfigError, naming the line."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return list(_read(data.decode().splitlines(), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _read(lines: Iterable[str], name: str) -> Iterator[Logged]:
    at = 0.0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            body = row["body"] if isinstance(row.get("body"), dict) else row
            at = float(row["at"]) if body is not row and "at" in row else at + GAP
            dialect = (row.get("dialect") if body is not row else None) or detect(body)
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"{name}, line {number}: must be a request body, or an object with one: {error}"
            ) from None
        if dialect not in DIALECTS:
            raise ConfigError(f"{name}, line {number}: no dialect that Standfast knows; give dialect")
        raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        yield Logged(raw, at, dialect, str(row.get("tenant", "")) if body is not row else "")


class Replay:
    """One run of a log: planned, served, learnt, and added up."""

    def __init__(
        self,
        rules_of: Callable[[str, str], Rules],
        provider: str,
        leave: Leave = LOSSLESS,
        breakpoints: Breakpoints = Breakpoints.PLAN,
        simulated: Provider | None = None,
    ) -> None:
        self._now = 0.0
        self._provider = provider
        self._leave = leave
        self._breakpoints = breakpoints
        self._simulated = simulated or Provider(lambda model: rules_of(provider, model), now=lambda: self._now)
        self._turns = Turns(MemoryLedger(1 << 30), budget_ms=float("inf"), rules_of=rules_of)
        self.outcome = Outcome()

    def run(self, log: Iterable[Logged]) -> Outcome:
        """Send all of it."""
        for logged in log:
            self.send(logged)
        return self.outcome

    def send(self, logged: Logged) -> tuple[Plan, Exchange | None]:
        """Send one request; None where the provider refuses it."""
        self._now = logged.at
        self.outcome.requests += 1
        plan = self._turns.plan(
            Arrival(
                logged.body,
                logged.dialect,
                "whatif",
                blake3(logged.tenant.encode()).digest(),
                self._leave.policy,
                logged.at,
                str(self.outcome.requests),
                options=self._leave.options,
                provider=self._provider,
                breakpoints=self._breakpoints,
            )
        )
        try:
            exchange = self._simulated.complete(plan.body, logged.dialect, logged.tenant, dict(plan.headers))
        except Refused:
            self.outcome.refused += 1
            return plan, None
        self._learn(plan, exchange)
        return plan, exchange

    def _learn(self, plan: Plan, exchange: Exchange) -> None:
        told = reader(exchange.dialect, streaming=False)
        told.feed(json.dumps(exchange.body).encode())
        usage = told.finish().usage
        # What the simulated model says is not what the log goes on with.
        self._turns.learn(plan, Reply(usage, (), None, complete=True))
        total, served, verdict = self.outcome, exchange.served, plan.verdict
        total.prompt_tokens += served.total
        total.cached_tokens += served.cached
        total.written_tokens += sum(served.written.values())
        if verdict is None or verdict.bill is None:
            return
        total.attainable_tokens += verdict.attainable_tokens
        total.full_hits += verdict.hit
        if not verdict.hit and verdict.cause:
            total.lost[verdict.cause] += verdict.lost_tokens
        total.bill = total.bill + verdict.bill if total.bill else verdict.bill
