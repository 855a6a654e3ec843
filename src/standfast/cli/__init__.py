"""The command line. ``standfast --help`` teaches it; docs/cli.md is the reference."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from standfast import __version__, config
from standfast.cli.cache import cache, check_archive
from standfast.cli.codec import codec
from standfast.cli.figures import CONFIG, bill, providers
from standfast.cli.whatif import whatif
from standfast.config import Settings, require_key_if_exposed
from standfast.errors import ConfigError, LedgerError, StandfastError
from standfast.policy import Leave, Policy, parse

if TYPE_CHECKING:  # what a command needs is loaded by it: --help and explain start without an engine
    from standfast.engines.embedded import EmbeddedEngine
    from standfast.events import Observer


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One flag for each setting, straight from the table."""
    for f in reversed(config.SETTINGS):
        flag = f"--{f.name.replace('_', '-')}"
        text = f"{f.metadata['help']}"
        if f.metadata["secret"]:
            continue  # a secret on a command line can be read by every process
        if f.type == "bool":
            option = click.option(f"{flag}/--no-{f.name.replace('_', '-')}", f.name, default=None, help=text)
        else:
            option = click.option(flag, f.name, default=None, help=text, metavar=_METAVARS.get(str(f.type), "TEXT"))
        command = option(command)
    return CONFIG(command)


_METAVARS = {"int": "N", "float": "SECONDS", "Path": "PATH", "Leave": "POLICY[,OPTION…]"}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="standfast")
def app() -> None:
    """Standfast keeps the prefix of every LLM request byte-stable, so that the prompt cache hits.

    \b
    Try it:       standfast demo
    Run it:       standfast serve                                    (with the embedded model)
                  standfast serve --upstream https://api.anthropic.com
    Ask it why:   standfast explain first.json second.json
    """


@app.command()
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="URL",
    help="Where requests go; none: the embedded model. Several with their models or paths: in the configuration file.",
)
@_settings_options
def serve(upstreams: tuple[str, ...], config: Path | None, **flags: Any) -> None:
    """Run the gateway.

    Point your client at it: OPENAI_BASE_URL=http://127.0.0.1:8790/v1, ANTHROPIC_BASE_URL=http://127.0.0.1:8790. The
    credentials that callers send are passed on, never stored, never logged.
    """
    from standfast.gateway import build, server
    from standfast.observe import log, metrics

    settings = _load(config, flags, upstreams)
    require_key_if_exposed(settings)
    log.set_up(settings.log_level)
    console = Console(stderr=True)
    with metrics.opened(settings.workers) as counted:
        if settings.upstreams:
            names = ", ".join(f"{u.name} ({u.url})" for u in settings.upstreams)
            server.serve(settings, build.make_app, counted, partial(_announce, console, names, None))
            return
        server.listen(settings.host, settings.port).close()  # a port that is taken shall not cost loading a model
        listeners = build.Listeners(counted, log.RequestLog())
        with _embedded(settings, console, listeners) as engine:
            make = partial(
                build.make_app, engine_url=engine.base_url, listeners=None if settings.workers > 1 else listeners
            )
            server.serve(settings, make, counted, partial(_announce, console, engine.model_name, engine.model_name))


