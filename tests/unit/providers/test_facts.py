"""The facts that come with Standfast, those of users, and what is refused."""

from __future__ import annotations

import datetime
import io
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from standfast.errors import ConfigError
from standfast.providers import listing
from standfast.providers.catalogue import Catalogue
from standfast.providers.facts import FACTS, Fact, Provider, own, profiles, shipped
from standfast.providers.rules import Regime

NAMED = (
    "anthropic bedrock vertex openai azure deepseek gemini qwen kimi glm minimax xai mistral groq fireworks together "
    "openrouter vllm sglang llama.cpp"
)
READ = datetime.date(2026, 12, 1)
"""The day on which the facts that come with Standfast were last gone through; none can be younger."""
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
            assert " " in fact.source or "." in fact.source, f"{provider.id}: {fact.source} is a short name of nothing"
            assert datetime.date(2025, 1, 1) <= fact.date <= READ


def names(provider: Provider) -> list[str]:
    """Models such that each row of a provider fits one of them: its patterns with their wild cards filled in."""
    patterns = {pattern for fact in provider.facts for pattern in fact.models}
    return ["", *(re.sub(r"\[(\w).*?\]", r"\1", pattern).replace("*", "") for pattern in patterns)]


@pytest.mark.parametrize("provider", shipped(), ids=lambda provider: provider.id)
def test_the_facts_of_one_model_agree(provider: Provider) -> None:
    for model in names(provider):
        rules = provider.rules(model)
        assert rules.default_ttl in (rules.ttls or {"": 0}), model
        assert set(rules.write_price) <= set(rules.ttls), model
        assert bool(rules.marker) or rules.regime is not Regime.MARKS, model
        assert not rules.automatic or rules.marker, model
        assert rules.regime is Regime.BOUNDARIES or set(rules.writes_at) <= {"output"}, model
        assert rules.template_field or not (rules.date_argument or rules.thinking_argument), model
        assert bool(rules.interval) == ("interval" in rules.writes_at), model
        assert 0 < rules.read_price <= 1, model
        assert (rules.input_price is None) == (rules.output_price is None), model
        assert rules.input_price is None or (rules.currency and rules.output_price), model


