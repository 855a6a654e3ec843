"""The commands that show facts and figures: ``providers`` and ``bill``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from standfast import config
from standfast.observe.bills import GROUPS, Total, totals

CONFIG = click.option("--config", type=click.Path(path_type=Path), help="Configuration file (TOML); docs/settings.md.")


@click.command()
@click.argument("name", required=False)
@click.option("--model", default="", help="Only the facts that hold for this model.")
@click.option("--json", "as_json", is_flag=True)
@CONFIG
def providers(name: str | None, model: str, as_json: bool, config: Path | None) -> None:
    """What is known of providers' caches and prices: every fact with its source and its day.

    NAME is one of them. Facts of your own: setting providers_file, docs/providers.md.
    """
    from standfast.providers import listing
    from standfast.providers.catalogue import Catalogue

    catalogue = Catalogue.load(settings_in(config).providers_file)
    chosen = [catalogue.provider(name)] if name else list(catalogue)
    if as_json:
        click.echo(json.dumps([listing.as_json(p, model) for p in chosen], indent=2, ensure_ascii=False))
    elif name or model:
        for provider in chosen:
            listing.show_one(provider, model, Console())
    else:
        listing.show_all(catalogue, Console())


@click.command()
@click.option("--by", type=click.Choice(GROUPS), default="model", show_default=True, help="One line for each.")
@click.option("--since", default="", metavar="YYYY-MM-DD", help="From this day on; ninety days are kept.")
@click.option("--json", "as_json", is_flag=True)
@CONFIG
def bill(by: str, since: str, as_json: bool, config: Path | None) -> None:
    """What requests cost, what they would have cost, and to what the rest was lost."""
    rows = totals(settings_in(config).bills, by, since)
    if as_json:
        click.echo(json.dumps([{by: row.group, **asdict(row)} for row in rows], indent=2, ensure_ascii=False))
        return
    console = Console()
    if not rows:
        console.print("nothing yet: the gateway writes here what it has judged")
        return
    console.print(_table(by, rows))


def _table(by: str, rows: list[Total]) -> Table:
    names = ("requests", "full hits", "hit", "of attainable", "lost", "paid", "no cache", "perfect", "in")
    table = Table(by, *names, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(
            row.group,
            f"{row.requests:g}",
            f"{row.hits:g}",
            share(row.cached_tokens, row.prompt_tokens),
            share(row.cached_tokens, row.attainable_tokens),
            f"{row.lost_tokens:,.0f}",
            f"{row.paid:,.4g}",
            f"{row.without_cache:,.4g}",
            f"{row.perfect:,.4g}",
            row.currency or "input tokens",
        )
    return table


def share(part: float, whole: float) -> str:
    """Of a whole, for people."""
    return f"{min(1.0, part / whole):.1%}" if whole else "–"


def settings_in(path: Path | None) -> config.Settings:
    """Settings of a command that takes no flags for them."""
    return config.load({}, path)
