"""`standfast serve` in front of hosted upstreams, played by the scripted one: agents with bad habits, credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import httpx
import msgspec
import openai
import pytest
from serving import Program, run, serving
from upstream import Recorded, Served, Turn, serve

SECRET = "sk-very-secret-5f2c1e"
ARGUMENTS = '{"title":  "bees", "limit": 3, "exact": 1.50}'
OTHER = '{"shelf": 9, "room": "b"}'
CALLS = (("find_book", ARGUMENTS), ("look_at", OTHER))
SCRIPT = (
    Turn(text="I look it up. \n", thinking="Where could it be?", calls=CALLS, interleave=True),
    Turn(text="One more look.\n\n", thinking="Not there.", calls=CALLS[1:]),
    Turn(text="It is on shelf nine. "),
    Turn(text="Gladly."),
)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Served]:
    with serve() as served:
        yield served


@pytest.fixture(scope="module")
def program(upstream: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with serving(tmp_path_factory.mktemp("home"), "--upstream", upstream.url + "/v1") as running:
        yield running


@pytest.fixture
def script(upstream: Served) -> Served:
    """The upstream at the beginning of the script, with nothing recorded."""
    upstream.requests.clear()
    upstream.say(*SCRIPT)
    return upstream


def reserialised(text: str) -> str:
    """JSON as a client writes it that has parsed it: the keys in an order of its own."""
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def history(request: Recorded, name: str) -> bytes:
    """The history of a request, in its bytes."""
    return bytes(msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])[name])


def assert_each_extends_the_last(requests: list[Recorded], name: str) -> None:
    texts = [history(request, name) for request in requests]
    assert len(texts) == len(SCRIPT)
    for shorter, longer in pairwise(texts):
        assert longer.startswith(shorter[:-1] + b",")
    heads = [{k: v for k, v in request.json.items() if k != name} for request in requests]
    assert all(head == heads[0] for head in heads)
    assert len({json.dumps(head.get("tools")) for head in heads}) == 1


def assert_cached(requests: list[Recorded], prompt: str, cached: str) -> None:
    """The upstream's simulated cache served the whole prompt of the turn before."""
    for before, after in pairwise(requests):
        assert _at(after.usage, cached) >= _at(before.usage, prompt) - 1


def _at(usage: dict[str, Any], path: str) -> int:
    value: Any = usage
    for name in path.split("."):
        value = value[name]
    return int(value)


# Chat Completions

CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("find_book", "look_at", "lend_book")
]


