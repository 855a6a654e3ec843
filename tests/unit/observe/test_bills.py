"""Sums of verdicts in a file."""

from __future__ import annotations

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from standfast.errors import ConfigError
from standfast.events import FailedOpen, Judged
from standfast.observe.bills import Bills, totals

EVENT = Judged(
    "r", "up", "anthropic", "claude-opus-5", "t1", "s1", True, "B1", "system[0]", True, 1000, 990, 1200, 995, 0, None,
    "tools_changed", True, "USD", 0.5, 2.0, 0.4, 0.0,
)  # fmt: skip
LOST = replace(EVENT, hit=False, cause="B4", lost_tokens=900, cached_tokens=100, agrees=False, lost_money=0.1)


def test_sums_by_group(tmp_path: Path) -> None:
    path = tmp_path / "state" / "bills.sqlite"
    bills = Bills(path)
    for event in (EVENT, EVENT, LOST, replace(LOST, session="s2", currency=""), FailedOpen("r", "up", "plan", "x")):
        bills(event)
    bills.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    none, expired, other = totals(path, "cause")
    assert (none.group, none.requests, none.hits, none.cached_tokens, none.paid) == ("none", 2, 2, 1990, 1.0)
    assert (expired.group, expired.currency, expired.lost_tokens) == ("B4", "", 900)
    assert (other.group, other.currency, other.hits, other.lost_money) == ("B4", "USD", 0, 0.1)
    assert (none.asked, none.agreed, expired.asked, expired.agreed) == (2, 2, 1, 0)
    assert {(row.group, row.currency): row.requests for row in totals(path, "session")} == {
        ("s1", "USD"): 3,
        ("s2", ""): 1,
    }
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert {row.group for row in totals(path, "day", today)} == {today}
    assert totals(path, "day", "9999-01-01") == []


def test_two_processes_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "bills.sqlite"
    both = [Bills(path), Bills(path)]
    for bills in both * 3:
        bills(EVENT)
    for bills in both:
        bills.close()
    assert [row.requests for row in totals(path, "model")] == [6]


def test_a_file_that_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bills.sqlite"
    assert totals(path, "day") == []
    with pytest.raises(ConfigError, match="told by one of day, upstream"):
        totals(path, "weather")
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(ConfigError, match="move it away"):
        totals(path, "day")
    bills = Bills(path)
    bills(EVENT)
    bills.close()
    assert "bills cannot be written" in caplog.text
