"""The whole demo against a stand-in engine, on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from standfast.demo import demo
from standfast.errors import EngineError


def console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None, legacy_windows=False)


def printed(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


async def test_plain_lines_and_the_table_fit_eighty_columns(engine: Any) -> None:
    out = console()
    result = await demo(engine.url, engine.url, out, False, engine.reset)
    text = printed(out)
    assert f"Standfast {len(result.raw):>2}/{len(result.raw)}" in text
    assert "\x1b" not in text
    table = text[text.index("Larch Cycles") :]
    assert all(len(line) <= 80 for line in table.splitlines())
    for row in ("hit rate", "hit rate of attainable", "tokens computed", "time to first token, p95", "article-2026"):
        assert row in table
    assert "policy isolate" in table


async def test_the_policy_is_asked_for_in_the_standfast_run_only(engine: Any) -> None:
    result = await demo(engine.url, engine.url, console(), False, engine.reset)
    asked = [headers.get("x-standfast-policy") for headers in engine.headers]
    turns = len(result.raw)
    assert asked == [None] * turns + ["isolate"] * turns
    assert engine.seen[:turns] == engine.seen[turns:]


async def test_bars_on_a_terminal(engine: Any) -> None:
    out = console(terminal=True)
    await demo(engine.url, engine.url, out, False, engine.reset)
    assert "25/25" in printed(out)


async def test_json_is_all_that_is_printed(engine: Any) -> None:
    out = console()
    result = await demo(engine.url, engine.url, out, True, engine.reset)
    assert json.loads(printed(out)) == json.loads(json.dumps(result.as_dict()))


async def test_causes_are_in_the_table(engine: Any) -> None:
    engine.answer_headers = {"x-standfast-cause": "H5", "x-standfast-repaired": "1"}
    out = console()
    await demo(engine.url, engine.url, out, False, engine.reset)
    assert "H5 parallel results in another order" in printed(out)
    assert "25 of 25 repaired" in printed(out)


async def test_an_engine_that_is_not_cold_ends_the_demo(engine: Any) -> None:
    async def nothing() -> None:
        pass

    with pytest.raises(EngineError, match="still held"):
        await demo(engine.url, engine.url, console(), False, nothing)