def chat_agent(client: openai.OpenAI, *, stream: bool) -> list[str]:
    """Runs the script as a client that makes ids anew, writes arguments again, shuffles tools, and drops white space.

    Returns the causes that the gateway named.
    """
    messages: list[Any] = [{"role": "user", "content": "Where is the book on bees?"}]
    causes = []
    for turn in range(len(SCRIPT)):
        tools = CHAT_TOOLS[turn % 3 :] + CHAT_TOOLS[: turn % 3]
        asked: Any = {"model": "gpt-scripted", "tools": tools, "messages": messages}
        if stream:
            text, calls, cause = _streamed(client, asked)
        else:
            raw: Any = client.chat.completions.with_raw_response.create(**asked)
            said = raw.parse().choices[0].message
            calls = [(c.function.name, c.function.arguments) for c in said.tool_calls or ()]
            text, cause = said.content, raw.headers["x-standfast-cause"]
        causes.append(cause)
        own = [
            {"id": f"mine_{turn}_{i}", "type": "function", "function": {"name": n, "arguments": reserialised(a)}}
            for i, (n, a) in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": text.strip(), **({"tool_calls": own} if own else {})})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "Nothing."} for c in own]
        if not own:
            messages.append({"role": "user", "content": "Thank you."})
    return causes


def _streamed(client: openai.OpenAI, asked: Any) -> tuple[str, list[tuple[str, str]], str]:
    text, calls = "", dict[int, list[str]]()
    with client.chat.completions.with_streaming_response.create(**asked, stream=True) as raw:
        lines = [json.loads(line[6:]) for line in raw.iter_lines() if line.startswith("data: {")]
        cause = raw.headers["x-standfast-cause"]
    for delta in (chunk["choices"][0]["delta"] for chunk in lines if chunk["choices"]):
        text += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            known = calls.setdefault(call["index"], [call["function"].get("name", ""), ""])
            known[1] += call["function"].get("arguments", "")
    return text, [(name, arguments) for name, arguments in calls.values()], cause


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_chat_agent(program: Program, script: Served, stream: bool, reasons: bool) -> None:
    """``reasons``: the model also tells its reasoning (DeepSeek, vLLM), which the client, as most do, leaves out."""
    if not reasons:
        script.say(*(replace(turn, thinking="") for turn in SCRIPT))
    with openai.OpenAI(base_url=program.url + "/v1", api_key=f"{SECRET}-{stream}-{reasons}", max_retries=0) as client:
        assert chat_agent(client, stream=stream) == ["none", "T1", "T1", "H2"]  # the tools are back in order at last
    sent = script.generated
    assert_each_extends_the_last(sent, "messages")
    assert_cached(sent, "prompt_tokens", "prompt_tokens_details.cached_tokens")
    first, second = (m for m in sent[-1].json["messages"] if m.get("tool_calls"))
    assert (first["content"], second["content"]) == (SCRIPT[0].text, SCRIPT[1].text)
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in first["tool_calls"]] == list(CALLS)
    ids = [c["id"] for m in (first, second) for c in m["tool_calls"]]
    assert all(id.startswith("call_") for id in ids)
    assert [m["tool_call_id"] for m in sent[-1].json["messages"] if m["role"] == "tool"] == ids


# Responses

RESPONSES_TOOLS: Any = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, "strict": False}
    for name in ("find_book", "look_at", "lend_book")
]


def responses_agent(client: openai.OpenAI, *, stream: bool) -> list[str]:
    items: list[Any] = [{"role": "user", "content": "Where is the book on bees?"}]
    causes = []
    for turn in range(len(SCRIPT)):
        tools = RESPONSES_TOOLS[turn % 3 :] + RESPONSES_TOOLS[: turn % 3]
        asked: Any = {"model": "gpt-scripted", "tools": tools, "input": items, "store": False}
        if stream:
            with client.responses.stream(**asked) as events:
                output: Any = events.get_final_response().output
            causes.append("")
        else:
            raw: Any = client.responses.with_raw_response.create(**asked)
            output = raw.parse().output
            causes.append(raw.headers["x-standfast-cause"])
        said = [item.model_dump(exclude_none=True) for item in output]
        for item in said:
            item.pop("parsed_arguments", None)
            for part in item.get("content", ()):
                part.pop("parsed", None)
        calls = [item for item in said if item["type"] == "function_call"]
        for i, call in enumerate(calls):
            call["call_id"], call["arguments"] = f"mine_{turn}_{i}", reserialised(call["arguments"])
        items += said
        items += [{"type": "function_call_output", "call_id": c["call_id"], "output": "Nothing."} for c in calls]
        if not calls:
            items.append({"role": "user", "content": "Thank you."})
    return causes


