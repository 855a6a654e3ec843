"""``standfast cache``: what the KV archive holds, and what to do with it. It may be used while the gateway runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from standfast.cli.figures import CONFIG, settings_in
from standfast.config import Settings
from standfast.errors import ConfigError

if TYPE_CHECKING:
    from standfast.store.check import Report
    from standfast.store.medium import Medium

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cache() -> None:
    """What the archive of KV states holds (docs/kv.md).

    \b
    How much is there?    standfast cache stat
    Of which contexts?    standfast cache ls
    Carry it elsewhere:   standfast cache export states.sfkv; standfast cache import states.sfkv
    Have it ready:        standfast cache warm requests.jsonl
    """


@cache.command()
@JSON
@CONFIG
def stat(as_json: bool, config: Path | None) -> None:
    """Count what is there, and how well it is compressed."""
    with _archive(config) as medium:
        report, stats = _checked(medium, as_json), medium.stats()
    told = {
        "contexts": report.kinds.get(_kinds().CONTEXT, 0),
        "blocks": report.kinds.get(_kinds().BLOCK, 0),
        "whole_states": report.kinds.get(_kinds().WHOLE, 0),
        "tokens": report.tokens,
        "bytes": report.size,
        "bytes_decoded": report.decoded,
        "ratio": report.decoded / report.size if report.size else 0.0,
        "bytes_on_medium": stats.used,
        "capacity": stats.capacity,
        "namespaces": len(report.spaces),
        "broken": len(report.broken),
        "orphans": len(report.orphans),
    }
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    table = Table(show_header=False)
    for name, value in told.items():
        table.add_row(name.replace("_", " "), f"{value:.2f}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)


@cache.command()
@click.option("--most", default=50, show_default=True, help="So many at the most, the largest first.")
@JSON
@CONFIG
def ls(most: int, as_json: bool, config: Path | None) -> None:
    """List contexts: each is one request's tokens, prompt and answer."""
    from standfast.store.record import peek

    rows = list[dict[str, Any]]()
    with _archive(config) as medium:
        for key, size in medium.keys():  # noqa: SIM118
            head = medium.peek_many([key], 160)[0]
            if head is not None and len(head) == 160 and head[5] == _kinds().CONTEXT:
                seen = peek(head)
                rows.append(
                    {"context": key.hex(), "namespace": seen.space.hex()[:16], "tokens": seen.length, "bytes": size}
                )
    rows.sort(key=lambda row: -row["tokens"])
    if as_json:
        click.echo(json.dumps(rows[:most], indent=2))
        return
    table = Table("context", "namespace", "tokens", "bytes of the record")
    for row in rows[:most]:
        table.add_row(str(row["context"])[:16], str(row["namespace"]), f"{row['tokens']:,}", f"{row['bytes']:,}")
    Console().print(table)
    if len(rows) > most:
        Console().print(f"and {len(rows) - most} more; --most shows them")


@cache.command()
@click.argument("prefixes", nargs=-1)
@click.option("--namespace", default="", metavar="HEX", help="All of a namespace, by the beginning of its id.")
@click.option("--all", "everything", is_flag=True, help="Everything.")
@CONFIG
def rm(prefixes: tuple[str, ...], namespace: str, everything: bool, config: Path | None) -> None:
    """Delete contexts (by the beginning of their names), a namespace, or everything.

    A context's blocks stay as long as their policy keeps them: others may begin with them.
    """
    from standfast.store.record import peek

    if not (prefixes or namespace or everything):
        raise click.UsageError("say what: names of contexts, --namespace, or --all")
    with _archive(config) as medium:
        gone = []
        for key, _ in medium.keys():  # noqa: SIM118
            head = medium.peek_many([key], 160)[0] or b""
            named = len(head) == 160 and head[5] == _kinds().CONTEXT and any(key.hex().startswith(p) for p in prefixes)
            inside = namespace and len(head) == 160 and peek(head).space.hex().startswith(namespace)
            if everything or named or inside:
                gone.append(key)
        click.echo(f"{medium.delete_many(gone)} records deleted")


@cache.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@CONFIG
def export_(file: Path, config: Path | None) -> None:
    """Write all records to a file. It can be read by whoever has the same model, template and tenant."""
    from standfast.store.copies import export

    with _archive(config) as medium:
        click.echo(f"{export(medium, file)} records in {file}")


@cache.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@CONFIG
def import_(file: Path, config: Path | None) -> None:
    """Put the records of a file into the archive; what is damaged is left out."""
    from standfast.store.copies import restore

    with _archive(config, create=True) as medium:
        taken, left = restore(medium, file)
    click.echo(f"{taken} records taken" + (f", {left} left out: damaged, or no room" if left else ""))


@cache.command()
@click.argument("requests", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--url", default="http://127.0.0.1:8790", show_default=True, help="The gateway.")
@click.option("--key", default="", help="Credential to send: states are kept apart by it.")
def warm(requests: Path, url: str, key: str) -> None:
    """Compute prompts beforehand: REQUESTS has one request body a line (any of the three APIs)."""
    from standfast.gateway.warming import warm as send

    bodies = [line for line in requests.read_bytes().splitlines() if line.strip()]
    for number, told in enumerate(asyncio.run(send(url, key, bodies)), 1):
        click.echo(f"{number}: {told}")


def check_archive(settings: Settings, *, repair: bool) -> list[str]:
    """Verify the KV archive, and say what was found; returns what is still wrong."""
    from standfast.store.check import repair as mend

    with _opened(settings) as medium:
        report = _checked(medium, quiet=False)
        for key, failed in report.broken.items():
            click.echo(f"KV record {key.hex()}: {failed}")
        where = f"{settings.archive}: {sum(report.kinds.values()):,} records, {len(report.orphans)} out of reach"
        if repair and (report.broken or report.orphans):
            click.echo(f"{where}; {mend(medium, report)} deleted")
            return []
        click.echo(where + ("" if report.broken else ", sound"))
        wrong = f"{settings.archive}: {len(report.broken)} damaged records, each a miss once met; --repair deletes them"
        return [wrong] if report.broken else []


@contextmanager
def _archive(config: Path | None, *, create: bool = False) -> Iterator[Medium]:
    settings = settings_in(config)
    if settings.kv_archive == "disk" and not create and not settings.archive.exists():
        raise ConfigError(f"{settings.archive}: there is no archive yet; the gateway makes it")
    with _opened(settings) as medium:
        yield medium


@contextmanager
def _opened(settings: Settings) -> Iterator[Medium]:
    from standfast.store.opening import archive

    tiers = archive(settings)
    if not tiers:
        raise ConfigError("kv_archive is none: there is no archive")
    medium = tiers[-1].shelf.medium
    try:
        yield medium
    finally:
        medium.close()


def _checked(medium: Medium, quiet: bool) -> Report:
    from standfast.store.check import check

    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as bars:
        task = bars.add_task("reading", total=medium.stats().entries)
        return check(medium, lambda count: bars.update(task, completed=count))


def _kinds() -> Any:
    from standfast.store.record import Kind

    return Kind
