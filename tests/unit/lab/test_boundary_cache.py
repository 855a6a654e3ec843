"""OpenAI from 5.6 on, and DeepSeek, by hand and with exact sizes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from regimes import BOUNDARIES, BREAK, CATALOGUE, DEEPSEEK, Sim, said, text

from standfast.lab.reading import Refused, read
from standfast.providers.rules import Rules


class TestBoundaries:
    """OpenAI from 5.6 on."""

    def chat(
        self, *tokens: int, marks: dict[int, Any] | None = None, letters: str = "abcdefgh"
    ) -> list[dict[str, Any]]:
        """A conversation: system, user, assistant, user…"""
        roles = ["system", *["user", "assistant"] * len(tokens)]
        messages: list[dict[str, Any]] = []
        for n, size in enumerate(tokens):
            part: dict[str, Any] = {"type": "text", "text": text(size, letters[n], roles[n])}
            if marks and n in marks:
                part["prompt_cache_breakpoint"] = marks[n]
            messages.append({"role": roles[n], "content": [part]})
        return messages

    def test_no_fall_back_to_an_unmarked_shorter_prefix(self) -> None:
        sim = Sim(BOUNDARIES, "openai_chat")
        sim.send(messages=self.chat(2000, 10))
        assert sim.cached(messages=self.chat(2000, 10, letters="ax")) == 0
        assert sim.cached(messages=self.chat(2000, 10, 10, 10)) == 2010  # the end of an earlier user's message

    def test_a_mark_is_found_again(self) -> None:
        sim = Sim(BOUNDARIES, "openai_chat")
        sim.send(messages=self.chat(2000, 10, marks={0: BREAK}))
        assert sim.cached(messages=self.chat(2000, 10, letters="ax", marks={0: BREAK})) == 2000
        assert sim.cached(messages=self.chat(2000, 10, letters="ay")) == 0  # this one has no boundary there

    def test_only_marks_where_only_marks_are_asked_for(self) -> None:
        explicit = {"mode": "explicit"}
        sim = Sim(BOUNDARIES, "openai_chat")
        assert sim.send(messages=self.chat(2000, 10), prompt_cache_options=explicit).served.written == {}
        told = sim.send(messages=self.chat(2000, 10, marks={0: BREAK}), prompt_cache_options=explicit)
        assert told.served.written == {"30m": 2000}
        assert told.body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 2000}

    @pytest.mark.parametrize(("options", "writes"), [({}, 4), ({"mode": "explicit"}, 4)])
    def test_at_most_four_writes(self, options: dict[str, Any], writes: int) -> None:
        sim = Sim(BOUNDARIES, "openai_chat")
        marks = dict.fromkeys(range(6), BREAK)
        served = sim.provider.serve(
            json.dumps(
                {"model": "m", "messages": self.chat(*[100] * 8, marks=marks), "prompt_cache_options": options}
            ).encode(),
            "openai_chat",
        ).served
        assert len(served.pending) == writes
        # The latest marks are written, the earlier are not.
        assert served.pending[0][0].tokens == (300 if options else 400)

    def test_the_latest_eighty_are_matched(self) -> None:
        for more, cached in ((79, 100), (80, 0)):
            sim = Sim(BOUNDARIES, "openai_chat")
            first = {"role": "user", "content": text(100)}
            sim.send(messages=[first])
            rest = [{"role": "user", "content": text(10, chr(65 + n % 26))} for n in range(more)]
            assert sim.cached(messages=[first, *rest]) == cached

    def test_lives_and_their_prices(self) -> None:
        sim = Sim(BOUNDARIES, "openai_chat")
        long = {"prompt_cache_options": {"ttl": "12h"}}
        assert sim.send(messages=self.chat(2000, 10), **long).served.written == {"12h": 2010}
        marked = self.chat(2000, 10, letters="xy", marks={0: {**BREAK, "ttl": "12h"}})
        assert sim.send(messages=marked).served.written == {"12h": 2000, "30m": 10}
        sim.now = 1801.0
        assert sim.cached(messages=self.chat(2000, 10), **long) == 2010
        assert sim.cached(messages=marked) == 2000
        with pytest.raises(Refused, match="ttl must be"):
            sim.send(messages=self.chat(10), prompt_cache_options={"ttl": "1h"})

    def test_the_minimum(self) -> None:
        sim = Sim(CATALOGUE.rules("openai", "gpt-5.6-sol"), "openai_chat")
        assert sim.send(messages=said(1023)).served.written == {}
        assert sim.send(messages=said(1024, letters="b")).served.written == {"30m": 1024}

    def test_allowed_tools_leave_the_prompt_as_it_is(self) -> None:
        sim = Sim(BOUNDARIES, "openai_chat")
        tools = [{"type": "function", "function": {"name": name}} for name in "fg"]
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools[:1]}}
        total = sim.send(messages=said(100), tools=tools).served.total
        assert sim.cached(messages=said(100), tools=tools, tool_choice=allowed) == total
        assert sim.cached(messages=said(100), tools=tools[:1]) == 0


class TestDeepSeek:
    A, B, C, D = "a" * 4000, "b" * 400, "c" * 400, "d" * 400

    def test_the_third_request_with_a_common_prefix_hits(self) -> None:
        sim = Sim(DEEPSEEK, "openai_chat")
        cached = [sim.cached(messages=[{"role": "user", "content": self.A + x}]) for x in (self.B, self.C, self.D)]
        frame = len('["user",{"text":"')
        assert cached == [0, 0, (len(self.A) + frame) // 4]

    def test_an_entry_is_found_whole_or_not_at_all(self) -> None:
        sim = Sim(DEEPSEEK, "openai_chat")
        total = sim.send(messages=said(500, 100)).served.total
        assert sim.cached(messages=said(500)) == 0
        assert sim.cached(messages=said(500, 100, 50)) == total

    def test_the_ends_of_input_and_output(self) -> None:
        sim = Sim(DEEPSEEK, "openai_chat")
        first = sim.send(messages=said(500))
        history = [*said(500), first.body["choices"][0]["message"]]
        again = sim.send(messages=[*history, *said(10, letters="z")])
        whole = sum(b.tokens for b in read(json.dumps({"messages": history}).encode(), "openai_chat").blocks)
        assert again.served.cached == whole
        usage = again.body["usage"]
        assert usage["prompt_cache_hit_tokens"] == whole
        assert usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"] == usage["prompt_tokens"]

    def test_fixed_intervals(self) -> None:
        sim = Sim(DEEPSEEK, "openai_chat")
        long = "".join(random.Random(1).choices("abcdef", k=40_000))
        sim.send(messages=[{"role": "user", "content": long}])
        assert sim.cached(messages=[{"role": "user", "content": long[:39_000] + "!"}]) == 8192
        assert sim.cached(messages=[{"role": "user", "content": long[:16_300] + "!"}]) == 0

    def test_units_of_64(self) -> None:
        sim = Sim(Rules("deepseek", "m", step=64, minimum=64), "openai_chat")
        sim.send(messages=said(200))
        assert sim.cached(messages=said(200)) == 192

    def test_the_minimum(self) -> None:
        sim = Sim(DEEPSEEK, "openai_chat")
        sim.send(messages=said(63))
        assert sim.cached(messages=said(63)) == 0
