"""A stand-in for an engine: it serves over HTTP and caches the longest common prefix of what it renders."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

BYTES_A_TOKEN = 2.85
"""Of this script with the embedded model: 2,244 tokens for the last prompt of some 6,400 bytes."""


class PrefixEngine:
    """Two slots, as the embedded engine has; the one with the longest shared prefix takes the request."""

    def __init__(self) -> None:
        self.url = ""
        self.slots = [b"", b""]
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer_headers: dict[str, str] = {}
        self.usage = True
        self.fail_at: int | None = None

    async def reset(self) -> None:
        self.slots = [b"", b""]

    def charge(self, body: dict[str, Any]) -> tuple[int, int]:
        """(prompt tokens, cached tokens) of a request, which then is cached itself."""
        prompt = rendered(body)
        shared = [shared_length(prompt, slot) for slot in self.slots]
        best = shared.index(max(shared))
        self.slots[best] = prompt
        return tokens(len(prompt)), tokens(min(shared[best], len(prompt) - 3))

    async def list_slots(self, request: web.Request) -> web.Response:
        return web.json_response([{"id": number} for number in range(len(self.slots))])

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.slots[body["id_slot"]] = body["prompt"].encode()
        return web.json_response({"content": ""})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.seen.append(body)
        self.headers.append(dict(request.headers))
        if self.fail_at == len(self.seen):
            return web.json_response({"error": {"message": "out of order"}}, status=503)
        prompt, cached = self.charge(body)
        usage = {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **self.answer_headers})
        await response.prepare(request)
        events: list[Any] = [
            {"choices": [{"delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"delta": {"content": "Yes"}}]},
            {"choices": [], **({"usage": usage} if self.usage else {})},
        ]
        for event in events:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


def shared_length(left: bytes, right: bytes) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(left), len(right)))


def tokens(size: int) -> int:
    return int(size / BYTES_A_TOKEN)


def rendered(body: dict[str, Any]) -> bytes:
    """The prompt as the embedded model's template writes it: call ids and the shape of a text are not in it."""
    system, *rest = body["messages"]
    lines = [f"<|im_start|>system\n{_text(system)}\n# Tools"]
    lines += [json.dumps(tool["function"]["parameters"]) + tool["function"]["name"] for tool in body["tools"]]
    for message in rest:
        functions = [call["function"] for call in message.get("tool_calls", ())]
        calls = [f'<tool_call>\n{{"name": "{f["name"]}", "arguments": {f["arguments"]}}}' for f in functions]
        name = "user\n<tool_response>" if message["role"] == "tool" else message["role"]
        lines.append("\n".join([f"<|im_start|>{name}", _text(message), *calls]) + "<|im_end|>")
    return "\n".join(lines).encode()


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


@pytest.fixture
def offline() -> PrefixEngine:
    """The counting alone, without a server."""
    return PrefixEngine()


@pytest.fixture
async def engine() -> AsyncIterator[PrefixEngine]:
    fake = PrefixEngine()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", fake.chat)
    app.router.add_get("/slots", fake.list_slots)
    app.router.add_post("/completion", fake.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()
