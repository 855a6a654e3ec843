"""Providers and their facts, for people and for machines."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from standfast.providers.catalogue import Catalogue
from standfast.providers.facts import Fact, Provider


def show_all(catalogue: Catalogue, console: Console) -> None:
    """One line a provider."""
    table = Table("provider", "is", "cache", "marker", "minimum", "lives", "read", "write", "facts", box=None)
    for provider in catalogue:
        rules = provider.rules("")
        table.add_row(
            Text(provider.id),
            Text(provider.title),
            rules.regime,
            Text(rules.marker or "–"),
            f"{rules.minimum:g}",
            Text(", ".join(rules.ttls) or "–"),
            f"{rules.read_price:g}×",
            Text(", ".join(f"{life} {price:g}×" for life, price in rules.write_price.items()) or "–"),
            str(len(provider.facts)),
        )
    console.print(table)
    console.print(Text("for a model that no special fact fits; standfast providers NAME shows every fact", "dim"))


def show_one(provider: Provider, model: str, console: Console) -> None:
    """Every fact of one provider, or those that hold for one model."""
    console.print(Text.assemble((provider.title, "bold"), f"  {', '.join(provider.hosts) or 'no host of its own'}"))
    table = Table("fact", "models", "value", "of", "source", box=None)
    for fact in _facts(provider, model):
        value = Text(_written(fact.value))
        if not fact.confirmed:
            value.append("  unconfirmed", "yellow")
        if fact.note:
            value.append(f"\n{fact.note}", "dim")
        table.add_row(fact.name, Text(", ".join(fact.models) or "all"), value, str(fact.date), Text(fact.source))
    console.print(table)


def as_json(provider: Provider, model: str = "") -> dict[str, Any]:
    """The object of ``standfast providers --json``."""
    return {
        "id": provider.id,
        "title": provider.title,
        "dialects": list(provider.dialects),
        "hosts": list(provider.hosts),
        "facts": [
            {
                "name": fact.name,
                "models": list(fact.models),
                "value": fact.value,
                "source": fact.source,
                "date": str(fact.date),
                "confirmed": fact.confirmed,
                "note": fact.note,
            }
            for fact in _facts(provider, model)
        ],
    }


def _facts(provider: Provider, model: str) -> list[Fact]:
    """All of them; of a model those that count."""
    if not model:
        return list(provider.facts)
    return list({fact.name: fact for fact in provider.facts if fact.fits(model)}.values())


def _written(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name} {item}" for name, item in value.items()) or "none"
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case float() | int():
            return f"{value:g}"
    return str(value) or "none"
