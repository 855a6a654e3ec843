"""The real clients, through a gateway that runs as a program, to the embedded model: all three APIs."""

from __future__ import annotations

import re
from typing import Any

import anthropic
import httpx
import openai
import pytest
from serving import Program

pytestmark = pytest.mark.engine

NAME = "smollm2-135m-instruct"
SYSTEM = "You answer questions about a small library. Be brief."
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": "find_book", "description": "Looks for a book.", "parameters": SCHEMA}}
]
RESPONSES_TOOLS: Any = [
    {"type": "function", "name": "find_book", "description": "Looks for a book.", "parameters": SCHEMA, "strict": False}
]
MESSAGES_TOOLS: Any = [{"name": "find_book", "description": "Looks for a book.", "input_schema": SCHEMA}]
CHAT: Any = {
    "model": NAME,
    "max_tokens": 4,
    "tools": CHAT_TOOLS,
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Have you a book on bees?"}],
}
RESPONSES: Any = {
    "model": NAME,
    "max_output_tokens": 4,
    "tools": RESPONSES_TOOLS,
    "instructions": SYSTEM,
    "input": "Have you a book on bees?",
}
MESSAGES: Any = {
    "model": NAME,
    "max_tokens": 4,
    "tools": MESSAGES_TOOLS,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": "Have you a book on bees?"}],
}


