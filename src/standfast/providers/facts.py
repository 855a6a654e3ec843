"""Facts about providers, as data: what is known, from where, and of which day.

A provider is a TOML file: its name, the dialects and hosts by which it is known, its facts as rows, and short names
for the sources that they cite. Of the rows of one name the last whose ``models`` fit the model counts, so the general
stand first and the special behind them. A user's own file has the same form, several providers in it as tables, and its
rows stand behind ours.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date as Date
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from standfast.errors import ConfigError
from standfast.providers.rules import Regime, Rules

_IDENTITY = ("provider", "model")
_DIALECTS = ("anthropic", "openai_chat", "openai_responses")
_PROVIDER_KEYS = {"id", "title", "dialects", "hosts", "fact", "sources"}
_FACT_KEYS = {"name", "models", "value", "source", "date", "confirmed", "note"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand as the value of a fact."""

    type: str
    """A key of ``_CONVERT``."""
    meaning: str = ""
    choices: tuple[str, ...] = ()
    """The only texts that there are."""


FACTS: dict[str, Kind] = {
    "regime": Kind("regime", "what a cache can serve: prefix, marks, boundaries or none"),
    "minimum": Kind("whole number", "tokens below which a prefix is never cached"),
    "step": Kind("whole number from 1", "a hit is a multiple of this many tokens"),
    "ttls": Kind("numbers", "lives that an entry may be given, in seconds"),
    "default_ttl": Kind("text", "name of the life that an entry has when none is asked for"),
    "refreshed": Kind("truth", "whether a hit begins an entry's life anew"),
    "marker": Kind("text", "field that sets a mark; empty if there is none"),
    "most_marks": Kind("whole number", "marks that a request may have"),
    "lookback": Kind("whole number", "blocks that a read walks back from a mark, or boundaries that are tried"),
    "writes_at": Kind(
        "texts",
        "ends at which the provider writes by itself: input, output, common, interval",
        ("input", "output", "common", "interval"),
    ),
    "interval": Kind("whole number", "tokens between those"),
    "automatic": Kind("truth", "whether a top-level field marks the last block"),
    "unmarkable": Kind("texts", "blocks on which a mark is refused"),
    "invalidates": Kind(
        "words",
        "what changed → the first tier that is lost by it: tools, system, messages",
        ("tools", "system", "messages"),
    ),
    "readable": Kind(
        "text", "when what was written can be read: first_byte, end or once", ("first_byte", "end", "once")
    ),
    "usage": Kind("words", "read, written, rest → the field of the usage that counts it"),
    "read_price": Kind("number", "price of a token that was read, in input tokens"),
    "write_price": Kind("numbers", "price of a token that is written, in input tokens, by the name of its life"),
    "input_price": Kind("number", "price of a million uncached input tokens"),
    "output_price": Kind("number", "price of a million output tokens"),
    "currency": Kind("text", "of these prices"),
    "key_field": Kind("text", "body field that keeps requests on one machine"),
    "key_header": Kind("text", "header that does"),
    "key_rate": Kind("number", "requests a minute that one key bears"),
    "allowed_tools": Kind("truth", "whether tool_choice can restrict the tools without touching the cached list"),
    "tool_changes": Kind("pair", "header with which tools may be added and withdrawn in the midst of a conversation"),
    "diagnostics": Kind("text", "body field that asks for the provider's own diagnosis"),
    "diagnostics_first": Kind("truth", "whether the first request must ask too, naming none before it"),
    "diagnostics_header": Kind("pair", "header that this needs"),
    "template_field": Kind("text", "body field with arguments for the chat template"),
    "date_argument": Kind("words", "argument of the chat template that pins the date it writes → its form (strftime)"),
    "thinking_argument": Kind("truths", "argument of the chat template → the value that keeps earlier thinking"),
}
"""Every name that a fact may have: the fields of ``Rules``, and what only people read."""
_FOR_PEOPLE = {"usage"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One row."""

    name: str
    value: Any
    source: str
    date: Date
    models: tuple[str, ...] = ()
    """Shell patterns; none: every model."""
    confirmed: bool = True
    note: str = ""

    def fits(self, model: str) -> bool:
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider, or one engine."""

    id: str
    title: str
    dialects: tuple[str, ...]
    hosts: tuple[str, ...]
    facts: tuple[Fact, ...]

    def rules(self, model: str) -> Rules:
        """The rules for one model."""
        known = {fact.name: fact.value for fact in self.facts if fact.fits(model) and fact.name not in _FOR_PEOPLE}
        return Rules(self.id, model, **known)


@dataclass(frozen=True, slots=True)
class Profile:
    """Prices to count with instead of a provider's own, per million tokens."""

    name: str
    title: str
    currency: str
    input: float
    read: float
    output: float
    source: str
    date: Date


@cache
def shipped() -> tuple[Provider, ...]:
    """The providers that come with Standfast. Raises ConfigError for a row that is not as it must be."""
    folder = resources.files("standfast.providers") / "data"
    texts = {f.name: f.read_text("utf-8") for f in sorted(folder.iterdir(), key=lambda f: f.name)}
    return tuple(_provider(tomllib.loads(text), name) for name, text in texts.items() if name != "profiles.toml")


@cache
def profiles() -> dict[str, Profile]:
    """The named prices that come with Standfast."""
    text = (resources.files("standfast.providers") / "data" / "profiles.toml").read_text("utf-8")
    rows = tomllib.loads(text)
    return {
        name: Profile(
            name,
            row["title"],
            row["currency"],
            float(row["input"]),
            float(row["read"]),
            float(row.get("output", 0.0)),
            _source(row, {}, f"profiles.toml: {name}"),
            _date(row, f"profiles.toml: {name}"),
        )
        for name, row in rows.items()
    }


def own(path: Path) -> dict[str, Provider]:
    """A user's facts, by provider. Raises ConfigError."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} must be a table of a provider, as [{name}] with rows [[{name}.fact]]")
    return {name: _provider({"id": name, **table}, f"{path}: {name}") for name, table in tables.items()}


def _provider(table: Mapping[str, Any], where: str) -> Provider:
    if unknown := sorted(set(table) - _PROVIDER_KEYS):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; a provider has {', '.join(sorted(_PROVIDER_KEYS))}")
    rows = table.get("fact", [])
    if not isinstance(rows, list):
        raise ConfigError(f"{where}: facts are rows, as [[fact]]")
    sources = _entry(table, "sources", Kind("words"), {}, where)
    id = str(table["id"])
    return Provider(
        id,
        _entry(table, "title", Kind("text"), id, where),
        _entry(table, "dialects", Kind("texts", choices=_DIALECTS), (), where),
        _entry(table, "hosts", Kind("texts"), (), where),
        tuple(_fact(row, sources, f"{where}: fact {number}") for number, row in enumerate(rows, 1)),
    )


def _fact(row: Any, sources: Mapping[str, str], where: str) -> Fact:
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: must be a row with a name, a value, a source and a date, not {row!r}")
    name = row.get("name")
    if not isinstance(name, str) or name not in FACTS:
        raise ConfigError(f"{where}: the name {name!r} is not known; docs/providers.md lists those that are")
    where = f"{where} ({name})"
    if unknown := sorted(set(row) - _FACT_KEYS):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; a fact has {', '.join(sorted(_FACT_KEYS))}")
    return Fact(
        name,
        _value(FACTS[name], row.get("value"), f"{where}: the value"),
        _source(row, sources, where),
        _date(row, where),
        _entry(row, "models", Kind("texts"), (), where),
        _entry(row, "confirmed", Kind("truth"), True, where),
        _entry(row, "note", Kind("text"), "", where),
    )


def _entry(table: Mapping[str, Any], key: str, kind: Kind, absent: Any, where: str) -> Any:
    return _value(kind, table[key], f"{where}: {key}") if key in table else absent


def _source(row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> str:
    source = row.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(f"{where}: has no source; say where it can be read")
    return sources.get(source, source)


def _date(row: Mapping[str, Any], where: str) -> Date:
    found = row.get("date")
    if type(found) is not Date:
        raise ConfigError(f"{where}: has no date; write the day on which it was read, as date = 2026-11-01")
    return found


def _value(kind: Kind, value: Any, where: str) -> Any:
    try:
        found = _CONVERT[kind.type](value)
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"{where} must be {kind.type}, not {value!r}") from None
    told = found.values() if isinstance(found, dict) else (found,) if isinstance(found, str) else found
    if kind.choices and (wrong := sorted(set(told) - set(kind.choices))):
        raise ConfigError(f"{where}: {wrong[0]!r} is none of {', '.join(kind.choices)}")
    return found


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError
    return value


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_text, value))


def _pair(value: Any) -> tuple[str, str]:
    first, second = _texts(value)
    return first, second


_CONVERT: dict[str, Any] = {
    "regime": Regime,
    "number": _number,
    "whole number": _count,
    "whole number from 1": lambda value: _count(value, 1),
    "text": _text,
    "truth": _truth,
    "texts": _texts,
    "pair": _pair,
    "numbers": lambda value: {_text(k): _number(v) for k, v in value.items()},
    "words": lambda value: {_text(k): _text(v) for k, v in value.items()},
    "truths": lambda value: {_text(k): _truth(v) for k, v in value.items()},
}

assert set(FACTS) - _FOR_PEOPLE == {f.name for f in fields(Rules)} - set(_IDENTITY)
