"""Marks and forecasts: what providers.md says, by hand, and what must hold whatever the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.drive import fewer

from standfast.prompt.model import Entry
from standfast.providers.catalogue import Catalogue
from standfast.providers.expect import Expected, Signs, expect, gap
from standfast.providers.planner import SHORT, SURPLUS, VOLATILE, plan
from standfast.providers.rules import Blocks, Regime, Rules

CLAUDE = Catalogue.load().rules("anthropic", "claude-opus-5")
GPT = Catalogue.load().rules("openai", "gpt-5.6")
ENGINE = Catalogue.load().rules("vllm", "m")


def prompt(sizes: Sequence[float], tools: int = 2, system: int = 3, **more: object) -> Blocks:
    """Blocks of so many tokens each; all bear marks."""
    made = Blocks(tuple(accumulate(sizes)), tools, system, frozenset(range(len(sizes))))
    return replace(made, **more)  # type: ignore[arg-type]


def ask(rules: Rules, blocks: Blocks, shared: int = 0, entries: Sequence[Entry] = (), now: float = 0.0) -> Expected:
    return expect(rules, blocks, blocks.marks, shared=shared, entries=entries, now=now)


class TestExpect:
    def test_written_at_marks_only(self) -> None:
        found = ask(CLAUDE, prompt([1000] * 5, marks={2: "", 3: ""}))
        assert (found.cached, dict(found.written), found.uncached) == (0, {"5m": 4000}, 1000)
        assert [(e.blocks, e.ttl, e.until) for e in found.entries] == [(3, "5m", 300), (4, "5m", 300)]

    def test_two_lives_are_charged_apart(self) -> None:
        found = ask(CLAUDE, prompt([1000] * 5, marks={2: "1h", 3: "5m"}))
        assert dict(found.written) == {"1h": 3000, "5m": 1000}
        assert [e.until for e in found.entries] == [3600, 300]

    @pytest.mark.parametrize(("distance", "cached"), [(0, 3000), (19, 3000), (20, 0), (27, 0)])
    def test_a_read_walks_back_twenty_positions(self, distance: int, cached: int) -> None:
        blocks = prompt([1000] * 3 + [10] * 40, marks={2 + distance: ""})
        found = ask(CLAUDE, blocks, shared=3, entries=[Entry(3, "5m", 300)])
        assert found.cached == cached
        assert found.cause == (None if cached else "B2")

    @pytest.mark.parametrize(("now", "cached", "cause"), [(300, 3000, None), (301, 0, "B4")])
    def test_life_ends(self, now: float, cached: int, cause: str | None) -> None:
        found = ask(CLAUDE, prompt([1000] * 4, marks={3: ""}), shared=3, entries=[Entry(3, "5m", 300)], now=now)
        assert (found.cached, found.cause) == (cached, cause)

    def test_a_hit_begins_it_anew(self) -> None:
        found = ask(CLAUDE, prompt([1000] * 4, marks={3: ""}), shared=3, entries=[Entry(3, "5m", 300)], now=200)
        assert {e.blocks: e.until for e in found.entries} == {3: 500, 4: 500}

    def test_too_short(self) -> None:
        found = ask(CLAUDE, prompt([100] * 4, marks={3: ""}), shared=3, entries=[Entry(3, "5m", 300)])
        assert (found.cached, found.cause, found.entries, dict(found.written)) == (0, "B3", (), {})

    def test_no_mark_and_a_mark_on_what_changes(self) -> None:
        assert ask(CLAUDE, prompt([1000] * 4), shared=3).cause == "B1"
        found = ask(CLAUDE, prompt([1000] * 4, marks={3: ""}), shared=3, entries=[Entry(4, "5m", 300)])
        assert (found.cached, found.cause, found.at) == (0, "B1", 3)

    def test_the_automatic_mark_is_one(self) -> None:
        found = ask(CLAUDE, prompt([1000] * 4, automatic=""))
        assert [e.blocks for e in found.entries] == [4]

    def test_no_fall_back_to_a_prefix_without_a_boundary(self) -> None:
        first = ask(GPT, prompt([2000, 500], tools=0, system=1))
        assert [e.blocks for e in first.entries] == [2]
        second = ask(GPT, prompt([2000, 400], tools=0, system=1), shared=1, entries=first.entries)
        assert (second.cached, second.cause) == (0, "B6")
        marked = ask(GPT, prompt([2000, 500], tools=0, system=1, marks={0: ""}))
        assert ask(GPT, prompt([2000, 400], tools=0, system=1), shared=1, entries=marked.entries).cached == 2000

    def test_the_third_of_a_common_prefix_hits(self) -> None:
        deepseek = Catalogue.load().rules("deepseek", "deepseek-v4-pro")
        first = ask(deepseek, prompt([2000, 500], tools=0, system=1))
        second = ask(deepseek, prompt([2000, 400], tools=0, system=1), shared=1, entries=first.entries)
        third = ask(deepseek, prompt([2000, 300], tools=0, system=1), shared=1, entries=second.entries)
        assert (first.cached, second.cached, third.cached) == (0, 0, 2000)

    def test_prefixes_hit_in_steps(self) -> None:
        found = ask(ENGINE, prompt([100, 37, 50]), shared=2, entries=[Entry(2, "", float("inf"))])
        assert found.cached == 128
        old = Catalogue.load().rules("openai", "gpt-5.5")
        assert ask(old, prompt([1000, 300]), shared=2, entries=[Entry(2, "in_memory", 600)]).cached == 1280
        late = ask(old, prompt([1000, 300]), shared=2, entries=[Entry(2, "in_memory", 600)], now=601)
        assert (late.cached, late.cause) == (0, "B4")
        assert ask(old, prompt([900, 100]), shared=2, entries=[Entry(2, "in_memory", 600)]).cause == "B3"

    def test_no_cache(self) -> None:
        found = ask(Rules("x", "m", Regime.NONE), prompt([10, 10]), shared=2)
        assert (found.cached, found.uncached, found.entries) == (0, 20, ())


class TestGap:
    EXPECTED = Expected(cached=5000.0)
    BLOCKS = prompt([1000] * 8)

    @pytest.mark.parametrize(
        ("rules", "cached", "signs", "cause"),
        [
            (CLAUDE, 4990, Signs(), None),
            (CLAUDE, 0, Signs(), "I3"),
            (CLAUDE, 3000, Signs(), "I3"),
            (ENGINE, 0, Signs(), "I3"),
            (ENGINE, 20, Signs(new_day=True), "E2"),
            (ENGINE, 4000, Signs(thinking=4), "E1"),
            (ENGINE, 4000, Signs(answer=4), "E3"),
            (ENGINE, 4500, Signs(), "E4"),
            (ENGINE, 4990, Signs(), None),
        ],
    )
    def test_named(self, rules: Rules, cached: float, signs: Signs, cause: str | None) -> None:
        found = gap(rules, self.EXPECTED, self.BLOCKS, cached, signs, 64.0)
        assert (found.cause if found else None) == cause


class TestPlan:
    def of(self, blocks: Blocks, rules: Rules = CLAUDE, shared: int = 0, entries: Sequence[Entry] = ()) -> list[int]:
        return sorted(plan(rules, blocks, shared=shared, entries=entries, now=0.0).places)

    def test_the_first_request(self) -> None:
        assert self.of(prompt([1000] * 5)) == [1, 2, 4]

    def test_the_previous_tail_stays_marked(self) -> None:
        assert self.of(prompt([1000] * 40), shared=5, entries=[Entry(5, "5m", 300)])[:3] == [2, 4, 19]
        assert self.of(prompt([1000] * 9), shared=5, entries=[Entry(5, "5m", 300)]) == [1, 2, 4, 8]

    def test_nothing_behind_what_is_volatile(self) -> None:
        assert self.of(prompt([1000] * 6, volatile=frozenset({2}))) == [1]
        found = plan(CLAUDE, prompt([1000] * 6, volatile=frozenset({2}), marks={4: ""}), shared=0, entries=(), now=0)
        assert found.dropped == ((4, VOLATILE),)

    def test_nothing_below_the_minimum(self) -> None:
        assert self.of(prompt([100] * 5)) == []
        found = plan(CLAUDE, prompt([100] * 5 + [1000], marks={1: ""}), shared=0, entries=(), now=0)
        assert (sorted(found.places), found.dropped) == ([5], ((1, SHORT),))

    def test_more_marks_than_are_taken(self) -> None:
        found = plan(CLAUDE, prompt([1000] * 9, marks=dict.fromkeys(range(3, 8), "")), shared=0, entries=(), now=0)
        assert len(found.places) == 4
        assert 8 in found.places
        assert {why for _, why in found.dropped} == {SURPLUS}

    def test_the_automatic_mark_takes_one(self) -> None:
        assert self.of(prompt([1000] * 5, automatic="")) == [1, 2]

    def test_a_long_life_stands_in_front(self) -> None:
        blocks = prompt([1000] * 6, marks={4: "1h"})
        found = plan(CLAUDE, blocks, shared=0, entries=(), now=0)
        assert [found.places[b] for b in sorted(found.places)] == ["1h", "1h", "1h", ""]

    @pytest.mark.parametrize(("held", "late", "life"), [(5, 0.2, "1h"), (5, 0.05, ""), (3, 0.2, ""), (5, 0.0, "")])
    def test_the_long_life_is_asked_for_where_it_pays(self, held: int, late: float, life: str) -> None:
        """0.75 of what is written more, against 1.15 of all of it when the next request is late."""
        entries = [Entry(held, "5m", 300)]
        asked = plan(CLAUDE, prompt([1000] * 6), shared=held, entries=entries, now=0, late=late)
        assert set(asked.places.values()) == {life}

    def test_boundaries_mark_the_stable_end(self) -> None:
        assert self.of(prompt([2000, 500, 500], tools=0, system=1), GPT) == [0]

    def test_prefix_caches_need_none(self) -> None:
        assert self.of(prompt([1000] * 5, marks={3: ""}), ENGINE) == [3]


sizes = st.lists(st.integers(1, 3000), min_size=1, max_size=60)


@fewer(10)
@given(sizes, st.data())
def test_a_plan_is_lawful_and_stands(tokens: list[int], data: st.DataObject) -> None:
    count = len(tokens)
    blocks = Blocks(
        tuple(accumulate(map(float, tokens))),
        tools := data.draw(st.integers(0, count)),
        data.draw(st.integers(tools, count)),
        frozenset(data.draw(st.sets(st.integers(0, count - 1)))),
        marks=data.draw(st.dictionaries(st.integers(0, count - 1), st.sampled_from(["", "5m", "1h"]), max_size=5)),
        automatic=data.draw(st.none() | st.just("")),
        volatile=frozenset(data.draw(st.sets(st.integers(0, count - 1), max_size=1))),
    )
    shared = data.draw(st.integers(0, count))
    entries = [Entry(n, "5m", 300.0) for n in data.draw(st.sets(st.integers(1, count), max_size=3))]
    found = plan(CLAUDE, blocks, shared=shared, entries=entries, now=0.0)
    assert len(found.places) + (blocks.automatic is not None) <= 4
    assert set(found.places) <= blocks.markable
    assert all(blocks.tokens(b + 1) >= CLAUDE.minimum for b in found.places)
    assert all(b < min(blocks.volatile, default=count) for b in found.places)
    lives = [CLAUDE.ttls.get(found.places[b], CLAUDE.life) for b in sorted(found.places)]
    assert lives == sorted(lives, reverse=True)
    assert set(found.reasons) == set(found.places)
    assert {b for b, _ in found.dropped} == set(blocks.marks) - set(found.places)
    again = plan(CLAUDE, replace(blocks, marks=found.places), shared=shared, entries=entries, now=0.0)
    assert dict(again.places) == dict(found.places)


@fewer(10)
@given(sizes, st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_what_only_grows_hits_all_it_has_sent(first: list[int], growth: list[int], tools: int, system: int) -> None:
    tokens = [1000.0, *map(float, first)]
    entries: tuple[Entry, ...] = ()
    shared = 0
    for turn, more in enumerate([0, *growth]):
        tokens += [50.0] * more
        end = min(tools, len(tokens))
        blocks = Blocks(tuple(accumulate(tokens)), end, min(end + system, len(tokens)), frozenset(range(len(tokens))))
        marks = plan(CLAUDE, blocks, shared=shared, entries=entries, now=float(turn))
        found = expect(CLAUDE, blocks, marks.places, shared=shared, entries=entries, now=float(turn))
        assert found.cached == blocks.tokens(shared)
        assert found.cached + sum(found.written.values()) + found.uncached == pytest.approx(sum(tokens))
        entries, shared = found.entries, len(tokens)


def _cost(rules: Rules, chains: Sequence[Sequence[float]], choices: Sequence[Sequence[int]]) -> float:
    """What a growing session costs with these marks, in input tokens."""
    entries: tuple[Entry, ...] = ()
    total, shared = 0.0, 0
    for tokens, marks in zip(chains, choices, strict=True):
        blocks = prompt(tokens, 1, 2)
        found = expect(rules, blocks, dict.fromkeys(marks, ""), shared=shared, entries=entries, now=0.0)
        total += found.cached * rules.read_price + found.uncached
        total += sum(count * rules.write_price[life] for life, count in found.written.items())
        entries, shared = found.entries, len(tokens)
    return total


@fewer(25)
@given(st.lists(st.integers(1, 2), min_size=2, max_size=2), st.lists(st.integers(200, 3000), min_size=6, max_size=6))
def test_no_other_marks_are_much_cheaper(growth: list[int], tokens: list[int]) -> None:
    """Against every choice of up to four marks in each of three turns. The last turn's own marks are for a fourth,
    which does not come: that much, a quarter of what the last turn wrote, the planner may pay more."""
    ends = [2, 2 + growth[0], 2 + sum(growth)]
    chains = [list(map(float, tokens[:end])) for end in ends]
    planned: list[list[int]] = []
    entries: tuple[Entry, ...] = ()
    shared = 0
    for chain in chains:
        blocks = prompt(chain, 1, 2)
        marks = plan(CLAUDE, blocks, shared=shared, entries=entries, now=0.0).places
        entries = expect(CLAUDE, blocks, marks, shared=shared, entries=entries, now=0.0).entries
        planned.append(sorted(marks))
        shared = len(chain)
    choices = [[c for n in range(3) for c in combinations(range(len(chain)), n)] for chain in chains]
    best = min(_cost(CLAUDE, chains, [a, b, c]) for a in choices[0] for b in choices[1] for c in choices[2])
    ours = _cost(CLAUDE, chains, planned)
    assert ours <= best + 0.25 * sum(chains[-1][ends[1] :]) + 0.25 * sum(chains[0]) + 1e-6