@pytest.fixture
def chat_client(embedded: Program) -> Any:
    with openai.OpenAI(base_url=embedded.url + "/v1", api_key="any", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def claude_client(embedded: Program) -> Any:
    with anthropic.Anthropic(base_url=embedded.url, api_key="any", max_retries=0, timeout=60) as client:
        yield client


class TestChat:
    def test_answers(self, chat_client: openai.OpenAI) -> None:
        raw = chat_client.chat.completions.with_raw_response.create(**CHAT)
        answer = raw.parse()
        assert answer.choices[0].message.role == "assistant"
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        cached = answer.usage.prompt_tokens_details.cached_tokens
        assert raw.headers["x-standfast-hit"] == f"{cached}/{answer.usage.prompt_tokens}"
        assert raw.headers["x-standfast-cause"] == "none"
        assert raw.headers["x-standfast-repaired"] == "0"
        assert re.fullmatch(r"sf-[0-9a-f]{24}", raw.headers["x-standfast-request-id"])

    def test_streams(self, chat_client: openai.OpenAI) -> None:
        stream: Any = chat_client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert chunks[-1].usage.prompt_tokens_details.cached_tokens > 20  # the test before has sent the same

    async def test_async(self, embedded: Program) -> None:
        async with openai.AsyncOpenAI(base_url=embedded.url + "/v1", api_key="any", timeout=60) as client:
            answer = await client.chat.completions.create(**CHAT)
            assert answer.usage.prompt_tokens_details.cached_tokens > 20
            stream: Any = await client.chat.completions.create(**CHAT, stream=True)
            assert [c.choices[0].finish_reason async for c in stream if c.choices][-1] in ("length", "stop")

    def test_the_streams_header_tells_an_estimate(self, chat_client: openai.OpenAI) -> None:
        with chat_client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as raw:
            assert re.fullmatch(r"~\d+", raw.headers["x-standfast-hit"])
            assert "data: [DONE]" in list(raw.iter_lines())

    def test_an_error_of_the_engine_is_the_clients_error(self, chat_client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="context"):
            chat_client.chat.completions.create(
                model=NAME, max_tokens=4, messages=[{"role": "user", "content": "long " * 1500}]
            )


class TestResponses:
    def test_answers(self, chat_client: openai.OpenAI) -> None:
        raw = chat_client.responses.with_raw_response.create(**RESPONSES)
        answer: Any = raw.parse()
        assert answer.output_text
        assert answer.usage.output_tokens_details.reasoning_tokens == 0
        cached = answer.usage.input_tokens_details.cached_tokens
        assert raw.headers["x-standfast-hit"] == f"{cached}/{answer.usage.input_tokens}"
        assert raw.headers["x-standfast-cause"] == "none"

    def test_streams(self, chat_client: openai.OpenAI) -> None:
        stream: Any = chat_client.responses.create(**RESPONSES, stream=True)
        events = list(stream)
        assert [e.sequence_number for e in events] == list(range(len(events)))
        assert events[0].type == "response.created"
        assert events[-1].response.usage.input_tokens_details.cached_tokens > 20

    async def test_async(self, embedded: Program) -> None:
        async with openai.AsyncOpenAI(base_url=embedded.url + "/v1", api_key="any", timeout=60) as client:
            answer: Any = await client.responses.create(**RESPONSES)
            assert answer.usage.input_tokens_details.cached_tokens > 20
            async with client.responses.stream(**RESPONSES) as stream:
                kinds = [event.type async for event in stream]
            assert "response.output_text.delta" in kinds


class TestMessages:
    def test_answers(self, claude_client: anthropic.Anthropic) -> None:
        raw = claude_client.messages.with_raw_response.create(**MESSAGES)
        answer = raw.parse()
        usage = answer.usage
        assert answer.content[0].type == "text"
        assert usage.cache_creation_input_tokens == 0
        assert usage.cache_read_input_tokens is not None
        whole = usage.cache_read_input_tokens + usage.input_tokens
        assert raw.headers["x-standfast-hit"] == f"{usage.cache_read_input_tokens}/{whole}"
        assert raw.headers["x-standfast-cause"] == "none"

    def test_streams(self, claude_client: anthropic.Anthropic) -> None:
        with claude_client.messages.stream(**MESSAGES) as stream:
            assert "".join(stream.text_stream)
            usage = stream.get_final_message().usage
        assert usage.cache_read_input_tokens is not None
        assert usage.cache_read_input_tokens > 20

    async def test_async(self, embedded: Program) -> None:
        async with anthropic.AsyncAnthropic(base_url=embedded.url, api_key="any", timeout=60) as client:
            answer = await client.messages.create(**MESSAGES)
            assert (answer.usage.cache_read_input_tokens or 0) > 20
            async with client.messages.stream(**MESSAGES) as stream:
                text = [piece async for piece in stream.text_stream]
            assert text

    def test_counts_tokens(self, claude_client: anthropic.Anthropic) -> None:
        asked = {name: MESSAGES[name] for name in ("model", "system", "messages")}
        assert claude_client.messages.count_tokens(**asked).input_tokens > 20


class TestTheRest:
    def test_lists_its_model(self, chat_client: openai.OpenAI) -> None:
        assert [m.id for m in chat_client.models.list()] == [NAME]

    def test_is_ready_and_says_what_it_did(self, embedded: Program, chat_client: openai.OpenAI) -> None:
        raw = chat_client.chat.completions.with_raw_response.create(**CHAT)
        assert httpx.get(embedded.url + "/readyz").text == "ready\n"
        page = httpx.get(embedded.url + "/metrics").text
        assert f'standfast_cached_tokens_total{{dialect="openai_chat",model="{NAME}",upstream="embedded"}}' in page
        line = embedded.wait_for_line(f"request id={raw.headers['x-standfast-request-id']} .*")[0]
        assert " upstream=embedded dialect=openai_chat status=200 policy=lossless cause=none repaired=0 prompt=" in line

    def test_the_announced_curl_works(self, embedded: Program) -> None:
        command = embedded.wait_for_line(r"curl (\S+) -H 'content-type: application/json' -d '(.*)'$")
        answer = httpx.post(
            command[1], content=command[2].encode(), headers={"content-type": "application/json"}, timeout=60
        )
        assert answer.json()["choices"][0]["message"]["content"]

    def test_a_wrong_policy_is_told(self, chat_client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="off, observe, lossless, isolate"):
            chat_client.chat.completions.create(**CHAT, extra_headers={"x-standfast-policy": "perhaps"})