@contextmanager
def _embedded(settings: Settings, console: Console, observe: Observer) -> Iterator[EmbeddedEngine]:
    """The embedded engine, with progress shown until it is up."""
    from standfast.engines import embedded, model

    with ExitStack() as stack:
        with _progress(console) as progress:
            model.ensure(settings, progress)
            progress("loading the model", None)
            engine = stack.enter_context(embedded.running(settings, observe))
        yield engine


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, float | None], None]]:
    """Steps with a bar on a terminal; a line for each step elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task: TaskID | None = None
        now = ""

        def show(step: str, fraction: float | None) -> None:
            nonlocal task, now
            if step != now:
                now = step
                if task is not None:
                    bars.remove_task(task)
                task = bars.add_task(step, total=None if fraction is None else 1.0)
                if not console.is_terminal:
                    console.print(f"{step}…", highlight=False)
            if fraction is not None and task is not None:
                bars.update(task, total=1.0, completed=fraction)

        yield show


def _announce(console: Console, where: str, embedded_model: str | None, url: str) -> None:
    console.print(
        f"\n[bold green]standfast[/] {__version__} is listening on [bold]{url}[/]  →  {where}\n", highlight=False
    )
    console.print(f"  export OPENAI_BASE_URL={url}/v1\n  export ANTHROPIC_BASE_URL={url}", highlight=False)
    model = embedded_model or "YOUR-MODEL"
    body = json.dumps({"model": model, "max_tokens": 30, "messages": [{"role": "user", "content": "Say hello."}]})
    key = "" if embedded_model else " -H 'authorization: Bearer YOUR-KEY'"
    console.print(
        f"\n  curl {url}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'\n",
        highlight=False, soft_wrap=True, markup=False,
    )  # fmt: skip
    console.print("  metrics: /metrics    health: /readyz    stop: Ctrl-C\n", style="dim", highlight=False)


def _leave(_context: click.Context, _param: click.Parameter, value: str) -> Leave:
    try:
        leave = parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if leave.policy is Policy.OFF:
        raise click.BadParameter("under off nothing is looked at")
    return leave


@app.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a list, one object a step.")
@click.option(
    "--emit",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write each request as Standfast would send it into this folder.",
)
@click.option("--dialect", help="anthropic, openai_chat or openai_responses; detected if not given.")
@click.option("--provider", default="", help="Whose cache it is; `standfast providers` lists them.")
@click.option(
    "--policy",
    default=Policy.LOSSLESS.value,
    show_default=True,
    metavar="POLICY[,OPTION…]",
    callback=_leave,
    help="observe, lossless or isolate; options behind it: docs/policies.md.",
)
def explain(
    files: tuple[Path, ...], as_json: bool, emit: Path | None, dialect: str | None, provider: str, policy: Leave
) -> None:
    """Say why the second of two requests misses the cache that the first has filled.

    FILES are two or more request bodies in the order in which they were sent, or one case: an object with "requests"
    and, if you have them, "usage" (as the provider returned it) and "times" (in seconds).
    """
    from standfast import explain as explaining

    steps, sent = explaining.explain(explaining.load(files), dialect, policy, provider)
    if emit:
        _write_all(emit, sent)
    if as_json:
        click.echo(json.dumps([step.as_json() for step in steps], indent=2, ensure_ascii=False))
    else:
        explaining.show(steps, Console())


def _write_all(folder: Path, bodies: list[bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, body in enumerate(bodies, 1):
            (folder / f"request-{i}.json").write_bytes(body)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error


@app.command()
@_settings_options
def setup(config: Path | None, **flags: Any) -> None:
    """Fetch the embedded model and make it fast. Done once; `serve` and `demo` do it by themselves."""
    from standfast.engines import model

    console = Console(stderr=True)
    with _progress(console) as progress:
        path = model.ensure(_load(config, flags), progress)
    console.print(f"model: {path}", highlight=False)


@app.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Also save the table as a picture.")
@_settings_options
def demo(as_json: bool, svg: Path | None, config: Path | None, **flags: Any) -> None:
    """Run a scripted support agent twice on the embedded model, raw and through Standfast, and compare."""
    from standfast.demo.report import draw
    from standfast.demo.stage import play
    from standfast.engines import model

    settings = _load(config, flags)
    console = Console(stderr=as_json)
    with _progress(console) as progress:
        model.ensure(settings, progress)
    result = asyncio.run(play(settings, Console(), as_json))
    if svg:
        draw(result, svg)


@app.command()
@click.option("--json", "as_json", is_flag=True)
@_settings_options
def settings(as_json: bool, config: Path | None, **flags: Any) -> None:
    """Show every setting, its value, its environment variable and what it does."""
    resolved = _load(config, flags)
    rows = [_setting_row(f, resolved) for f in globals()["config"].SETTINGS]
    if as_json:
        click.echo(
            json.dumps([dict(zip(("name", "value", "variable", "help"), row, strict=True)) for row in rows], indent=2)
        )
        return
    table = Table("setting", "value", "environment", "what it does")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@app.command()
@click.option("--repair", is_flag=True, help="Delete KV records that are damaged or that nobody can reach.")
@_settings_options
def check(repair: bool, config: Path | None, **flags: Any) -> None:
    """Verify everything that ledger and KV archive hold: digests, counts, references, seals."""
    settings = _load(config, flags)
    if not settings.database.exists() and not settings.archive.exists():
        raise ConfigError(f"{settings.state_dir}: there is neither ledger nor KV archive yet")
    faults = []
    if settings.database.exists():
        faults += _check_ledger(settings.database)
    if settings.archive.exists():
        faults += check_archive(settings, repair=repair)
    if faults:
        raise LedgerError("; ".join(faults))


def _check_ledger(path: Path) -> list[str]:
    from standfast.ledger.check import check as verify
    from standfast.ledger.database import Broken

    try:
        problems = verify(path)
    except (sqlite3.Error, Broken) as error:
        raise LedgerError(f"{path}: cannot be read: {error}") from error
    for problem in problems:
        click.echo(problem)
    if problems:
        return [f"{path}: {len(problems)} faults; the gateway forgets what is damaged when it meets it"]
    click.echo(f"{path}: sound")
    return []


def _setting_row(f: Any, resolved: Settings) -> tuple[str, str, str, str]:
    value = getattr(resolved, f.name)
    shown = ("set" if value else "not set") if f.metadata["secret"] else str(value)
    return f.name, shown, f"STANDFAST_{f.name.upper()}", f.metadata["help"]


app.add_command(providers)
app.add_command(bill)
app.add_command(whatif)
app.add_command(cache)
app.add_command(codec)


def _load(path: Path | None, flags: dict[str, Any], upstreams: tuple[str, ...] = ()) -> Settings:
    given: dict[str, Any] = dict(flags)
    given["upstreams"] = tuple(config.upstream_from_url(url) for url in upstreams)
    return config.load(given, path)


def main() -> NoReturn:
    """The entry point: every error of ours is one line and a non-zero exit status."""
    try:
        app(prog_name="standfast", standalone_mode=False)
    except StandfastError as error:
        _fail(str(error), 1)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    sys.exit(0)


def _fail(message: str, status: int) -> NoReturn:
    text = Text.assemble(("standfast:", "bold red"), " ", " ".join(message.splitlines()))  # no markup: it quotes input
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)
    sys.exit(status)
