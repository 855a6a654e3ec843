"""The facts that come with Standfast, those of users, and what is refused."""

from __future__ import annotations

import datetime
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from standfast.errors import ConfigError
from standfast.providers import listing
from standfast.providers.catalogue import Catalogue
from standfast.providers.facts import FACTS, own, profiles, shipped
from standfast.providers.rules import Regime

NAMED = (
    "anthropic bedrock vertex openai azure deepseek gemini qwen kimi glm minimax xai mistral groq fireworks together "
    "openrouter vllm sglang llama.cpp"
)
GOOD = {"name": '"step"', "value": "16", "source": '"its manual"', "date": "2026-11-01"}


def facts(tmp_path: Path, **row: str) -> Path:
    file = tmp_path / "facts.toml"
    rows = "\n".join(f"{key} = {value}" for key, value in {**GOOD, **row}.items() if value)
    file.write_text(f"[[house.fact]]\n{rows}\n")
    return file


def test_every_provider_is_there_and_every_fact_has_a_source_and_a_day() -> None:
    found = {provider.id: provider for provider in shipped()}
    assert sorted(found) == sorted(NAMED.split())
    for provider in found.values():
        assert provider.facts
        assert provider.dialects
        for fact in provider.facts:
            assert fact.source.strip()
            assert datetime.date(2025, 1, 1) <= fact.date <= datetime.date(2026, 12, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"date": ""}, "has no date"),
        ({"date": '"yesterday"'}, "has no date"),
        ({"source": ""}, "has no source"),
        ({"source": '" "'}, "has no source"),
        ({"name": '"colour"'}, "'colour' is not known"),
        ({"value": '"many"'}, "must be number"),
        ({"value": "-1"}, "must be number"),
        ({"value": "true"}, "must be number"),
        ({"name": '"regime"', "value": '"magic"'}, "must be regime"),
        ({"name": '"automatic"', "value": "1"}, "must be truth"),
        ({"name": '"ttls"', "value": '"5m"'}, "must be numbers"),
        ({"name": '"diagnostics_header"', "value": '["a"]'}, "must be pair"),
        ({"colour": '"red"'}, "unknown key 'colour'"),
    ],
)
def test_a_fact_that_is_not_as_it_must_be_is_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        own(facts(tmp_path, **change))
    assert "facts.toml: house: fact 1" in str(error.value)