@pytest.mark.parametrize("stream", [False, True])
def test_responses_agent(program: Program, script: Served, stream: bool) -> None:
    with openai.OpenAI(base_url=program.url + "/v1", api_key=f"{SECRET}-{stream}", max_retries=0) as client:
        causes = responses_agent(client, stream=stream)
        assert stream or causes == ["none", "T1", "T1", "H3"]
    sent = script.generated
    assert_each_extends_the_last(sent, "input")
    assert_cached(sent, "input_tokens", "input_tokens_details.cached_tokens")
    calls = [item for item in sent[-1].json["input"] if item.get("type") == "function_call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [*CALLS, CALLS[1]]
    assert not [call for call in calls if call["call_id"].startswith("mine")]
    results = [item for item in sent[-1].json["input"] if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in results] == [call["call_id"] for call in calls]


# Messages

MESSAGES_TOOLS: Any = [
    {"name": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("find_book", "look_at", "lend_book")
]


def messages_agent(client: anthropic.Anthropic, *, stream: bool) -> list[str]:
    messages: list[Any] = [{"role": "user", "content": "Where is the book on bees?"}]
    causes = []
    for turn in range(len(SCRIPT)):
        tools = MESSAGES_TOOLS[turn % 3 :] + MESSAGES_TOOLS[: turn % 3]
        asked: Any = {"model": "claude-scripted", "max_tokens": 2000, "tools": tools, "messages": messages}
        asked["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        if stream:
            with client.messages.stream(**asked) as events:
                answer: Any = events.get_final_message()
                causes.append(events.response.headers["x-standfast-cause"])
        else:
            raw: Any = client.messages.with_raw_response.create(**asked)
            answer = raw.parse()
            causes.append(raw.headers["x-standfast-cause"])
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        calls = [block for block in said if block["type"] == "tool_use"]
        for i, call in enumerate(calls):
            call["id"], call["input"] = f"mine_{turn}_{i}", json.loads(reserialised(json.dumps(call["input"])))
        for block in said:
            block.pop("parsed_output", None)
            if block["type"] == "text":
                block["text"] = block["text"].strip()
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": "Nothing."} for c in calls]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": results or "Thank you."}]
    return causes


@pytest.mark.parametrize("stream", [False, True])
def test_messages_agent(program: Program, script: Served, stream: bool) -> None:
    with anthropic.Anthropic(base_url=program.url, api_key=f"{SECRET}-{stream}", max_retries=0) as client:
        assert messages_agent(client, stream=stream) == ["none", "T1", "T1", "H2"]
    sent = script.generated
    assert_each_extends_the_last(sent, "messages")
    blocks = [
        block
        for message in sent[-1].json["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    assert [block["thinking"] for block in thoughts] == [SCRIPT[0].thinking, SCRIPT[1].thinking]
    assert all(block["signature"] for block in thoughts)
    assert [block["text"] for block in blocks if block["type"] == "text"] == [turn.text for turn in SCRIPT[:3]]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert [list(call["input"].items()) for call in calls] == [
        list(json.loads(arguments).items()) for _, arguments in (*CALLS, CALLS[1])
    ]
    assert all(call["id"].startswith("toolu_") for call in calls)
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert results == [call["id"] for call in calls]
    for before, after in pairwise(sent):
        assert after.usage["cache_read_input_tokens"] >= sum(before.usage[name] for name in _PROMPT) - 1


_PROMPT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class TestCredentials:
    def test_reach_the_upstream_and_nothing_else(self, tmp_path: Path) -> None:
        words = "a question that no log may show"
        asked: Any = {"model": "gpt-scripted", "messages": [{"role": "user", "content": words}]}
        with serve(lambda request: Turn(text="Hello")) as upstream:
            with serving(tmp_path, "--upstream", upstream.url, "--log-level", "debug") as program:
                own = {"x-standfast-policy": "isolate", "x-api-key": SECRET + "-x", "api-key": SECRET + "-y"}
                url = program.url + "/v1/chat/completions"
                headers = {"authorization": f"Bearer {SECRET}", **own}
                for _ in range(2):
                    assert httpx.post(url, json=asked, headers=headers).status_code == 200
                assert httpx.post(url, content=b"{broken", headers=headers).status_code == 400
                assert httpx.get(program.url + f"/v1/models?key={SECRET}-q", headers=headers).status_code == 200
                assert program.stop() == 0
            for request in upstream.requests:
                assert request.headers["authorization"] == f"Bearer {SECRET}"
                assert request.headers["x-api-key"] == SECRET + "-x"
                assert request.headers["api-key"] == SECRET + "-y"
                assert not [name for name in request.headers if name.startswith("x-standfast")]
        files = [path for path in program.state.rglob("*") if path.is_file()]
        assert program.state / "ledger.sqlite" in files
        for path in (*files, program.console):
            assert SECRET.encode() not in path.read_bytes()
        assert "status=400" in program.said
        assert words not in program.said

    def test_tenants_are_strangers(self, program: Program, script: Served) -> None:
        asked: Any = {"model": "gpt-scripted", "tools": CHAT_TOOLS, "messages": [{"role": "user", "content": "Hm?"}]}
        causes = []
        for key, tools in (("one", CHAT_TOOLS), ("two", CHAT_TOOLS[::-1]), ("one", CHAT_TOOLS[::-1])):
            with openai.OpenAI(base_url=program.url + "/v1", api_key=key, max_retries=0) as client:
                raw = client.chat.completions.with_raw_response.create(**{**asked, "tools": tools})
                causes.append(raw.headers["x-standfast-cause"])
        assert causes == ["none", "none", "T1"]
        assert [r.json["tools"] == CHAT_TOOLS for r in script.generated] == [True, False, True]


class TestConfigurationFile:
    def test_by_model_and_by_path(self, tmp_path: Path) -> None:
        turn = Turn(text="Hello")
        with serve(lambda request: turn) as claude, serve(lambda request: turn) as local, serve([]) as rest:
            (tmp_path / "standfast.toml").write_text(
                f'log_level = "info"\n'
                f'[[upstream]]\nname = "claude"\nurl = "{claude.url}"\nmodels = ["claude-*"]\n'
                f'[[upstream]]\nname = "local"\nurl = "{local.url}/v1"\npath = "/local"\npolicy = "off"\n'
                f'[[upstream]]\nname = "rest"\nurl = "{rest.url}"\n'
            )
            with serving(tmp_path) as program:  # found in the folder where it is started
                with anthropic.Anthropic(base_url=program.url, api_key=SECRET, max_retries=0) as client:
                    told: Any = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
                    assert client.messages.create(model="claude-scripted", **told).content
                    with pytest.raises(anthropic.BadRequestError, match="no turn left"):
                        client.messages.create(model="other", **told)
                with openai.OpenAI(base_url=program.url + "/local/v1", api_key=SECRET, max_retries=0) as open_client:
                    assert len(open_client.models.list().data) == 2
                    answer = open_client.chat.completions.with_raw_response.create(
                        model="claude-scripted", messages=[{"role": "user", "content": "Hello"}]
                    )
                assert "x-standfast-hit" in answer.headers
                assert [f"{n} ({u.url})" in program.said for n, u in (("claude", claude), ("local", local))] == [
                    True
                ] * 2
            assert [r.path for r in claude.requests] == ["/v1/messages"]
            assert [r.path for r in local.requests] == ["/v1/models", "/v1/chat/completions"]
            assert [r.json["model"] for r in rest.requests] == ["other"]

    def test_several_by_flag(self, tmp_path: Path) -> None:
        with serve([Turn(text="Hello")]) as first, serve() as second:
            with serving(tmp_path, "--upstream", first.url, "--upstream", second.url) as program:
                asked = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
                assert httpx.post(program.url + "/v1/chat/completions", json=asked).status_code == 200
            assert (len(first.requests), len(second.requests)) == (1, 0)


def test_a_second_gateway_finds_the_port_taken(program: Program, tmp_path: Path) -> None:
    port = program.url.rsplit(":", 1)[1]
    for arguments in (["--upstream", "http://127.0.0.1:1"], []):  # without an upstream: before a model is loaded
        ended = run("serve", "--port", port, *arguments, home=tmp_path)
        told = f"standfast: port {port} on 127.0.0.1 is in use; stop what listens there, or give another --port\n"
        assert (ended.returncode, ended.stderr) == (1, told)
