from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from standfast.events import EngineRestarted, Event, FailedOpen, Finished, Planned
from standfast.gateway.caller import Cut
from standfast.observe import log
from standfast.observe.metrics import MODELS, Metrics, opened

PLANNED = Planned("sf-1", "up", "anthropic", "lossless", "T1", "tools[0]", True, 900, 300, False, 0.001)
FINISHED = Finished("sf-1", "up", "anthropic", "claude-9", 200, 1000, 900, 20, 0.2, 0.5, False)


def samples(metrics: Metrics) -> dict[str, float]:
    page = metrics.page()[0].decode()
    return {
        f"{s.name}{sorted(s.labels.items())}" if s.labels else s.name: s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
    }


def test_everything_is_counted() -> None:
    metrics = Metrics()
    for event in (PLANNED, FINISHED, FailedOpen("sf-1", "up", "plan", "x"), EngineRestarted("", -6, 1)):
        metrics(event)
    got = samples(metrics)
    at = [("dialect", "anthropic"), ("upstream", "up")]
    model = [at[0], ("model", "claude-9"), at[1]]
    assert got[f"standfast_requests_total{[at[0], ('status', '2xx'), at[1]]}"] == 1
    assert got[f"standfast_prompt_tokens_total{model}"] == 1000
    assert got[f"standfast_cached_tokens_total{model}"] == 900
    assert got[f"standfast_output_tokens_total{model}"] == 20
    assert got[f"standfast_lost_tokens_total{[('cause', 'T1'), ('repaired', 'yes'), at[1]]}"] == 300
    assert got[f"standfast_repaired_total{[('cause', 'T1'), at[1]]}"] == 1
    assert got[f"standfast_attainable_tokens_total{at}"] == 900
    assert got["standfast_plan_seconds_count"] == 1
    assert got[f"standfast_first_byte_seconds_sum{at}"] == 0.2
    assert got[f"standfast_failed_open_total{[('stage', 'plan'), at[1]]}"] == 1
    assert got["standfast_engine_restarts_total"] == 1


def test_in_flight_goes_back_even_after_a_failure() -> None:
    metrics = Metrics()

    def fail() -> None:
        with metrics.in_flight():
            assert samples(metrics)["standfast_in_flight"] == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert samples(metrics)["standfast_in_flight"] == 0


def test_model_names_are_bounded_and_plain() -> None:
    metrics = Metrics()
    names = [f"m{n}" for n in range(MODELS + 50)]
    for name in ["my secret prompt", "x" * 101, "", 'a"b\n', *names]:
        metrics(replace(FINISHED, model=name))
    metrics(replace(FINISHED, model="refused", status=400))
    seen = {key.partition("('model', '")[2].partition("'")[0] for key in samples(metrics) if "model" in key}
    assert seen == {*names[:MODELS], "other"}


def test_several_processes_count_together() -> None:
    with opened(2) as metrics:
        assert metrics.directory is not None
        metrics(FINISHED)
        assert sum(value for key, value in samples(metrics).items() if key.startswith("standfast_requests_total")) == 1
        metrics.worker_ended(1)
    assert not Path(metrics.directory).exists()


@pytest.fixture(autouse=True)
def one_process_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from prometheus_client import values

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    kept = values.ValueClass
    yield
    values.ValueClass = kept


def lines(*events: Event) -> list[str]:
    written: list[str] = []
    loggers = [logging.getLogger(name) for name in ("standfast", "uvicorn.error")]
    before = [(x.handlers[:], x.level, x.propagate, x.filters[:]) for x in loggers]
    log.set_up("info", written.append)
    try:
        observer = log.RequestLog()
        for event in events:
            observer(event)
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=Cut())
        logging.getLogger("uvicorn.error").info("Started server process")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    finally:
        for logger, (handlers, level, propagate, filters) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.propagate, logger.filters[:] = handlers, propagate, filters
            logger.setLevel(level)
    assert written.pop().endswith("WARNING Invalid HTTP request received.")
    return [line.split(" ", 2)[2] for line in written]


def test_lines() -> None:
    restarted, failed = EngineRestarted("", -6, 1), FailedOpen("sf-2", "up", "plan", "KeyError at turn.py:1")
    bare = Finished("sf-3", "", "other", "", 401, None, None, None, 0.001, 0.001, True)
    assert lines(PLANNED, FINISHED, bare, failed, restarted) == [
        "INFO request id=sf-1 upstream=up dialect=anthropic status=200 policy=lossless cause=T1 repaired=1"
        " prompt=1000 cached=900 output=20 first_ms=200.0 ms=500.0",
        "INFO request id=sf-3 upstream=- dialect=other status=401 first_ms=1.0 ms=1.0 disconnected=1",
        "WARNING failed open id=sf-2 upstream=up stage=plan reason='KeyError at turn.py:1'",
        "WARNING engine restarted exit_code=-6 restarts=1",
    ]


def test_every_observer_hears_every_event(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("quotes the prompt")

    log.all_of(broken, heard.append)(PLANNED)
    assert heard == [PLANNED]
    assert "ValueError" in caplog.text
    assert "quotes" not in caplog.text
