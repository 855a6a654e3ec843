"""Prometheus metrics, fed by events. ``docs/metrics.md`` lists them all.

Label values come from bounded sets: names of the configuration, the three dialects, cause classes, policies, status
classes, stages. The one text that callers choose, the model's name, is taken only from requests that an upstream
accepted, and only for the first hundred names; the rest count as "other".
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess, values
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics import MetricWrapperBase

from standfast.events import EngineRestarted, Event, FailedOpen, Finished, Planned, StatesServed

MODELS = 100
"""So many model names get their own label."""
OTHER = "other"
_MODEL_NAME = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)
_PLAN_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1)
_LOAD_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_WAIT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """An observer that counts. ``directory`` is given where several processes count together."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        if directory is not None:
            _share(directory)
        registry = self._registry = CollectorRegistry()
        at, model = ("upstream", "dialect"), ("upstream", "dialect", "model")
        self._requests = Counter(
            "standfast_requests", "Requests, by class of the response's status.", (*at, "status"), registry=registry
        )
        self._left = Counter(
            "standfast_client_disconnects", "Requests whose caller left before the end.", at, registry=registry
        )
        self._prompt = Counter(
            "standfast_prompt_tokens", "Prompt tokens, as upstreams told them.", model, registry=registry
        )
        self._cached = Counter(
            "standfast_cached_tokens", "Prompt tokens read from the upstream's cache.", model, registry=registry
        )
        self._output = Counter("standfast_output_tokens", "Tokens generated.", model, registry=registry)
        self._attainable = Counter(
            "standfast_attainable_tokens", "Tokens a perfect cache would have served (estimate).", at, registry=registry
        )
        self._planned = Counter(
            "standfast_planned", "Requests planned, by policy.", ("upstream", "dialect", "policy"), registry=registry
        )
        self._lost = Counter(
            "standfast_lost_tokens",
            "Tokens that a break of the prefix puts out of the cache's reach (estimate), repaired or not.",
            ("upstream", "cause", "repaired"),
            registry=registry,
        )
        self._broken = Counter(
            "standfast_breaks", "Requests whose prefix broke.", ("upstream", "cause"), registry=registry
        )
        self._repaired = Counter(
            "standfast_repaired",
            "Requests whose prefix broke and was repaired.",
            ("upstream", "cause"),
            registry=registry,
        )
        self._plan_seconds = Histogram(
            "standfast_plan_seconds", "Time to plan a request.", (), buckets=_PLAN_BUCKETS, registry=registry
        )
        self._first_byte = Histogram(
            "standfast_first_byte_seconds",
            "Time from a request's arrival to the first byte of its response.",
            at,
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self._seconds = Histogram(
            "standfast_request_seconds",
            "Time from a request's arrival to the end of its response.",
            at,
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self._failed_open = Counter(
            "standfast_failed_open",
            "Failures of ours that a request was carried past.",
            ("upstream", "stage"),
            registry=registry,
        )
        self._restarts = Counter(
            "standfast_engine_restarts", "Times the embedded engine died and was started again.", registry=registry
        )
        self._states = Counter(
            "standfast_kv_tokens", "Prompt tokens, by where their KV state came from.", ("upstream", "tier"),
            registry=registry,
        )  # fmt: skip
        self._kv_bytes = Counter("standfast_kv_loaded_bytes", "KV state loaded.", ("upstream",), registry=registry)
        self._kv_seconds = Histogram(
            "standfast_kv_load_seconds",
            "Time to find KV state and to put it into a slot, where there was some.",
            ("upstream",),
            buckets=_LOAD_BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "standfast_in_flight", "Requests being served now.", registry=registry, multiprocess_mode="livesum"
        )
        self._models: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Finished():
                self._finished(event)
            case Planned():
                self._plan(event)
            case FailedOpen():
                self._failed_open.labels(event.upstream, event.stage).inc()
            case EngineRestarted():
                self._restarts.inc()
            case StatesServed():
                self._served(event)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request for as long as it is served."""
        self._in_flight.inc()
        try:
            yield
        finally:
            self._in_flight.dec()

    def page(self) -> tuple[bytes, str]:
        """The metrics of all processes in the text format, and its content type."""
        if self.directory is None:
            return generate_latest(self._registry), CONTENT_TYPE_LATEST
        merged = CollectorRegistry()
        multiprocess.MultiProcessCollector(merged, path=str(self.directory))  # type: ignore[no-untyped-call]
        return generate_latest(merged), CONTENT_TYPE_LATEST

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Every metric, by the name under which the page shows it, with the names of its labels."""
        ours = (m for m in vars(self).values() if isinstance(m, MetricWrapperBase))
        return {
            told.name + ("_total" if told.type == "counter" else ""): tuple(metric._labelnames)
            for metric in ours
            for told in metric.describe()
        }

    def names(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self.labels())

    def worker_ended(self, pid: int) -> None:
        """Take a dead process out of what is counted as going on now."""
        if self.directory is not None:
            multiprocess.mark_process_dead(pid, str(self.directory))  # type: ignore[no-untyped-call]

    def _finished(self, event: Finished) -> None:
        upstream = event.upstream or "none"
        self._requests.labels(upstream, event.dialect, f"{event.status // 100}xx").inc()
        self._seconds.labels(upstream, event.dialect).observe(event.seconds)
        self._first_byte.labels(upstream, event.dialect).observe(event.first_byte_seconds)
        if event.disconnected:
            self._left.labels(upstream, event.dialect).inc()
        if event.prompt_tokens is None:
            return
        labels = (upstream, event.dialect, self._model(event))
        self._prompt.labels(*labels).inc(event.prompt_tokens)
        self._cached.labels(*labels).inc(event.cached_tokens or 0)
        self._output.labels(*labels).inc(event.output_tokens or 0)

    def _plan(self, event: Planned) -> None:
        self._planned.labels(event.upstream, event.dialect, event.policy).inc()
        self._attainable.labels(event.upstream, event.dialect).inc(event.attainable_tokens)
        self._plan_seconds.observe(event.seconds)
        if event.cause is None:
            return
        self._broken.labels(event.upstream, event.cause).inc()
        self._lost.labels(event.upstream, event.cause, "yes" if event.repaired else "no").inc(event.lost_tokens)
        if event.repaired:
            self._repaired.labels(event.upstream, event.cause).inc()

    def _served(self, event: StatesServed) -> None:
        for tier, tokens in (*event.loaded.items(), ("live", event.live), ("computed", event.computed)):
            self._states.labels(event.upstream, tier).inc(tokens)
        if event.load_bytes:
            self._kv_bytes.labels(event.upstream).inc(event.load_bytes)
            self._kv_seconds.labels(event.upstream).observe(event.load_seconds)

    def _model(self, event: Finished) -> str:
        """A label for the model: a name that an upstream took, while there is room."""
        name = event.model
        if name in self._models:
            return name
        accepted = 200 <= event.status < 300 and len(self._models) < MODELS and _MODEL_NAME.fullmatch(name)
        if not accepted:
            return OTHER
        self._models.add(name)
        return name


@contextmanager
def opened(processes: int) -> Iterator[Metrics]:
    """Metrics for a gateway of so many worker processes; call it in the process that starts them."""
    if processes <= 1:
        yield Metrics()
        return
    with tempfile.TemporaryDirectory(prefix="standfast-metrics-") as directory:
        yield Metrics(Path(directory))


def _share(directory: Path) -> None:
    """Have prometheus_client keep its values in files, which all processes read; it takes the folder only this way."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)  # noqa: TID251 -- read by the library, not by us
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
