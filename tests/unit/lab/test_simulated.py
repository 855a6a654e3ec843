"""When and where what was written can be read, and what always holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from regimes import BOUNDARIES, CATALOGUE, DEEPSEEK, MARK, MARKS, PREFIX, Sim, said, text

from standfast.lab.reading import read
from standfast.lab.simulated import Faults, Provider
from standfast.providers.rules import Regime, Rules


class TestTime:
    """When what was written can be read."""

    @pytest.mark.parametrize(
        ("readable", "seen"), [("once", [10, 10, 10]), ("first_byte", [0, 10, 10]), ("end", [0, 0, 10])]
    )
    @pytest.mark.parametrize("regime", [Regime.MARKS, Regime.PREFIX, Regime.BOUNDARIES])
    def test_siblings_under_way(self, regime: Regime, readable: str, seen: list[int]) -> None:
        rules = Rules("p", "m", regime, marker="cache_control", readable=readable, writes_at=("input",))
        provider = Provider(lambda model: rules, now=lambda: 0.0)
        body = json.dumps({"model": "m", "messages": said(10, marks={0: MARK})}).encode()
        first = provider.serve(body, "anthropic")
        cached = [provider.serve(body, "anthropic").served.cached]
        provider.begin(first)
        cached.append(provider.serve(body, "anthropic").served.cached)
        provider.finish(first)
        cached.append(provider.serve(body, "anthropic").served.cached)
        assert cached == seen


class TestPlace:
    """Machines, pressure, faults."""

    def test_the_opening_and_the_key_choose_a_machine(self) -> None:
        sim = Sim(CATALOGUE.rules("openai", "gpt-5.5"), "openai_chat", machines=16)
        keys = [f"k{n}" for n in range(12)]
        for key in keys:
            sim.send(messages=said(2048), prompt_cache_key=key)
        assert all(sim.cached(messages=said(2048), prompt_cache_key=key) for key in keys)
        assert len(sim.provider._caches) > 1
        # Beyond the first 256 tokens nothing counts.
        changed = said(256, 2048, letters="az")
        before = len(sim.provider._caches)
        sim.send(messages=changed, prompt_cache_key="k0")
        sim.send(messages=said(256, 2048, letters="ay"), prompt_cache_key="k0")
        assert len(sim.provider._caches) <= before + 1

    def test_a_key_bears_fifteen_a_minute(self) -> None:
        sim = Sim(CATALOGUE.rules("openai", "gpt-5.5"), "openai_chat", machines=4)
        cached = [sim.cached(messages=said(2048), prompt_cache_key="k") for _ in range(31)]
        assert [n for n, count in enumerate(cached) if not count] == [0, 15, 30]  # each a machine that is new to it
        fresh = Sim(CATALOGUE.rules("openai", "gpt-5.5"), "openai_chat", machines=4)
        cached = []
        for fresh.now in (0.0, 61.0, 122.0):
            cached += [fresh.cached(messages=said(2048), prompt_cache_key="k") for _ in range(14)]
        assert cached.count(0) == 1

    def test_without_a_key_nobody_knows_the_machine(self) -> None:
        for headers, misses in (({"x-grok-conv-id": "c"}, 1), ({}, 4)):
            sim = Sim(CATALOGUE.rules("xai", "grok-4"), "openai_chat", machines=4, seed=1)
            cached = [sim.send("", headers, messages=said(2048)).served.cached for _ in range(30)]
            assert cached.count(0) == misses

    def test_pressure_takes_the_least_recently_used(self) -> None:
        sim = Sim(MARKS, "anthropic", capacity=250)
        one, two, three = ({"messages": said(100, letters=c, marks={0: MARK})} for c in "abc")
        sim.send(**one)
        sim.send(**two)
        assert sim.cached(**one) == 100
        sim.send(**three)
        assert (sim.cached(**one), sim.cached(**three)) == (100, 100)
        assert sim.cached(**two) == 0

    def test_pressure_takes_leaves_before_what_they_stand_on(self) -> None:
        sim = Sim(Rules("p", "m"), "openai_chat", capacity=340)
        sim.send(messages=said(100, 50))
        sim.send(messages=said(200, letters="q"))
        assert 250 < sim.provider._caches[("p/m", 0)].held <= 340
        assert sim.cached(messages=said(100, 50, letters="az")) >= 100

    def test_faults_are_seeded(self) -> None:
        def run(seed: int) -> list[int]:
            sim = Sim(Rules("p", "m"), "openai_chat", faults=Faults(evicted=0.3, lost=0.5), seed=seed)
            return [sim.cached(messages=said(100, 10, letters="a" + letter)) for letter in "abcdefghij" * 3]

        assert run(1) == run(1)
        assert 0 in run(1)[1:]
        assert run(1) != run(2)

    def test_only_what_asked_is_compared_with_and_only_by_its_tenant(self) -> None:
        sim = Sim(CATALOGUE.rules("anthropic", "claude-opus-5"), "anthropic")

        def found(id: str | None, tenant: str = "") -> Any:
            asked = {"previous_message_id": id}
            return sim.send(tenant, messages=said(10), diagnostics=asked).body["diagnostics"]

        lost = {"cache_miss_reason": {"type": "previous_message_not_found"}}
        assert found(sim.send(messages=said(10)).body["id"]) == lost
        first = sim.send(messages=said(10), diagnostics={"previous_message_id": None}).body["id"]
        assert found(first) is None
        assert found(first, "another") == lost

    def test_usage_without_the_fields_of_the_cache(self) -> None:
        untold = Faults(untold=1.0)
        assert set(Sim(MARKS, "anthropic", faults=untold).send(messages=said(10)).body["usage"]) == {
            "input_tokens",
            "output_tokens",
        }
        chat = Sim(PREFIX, "openai_chat", faults=untold).send(messages=said(10)).body["usage"]
        assert set(chat) == {"prompt_tokens", "completion_tokens", "total_tokens"}
        responses = Sim(PREFIX, "openai_responses", faults=untold).send(input="a").body["usage"]
        assert "input_tokens_details" not in responses
        assert (
            "prompt_tokens_details"
            not in Sim(Rules("p", "m", Regime.NONE), "openai_chat").send(messages=[]).body["usage"]
        )


ALL = [
    (MARKS, "anthropic"),
    (PREFIX, "openai_chat"),
    (Rules("p", "m", step=16), "openai_chat"),
    (BOUNDARIES, "openai_chat"),
    (DEEPSEEK, "openai_chat"),
]
conversations = st.lists(st.tuples(st.integers(12, 1500), st.sampled_from("abc")), min_size=1, max_size=6)


def _messages(sizes: list[tuple[int, str]]) -> list[dict[str, Any]]:
    roles = ["user", "assistant"] * len(sizes)
    parts = [
        {"type": "text", "text": text(n, c, r), "cache_control": MARK} for (n, c), r in zip(sizes, roles, strict=False)
    ]
    for part in parts[:-1]:
        del part["cache_control"]
    return [{"role": role, "content": [part]} for role, part in zip(roles, parts, strict=False)]


@given(st.sampled_from(ALL), st.lists(conversations, min_size=1, max_size=6))
def test_never_more_than_the_prompt_and_usage_adds_up(case: tuple[Rules, str], talks: list[Any]) -> None:
    sim = Sim(*case)
    for sizes in talks:
        served = sim.send(messages=_messages(sizes)).served
        assert 0 <= served.cached <= served.total
        assert served.cached + sum(served.written.values()) <= served.total
        assert served.cached == 0 or served.cached >= case[0].minimum


@given(st.sampled_from(ALL), conversations)
def test_the_same_request_hits_all_that_was_written_and_no_other_tenant_does(
    case: tuple[Rules, str], sizes: list[tuple[int, str]]
) -> None:
    rules, dialect = case
    sim = Sim(rules, dialect)
    first = sim.send(messages=_messages(sizes)).served
    again = sim.send(messages=_messages(sizes)).served
    if rules.regime is Regime.PREFIX:
        wanted = first.total // rules.step * rules.step if first.total >= rules.minimum else 0
    elif rules.marker == "prompt_cache_breakpoint":
        last = read(json.dumps({"messages": _messages(sizes)}).encode(), dialect).blocks[-1]
        wanted = first.total - (last.tokens if last.closes == "assistant" else 0)
    else:
        wanted = first.total if first.total >= rules.minimum else 0
    assert again.cached == wanted
    assert again.written == {}
    assert sim.send("another", messages=_messages(sizes)).served.cached == 0


@given(st.sampled_from(ALL), conversations, st.integers(0, 5))
def test_nothing_behind_a_change_is_served(case: tuple[Rules, str], sizes: list[tuple[int, str]], at: int) -> None:
    sim = Sim(*case)
    sim.send(messages=_messages(sizes))
    at %= len(sizes)
    changed = [(n, "z" if i == at else c) for i, (n, c) in enumerate(sizes)]
    blocks = read(json.dumps({"messages": _messages(changed)}).encode(), case[1]).blocks
    same = sum(block.tokens for block in blocks[:at])
    # A block's head is the same: the role and what stands in front of the text.
    assert sim.cached(messages=_messages(changed)) <= same + 12
