"""What Standfast relies on in llama.cpp's server and in the chat template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import httpx
import openai
import pytest

from standfast.config import Settings
from standfast.engines.embedded import EmbeddedEngine, running
from standfast.engines.slots import OBEYED_BY, with_slot
from standfast.engines.usage import UsageStream, normalise

pytestmark = pytest.mark.engine
Asked = tuple[str, str, dict[str, Any]]

CACHED = {
    "anthropic": lambda usage: usage["cache_read_input_tokens"],
    "openai_chat": lambda usage: usage["prompt_tokens_details"]["cached_tokens"],
    "openai_responses": lambda usage: usage["input_tokens_details"]["cached_tokens"],
}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "d", "parameters": {"type": "object", "title": "t"}},
}


def slots_used(client: httpx.Client) -> list[int]:
    """The last task of each slot."""
    return [slot.get("id_task", -1) for slot in client.get("/slots").json()]


def post(client: httpx.Client, path: str, body: bytes) -> httpx.Response:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    answer.raise_for_status()
    return answer


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("stream", [False, True])
def test_id_slot_is_obeyed_where_we_say_so(client: httpx.Client, asked: Asked, slot: int, stream: bool) -> None:
    dialect, path, body = asked
    used = slot_of(client, path, with_slot(json.dumps({**body, "stream": stream}).encode(), slot))
    assert used == slot or dialect not in OBEYED_BY


def test_anthropic_sessions_end_up_in_slots_of_their_own(own_settings: Settings) -> None:
    """There id_slot is dropped; the server's own choice must not let two sessions overwrite each other for ever."""
    with running(own_settings) as engine, httpx.Client(base_url=engine.base_url, timeout=60) as client:
        client.headers["connection"] = "close"
        homes = {"alpha": [], "beta": []}  # type: dict[str, list[int]]
        for name, turns in (("alpha", 1), ("alpha", 3), ("beta", 1), ("alpha", 4), ("beta", 2), ("alpha", 5)):
            homes[name].append(slot_of(client, "/v1/messages", anthropic_session(name, turns)))
    assert homes["alpha"][-1] == homes["alpha"][-2] != homes["beta"][-1]


def anthropic_session(name: str, turns: int) -> bytes:
    messages = []
    for turn in range(turns):
        messages += [
            {"role": "user", "content": f"{name} asks {turn}. " * 6},
            {"role": "assistant", "content": f"{name} hears {turn}. " * 6},
        ]
    return json.dumps({"max_tokens": 1, "system": "You are a helpful agent. " * 15, "messages": messages[:-1]}).encode()


def slot_of(client: httpx.Client, path: str, body: bytes) -> int:
    """Post a request and tell which slot ran it."""
    before = slots_used(client)
    post(client, path, body)
    after = slots_used(client)
    (slot,) = [n for n, task in enumerate(after) if before[n] != task]
    return slot


def test_answers_tell_cached_tokens(client: httpx.Client, asked: Asked) -> None:
    dialect, path, body = asked
    sent = with_slot(json.dumps(body).encode(), 0)
    post(client, path, sent)
    answer = json.loads(normalise(dialect, post(client, path, sent).content))
    assert CACHED[dialect](answer["usage"]) > 5
    assert answer["model"]
    if dialect == "anthropic":
        assert answer["usage"]["cache_creation_input_tokens"] == 0


def test_streams_tell_cached_tokens(client: httpx.Client, asked: Asked) -> None:
    dialect, path, body = asked
    sent = with_slot(json.dumps({**body, "stream": True}).encode(), 0)
    post(client, path, sent)
    stream = UsageStream(dialect)
    text = stream.feed(post(client, path, sent).content) + stream.finish()
    events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith(b"data: {")]
    match dialect:
        case "anthropic":
            usage = events[0]["message"]["usage"]
            assert usage["cache_creation_input_tokens"] == 0
        case "openai_responses":
            usage = events[-1]["response"]["usage"]
        case _:
            timings = events[-1]["timings"]  # also where the client asked for no usage
            usage = {"prompt_tokens_details": {"cached_tokens": timings["cache_n"]}}
    assert CACHED[dialect](usage) > 5