@pytest.mark.parametrize("text", ["a = 1", "[", "[house]\nfact = 1", "[house]\nplace = 1"])
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "facts.toml"))):
        own(tmp_path / "facts.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        own(tmp_path / "other.toml")


def test_a_users_facts_win_and_make_new_providers(tmp_path: Path) -> None:
    file = facts(tmp_path)
    row = 'name = "read_price"\nvalue = 0.01\nsource = "our contract"\ndate = 2026-11-30'
    file.write_text(f'{file.read_text()}[house]\nhosts = ["llm.example"]\n[[openai.fact]]\n{row}\n')
    catalogue = Catalogue.load(file)
    assert catalogue.rules("house", "m").step == 16
    assert catalogue.provider_of("http://llm.example:8000/v1") == "house"
    assert catalogue.rules("openai", "gpt-5.6").read_price == 0.01
    assert catalogue.rules("openai", "gpt-5.6").minimum == 1024


@pytest.mark.parametrize(
    ("provider", "model", "rules"),
    [
        ("anthropic", "claude-opus-5", {"minimum": 512, "read_price": 0.1, "lookback": 20, "default_ttl": "5m"}),
        ("anthropic", "claude-opus-5-5", {"minimum": 512, "read_price": 0.05, "input_price": 4.0}),
        ("anthropic", "claude-sonnet-4-6", {"minimum": 1024, "regime": Regime.MARKS, "most_marks": 4}),
        ("anthropic", "claude-opus-4-7", {"minimum": 2048}),
        ("anthropic", "claude-haiku-4-5-20251001", {"minimum": 4096}),
        ("anthropic", "claude-opus-5", {"write_price": {"5m": 1.25, "1h": 2.0}, "ttls": {"5m": 300, "1h": 3600}}),
        ("openai", "gpt-5.5", {"regime": Regime.PREFIX, "step": 128, "minimum": 1024, "write_price": {}, "marker": ""}),
        ("openai", "gpt-4o-mini", {"regime": Regime.PREFIX, "read_price": 0.5}),
        ("openai", "gpt-5.6-sol", {"regime": Regime.BOUNDARIES, "lookback": 80, "minimum": 1024}),
        ("openai", "gpt-6", {"ttls": {"30m": 1800, "12h": 43200}, "write_price": {"30m": 1.25, "12h": 2.5}}),
        ("deepseek", "deepseek-v4-pro", {"regime": Regime.BOUNDARIES, "currency": "CNY", "input_price": 4.5}),
        ("qwen", "qwen3-max", {"regime": Regime.MARKS, "minimum": 1024, "ttls": {"5m": 300}}),
        ("kimi", "kimi-k2", {"step": 256}),
        ("xai", "grok-5", {"key_header": "x-grok-conv-id"}),
        ("groq", "x", {"ttls": {"idle": 7200}, "read_price": 0.5}),
        ("openrouter", "openai/gpt-5.6", {"regime": Regime.PREFIX, "key_field": "session_id"}),
        ("openrouter", "anthropic/claude-opus-5", {"regime": Regime.MARKS}),
        ("vllm", "any", {"step": 16, "regime": Regime.PREFIX}),
        ("sglang", "any", {"step": 1}),
        ("llama.cpp", "any", {"step": 1, "regime": Regime.PREFIX}),
    ],
)
def test_rules_are_as_the_providers_say(provider: str, model: str, rules: dict[str, Any]) -> None:
    found = Catalogue.load().rules(provider, model)
    assert {name: getattr(found, name) for name in rules} == rules


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.openai.com/v1", "openai"),
        ("https://house.openai.azure.com/openai", "azure"),
        ("https://bedrock-runtime.eu-central-1.amazonaws.com", "bedrock"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode", "qwen"),
        ("https://openrouter.ai/api", "openrouter"),
        ("https://api.anthropic.com.example.org", ""),
        ("http://127.0.0.1:8080", ""),
        ("", ""),
    ],
)
def test_a_provider_is_known_by_its_host(url: str, provider: str) -> None:
    assert Catalogue.load().provider_of(url) == provider


def test_a_profile_counts_with_its_own_prices() -> None:
    profile = profiles()["article-2026"]
    assert (profile.input, profile.read, profile.currency) == (3.15, 0.12, "CNY")
    rules = Catalogue.load(profile="article-2026").rules("anthropic", "claude-opus-5")
    assert rules.input_price == 3.15
    assert rules.read_price * rules.input_price == pytest.approx(0.12)
    assert (rules.write_price, rules.currency, rules.lookback) == ({}, "CNY", 20)
    with pytest.raises(ConfigError, match="article-2026"):
        Catalogue.load(profile="none")
    with pytest.raises(ConfigError, match="anthropic, azure"):
        Catalogue.load().provider("nobody")


def test_every_kind_of_fact_is_listed() -> None:
    out = io.StringIO()
    console = Console(file=out, width=240)
    catalogue = Catalogue.load()
    listing.show_all(catalogue, console)
    for id in NAMED.split():
        assert id in out.getvalue()
        listing.show_one(catalogue.provider(id), "", console)
    listing.show_one(catalogue.provider("anthropic"), "claude-opus-5-5", console)
    told = json.loads(json.dumps(listing.as_json(catalogue.provider("anthropic"), "claude-opus-5-5")))
    names = [fact["name"] for fact in told["facts"]]
    assert len(names) == len(set(names))
    assert {fact.name for p in shipped() for fact in p.facts} <= FACTS.keys()
    page = (Path(__file__).parents[3] / "docs/providers.md").read_text("utf-8")
    for name, kind in FACTS.items():
        assert f"| `{name}` | {kind.type} | {kind.meaning} |" in page
    for id in NAMED.split():
        assert f"| `{id}` |" in page