@pytest.mark.parametrize("provider", shipped(), ids=lambda provider: provider.id)
def test_no_row_is_in_vain(provider: Provider) -> None:
    counted = {
        id(fact) for model in names(provider) for fact in {f.name: f for f in provider.facts if f.fits(model)}.values()
    }
    assert [f"{f.name} {f.models}" for f in provider.facts if id(f) not in counted] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"date": ""}, "has no date"),
        ({"date": '"yesterday"'}, "has no date"),
        ({"source": ""}, "has no source"),
        ({"source": '" "'}, "has no source"),
        ({"name": '"colour"'}, "'colour' is not known"),
        ({"date": "2026-11-01T00:00:00Z"}, "has no date"),
        ({"value": '"many"'}, "value must be whole number from 1"),
        ({"value": "0"}, "value must be whole number from 1"),
        ({"value": "true"}, "value must be whole number from 1"),
        ({"value": "1.5"}, "value must be whole number from 1"),
        ({"name": '"minimum"', "value": "-1"}, "value must be whole number"),
        ({"name": '"read_price"', "value": "-0.1"}, "value must be number"),
        ({"name": '"read_price"', "value": "nan"}, "value must be number"),
        ({"name": '"read_price"', "value": "inf"}, "value must be number"),
        ({"name": '"readable"', "value": '"never"'}, "'never' is none of first_byte, end, once"),
        ({"name": '"writes_at"', "value": '["input", "noon"]'}, "'noon' is none of input, output"),
        ({"name": '"writes_at"', "value": '"input"'}, "must be texts"),
        ({"name": '"invalidates"', "value": '{ model = "all" }'}, "'all' is none of tools, system, messages"),
        ({"models": '"gpt*"'}, "models must be texts"),
        ({"confirmed": '"no"'}, "confirmed must be truth"),
        ({"note": "1"}, "note must be text"),
        ({"name": '"regime"', "value": '"magic"'}, "must be regime"),
        ({"name": '"automatic"', "value": "1"}, "must be truth"),
        ({"name": '"thinking_argument"', "value": '{ keep = "yes" }'}, "must be truths"),
        ({"name": '"ttls"', "value": '"5m"'}, "must be numbers"),
        ({"name": '"diagnostics_header"', "value": '["a"]'}, "must be pair"),
        ({"name": '"diagnostics_header"', "value": '"ab"'}, "must be pair"),
        ({"colour": '"red"'}, "unknown key 'colour'"),
    ],
)
def test_a_fact_that_is_not_as_it_must_be_is_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        own(facts(tmp_path, **change))
    assert "facts.toml: house: fact 1" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "[",
        "[house]\nfact = 1",
        "[house]\nfact = [1]",
        "[house]\nplace = 1",
        '[house]\nhosts = "llm.example"',
        '[house]\ndialects = ["esperanto"]',
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "facts.toml"))):
        own(tmp_path / "facts.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        own(tmp_path / "other.toml")


def test_a_users_facts_win_and_make_new_providers(tmp_path: Path) -> None:
    file = facts(tmp_path)
    row = 'name = "read_price"\nvalue = 0.01\nsource = "our contract"\ndate = 2026-11-30'
    house = '[house]\nhosts = ["llm.example"]\n[house.sources]\n"its manual" = "https://llm.example/manual"'
    file.write_text(f"{file.read_text()}{house}\n[[openai.fact]]\n{row}\n")
    catalogue = Catalogue.load(file)
    assert catalogue.rules("house", "m").step == 16
    assert catalogue.provider("house").facts[0].source == "https://llm.example/manual"
    assert catalogue.provider_of("http://llm.example:8000/v1") == "house"
    assert catalogue.rules("openai", "gpt-5.6").read_price == 0.01
    assert catalogue.rules("openai", "gpt-5.6").minimum == 1024


@pytest.mark.parametrize(
    ("provider", "model", "rules"),
    [
        ("anthropic", "claude-opus-5", {"minimum": 512, "read_price": 0.1, "lookback": 20, "default_ttl": "5m"}),
        ("anthropic", "claude-opus-5", {"write_price": {"5m": 1.25, "1h": 2.0}, "ttls": {"5m": 300, "1h": 3600}}),
        ("anthropic", "claude-opus-5-5", {"minimum": 512, "read_price": 0.05, "input_price": 4.0}),
        ("anthropic", "claude-fable-5-1", {"minimum": 512, "read_price": 0.025, "input_price": 10.0}),
        ("anthropic", "claude-sonnet-4-6", {"minimum": 1024, "regime": Regime.MARKS, "most_marks": 4}),
        ("anthropic", "claude-opus-4-1-20250805", {"minimum": 1024, "input_price": 15.0}),
        ("anthropic", "claude-opus-4-7", {"minimum": 2048, "input_price": 5.0}),
        ("anthropic", "claude-haiku-4-5-20251001", {"minimum": 4096}),
        ("anthropic", "claude-opus-5", {"diagnostics": "diagnostics.previous_message_id"}),
        ("bedrock", "us.anthropic.claude-opus-4-7-v1:0", {"minimum": 4096, "automatic": False, "lookback": 20}),
        ("bedrock", "anthropic.claude-opus-5", {"minimum": 512, "diagnostics": ""}),
        ("bedrock", "openai.gpt-5.6-sol", {"regime": Regime.BOUNDARIES, "marker": "prompt_cache_breakpoint"}),
        ("bedrock", "openai.gpt-5.5", {"regime": Regime.PREFIX, "marker": "", "write_price": {}}),
        ("vertex", "claude-opus-4-5@20251101", {"minimum": 4096, "automatic": True}),
        ("vertex", "google/gemini-3.1-pro", {"regime": Regime.PREFIX, "marker": "", "automatic": False}),
        ("openai", "gpt-5.5", {"regime": Regime.PREFIX, "step": 128, "minimum": 1024, "write_price": {}, "marker": ""}),
        ("openai", "gpt-4o-mini", {"regime": Regime.PREFIX, "read_price": 0.5}),
        ("openai", "gpt-5.6-sol", {"regime": Regime.BOUNDARIES, "lookback": 80, "minimum": 1024}),
        ("openai", "gpt-6", {"ttls": {"30m": 1800, "12h": 43200}, "write_price": {"30m": 1.25, "12h": 2.5}}),
        ("openai", "gpt-6.1-sol", {"read_price": 0.05, "input_price": 2.0, "output_price": 10.0}),
        ("openai", "ft:gpt-4o-mini:house::1", {"regime": Regime.PREFIX, "marker": "", "diagnostics": ""}),
        ("azure", "our-deployment", {"regime": Regime.PREFIX, "marker": ""}),
        ("azure", "gpt-5.6-sol", {"regime": Regime.BOUNDARIES, "lookback": 50, "ttls": {"30m": 1800}}),
        ("deepseek", "deepseek-v4-pro", {"regime": Regime.BOUNDARIES, "currency": "CNY", "input_price": 4.5}),
        ("gemini", "gemini-2.5-flash", {"minimum": 2048, "read_price": 0.1}),
        ("gemini", "gemini-4-argon", {"minimum": 4096, "read_price": 0.05}),
        ("qwen", "qwen3-max", {"regime": Regime.MARKS, "minimum": 1024, "ttls": {"5m": 300}, "readable": "end"}),
        ("qwen", "qwen3-max", {"write_price": {"5m": 1.25}, "read_price": 0.1, "most_marks": 4, "lookback": 20}),
        ("kimi", "kimi-k2.6", {"step": 256, "ttls": {"5m": 300}, "write_price": {}}),
        ("kimi", "kimi-k3", {"step": 256, "ttls": {"5m": 300, "1h": 3600}, "write_price": {"5m": 1.0, "1h": 2.0}}),
        ("minimax", "MiniMax-M3", {"minimum": 512, "read_price": 0.2}),
        ("xai", "grok-5", {"key_header": "x-grok-conv-id"}),
        ("mistral", "any", {"key_field": "prompt_cache_key", "read_price": 0.1}),
        ("groq", "x", {"ttls": {"idle": 7200}, "read_price": 0.5}),
        ("fireworks", "any", {"key_header": "x-session-affinity", "read_price": 0.5}),
        ("openrouter", "openai/gpt-5.6", {"regime": Regime.PREFIX, "key_field": "session_id"}),
        ("openrouter", "anthropic/claude-opus-5", {"regime": Regime.MARKS, "minimum": 512}),
        ("openrouter", "qwen/qwen3-max", {"regime": Regime.MARKS, "ttls": {"5m": 300}, "default_ttl": "5m"}),
        ("vllm", "any", {"step": 16, "regime": Regime.PREFIX, "date_argument": {}, "thinking_argument": {}}),
        ("vllm", "meta-llama/Llama-3.2-3B-Instruct", {"date_argument": {"date_string": "%d %b %Y"}}),
        ("vllm", "meta-llama/Llama-3.3-70B-Instruct", {"date_argument": {}}),
        ("vllm", "Qwen/Qwen3.6-27B", {"thinking_argument": {"preserve_thinking": True}}),
        ("sglang", "zai-org/GLM-4.7-FP8", {"thinking_argument": {"clear_thinking": False}}),
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
        ("https://us-east5-aiplatform.googleapis.com", "vertex"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.moonshot.cn", "kimi"),
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


def test_the_page_lists_every_provider_and_every_name_of_a_fact() -> None:
    page = (Path(__file__).parents[3] / "docs/providers.md").read_text("utf-8")
    assert re.findall(r"^\| `.*", page, re.MULTILINE) == [
        *(f"| `{p.id}` | {p.title} | {', '.join(p.hosts) or '–'} |" for p in shipped()),
        *(f"| `{name}` | {kind.type} | {kind.meaning} |" for name, kind in FACTS.items()),
    ]
    assert all(f"`{name}`" in page for name in profiles())


def test_signs_in_a_pattern_are_shown_as_they_are(tmp_path: Path) -> None:
    out = io.StringIO()
    catalogue = Catalogue.load(facts(tmp_path, models='["gpt-[a-z]*"]', confirmed="false"))
    listing.show_one(catalogue.provider("house"), "", Console(file=out, width=160))
    assert "gpt-[a-z]*" in out.getvalue()
    assert "unconfirmed" in out.getvalue()


patterns = st.sampled_from(["*", "gpt-5*", "gpt-[5-6]", "gpt-6", "claude*"])


@given(
    st.lists(st.lists(patterns, max_size=2), max_size=6), st.sampled_from(["gpt-5", "gpt-5.5", "gpt-6", "claude", ""])
)
def test_the_last_row_that_fits_counts(rows: list[list[str]], model: str) -> None:
    day = datetime.date(2026, 11, 1)
    found = [Fact("minimum", n, "s", day, tuple(models)) for n, models in enumerate(rows, 1)]
    fits = [n for n, models in enumerate(rows, 1) if not models or any(fnmatchcase(model, p) for p in models)]
    assert Provider("p", "P", (), (), tuple(found)).rules(model).minimum == max(fits, default=0)