def test_count_tokens(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "one two three"}]}
    assert client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"] > 3


def test_the_model_has_a_name(client: httpx.Client, engine: EmbeddedEngine) -> None:
    assert client.get("/v1/models").json()["data"][0]["id"] == engine.model_name


def test_no_web_page_may_read_from_it(client: httpx.Client) -> None:
    assert (
        client.get("/health", headers={"origin": "http://a.example"}).headers["access-control-allow-origin"] == "null"
    )


class _Completing(httpx.BaseTransport):
    """What the gateway does with the engine's stream."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["connection"] = "close"
        answer = self._inner.handle_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=_Stream(answer))

    def close(self) -> None:
        self._inner.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self._filter = UsageStream("openai_responses")

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._answer.stream, httpx.SyncByteStream)
        for chunk in self._answer.stream:
            yield self._filter.feed(chunk)
        yield self._filter.finish()

    def close(self) -> None:
        self._answer.close()


def test_the_openai_client_assembles_a_responses_stream(engine: EmbeddedEngine) -> None:
    http: Any  # the client's own type is httpx's or httpx2's, depending on its version
    with (
        httpx.Client(transport=_Completing()) as http,
        openai.OpenAI(base_url=f"{engine.base_url}/v1", api_key="none", http_client=http) as client,
        client.responses.stream(model="m", input="Hi", max_output_tokens=4) as stream,
    ):
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.output_text
    assert final.usage is not None
    assert final.usage.output_tokens_details.reasoning_tokens == 0


def render(client: httpx.Client, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> str:
    body = {"messages": messages, **({"tools": tools} if tools else {})}
    prompt = client.post("/apply-template", json=body).raise_for_status().json()["prompt"]
    assert isinstance(prompt, str)
    return prompt


HISTORY: list[dict[str, Any]] = [
    {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"z": 1, "a": "x"}'}},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "first"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "second"}]},
    {"role": "assistant", "content": "Done."},
    {"role": "developer", "content": "New rule."},
    {"role": "user", "content": "Go on"},
]


def test_the_template_keeps_everything(client: httpx.Client) -> None:
    prompt = render(client, HISTORY, [TOOL])
    for text in (
        "Be brief.",
        '"name": "look"',
        "One",
        "Two",
        '{"z": 1, "a": "x"}',
        "first",
        "second",
        "Done.",
        "Go on",
    ):
        assert text in prompt
    assert prompt.startswith("<|im_start|>system\nBe brief.")
    assert "<|im_start|>system\nNew rule.<|im_end|>" in prompt
    assert prompt.endswith("<|im_start|>assistant\n")


def test_the_template_is_append_only(client: httpx.Client) -> None:
    """A longer history begins with the rendering of the shorter one, up to the cue for the answer."""
    cue = "<|im_start|>assistant\n"
    whole = render(client, HISTORY, [TOOL])
    for length in (2, 4, 5, 7):  # where a request can end: llama.cpp takes a last assistant message as one to go on
        assert whole.startswith(render(client, HISTORY[:length], [TOOL]).removesuffix(cue))


def test_the_template_keeps_the_order_of_tools_and_keys(client: httpx.Client) -> None:
    """Order is bytes for the engine: this is what drifts cost, and what Standfast repairs."""
    other = json.loads(json.dumps(TOOL).replace('"type": "object", "title": "t"', '"title": "t", "type": "object"'))
    assert other == TOOL
    user = HISTORY[1:2]
    second = {"type": "function", "function": {"name": "act", "parameters": {"type": "object"}}}
    assert render(client, user, [TOOL, second]) != render(client, user, [second, TOOL])
    assert render(client, user, [TOOL]) != render(client, user, [other])


def test_the_template_is_package_data() -> None:
    assert "<|im_start|>" in resources.files("standfast").joinpath("data/chat.jinja").read_text(encoding="utf-8")
