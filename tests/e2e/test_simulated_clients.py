"""The real clients, with nothing between them and a simulated provider: calls, streams, errors, clock, findings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from serving import environment
from simulated import MODELS, served

from standfast.lab.provider import Faults

PROSE = "You are the release assistant of the Larch project; cite ticket numbers and never invent a version. " * 60
ASK = 'Please [sim:call look {"at": [1, {"b": "é]"}]}] and [sim:call find {}] now.'
WANTED = [("look", {"at": [1, {"b": "é]"}]}), ("find", {})]
SCHEMA = {"type": "object", "properties": {}}


def claude(url: str, **more: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="k", **{"max_retries": 0, **more})


def gpt(url: str, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", **{"max_retries": 0, **more})


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_on_messages(streaming: bool) -> None:
    tools: Any = [{"name": name, "input_schema": SCHEMA} for name, _ in WANTED]
    messages: list[Any] = [{"role": "user", "content": ASK}]
    with served("anthropic") as (url, _), claude(url) as client:

        def turn() -> Any:
            asked: Any = {
                "model": MODELS["anthropic"],
                "max_tokens": 64,
                "system": PROSE,
                "tools": tools,
                "messages": messages,
                "cache_control": {"type": "ephemeral"},
            }
            if not streaming:
                return client.messages.create(**asked)
            with client.messages.stream(**asked) as stream:
                return stream.get_final_message()

        first = turn()
        calls = [block for block in first.content if block.type == "tool_use"]
        assert [(call.name, call.input) for call in calls] == WANTED
        assert first.stop_reason == "tool_use"
        results: Any = [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"} for call in calls]
        answer: Any = [block.model_dump(exclude_none=True) for block in first.content]
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": results}]
        second = turn()
    assert second.stop_reason == "end_turn"
    assert second.content[0].type == "text"
    assert second.content[0].text.startswith("sim ")
    assert first.usage.cache_creation is not None
    assert first.usage.cache_creation.ephemeral_5m_input_tokens == first.usage.cache_creation_input_tokens
    assert second.usage.cache_read_input_tokens == first.usage.cache_creation_input_tokens
    assert (second.usage.cache_creation_input_tokens or 0) > 0
    assert second.usage.input_tokens == 0


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_on_chat_completions(streaming: bool) -> None:
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name, _ in WANTED]
    messages: list[Any] = [{"role": "system", "content": PROSE}, {"role": "user", "content": ASK}]
    with served("deepseek") as (url, _), gpt(url) as client:

        def turn() -> Any:
            asked: Any = {"model": "deepseek-v4-pro", "messages": messages, "tools": tools}
            if not streaming:
                return client.chat.completions.create(**asked)
            with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
                return stream.get_final_completion()

        first = turn()
        calls = first.choices[0].message.tool_calls
        assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == WANTED
        assert first.choices[0].finish_reason == "tool_calls"
        kept = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in calls
        ]
        messages.append({"role": "assistant", "content": first.choices[0].message.content, "tool_calls": kept})
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "ok"} for c in calls]
        second = turn()
    assert second.choices[0].finish_reason == "stop"
    # Found at the end of the output: the answer counts too.
    assert second.usage.prompt_cache_hit_tokens > first.usage.prompt_tokens
    assert second.usage.prompt_cache_hit_tokens + second.usage.prompt_cache_miss_tokens == second.usage.prompt_tokens


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_an_agent_on_responses(streaming: bool, stored: bool) -> None:
    tools: Any = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name, _ in WANTED]
    with served("openai") as (url, _), gpt(url) as client:

        def turn(**asked: Any) -> Any:
            asked = {"model": MODELS["openai_responses"], "instructions": PROSE, "tools": tools, **asked}
            if not streaming:
                return client.responses.create(**asked)
            with client.responses.stream(**asked) as stream:
                return stream.get_final_response()

        said: list[Any] = [{"role": "user", "content": ASK}]
        first = turn(input=said)
        calls = [item for item in first.output if item.type == "function_call"]
        assert [(c.name, json.loads(c.arguments)) for c in calls] == WANTED
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "ok"} for c in calls]
        if stored:
            second = turn(input=results, previous_response_id=first.id)
        else:
            second = turn(input=[*said, *(item.model_dump(exclude_none=True) for item in first.output), *results])
    assert second.output_text.startswith("sim ")
    assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens
    assert second.usage.input_tokens > first.usage.input_tokens


def test_both_ways_to_go_on_are_one_prompt() -> None:
    with served("openai") as (url, _), gpt(url) as client:
        model = MODELS["openai_responses"]
        first = client.responses.create(model=model, instructions=PROSE, input="One?")
        stored = client.responses.create(model=model, instructions=PROSE, input="Two?", previous_response_id=first.id)
        history: Any = [{"role": "user", "content": "One?"}, *first.output, {"role": "user", "content": "Two?"}]
        resent = client.responses.create(model=model, instructions=PROSE, input=history)
        assert stored.usage is not None
        assert resent.usage is not None
        assert resent.usage.input_tokens_details.cached_tokens == stored.usage.input_tokens
        with pytest.raises(openai.BadRequestError, match="not found"):
            client.responses.create(model=model, input="a", previous_response_id="resp_x")


def test_lives_end_when_the_clock_is_moved() -> None:
    with served("anthropic") as (url, _), claude(url) as client:
        asked: Any = {
            "model": MODELS["anthropic"],
            "max_tokens": 64,
            "system": [{"type": "text", "text": PROSE, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "Hello?"}],
        }
        read = [client.messages.create(**asked).usage.cache_read_input_tokens for _ in range(2)]
        httpx.post(f"{url}/_sim/clock", json={"advance": 301}).raise_for_status()
        read.append(client.messages.create(**asked).usage.cache_read_input_tokens)
    assert read[0] == read[2] == 0
    assert (read[1] or 0) > 1000


def test_what_anthropic_finds() -> None:
    with served("anthropic") as (url, _), claude(url) as client:

        def told(system: str, id: str | None, **more: Any) -> tuple[str, Any]:
            message = client.beta.messages.create(
                model=MODELS["anthropic"],
                max_tokens=64,
                system=system,
                messages=[{"role": "user", "content": "Hello?"}],
                diagnostics={"previous_message_id": id},
                betas=["cache-diagnosis-2026-04-07"],
                **more,
            )
            return message.id, message.diagnostics and message.diagnostics.cache_miss_reason

        id, reason = told(PROSE, None)
        assert reason is None
        assert told(PROSE, id)[1] is None
        other = told("Be brief. " + PROSE, id)[1]
        assert (other.type, other.cache_missed_input_tokens > 1000) == ("system_changed", True)
        assert told(PROSE, id, tool_choice={"type": "none"})[1].type == "unavailable"
        assert told(PROSE, "msg_x")[1].type == "previous_message_not_found"


def test_what_openai_finds() -> None:
    with served("openai") as (url, _), gpt(url) as client:

        def finding(text: str, id: str, **more: Any) -> tuple[str, Any]:
            answer = client.responses.create(
                model=MODELS["openai_responses"],
                instructions=PROSE,
                input=text,
                prompt_cache_options={"comparison_response_id": id},
                **more,
            )
            assert answer.prompt_cache_diagnostics is not None
            return answer.id, answer.prompt_cache_diagnostics

        id, lost = finding("One?", "resp_x")
        assert lost.type == "comparison_response_not_found"
        assert finding("One?", id)[1].type == "cache_hit"
        for text, more, why in (
            ("Two?", {}, "input_changed"),
            ("One?", {"reasoning": {"effort": "low"}}, "reasoning_effort_changed"),
            (
                "One?",
                {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}]},
                "tools_changed",
            ),
            ("One?", {"prompt_cache_key": "k"}, "prompt_cache_key_changed"),
        ):
            miss = finding(text, id, **more)[1]
            assert (miss.type, miss.reason) == ("cache_miss", why)


def test_errors_are_the_clients_own() -> None:
    mark: Any = {"type": "ephemeral"}
    parts: Any = [{"type": "text", "text": str(n), "cache_control": mark} for n in range(5)]
    said: Any = [{"role": "user", "content": parts}]
    with served("anthropic") as (url, _), claude(url) as client, pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(model=MODELS["anthropic"], max_tokens=1, messages=said)
    assert refused.value.response.json()["error"]["type"] == "invalid_request_error"
    hello: Any = [{"role": "user", "content": "Hello?"}]
    with (
        served("anthropic", faults=Faults(overloaded=1.0)) as (url, _),
        claude(url) as client,
        pytest.raises(anthropic.APIStatusError) as full,
    ):
        client.messages.create(model=MODELS["anthropic"], max_tokens=1, messages=hello)
    assert full.value.status_code == 529
    with (
        served("openai", faults=Faults(limited=1.0)) as (url, _),
        gpt(url) as client,
        pytest.raises(openai.RateLimitError),
    ):
        client.chat.completions.create(model="gpt-5.5", messages=hello)
    with served("openai", faults=Faults(broken=1.0)) as (url, _), gpt(url) as client:
        chunks = client.chat.completions.create(model="gpt-5.5", messages=hello, stream=True)
        with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
            list(chunks)


def test_it_is_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "standfast.lab.provider", "--provider", "deepseek", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as child:
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        try:
            body = {"model": "deepseek-v4-pro", "messages": [{"role": "user", "content": "Hello?"}]}
            response = httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False)
            assert response.headers["x-simulated"] == "1"
            assert response.json()["choices"][0]["message"]["content"].startswith("sim ")
            assert httpx.get(f"{url}/_sim/state", trust_env=False).json()["requests"] == 1
        finally:
            child.terminate()
            child.wait(10)
