"""The scripted upstream, through the real clients: they parse what it says, or these tests fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from upstream import Recorded, Served, Turn, serve
from upstream_anthropic import signature

from standfast.prompt.replies import Reply, Usage, reader
from standfast.prompt.replies.sse import Events

CALLS = (("find", '{"q": "é", "n": 1.0}'), ("count", '{"of":["a", "b"]}'))
TALK = Turn(text="Hello there, wörld 🙂!", thinking="Let me think about this.", calls=CALLS, interleave=True)
PLAIN = Turn(text="Just text.")

TOOL = {
    "name": "find",
    "description": "Finds.",
    "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}},
}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
RESPONSES_TOOL: Any = {"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": False}


@pytest.fixture
def upstream() -> Iterator[Served]:
    with serve() as served:
        yield served


@pytest.fixture
def claude(upstream: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=upstream.url, api_key="sk-test", max_retries=0, timeout=10) as client:
        yield client


@pytest.fixture
def gpt(upstream: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=upstream.url + "/v1", api_key="sk-test", max_retries=0, timeout=10) as client:
        yield client


def ask(text: str = "Hi", **more: Any) -> Any:
    """Arguments of a Messages call; loosely typed, as the tests vary them."""
    return {"model": "claude-scripted", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


def ask_chat(text: str = "Hi", **more: Any) -> Any:
    return {"model": "gpt-scripted", "messages": [{"role": "user", "content": text}], **more}


def ask_response(text: str = "Hi", **more: Any) -> Any:
    return {"model": "gpt-scripted", "input": text, **more}


# --- Anthropic -------------------------------------------------------------------------------------------------


def check_message(message: Any) -> None:
    thinking, text, *calls = message.content
    assert (thinking.type, thinking.thinking) == ("thinking", TALK.thinking)
    assert thinking.signature == signature(TALK.thinking)
    assert (text.type, text.text) == ("text", TALK.text)
    assert [(call.type, call.name, call.input) for call in calls] == [
        ("tool_use", name, json.loads(arguments)) for name, arguments in CALLS
    ]
    assert len({call.id for call in calls}) == 2
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0
    assert message.usage.output_tokens > 10


def test_messages_whole_and_streamed(upstream: Served, claude: anthropic.Anthropic) -> None:
    upstream.say(TALK, TALK, TALK)
    whole = claude.messages.create(**ask(tools=[TOOL]))
    check_message(whole)
    with claude.messages.stream(**ask(tools=[TOOL])) as stream:
        kinds = [event.type for event in stream]
        check_message(stream.get_final_message())
    assert {"message_start", "text", "thinking", "signature", "input_json", "message_stop"} <= set(kinds)
    raw = list(claude.messages.create(**ask(tools=[TOOL]), stream=True))
    assert raw[0].type == "message_start"
    assert raw[-1].type == "message_stop"
    assert [request.json.get("stream") for request in upstream.requests] == [None, True, True]
    sent = upstream.requests[0].headers
    assert "sk-test" in (sent.get("x-api-key"), sent.get("authorization", "").removeprefix("Bearer "))


async def test_messages_with_the_async_client(upstream: Served) -> None:
    upstream.say(TALK, TALK)
    async with anthropic.AsyncAnthropic(base_url=upstream.url, api_key="k", max_retries=0) as client:
        check_message(await client.messages.create(**ask()))
        async with client.messages.stream(**ask()) as stream:
            text = "".join([part async for part in stream.text_stream])
            check_message(await stream.get_final_message())
    assert text == TALK.text


def test_messages_report_what_the_simulated_cache_holds(upstream: Served, claude: anthropic.Anthropic) -> None:
    upstream.say(PLAIN, PLAIN, PLAIN)
    system = "You are helpful. " * 50
    first = claude.messages.create(**ask(system=system, tools=[TOOL])).usage
    block = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
    second = claude.messages.create(**ask("Hi again", system=[block], tools=[TOOL])).usage
    with claude.messages.stream(**ask("Hi again", system=system, tools=[{**TOOL, "name": "other"}])) as stream:
        third = stream.get_final_message().usage
    assert (first.cache_read_input_tokens, first.cache_creation_input_tokens) == (0, 0)
    assert second.cache_read_input_tokens is not None
    assert second.cache_read_input_tokens > 200
    assert second.input_tokens == 0  # all that was not cached was written, as there is a marker
    assert second.cache_creation_input_tokens is not None
    assert 0 < second.cache_creation_input_tokens < 20
    assert third.cache_read_input_tokens == len('{"name":"') // 4


def test_count_tokens_and_models_of_anthropic(claude: anthropic.Anthropic) -> None:
    counted = claude.messages.count_tokens(model="claude-scripted", messages=[{"role": "user", "content": "x" * 400}])
    assert 100 < counted.input_tokens < 130
    assert [model.id for model in claude.models.list()] == ["claude-scripted", "gpt-scripted"]
    assert claude.models.retrieve("claude-scripted").display_name == "claude-scripted"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.InternalServerError),
    ],
)
def test_anthropic_errors(
    upstream: Served, claude: anthropic.Anthropic, status: int, kind: type[anthropic.APIStatusError]
) -> None:
    upstream.say(Turn(status=status, retry_after=3, message="no"))
    with pytest.raises(kind) as caught:
        claude.messages.create(**ask())
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "3"
    body = cast(dict[str, Any], caught.value.body)
    assert (body["type"], body["error"]["message"]) == ("error", "no")


def test_an_anthropic_error_inside_a_stream(upstream: Served, claude: anthropic.Anthropic) -> None:
    upstream.say(Turn(text="abc" * 20, fail_after=4))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"), claude.messages.stream(**ask()) as stream:
        stream.until_done()


# --- Chat ------------------------------------------------------------------------------------------------------


def check_completion(completion: Any) -> None:
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == TALK.text
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    assert calls == list(CALLS)
    assert len({call.id for call in choice.message.tool_calls}) == 2
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.prompt_tokens_details.cached_tokens is not None


def test_chat_whole_and_streamed(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(TALK, TALK, TALK)
    whole = gpt.chat.completions.create(**ask_chat(tools=[CHAT_TOOL]))
    check_completion(whole)
    assert whole.choices[0].message.model_extra == {"reasoning_content": TALK.thinking}
    usage: Any = {"stream_options": {"include_usage": True}}
    with gpt.chat.completions.stream(**ask_chat(tools=[CHAT_TOOL], **usage)) as stream:
        kinds = {event.type for event in stream}
        check_completion(stream.get_final_completion())
    assert {"content.delta", "content.done", "tool_calls.function.arguments.delta"} <= kinds
    chunks = list(gpt.chat.completions.create(**ask_chat(), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TALK.text
    assert all(chunk.usage is None for chunk in chunks)
    calls = [part.index for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert calls[:4] == [0, 1, 0, 1]


async def test_chat_with_the_async_client(upstream: Served) -> None:
    upstream.say(TALK, TALK)
    async with openai.AsyncOpenAI(base_url=upstream.url + "/v1", api_key="k", max_retries=0) as client:
        check_completion(await client.chat.completions.create(**ask_chat()))
        options: Any = {"stream_options": {"include_usage": True}}
        async with client.chat.completions.stream(**ask_chat(), **options) as stream:
            async for _ in stream:
                pass
            check_completion(await stream.get_final_completion())


def test_chat_reports_what_the_simulated_cache_holds(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(PLAIN, PLAIN)
    first = gpt.chat.completions.create(**ask_chat("x" * 400))
    said = [{"role": "user", "content": "x" * 400}, {"role": "assistant", "content": "Just text."}]
    second = gpt.chat.completions.create(model="gpt-scripted", messages=cast(Any, said))
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    assert second.usage.prompt_tokens_details.cached_tokens == first.usage.prompt_tokens


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, openai.BadRequestError), (429, openai.RateLimitError), (500, openai.InternalServerError)],
)
def test_openai_errors(upstream: Served, gpt: openai.OpenAI, status: int, kind: type[openai.APIStatusError]) -> None:
    upstream.say(*[Turn(status=status, retry_after=3, message="no")] * 2)
    creates: list[Callable[[], object]] = [
        lambda: gpt.chat.completions.create(**ask_chat()),
        lambda: gpt.responses.create(**ask_response()),
    ]
    for create in creates:
        with pytest.raises(kind) as caught:
            create()
        assert cast(dict[str, Any], caught.value.body)["message"] == "no"
        assert caught.value.response.headers["retry-after"] == "3"


def test_a_chat_error_inside_a_stream(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(Turn(text="abc" * 20, fail_after=3, message="broke"))
    with pytest.raises(openai.APIError, match="broke"):
        list(gpt.chat.completions.create(**ask_chat(), stream=True))


def test_models_embeddings_and_files_of_openai(upstream: Served, gpt: openai.OpenAI) -> None:
    assert [model.id for model in gpt.models.list()] == ["claude-scripted", "gpt-scripted"]
    assert gpt.models.retrieve("gpt-scripted").id == "gpt-scripted"
    vectors = gpt.embeddings.create(model="e", input=["ab", "c"]).data
    assert [vector.embedding[:2] for vector in vectors] == [[2.0, 3.0], [1.0, 2.0]]
    sent = b"\r\n--x\r\n" + bytes(range(256))
    uploaded = gpt.files.create(file=("data.bin", sent), purpose="user_data")
    assert (uploaded.filename, uploaded.bytes) == ("data.bin", len(sent))
    with pytest.raises(openai.NotFoundError):
        gpt.models.retrieve("nothing")


# --- Responses -------------------------------------------------------------------------------------------------


def check_response(response: Any) -> None:
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output[0].summary[0].text == TALK.thinking
    assert response.output[0].encrypted_content.startswith("gAAAA")
    assert response.output_text == TALK.text
    assert [(call.name, call.arguments) for call in response.output[2:]] == list(CALLS)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_responses_whole_and_streamed(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(TALK, TALK)
    check_response(gpt.responses.create(**ask_response(tools=[RESPONSES_TOOL])))
    with gpt.responses.stream(**ask_response(tools=[RESPONSES_TOOL])) as stream:
        events = list(stream)
        check_response(stream.get_final_response())
    assert [event.sequence_number for event in events] == list(range(len(events)))
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == TALK.text
    pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == CALLS[0][1] + CALLS[1][1]


async def test_responses_with_the_async_client(upstream: Served) -> None:
    upstream.say(TALK, TALK)
    async with openai.AsyncOpenAI(base_url=upstream.url + "/v1", api_key="k", max_retries=0) as client:
        check_response(await client.responses.create(**ask_response()))
        async with client.responses.stream(**ask_response()) as stream:
            check_response(await stream.get_final_response())


def test_a_response_that_follows_another_is_cached_up_to_it(upstream: Served, gpt: openai.OpenAI) -> None:
    cut_short = Turn(text="x" * 50, cut_short=True)
    upstream.say(PLAIN, PLAIN, PLAIN, cut_short)
    first = gpt.responses.create(**ask_response("x" * 400))
    second = gpt.responses.create(**ask_response("more", previous_response_id=first.id))
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="not found"):
        gpt.responses.create(**ask_response(previous_response_id="resp_unknown"))
    cut = gpt.responses.create(**ask_response())
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


def test_a_responses_error_inside_a_stream(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(Turn(text="abc" * 20, fail_after=5, message="broke"))
    last = list(gpt.responses.create(**ask_response(), stream=True))[-1]
    assert last.type == "error"
    assert last.message == "broke"


# --- Trouble ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_dropped_half_way(upstream: Served, stream: bool) -> None:
    upstream.say(Turn(text="abc" * 50, disconnect_after=5))
    with (
        httpx.Client() as client,
        client.stream("POST", upstream.url + "/v1/messages", json=ask(stream=stream)) as response,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            response.read()
        assert response.status_code == 200


def test_one_that_never_answers_notes_that_the_client_left(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(Turn(never=True))
    with pytest.raises(openai.APITimeoutError):
        gpt.with_options(timeout=0.2).chat.completions.create(**ask_chat())
    assert upstream.wait_for(1, done=True).disconnected


def test_a_client_that_leaves_in_the_middle_is_noted(upstream: Served) -> None:
    upstream.say(Turn(text="abc" * 500, event_delay=0.02))
    url = upstream.url + "/v1/chat/completions"
    with httpx.Client() as client, client.stream("POST", url, json=ask_chat(stream=True)) as response:
        next(response.iter_bytes())
    assert upstream.wait_for(1, done=True).disconnected


def test_a_slow_first_byte(upstream: Served, gpt: openai.OpenAI) -> None:
    upstream.say(Turn(text="x", first_byte_delay=0.3))
    assert gpt.chat.completions.with_raw_response.create(**ask_chat()).elapsed.total_seconds() >= 0.3


def test_a_script_may_choose_by_the_request_and_may_end() -> None:
    def choose(request: Recorded) -> Turn:
        return Turn(text=request.json["messages"][-1]["content"].upper())

    with serve(choose) as upstream, openai.OpenAI(base_url=upstream.url + "/v1", api_key="k", max_retries=0) as client:
        assert client.chat.completions.create(**ask_chat("shout")).choices[0].message.content == "SHOUT"
        assert [request.path for request in upstream.generated] == ["/v1/chat/completions"]
        upstream.say()
        with pytest.raises(openai.BadRequestError, match="no turn left"):
            client.chat.completions.create(**ask_chat())
        upstream.say(PLAIN)
        with pytest.raises(openai.BadRequestError, match="cannot be read"):
            client.chat.completions.create(model="m", messages=cast(Any, 3))


def test_the_raw_body_is_recorded(upstream: Served) -> None:
    body = b'{ "model":"m",  "messages":[{"role":"user","content":"\\u00e9"}] }'
    upstream.say(PLAIN)
    answer = httpx.post(upstream.url + "/v1/chat/completions?x=1", content=body, headers={"X-Odd": "1"})
    assert answer.json()["choices"][0]["message"]["content"] == "Just text."
    seen = upstream.requests[0]
    assert (seen.body, seen.query, seen.headers["x-odd"], seen.method) == (body, "x=1", "1", "POST")
    assert seen.usage["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("path", "body", "whole", "event"),
    [
        ("/v1/messages", ask(), anthropic.types.Message, anthropic.types.RawMessageStreamEvent),
        ("/v1/chat/completions", ask_chat(), ChatCompletion, ChatCompletionChunk),
        ("/v1/responses", ask_response(), Response, ResponseStreamEvent),
    ],
)
@pytest.mark.parametrize("turn", [TALK, PLAIN])
def test_every_field_holds_against_the_clients_own_types(
    upstream: Served, path: str, body: Any, whole: Any, event: Any, turn: Turn
) -> None:
    """The clients build their objects without validation; here nothing required may lack or be of another type."""
    upstream.say(turn, turn)
    TypeAdapter(whole).validate_json(httpx.post(upstream.url + path, json=body).content)
    events = Events(1 << 20)
    stream = httpx.post(upstream.url + path, json={**body, "stream": True, "stream_options": {"include_usage": True}})
    seen = [data for data in events.feed(stream.content) if data != b"[DONE]" and b'"type":"ping"' not in data]
    assert len(seen) > 3
    for data in seen:
        TypeAdapter(event).validate_json(data)


# --- The readers, on what the upstream says --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        ("anthropic", "/v1/messages", ask()),
        ("openai_chat", "/v1/chat/completions", ask_chat(stream_options={"include_usage": True})),
        ("openai_responses", "/v1/responses", ask_response()),
    ],
)
@pytest.mark.parametrize("turn", [TALK, PLAIN, Turn(calls=(("f", "{}"),)), Turn(text="x" * 40, cut_short=True)])
def test_the_readers_capture_what_it_says(upstream: Served, dialect: str, path: str, body: Any, turn: Turn) -> None:
    upstream.say(turn, turn)
    replies: list[Reply] = []
    for stream in (False, True):
        source = reader(dialect, streaming=stream)
        source.feed(httpx.post(upstream.url + path, json={**body, "stream": stream}).content)
        replies.append(source.finish())
    whole, streamed = replies
    assert whole.complete
    assert streamed.complete
    assert whole.usage is not None
    assert whole.usage.cached_tokens == 0
    assert streamed.usage == Usage(
        whole.usage.prompt_tokens,
        whole.usage.prompt_tokens,
        0,
        whole.usage.output_tokens,
    )
    assert len(whole.produced) == len(streamed.produced) > 0
    for one, other in zip(whole.produced, streamed.produced, strict=True):
        # ids carry the number of the turn, and chat streams begin with an empty text where there is one
        assert _without_ids(json.loads(one)) == _without_ids(json.loads(other))


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(inner) for name, inner in value.items() if name not in ("id", "call_id")}
    return [_without_ids(inner) for inner in value] if isinstance(value, list) else value
