"""Caches of whatever was computed before, by hand and with exact sizes."""

from __future__ import annotations

import json

import pytest
from regimes import CATALOGUE, PREFIX, Sim, said, text

from standfast.lab.reading import read


class TestPrefix:
    """OpenAI up to 5.5, Kimi, engines."""

    @pytest.mark.parametrize(("shared", "cached"), [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152)])
    def test_steps_of_128_from_1024_on(self, shared: int, cached: int) -> None:
        sim = Sim(PREFIX, "openai_chat")
        sim.send(messages=[{"role": "system", "content": text(shared, "s", "system")}, *said(50)])
        again = sim.cached(
            messages=[{"role": "system", "content": text(shared, "s", "system")}, {"role": "assistant", "content": "z"}]
        )
        assert again // 128 * 128 == again
        assert again == cached

    def test_prefixes_part_within_a_block(self) -> None:
        sim = Sim(PREFIX, "openai_chat")
        sim.send(messages=[{"role": "user", "content": "y" * 8000 + "a"}])
        assert sim.cached(messages=[{"role": "user", "content": "y" * 8000 + "b"}]) == 1920
        assert sim.cached(messages=[{"role": "user", "content": "z" + "y" * 8000}]) == 0

    def test_the_likest_of_many(self) -> None:
        sim = Sim(PREFIX, "openai_chat")
        for size in (5000, 7000, 9000):
            sim.send(messages=[{"role": "user", "content": "y" * size + "a" * 4000}])
        assert sim.cached(messages=[{"role": "user", "content": "y" * 9000 + "b"}]) == 9000 // 4 // 128 * 128

    def test_the_answer_is_computed_too(self) -> None:
        sim = Sim(PREFIX, "openai_chat")
        first = sim.send(messages=said(1100))
        messages = [*said(1100), first.body["choices"][0]["message"]]
        again = sim.send(messages=[*messages, *said(200, letters="q")]).served
        whole = sum(b.tokens for b in read(json.dumps({"messages": messages}).encode(), "openai_chat").blocks)
        assert again.cached == whole // 128 * 128

    def test_retention(self) -> None:
        sim = Sim(PREFIX, "openai_chat")
        sim.send(messages=said(1024))
        sim.send(messages=said(2048, letters="b"), prompt_cache_retention="24h")
        sim.now = 601.0
        assert sim.cached(messages=said(1024)) == 0
        assert sim.cached(messages=said(2048, letters="b")) == 2048

    def test_blocks_of_sixteen_and_salts(self) -> None:
        sim = Sim(CATALOGUE.rules("vllm", "m"), "openai_chat")
        sim.send(messages=said(95), cache_salt="a")
        assert sim.cached(messages=said(95), cache_salt="b") == 0
        assert sim.cached(messages=said(95), cache_salt="a") == 80

    def test_token_level(self) -> None:
        sim = Sim(CATALOGUE.rules("sglang", "m"), "openai_chat")
        sim.send(messages=said(95))
        assert sim.cached(messages=said(95)) == 95

    def test_chunks_of_256(self) -> None:
        sim = Sim(CATALOGUE.rules("kimi", "kimi-k2"), "openai_chat")
        sim.send(messages=said(600))
        assert sim.cached(messages=said(600)) == 512

    def test_tools_images_and_schemas_count(self) -> None:
        sim = Sim(PREFIX, "openai_chat")
        sim.send(messages=said(2048))
        schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
        assert sim.cached(messages=said(2048), response_format=schema) == 0
        assert sim.cached(messages=said(2048), tools=[{"type": "function", "function": {"name": "f"}}]) == 0
        url = {"url": "data:image/png;base64," + "A" * 40}
        images = [
            [{"type": "image_url", "image_url": {**url, "detail": d}}, *said(2048)[0]["content"]]
            for d in ("low", "high")
        ]
        assert [sim.cached(messages=[{"role": "user", "content": i}]) for i in images] == [0, 0]
