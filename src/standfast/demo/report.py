"""The demo on a terminal: two bars while it runs, one table at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from standfast.demo import script
from standfast.demo.figures import DemoResult, Figures
from standfast.demo.habits import ClientRequest, client
from standfast.demo.run import Step, run
from standfast.errors import EngineError

HEADERS: Mapping[str, str] = {"x-standfast-policy": "isolate"}
"""Sent in the Standfast run only: without it a clock in the system prompt is named and not repaired."""
SESSIONS = 1000
"""The cost of one session is too small to read."""
_PICTURE_WIDTH = 86
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a picture should load nothing from elsewhere
_COLD = 16  # tokens; any two conversations share the first few of the chat template

_POLICY_NOTE = (
    "Standfast ran with the policy isolate: a changed clock stays as it was first sent and its new value is told at "
    "the end of the prompt, so for S1 the model reads the same text in another place. Every other repair is lossless."
)


class Display(Protocol):
    """Where progress is shown."""

    def next(self, request: ClientRequest) -> None:
        """A request is about to be sent."""

    def done(self, step: Step, hit_rate: float) -> None:
        """It was answered. ``hit_rate`` is that of the run so far."""


async def demo(
    raw_url: str, standfast_url: str, console: Console, as_json: bool, reset: Callable[[], Awaitable[None]]
) -> DemoResult:
    """Run the script against the engine itself and through Standfast, and show what came of it.

    ``reset`` is awaited before each run and must leave the engine with nothing cached. Raises UpstreamError if a
    request fails, EngineError if the engine was not cold.
    """
    story = script.load()
    requests = client(story)
    progress = Console(stderr=True) if as_json else console
    runs: list[tuple[Step, ...]] = []
    with _displays(progress, len(requests), silent=as_json and not progress.is_terminal) as (raw, ours):
        for url, headers, display in ((raw_url, {}, raw), (standfast_url, HEADERS, ours)):
            await reset()
            runs.append(tuple(await _shown_run(url, requests, headers, display)))
    tools = len(story.turns[0].body["tools"])
    result = DemoResult(story.title, tools, runs[0], runs[1])
    show(result, console, as_json)
    return result


def show(result: DemoResult, console: Console, as_json: bool) -> None:
    """Print a result: the table and its notes, or JSON."""
    if as_json:
        console.out(json.dumps(result.as_dict(), indent=2, ensure_ascii=False), highlight=False)
        return
    profile = result.profile
    console.print(table(result))
    console.print(_POLICY_NOTE, style="dim")
    console.print(
        f"Tokens are the engine's own counts. Price profile {profile.name}: {profile.hit} {profile.currency} per "
        f"million input tokens hit, {profile.miss} missed; output not counted.",
        style="dim",
        highlight=False,
    )


def draw(result: DemoResult, path: Path) -> None:
    """Save the table and its notes as an SVG picture."""
    console = Console(record=True, width=_PICTURE_WIDTH, file=StringIO(), force_terminal=True)
    show(result, console, as_json=False)
    picture = console.export_svg(title="standfast demo")
    path.write_text(_WEB_FONT.sub("", picture), encoding="utf-8")


def table(result: DemoResult) -> Table:
    """The one table: figures of both runs, then the causes."""
    raw, ours = result.figures(result.raw), result.figures(result.standfast)
    grid = Table(title=f"{result.title}: {len(result.raw)} turns, {result.tools} tools", title_justify="left")
    grid.add_column("", overflow="fold")
    grid.add_column("raw", justify="right", no_wrap=True)
    grid.add_column("Standfast", justify="right", no_wrap=True, style="bold")
    for label, cell in _rows(result):
        grid.add_row(label, cell(raw), cell(ours))
    grid.add_section()
    for row in result.causes():
        label = f"{row.id} {row.title}".rstrip() if row.id else "no cause"
        found = f"{row.repaired} of {len(row.turns)} repaired" if row.id else f"{len(row.turns)} turns"
        grid.add_row(label, f"{row.raw_recomputed:,} again", found)
    return grid


def _rows(result: DemoResult) -> list[tuple[str, Callable[[Figures], str]]]:
    profile = result.profile
    return [
        ("hit rate", lambda f: f"{f.hit_rate:.1%}"),
        ("hit rate of attainable", lambda f: f"{f.hit_of_attainable:.1%}"),
        ("prompt tokens", lambda f: f"{f.prompt_tokens:,}"),
        ("tokens computed", lambda f: f"{f.computed_tokens:,}"),
        ("  of these computed again", lambda f: f"{f.recomputed_tokens:,}"),
        ("time to first token, p50", lambda f: _seconds(f.first_token_p50)),
        ("time to first token, p95", lambda f: _seconds(f.first_token_p95)),
        (f"{profile.currency} for {SESSIONS:,} sessions ({profile.name})", lambda f: f"{f.cost * SESSIONS:.2f}"),
    ]


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms"


async def _shown_run(
    url: str, requests: Sequence[ClientRequest], headers: Mapping[str, str], display: Display
) -> list[Step]:
    seen: list[Step] = []

    def on_step(step: Step) -> None:
        if not seen and step.cached_tokens > _COLD:
            raise EngineError(
                f"the engine at {url} still held {step.cached_tokens} tokens before the first turn, so the two runs "
                "cannot be compared; nothing else may use it during the demo"
            )
        seen.append(step)
        prompt = sum(done.prompt_tokens for done in seen)
        display.done(step, sum(done.cached_tokens for done in seen) / prompt)
        if len(seen) < len(requests):
            display.next(requests[len(seen)])

    display.next(requests[0])
    return await run(url, requests, headers, on_step)


@contextmanager
def _displays(console: Console, turns: int, *, silent: bool) -> Iterator[tuple[Display, Display]]:
    """Bars on a terminal, a line a turn elsewhere, nothing if silent."""
    if silent:
        yield Nothing(), Nothing()
    elif not console.is_terminal:
        yield Lines(console, "raw", turns), Lines(console, "Standfast", turns)
    else:
        columns = (
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("hit {task.fields[hit]:>6}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}", style="dim"),
        )
        with Progress(*columns, console=console) as progress:
            yield Bar(progress, "raw", turns), Bar(progress, "Standfast", turns)


class Bar:
    """One run as a bar."""

    def __init__(self, progress: Progress, name: str, turns: int) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task(name, total=turns, start=False, hit="", doing="")

    def next(self, request: ClientRequest) -> None:
        self._progress.start_task(self._task)
        self._progress.update(self._task, doing=", ".join(request.habits))

    def done(self, step: Step, hit_rate: float) -> None:
        self._progress.update(self._task, advance=1, hit=f"{hit_rate:.1%}", doing="")


class Lines:
    """One run as a line a turn."""

    def __init__(self, console: Console, name: str, turns: int) -> None:
        self._console = console
        self._name = name
        self._turns = turns

    def next(self, request: ClientRequest) -> None:
        pass

    def done(self, step: Step, hit_rate: float) -> None:
        habits = f"  {', '.join(step.habits)}" if step.habits else ""
        self._console.print(
            f"{self._name:<9} {step.turn:>2}/{self._turns}  hit {hit_rate:6.1%}  "
            f"{step.computed_tokens:>5,} of {step.prompt_tokens:>5,} computed{habits}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


class Nothing:
    """One run, unseen."""

    def next(self, request: ClientRequest) -> None:
        pass

    def done(self, step: Step, hit_rate: float) -> None:
        pass
