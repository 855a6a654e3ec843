"""The real clients, through the gateway, to simulated providers on a socket."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import anthropic
import httpx
import openai
import pytest
from gateway_running import Running, gateway
from simulated import MODELS, served

from standfast.config import Upstream
from standfast.events import Judged

PROSE = "You are the release assistant of the Larch project; cite ticket numbers and never invent a version. " * 60


def claude(url: str, key: str = "k") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def gpt(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)


def judged(running: Running, count: int) -> Any:
    return running.wait_for(Judged, count)


@pytest.mark.parametrize("streaming", [False, True])
def test_anthropic_talks_on_and_hits(streaming: bool) -> None:
    with (
        served("anthropic") as (url, _),
        gateway(Upstream("a", url, provider="anthropic")) as running,
        claude(running.url) as client,
    ):
        messages: list[Any] = []
        for turn in range(1, 4):
            messages.append({"role": "user", "content": f"Question {turn}? " * 50})
            asked: Any = {"model": MODELS["anthropic"], "max_tokens": 64, "system": PROSE, "messages": messages}
            if streaming:
                with client.messages.stream(**asked) as stream:
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**asked)
            assert answer.content[0].type == "text"
            messages.append({"role": "assistant", "content": answer.content[0].text})
            event = judged(running, turn)
            assert event.hit
            assert event.cached_tokens == (answer.usage.cache_read_input_tokens or 0)
        assert event.cached_tokens > 1500
        assert abs(event.expected_tokens - event.cached_tokens) < 100
        assert 0 < event.paid < event.without_cache


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_openai_talks_on_and_hits(api: str, streaming: bool) -> None:
    with (
        served("openai") as (url, _),
        gateway(Upstream("o", url, provider="openai")) as running,
        gpt(running.url) as client,
    ):
        history: list[Any] = [{"role": "system", "content": PROSE}]
        for turn in range(1, 4):
            history.append({"role": "user", "content": f"Question {turn}? " * 50})
            history.append({"role": "assistant", "content": _ask(client, api, history, streaming)})
            event = judged(running, turn)
            assert event.hit
        assert event.cached_tokens > 1500


def _ask(client: openai.OpenAI, api: str, history: list[Any], streaming: bool) -> str:
    model = MODELS["openai_chat"]
    if api == "responses":
        if not streaming:
            return client.responses.create(model=model, input=history).output_text
        with client.responses.stream(model=model, input=history) as stream:
            return stream.get_final_response().output_text
    if not streaming:
        return client.chat.completions.create(model=model, messages=history).choices[0].message.content or ""
    chunks = client.chat.completions.create(
        model=model, messages=history, stream=True, stream_options={"include_usage": True}
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def _siblings(url: str, count: int) -> list[int]:
    async def one(client: anthropic.AsyncAnthropic, number: int) -> int:
        head: Any = [{"type": "text", "text": PROSE, "cache_control": {"type": "ephemeral"}}]
        said: Any = [{"role": "user", "content": f"Part {number}: summarise it."}]
        answer = await client.messages.create(model=MODELS["anthropic"], max_tokens=64, system=head, messages=said)
        return answer.usage.cache_read_input_tokens or 0

    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        return await asyncio.gather(*(one(client, n) for n in range(count)))


@pytest.mark.parametrize(("wait", "readers"), [(5.0, 7), (0.0, 0)])
def test_siblings_wait_for_the_first(wait: float, readers: int) -> None:
    with (
        served("anthropic", delay=1.0) as (url, _),
        gateway(Upstream("a", url, provider="anthropic"), fan_out_wait=wait) as running,
    ):
        cached = asyncio.run(_siblings(running.url, 8))
        told = [judged(running, n) for n in range(1, 9)]
    assert Counter((event.cause, event.hit) for event in told) == {(None, True): 1, ("B5", readers > 0): 7}
    assert sum(count > 1000 for count in cached) == readers


def test_a_leader_that_does_not_answer_holds_nobody_for_long() -> None:
    with (
        served("anthropic", delay=3.0) as (url, _),
        gateway(Upstream("a", url, provider="anthropic"), fan_out_wait=0.2) as running,
    ):
        assert sorted(asyncio.run(_siblings(running.url, 3))) == [0, 0, 0]


def test_two_keys_share_nothing() -> None:
    with served("anthropic") as (url, _), gateway(Upstream("a", url, provider="anthropic")) as running:
        said: Any = [{"role": "user", "content": "Hello?"}]
        for key in ("one", "two"):
            with claude(running.url, key) as client:
                answer = client.messages.create(model=MODELS["anthropic"], max_tokens=64, system=PROSE, messages=said)
            assert answer.usage.cache_read_input_tokens == 0


def test_the_providers_finding_is_asked_for_and_told() -> None:
    with (
        served("anthropic") as (url, _),
        gateway(Upstream("a", url, provider="anthropic"), provider_diagnostics=True) as running,
        claude(running.url) as client,
    ):
        said: Any = [{"role": "user", "content": "Hello?"}]
        for turn, prose in enumerate((PROSE, "Speak French. " + PROSE), 1):
            answer = client.messages.create(model=MODELS["anthropic"], max_tokens=64, system=prose, messages=said)
            said += [{"role": "assistant", "content": answer.content[0].text}, {"role": "user", "content": "And?"}]  # type: ignore[union-attr]
            event = judged(running, turn)
        assert (event.finding, event.agrees, event.cause) == ("system_changed", True, "C1")


def test_what_the_provider_refuses_is_refused() -> None:
    mark = {"type": "ephemeral"}
    parts = [{"type": "text", "text": f"{n}", "cache_control": mark} for n in range(5)]
    body = {"model": MODELS["anthropic"], "max_tokens": 1, "messages": [{"role": "user", "content": parts}]}
    with served("anthropic") as (url, _):
        response = httpx.post(f"{url}/v1/messages", json=body)
        assert response.status_code == 400
        assert "maximum of 4" in response.json()["error"]["message"]
        assert response.headers["x-simulated"] == "1"
        assert httpx.get(f"{url}/_sim/state").json() == {"requests": 1, "entries": 0}
