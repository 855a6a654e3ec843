"""``whatif``: a log, sent again to a simulated provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from standfast.cli.figures import CONFIG, settings_in, share
from standfast.policy import LOSSLESS, Leave, parse
from standfast.prompt.causes import CAUSES

if TYPE_CHECKING:
    from standfast.lab.replay import Outcome


@click.command()
@click.argument("log", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--provider", default="anthropic", show_default=True, help="`standfast providers` lists them.")
@click.option("--policy", default=str(LOSSLESS), show_default=True, metavar="POLICY[,OPTION…]", help="docs/policies.md")
@click.option("--profile", default="", help="Prices to count with, as article-2026.")
@click.option("--json", "as_json", is_flag=True)
@CONFIG
def whatif(log: Path, provider: str, policy: str, profile: str, as_json: bool, config: Path | None) -> None:
    """What a log of requests would have hit and cost, as it is and through Standfast. Simulated.

    LOG is JSON lines, gzipped or not: a request body a line, or {"body": …, "at": seconds, "tenant": …}. The provider's
    cache is simulated by its rules (`standfast providers`); nothing is sent anywhere.
    """
    from standfast.lab.replay import RAW, Replay, load
    from standfast.policy import Breakpoints
    from standfast.providers.catalogue import Catalogue

    try:
        leave = parse(policy)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--policy") from None
    settings = settings_in(config)
    catalogue = Catalogue.load(settings.providers_file, profile or settings.price_profile)
    catalogue.provider(provider)
    requests = load(log)
    raw = Replay(catalogue.rules, provider, RAW, Breakpoints.CLIENT).run(requests)
    ours = Replay(catalogue.rules, provider, leave).run(requests)
    if as_json:
        told = {"simulated": True, "provider": provider, "policy": str(leave), "raw": raw.as_json()}
        click.echo(json.dumps({**told, "standfast": ours.as_json()}, indent=2))
    else:
        _show(Console(), provider, leave, raw, ours)


def _show(console: Console, provider: str, leave: Leave, raw: Outcome, ours: Outcome) -> None:
    table = Table("", "as it is", f"through Standfast ({leave})", title=f"simulated {provider}", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    rows: list[tuple[str, str, str]] = [
        ("requests", f"{raw.requests:,}", f"{ours.requests:,}"),
        ("prompt tokens", f"{raw.prompt_tokens:,}", f"{ours.prompt_tokens:,}"),
        ("hit", share(raw.cached_tokens, raw.prompt_tokens), share(ours.cached_tokens, ours.prompt_tokens)),
        ("hit of attainable", share(raw.cached_tokens, raw.attainable_tokens), _of(ours)),
        ("full hits", f"{raw.full_hits:,}", f"{ours.full_hits:,}"),
    ]
    if raw.bill and ours.bill:
        unit = raw.bill.currency or "input tokens"
        rows.append((f"paid, {unit}", f"{raw.bill.paid:,.4g}", f"{ours.bill.paid:,.4g}"))
        rows.append(("without a cache", f"{raw.bill.without_cache:,.4g}", f"{ours.bill.without_cache:,.4g}"))
        rows.append(("with a perfect one", f"{raw.bill.perfect:,.4g}", f"{ours.bill.perfect:,.4g}"))
    for row in rows:
        table.add_row(*row)
    for cause, _ in (raw.lost + ours.lost).most_common():
        title = f"lost to {cause} {CAUSES[cause].title}"
        table.add_row(Text(title, "dim"), f"{raw.lost[cause]:,}", f"{ours.lost[cause]:,}")
    console.print(table)


def _of(outcome: Outcome) -> str:
    return share(outcome.cached_tokens, outcome.attainable_tokens)
