"""The simulated provider by hand, and against the forecast, which has matching code of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.lab.provider import Faults, Provider
from standfast.lab.reading import Refused, read
from standfast.providers.catalogue import Catalogue

CATALOGUE = Catalogue.load()
MARK = {"type": "ephemeral"}
LONG = "word " * 1200


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def provider(name: str, **more: Any) -> tuple[Provider, Clock]:
    clock = Clock()
    return Provider(lambda model: CATALOGUE.rules(name, model), now=clock, **more), clock


def claude(*texts: str, marks: tuple[int, ...] = (), system: str = LONG, **more: Any) -> bytes:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    for at in marks:
        parts[at]["cache_control"] = MARK
    told = {"model": "claude-opus-5", "system": system, "messages": [{"role": "user", "content": parts}], **more}
    return json.dumps(told).encode()


def chat(*texts: str, model: str = "gpt-5.5", **more: Any) -> bytes:
    roles = ("system", "user", "assistant")
    messages = [{"role": roles[min(i, 1 + (i + 1) % 2)], "content": text} for i, text in enumerate(texts)]
    return json.dumps({"model": model, "messages": messages, **more}).encode()


def test_keys_are_what_a_provider_renders() -> None:
    same = [
        b'{"model":"m","system":"S","messages":[{"role":"user","content":"a"}]}',
        b'{ "messages" : [{"content":[{"type":"text","text":"\\u0061"}],"role":"user"}], '
        b'"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"model":"m","max_tokens":3}',
    ]
    first, second = ([b.key for b in read(body, "anthropic").blocks] for body in same)
    assert first == second
    schema = b'{"model":"m","tools":[{"name":"t","input_schema":{"a":1,"b":2}}],"messages":[]}'
    other = schema.replace(b'"a":1,"b":2', b'"b":2,"a":1')
    assert read(schema, "anthropic").blocks != read(other, "anthropic").blocks


def test_written_at_marks_read_by_the_next() -> None:
    sim, clock = provider("anthropic")
    first = sim.complete(claude("one", "two", marks=(0,)), "anthropic").body["usage"]
    assert first["cache_creation_input_tokens"] > 1000
    assert first["cache_read_input_tokens"] == 0
    second = sim.complete(claude("one", "three", marks=(0,)), "anthropic").body["usage"]
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    clock.now = 299.0
    assert sim.complete(claude("one", marks=(0,)), "anthropic").served.cached
    clock.now = 598.0
    assert sim.complete(claude("one", marks=(0,)), "anthropic").served.cached
    clock.now = 899.0
    assert not sim.complete(claude("one", marks=(0,)), "anthropic").served.cached


@pytest.mark.parametrize(("more", "hits"), [(18, True), (19, True), (20, False)])
def test_the_look_back(more: int, hits: bool) -> None:
    sim, _ = provider("anthropic")
    sim.complete(claude("a", marks=(0,)), "anthropic")
    texts = ["a", *(str(n) for n in range(more))]
    assert bool(sim.complete(claude(*texts, marks=(more,)), "anthropic").served.cached) is hits


def test_an_entry_is_readable_once_the_response_has_begun() -> None:
    sim, _ = provider("anthropic")
    body = claude("a", marks=(0,))
    first = sim.serve(body, "anthropic")
    assert sim.serve(body, "anthropic").served.cached == 0
    sim.begin(first)
    assert sim.serve(body, "anthropic").served.cached > 0
    assert sim.serve(body, "anthropic", tenant="another").served.cached == 0


def test_refusals() -> None:
    sim, _ = provider("anthropic")
    for body in (
        claude(*"abcde", marks=(0, 1, 2, 3, 4)),
        claude("", marks=(0,)),
        claude("a", cache_control={"type": "ephemeral", "ttl": "1d"}),
        b"[]",
        b"{",
    ):
        with pytest.raises(Refused):
            sim.serve(body, "anthropic")
    late = json.loads(claude("a", "b", marks=(0, 1)))
    late["messages"][0]["content"][1]["cache_control"] = {**MARK, "ttl": "1h"}
    with pytest.raises(Refused, match="longer ttl"):
        sim.serve(json.dumps(late).encode(), "anthropic")


def test_prefixes_in_steps_and_below_the_minimum() -> None:
    sim, clock = provider("openai")
    sim.complete(chat(LONG, "a"), "openai_chat")
    hit = sim.complete(chat(LONG, "b"), "openai_chat").served.cached
    assert hit >= 1024
    assert hit % 128 == 0
    assert sim.complete(chat("short", "a"), "openai_chat").served.cached == 0
    assert sim.complete(chat("short", "a"), "openai_chat").served.cached == 0
    clock.now = 601.0
    assert sim.complete(chat(LONG, "c"), "openai_chat").served.cached == 0


def test_boundaries_have_no_fall_back() -> None:
    sim, _ = provider("openai")
    first = sim.complete(chat(LONG, "a", model="gpt-5.6"), "openai_chat")
    assert first.body["usage"]["prompt_tokens_details"]["cache_write_tokens"] > 1000
    assert sim.complete(chat(LONG, "b", model="gpt-5.6"), "openai_chat").served.cached == 0
    assert sim.complete(chat(LONG, "a", "x", "more", model="gpt-5.6"), "openai_chat").served.cached > 1000
    explicit = chat(LONG, "z", model="gpt-5.6", prompt_cache_options={"mode": "explicit"})
    assert sim.complete(explicit, "openai_chat").served.pending == []


def test_the_third_of_a_common_prefix_hits() -> None:
    sim, _ = provider("deepseek")
    found = [sim.complete(chat(LONG, text, model="deepseek-v4-pro"), "openai_chat").served.cached for text in "abc"]
    assert found[:2] == [0, 0]
    assert found[2] > 1000
    usage = sim.complete(chat(LONG, "c", model="deepseek-v4-pro"), "openai_chat").body["usage"]
    assert usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"] == usage["prompt_tokens"]


def test_machines_are_chosen_by_opening_and_key() -> None:
    sim, _ = provider("openai", machines=8)
    for key in ("k1", "k2", "k3", "k4"):
        body = chat(LONG, "a", prompt_cache_key=key)
        sim.complete(body, "openai_chat")
        assert sim.complete(body, "openai_chat").served.cached
    lost = [sim.complete(chat(LONG, "a", prompt_cache_key=f"n{n}"), "openai_chat").served.cached for n in range(8)]
    assert 0 in lost
    grok, _ = provider("xai", machines=8)
    scattered = [grok.complete(chat(LONG, "a"), "openai_chat").served.cached for _ in range(8)]
    sticky, _ = provider("xai", machines=8)
    kept = [
        sticky.complete(chat(LONG, "a"), "openai_chat", headers={"x-grok-conv-id": "c"}).served.cached for _ in range(8)
    ]
    assert kept.count(0) == 1 < scattered.count(0)


def test_pressure_and_faults() -> None:
    for name, body in (("anthropic", claude("a", marks=(0,))), ("openai", chat(LONG, "a"))):
        dialect = "anthropic" if name == "anthropic" else "openai_chat"
        small, clock = provider(name, capacity=2000)
        small.complete(body, dialect)
        clock.now = 1.0
        small.complete(body.replace(b"word", b"verb"), dialect)
        assert small.complete(body, dialect).served.cached == 0
        evicting, _ = provider(name, faults=Faults(evicted=1.0))
        assert [evicting.complete(body, dialect).served.cached for _ in range(3)] == [0, 0, 0]
    untold, _ = provider("anthropic", faults=Faults(untold=1.0))
    assert "cache_read_input_tokens" not in untold.complete(claude("a"), "anthropic").body["usage"]
    assert Provider(lambda model: CATALOGUE.rules("vllm", model), faults=Faults(overloaded=1.0)).overloaded()


def test_findings() -> None:
    sim, _ = provider("anthropic")
    id = sim.complete(claude("a", diagnostics={"previous_message_id": None}), "anthropic").body["id"]
    asked = {"previous_message_id": id}
    same = sim.complete(claude("a", "b", diagnostics=asked), "anthropic").body
    assert same["diagnostics"] is None
    other = sim.complete(claude("a", system="another", diagnostics=asked), "anthropic").body
    assert other["diagnostics"]["cache_miss_reason"]["type"] == "system_changed"
    lost = sim.complete(claude("a", diagnostics={"previous_message_id": "msg_x"}), "anthropic").body
    assert lost["diagnostics"]["cache_miss_reason"]["type"] == "previous_message_not_found"
    gpt, _ = provider("openai")

    def ask(text: str, id: str) -> Any:
        options = {"comparison_response_id": id}
        body = {"model": "gpt-5.6", "input": [{"role": "user", "content": text}], "prompt_cache_options": options}
        return gpt.complete(json.dumps(body).encode(), "openai_responses").body

    first = ask("a", "none")
    assert first["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
    assert ask("a", first["id"])["prompt_cache_diagnostics"] == {"type": "cache_hit"}
    assert ask("b", first["id"])["prompt_cache_diagnostics"]["reason"] == "input_changed"


bodies = st.lists(st.text("ab", max_size=3).map(lambda t: t + LONG), min_size=1, max_size=4)


@given(st.sampled_from(["openai", "deepseek", "vllm", "llama.cpp", "groq"]), bodies)
def test_never_more_than_the_prompt_and_nothing_across_tenants(name: str, texts: list[str]) -> None:
    sim, _ = provider(name)
    body = chat(*texts, model="deepseek-v4-pro" if name == "deepseek" else "gpt-5.5")
    first = sim.complete(body, "openai_chat").served
    again = sim.complete(body, "openai_chat").served
    assert first.cached == 0
    assert 0 < again.cached <= again.total == first.total
    assert again.total - again.cached < max(128, sim._rules_of("gpt-5.5").step)
    assert sim.complete(body, "openai_chat", tenant="x").served.cached == 0
