"""What a run sends, and what it reads."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.demo import script
from standfast.demo.habits import client
from standfast.demo.run import Step, empty_slots, run
from standfast.errors import UpstreamError

REQUESTS = client(script.load())


async def test_all_requests_go_out_in_order_and_every_figure_is_the_engines(engine: Any) -> None:
    shown: list[Step] = []
    steps = await run(engine.url, REQUESTS, {"x-standfast-policy": "isolate"}, shown.append)
    assert shown == steps
    assert [step.turn for step in steps] == [request.turn for request in REQUESTS]
    assert all(body["stream"] and body["stream_options"] == {"include_usage": True} for body in engine.seen)
    assert all(headers["x-standfast-policy"] == "isolate" for headers in engine.headers)
    assert steps[0].cached_tokens == 0
    assert steps[1].cached_tokens > 0.9 * steps[0].prompt_tokens
    assert steps[0].computed_tokens == steps[0].prompt_tokens
    assert all(0 < step.first_token_seconds <= step.seconds for step in steps)
    assert {step.cause for step in steps} == {None}


async def test_a_base_url_may_end_in_v1(engine: Any) -> None:
    assert len(await run(f"{engine.url}/v1/", REQUESTS[:1], {}, lambda step: None)) == 1


async def test_cause_and_repair_come_from_the_response_headers(engine: Any) -> None:
    engine.answer_headers = {"x-standfast-cause": "T1", "x-standfast-repaired": "1"}
    (step,) = await run(engine.url, REQUESTS[:1], {}, lambda step: None)
    assert (step.cause, step.repaired) == ("T1", True)
    engine.answer_headers = {"x-standfast-cause": "none", "x-standfast-repaired": "0"}
    (step,) = await run(engine.url, REQUESTS[:1], {}, lambda step: None)
    assert (step.cause, step.repaired) == (None, False)


async def test_a_failed_turn_is_named(engine: Any) -> None:
    engine.fail_at = 3
    with pytest.raises(UpstreamError, match=r"turn 3 .*status 503.*out of order"):
        await run(engine.url, REQUESTS, {}, lambda step: None)


async def test_no_usage_is_an_error_not_a_zero(engine: Any) -> None:
    engine.usage = False
    with pytest.raises(UpstreamError, match="no cached tokens"):
        await run(engine.url, REQUESTS[:1], {}, lambda step: None)


async def test_nobody_there_is_an_upstream_error() -> None:
    with pytest.raises(UpstreamError, match="turn 1"):
        await run("http://127.0.0.1:9", REQUESTS[:1], {}, lambda step: None)


async def test_emptied_slots_share_nothing_with_the_conversation(engine: Any) -> None:
    await run(engine.url, REQUESTS[:2], {}, lambda step: None)
    await empty_slots(engine.url)
    (step,) = await run(engine.url, REQUESTS[:1], {}, lambda step: None)
    assert step.cached_tokens == 0


async def test_slots_that_cannot_be_emptied_are_an_error(engine: Any) -> None:
    with pytest.raises(UpstreamError, match="cannot be emptied"):
        await empty_slots(f"{engine.url}/elsewhere")
