"""Anthropic's rules, by hand and with exact sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from regimes import CATALOGUE, HOUR, MARK, MARKS, Sim, said

from standfast.lab.reading import Refused, read

IMAGE = {"role": "user", "content": [{"type": "image", "source": {}}]}
CITED = {"role": "user", "content": [{"type": "document", "source": {}, "citations": {"enabled": True}}]}


class TestMarks:
    """Anthropic."""

    def test_usage_adds_up_and_the_next_reads_what_this_wrote(self) -> None:
        sim = Sim(MARKS, "anthropic")
        first = sim.send(messages=said(100, 50, marks={0: MARK})).body["usage"]
        assert (first["input_tokens"], first["cache_creation_input_tokens"], first["cache_read_input_tokens"]) == (
            50,
            100,
            0,
        )
        second = sim.send(messages=said(100, 50, 25, marks={1: MARK})).body["usage"]
        assert (second["input_tokens"], second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (
            25,
            50,
            100,
        )

    def test_writes_happen_only_at_marks(self) -> None:
        sim = Sim(MARKS, "anthropic")
        sim.send(messages=said(100, 100, marks={1: MARK}))
        assert sim.cached(messages=said(100, 50, marks={1: MARK})) == 0  # the first block alone was never written

    def test_a_read_needs_a_mark(self) -> None:
        sim = Sim(MARKS, "anthropic")
        sim.send(messages=said(100, marks={0: MARK}))
        assert sim.cached(messages=said(100)) == 0

    @pytest.mark.parametrize(("blocks", "cached"), [(20, 10), (21, 0)])
    def test_the_look_back_is_twenty_positions_with_the_marked_one(self, blocks: int, cached: int) -> None:
        sim = Sim(MARKS, "anthropic")
        sim.send(messages=said(10, marks={0: MARK}))
        assert sim.cached(messages=said(*[10] * blocks, marks={blocks - 1: MARK})) == cached

    def test_a_second_mark_has_a_look_back_of_its_own(self) -> None:
        sim = Sim(MARKS, "anthropic")
        sim.send(messages=said(10, marks={0: MARK}))
        assert sim.cached(messages=said(*[10] * 40, marks={19: MARK, 39: MARK})) == 10

    def test_four_marks_and_the_automatic_one_is_among_them(self) -> None:
        sim = Sim(MARKS, "anthropic")
        four = dict.fromkeys(range(4), MARK)
        sim.send(messages=said(*[10] * 5, marks=four))
        with pytest.raises(Refused, match="maximum of 4"):
            sim.send(messages=said(*[10] * 5, marks={**four, 4: MARK}))
        with pytest.raises(Refused, match="maximum of 4"):
            sim.send(messages=said(*[10] * 5, marks=four), cache_control=MARK)
        sim.send(messages=said(*[10] * 4, marks=four), cache_control=MARK)  # it falls on a marked block
        with pytest.raises(Refused, match="another ttl"):
            sim.send(messages=said(10, marks={0: MARK}), cache_control=HOUR)

    def test_the_automatic_mark_is_on_the_last_block_that_can_be_cached(self) -> None:
        sim = Sim(MARKS, "anthropic")
        thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
        assert sim.send(messages=[*said(10), thinking], cache_control=MARK).served.written == {"5m": 10}

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": ""},
        ],
    )
    def test_blocks_that_bear_no_mark(self, part: dict[str, Any]) -> None:
        with pytest.raises(Refused, match="cannot be set"):
            Sim(MARKS, "anthropic").send(messages=[{"role": "assistant", "content": [{**part, "cache_control": MARK}]}])

    def test_deferred_tools_bear_no_mark_and_are_no_part_of_the_prompt(self) -> None:
        sim = Sim(MARKS, "anthropic")
        deferred = {"name": "late", "input_schema": {}, "defer_loading": True}
        with pytest.raises(Refused, match="defer_loading"):
            sim.send(tools=[{**deferred, "cache_control": MARK}], messages=said(10))
        sim.send(messages=said(10, marks={0: MARK}))
        assert sim.cached(tools=[deferred], messages=said(10, marks={0: MARK})) == 10

    def test_an_hour_stands_in_front_of_five_minutes(self) -> None:
        sim = Sim(MARKS, "anthropic")
        told = sim.send(messages=said(10, 20, marks={0: HOUR, 1: MARK})).body["usage"]["cache_creation"]
        assert told == {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10}
        with pytest.raises(Refused, match="longer ttl"):
            sim.send(messages=said(10, 20, marks={0: MARK, 1: HOUR}))
        with pytest.raises(Refused, match="ttl must be"):
            sim.send(messages=said(10, marks={0: {**MARK, "ttl": "2h"}}))

    def test_a_life_ends_and_a_hit_begins_it_anew(self) -> None:
        sim = Sim(MARKS, "anthropic")
        five = {"messages": said(10, marks={0: MARK})}
        sim.send(**five)
        for at, cached in ((300.0, 10), (600.0, 10), (900.1, 0)):
            sim.now = at
            assert sim.cached(**five) == cached
        sim.send(messages=said(20, marks={0: HOUR}))
        sim.now += 3600.0
        assert sim.cached(messages=said(20, marks={0: HOUR})) == 20

    def test_an_entry_that_is_found_from_a_later_mark_lives_on(self) -> None:
        sim = Sim(MARKS, "anthropic")
        sim.send(messages=said(10, marks={0: MARK}))
        for at, letters in ((200.0, "ax"), (450.0, "ay")):
            sim.now = at
            assert sim.cached(messages=said(10, 20, letters=letters, marks={1: MARK})) == 10

    def test_the_longer_life_stays(self) -> None:
        sim = Sim(MARKS, "anthropic")
        for mark in (HOUR, MARK):
            sim.send(messages=said(10, marks={0: mark}))
        sim.now = 3000.0
        assert sim.cached(messages=said(10, marks={0: MARK})) == 10

    @pytest.mark.parametrize(
        ("model", "least"),
        [
            ("claude-opus-5", 512),
            ("claude-opus-5-5", 512),
            ("claude-sonnet-5-5", 512),
            ("claude-haiku-5-5", 512),
            ("claude-sonnet-4-5", 1024),
            ("claude-sonnet-4-6", 1024),
            ("claude-sonnet-5", 1024),
            ("claude-opus-4-8", 1024),
            ("claude-opus-4-7", 2048),
            ("claude-opus-4-5", 4096),
            ("claude-opus-4-6", 4096),
            ("claude-haiku-4-5", 4096),
        ],
    )
    def test_the_minimum(self, model: str, least: int) -> None:
        sim = Sim(CATALOGUE.rules("anthropic", model), "anthropic")
        assert sim.send(messages=said(least - 1, marks={0: MARK})).served.written == {}
        assert sim.send(messages=said(least, marks={0: MARK})).served.written == {"5m": least}

    def test_prewarming(self) -> None:
        sim = Sim(MARKS, "anthropic")
        body = sim.send(messages=said(10, marks={0: MARK}), max_tokens=0).body
        assert (body["content"], body["stop_reason"], body["usage"]["output_tokens"]) == ([], "max_tokens", 0)
        assert sim.cached(messages=said(10, marks={0: MARK}), max_tokens=9) == 10

    @pytest.mark.parametrize(
        ("change", "kept"),
        [
            ({"tools": [{"name": "other", "input_schema": {}}]}, []),
            ({"model": "claude-opus-4-8"}, []),
            ({"tools": "web_search"}, ["tools"]),
            ({"more": CITED}, ["tools"]),
            ({"speed": "fast"}, ["tools"]),
            ({"system": "other"}, ["tools"]),
            ({"tool_choice": {"type": "any"}}, ["tools", "system"]),
            ({"more": IMAGE}, ["tools", "system"]),
            ({"thinking": {"type": "adaptive"}}, ["tools", "system"]),
            ({"output_config": {"effort": "low"}}, ["tools", "system"]),
            ({}, ["tools", "system", "messages"]),
        ],
    )
    def test_what_invalidates_what(self, change: dict[str, Any], kept: list[str]) -> None:
        rules = CATALOGUE.rules("anthropic", "claude-opus-5")
        sim = Sim(rules, "anthropic")
        tool = {"name": "t", "description": "d" * 4000, "input_schema": {}, "cache_control": MARK}
        system = [{"type": "text", "text": "s" * 4000, "cache_control": MARK}]
        body = {"tools": [tool], "system": system, "messages": said(1000, marks={0: MARK})}
        total = sim.send(**body).served.total
        changed = {**body, **change}
        if change.get("tools") == "web_search":
            changed["tools"] = [tool, {"type": "web_search_20250305", "name": "web_search"}]
        if change.get("system"):
            changed["system"] = [{**system[0], "text": "other" * 4000}]
        if more := changed.pop("more", None):
            changed["messages"] = [*body["messages"], more]
        blocks = read(json.dumps({"model": "m", **body}).encode(), "anthropic").blocks
        wanted = sum(block.tokens for block in blocks if block.tier in kept)
        assert sim.cached(**changed) == wanted
        assert wanted <= total
