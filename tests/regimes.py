"""Rules of each cache regime at its smallest, and a provider that follows them. One token is four bytes of a key."""

from __future__ import annotations

import json
from typing import Any

from standfast.lab.simulated import Exchange, Provider
from standfast.providers.catalogue import Catalogue
from standfast.providers.rules import Regime, Rules

CATALOGUE = Catalogue.load()
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
BREAK = {"mode": "explicit"}
MARKS = Rules(
    "p",
    "m",
    Regime.MARKS,
    marker="cache_control",
    lookback=20,
    automatic=True,
    ttls={"5m": 300, "1h": 3600},
    default_ttl="5m",
    write_price={"5m": 1.25, "1h": 2.0},
    unmarkable=("thinking", "redacted_thinking", "empty text", "tools with defer_loading"),
)
PREFIX = Rules(
    "p", "m", Regime.PREFIX, minimum=1024, step=128, ttls={"in_memory": 600, "24h": 86400}, default_ttl="in_memory"
)
BOUNDARIES = Rules(
    "p",
    "m",
    Regime.BOUNDARIES,
    marker="prompt_cache_breakpoint",
    most_marks=3,
    lookback=80,
    writes_at=("input",),
    ttls={"30m": 1800, "12h": 43200},
    default_ttl="30m",
    write_price={"30m": 1.25, "12h": 2.5},
)
DEEPSEEK = Rules(
    "deepseek", "m", Regime.BOUNDARIES, minimum=64, writes_at=("input", "output", "common", "interval"), interval=4096
)


class Sim:
    """A provider, one dialect, and its clock."""

    def __init__(self, rules: Rules, dialect: str, **more: Any) -> None:
        self.now = 0.0
        self.dialect = dialect
        self.provider = Provider(lambda model: rules, now=lambda: self.now, **more)

    def send(self, tenant: str = "", headers: dict[str, str] | None = None, /, **body: Any) -> Exchange:
        return self.provider.complete(json.dumps({"model": "m", **body}).encode(), self.dialect, tenant, headers)

    def cached(self, **body: Any) -> int:
        return self.send(**body).served.cached


def text(tokens: int, letter: str = "x", role: str = "user") -> str:
    """A text whose block has so many tokens, as the first part of a message."""
    frame = len(json.dumps([role, {"type": "text", "text": ""}], separators=(",", ":")))
    return letter * (4 * tokens - frame)


def said(*tokens: int, marks: dict[int, Any] | None = None, letters: str = "") -> list[dict[str, Any]]:
    """A user's message of parts of so many tokens, with marks on some."""
    parts: list[dict[str, Any]] = []
    for n, size in enumerate(tokens):
        part: dict[str, Any] = {"type": "text", "text": text(size, (letters or "abcdefghij" * 20)[n])}
        parts.append({**part, "cache_control": marks[n]} if marks and n in marks else part)
    return [{"role": "user", "content": parts}]
