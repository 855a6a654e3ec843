"""Send the requests of a conversation one after another, and note what the engine says about each.

Token counts come from the engine's own ``usage``; time to first token is taken here, at the client.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from standfast.demo.habits import ClientRequest
from standfast.errors import UpstreamError, UpstreamTimeout

_SECONDS_A_REQUEST = 120.0


@dataclass(frozen=True, slots=True)
class Step:
    """What one request cost."""

    turn: int
    kind: str
    habits: tuple[str, ...]
    prompt_tokens: int
    """The whole prompt, cached tokens included."""
    cached_tokens: int
    first_token_seconds: float
    seconds: float
    cause: str | None = None
    """Class that Standfast names in x-standfast-cause; None on a raw run."""
    repaired: bool = False

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens


async def run(
    base_url: str,
    requests: Sequence[ClientRequest],
    headers: Mapping[str, str],
    on_step: Callable[[Step], None],
) -> list[Step]:
    """Send all requests in order, streaming. Raises UpstreamError if one fails or tells no usage."""
    url = base_url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
    steps = []
    timeout = aiohttp.ClientTimeout(total=_SECONDS_A_REQUEST)
    # A connection each: llama.cpp's server closes one after a stream, and a reused one may be closing already.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=dict(headers)) as session:
        for request in requests:
            step = await _send(session, url, request)
            steps.append(step)
            on_step(step)
    return steps


async def empty_slots(engine_url: str) -> None:
    """Make a llama.cpp server forget every cached prompt. Raises UpstreamError if it does not list its slots.

    A slot keeps only what its newest prompt shares with the one before, so a prompt of one word empties it. (Its own
    ``erase`` action is there only if the server may write files.)
    """
    base = engine_url.rstrip("/").removesuffix("/v1")
    timeout = aiohttp.ClientTimeout(total=_SECONDS_A_REQUEST)
    try:
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session:
            async with session.get(f"{base}/slots") as response:
                slots = [slot["id"] for slot in await response.json()]
            for slot in slots:
                filler = {"prompt": "-", "n_predict": 1, "id_slot": slot, "cache_prompt": False}
                async with session.post(f"{base}/completion", json=filler) as response:
                    await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UpstreamError(f"the slots of {base} cannot be emptied: {error or type(error).__name__}") from error


async def _send(session: aiohttp.ClientSession, url: str, request: ClientRequest) -> Step:
    body = _streamed(request.body)
    where = f"turn {request.turn} at {url}"
    start = time.perf_counter()
    try:
        async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
            if response.status != 200:
                raise UpstreamError(f"{where}: status {response.status}: {(await response.text())[:300]}")
            first, usage = await _read(response, start)
            cause, repaired = _verdict(response.headers)
    except TimeoutError as error:
        raise UpstreamTimeout(f"{where}: no answer within {_SECONDS_A_REQUEST:.0f} s") from error
    except aiohttp.ClientError as error:
        raise UpstreamError(f"{where}: {error or type(error).__name__}") from error
    prompt, cached = _counts(usage, where)
    seconds = time.perf_counter() - start
    habits = tuple(habit.value for habit in request.habits)
    return Step(request.turn, request.kind, habits, prompt, cached, first or seconds, seconds, cause, repaired)


def _streamed(body: bytes) -> bytes:
    """The body with streaming and usage asked for, as its last fields: nothing before them changes."""
    return body[:-1] + b',"stream":true,"stream_options":{"include_usage":true}}'


async def _read(response: aiohttp.ClientResponse, start: float) -> tuple[float | None, Any]:
    """Seconds to the first event that carries output, and the usage of the last one that tells it."""
    first: float | None = None
    usage: Any = None
    async for line in response.content:
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        event = json.loads(line[5:])
        if first is None and _has_output(event):
            first = time.perf_counter() - start
        usage = event.get("usage") or usage
    return first, usage


def _has_output(event: dict[str, Any]) -> bool:
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content") or delta.get("tool_calls") or choice.get("finish_reason"):
            return True
    return False


def _counts(usage: Any, where: str) -> tuple[int, int]:
    try:
        return int(usage["prompt_tokens"]), int(usage["prompt_tokens_details"]["cached_tokens"])
    except (TypeError, KeyError, ValueError) as error:
        raise UpstreamError(
            f"{where}: the engine tells no cached tokens in its usage, so nothing to measure"
        ) from error


def _verdict(headers: Mapping[str, str]) -> tuple[str | None, bool]:
    """Cause and repair as Standfast's response headers tell them; a raw run has neither."""
    cause = headers.get("x-standfast-cause", "none")
    return (None if cause == "none" else cause), headers.get("x-standfast-repaired") == "1"
