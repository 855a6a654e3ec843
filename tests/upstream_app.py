"""The scripted upstream as an ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import upstream_anthropic as anthropic
import upstream_openai_chat as chat
import upstream_openai_responses as responses
from upstream_cache import Count, PrefixCache, anthropic_pieces, chat_pieces, render, responses_pieces, tokens
from upstream_other import other
from upstream_turn import Recorded, Turn, anthropic_error, openai_error

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Script = Sequence[Turn] | Callable[[Recorded], Turn]
Failure = Callable[[Turn], "anthropic.Event"]

POLL = 0.02


class Dropped(Exception):
    """Raised on purpose: makes the server drop the connection."""


@dataclass(frozen=True)
class Answer:
    """An answer ready to go out, whole or in events."""

    whole: dict[str, Any]
    events: Iterator[anthropic.Event]
    failure: Failure
    usage: dict[str, Any]


class Exchange:
    """One request and the way back to its client."""

    def __init__(self, request: Recorded, receive: Receive, send: Send, closing: Callable[[], bool]) -> None:
        self.request = request
        self._send = send
        self._closing = closing
        self._watch = asyncio.ensure_future(receive())  # resolves when the client leaves

    @property
    def gone(self) -> bool:
        return self._watch.done() or self._closing()

    async def pause(self, seconds: float) -> None:
        """Wait, or until the client leaves."""
        end = asyncio.get_running_loop().time() + seconds
        while not self.gone and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait([self._watch], timeout=min(left, POLL))

    async def start(self, status: int, headers: dict[str, str]) -> None:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def close(self) -> None:
        """Note whether the client stayed to the end."""
        await asyncio.sleep(0)
        self.request.done = True
        if not self._watch.done():
            self._watch.cancel()
        await asyncio.wait([self._watch])


class ScriptedUpstream:
    """Answers from a script and records what it is asked.

    A sequence is consumed in order, whatever the endpoint; a callable chooses by the request. Only requests that
    generate take a turn. Usage is simulated, see ``upstream_cache``.
    """

    def __init__(self, script: Script = ()) -> None:
        self.requests: list[Recorded] = []
        self.cache = PrefixCache()
        self.closing = False
        self._script = script
        self._next = 0
        self._serial = 0
        self._stored: dict[str, list[Any]] = {}

    @property
    def generated(self) -> list[Recorded]:
        """The recorded requests that took a turn."""
        return [request for request in self.requests if request.path in _GENERATE]

    def say(self, *turns: Turn) -> None:
        """Replace what is left of the script."""
        self._script, self._next = turns, 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the scripted upstream does not speak {scope['type']}")
        request = await _record(scope, receive)
        self.requests.append(request)
        exchange = Exchange(request, receive, send, lambda: self.closing)
        try:
            if request.method == "POST" and request.path in _GENERATE:
                await self._generate(exchange)
            else:
                await self._other(exchange)
        finally:
            await exchange.close()

    async def _other(self, exchange: Exchange) -> None:
        request = exchange.request
        if (request.method, request.path) == ("POST", "/v1/messages/count_tokens"):
            counted = {"input_tokens": tokens(len(render(anthropic_pieces(request.json))))}
            await _whole(exchange, 200, counted)
        else:
            await _whole(exchange, *other(request))

    async def _generate(self, exchange: Exchange) -> None:
        request = exchange.request
        turn = self._turn(request)
        if turn.never:
            await exchange.pause(float("inf"))
        else:
            await exchange.pause(turn.first_byte_delay)
        if exchange.gone:
            request.disconnected = True
        elif turn.status >= 400 and turn.fail_after is None:
            await _refuse(exchange, turn)
        else:
            await self._answer(exchange, turn)

    def _turn(self, request: Recorded) -> Turn:
        if callable(self._script):
            return self._script(request)
        if self._next >= len(self._script):
            return Turn(status=400, message="the script has no turn left")
        self._next += 1
        return self._script[self._next - 1]

    async def _answer(self, exchange: Exchange, turn: Turn) -> None:
        try:
            answer = _GENERATE[exchange.request.path](self, turn, exchange.request.json)
        except (KeyError, TypeError, ValueError) as error:
            message = f"cannot be read as a request of this dialect: {error!r}"
            await _refuse(exchange, Turn(status=400, message=message))
            return
        exchange.request.usage = answer.usage
        if exchange.request.json.get("stream"):
            await _stream(exchange, turn, answer)
        else:
            await _whole(exchange, 200, answer.whole, drop=turn.disconnect_after is not None)

    def _count(self, body: dict[str, Any], pieces: list[Any]) -> tuple[int, Count]:
        self._serial += 1
        return self._serial, self.cache.count(body["model"], pieces)

    def _anthropic(self, turn: Turn, body: dict[str, Any]) -> Answer:
        serial, count = self._count(body, anthropic_pieces(body))
        whole = anthropic.message(turn, body["model"], serial, count)
        return Answer(whole, anthropic.events(turn, body["model"], serial, count), anthropic.failure, whole["usage"])

    def _chat(self, turn: Turn, body: dict[str, Any]) -> Answer:
        serial, count = self._count(body, chat_pieces(body))
        whole = chat.completion(turn, body["model"], serial, count)
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = chat.events(turn, body["model"], serial, count, with_usage=with_usage)
        return Answer(whole, events, chat.failure, whole["usage"])

    def _responses(self, turn: Turn, body: dict[str, Any]) -> Answer:
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self._stored:
            raise ValueError(f"Previous response with id '{previous}' not found.")
        history = self._stored.get(previous, []) if previous else []
        serial, count = self._count(body, responses_pieces(body, history))
        whole = responses.response(turn, body, serial, count)
        if body.get("store", True):
            own = responses_pieces({"input": body.get("input", [])}, history)
            self._stored[whole["id"]] = [*own, *whole["output"]]
        return Answer(whole, responses.events(turn, body, serial, count), responses.failure, whole["usage"])


_GENERATE: dict[str, Callable[[ScriptedUpstream, Turn, dict[str, Any]], Answer]] = {
    "/v1/messages": ScriptedUpstream._anthropic,
    "/v1/chat/completions": ScriptedUpstream._chat,
    "/v1/responses": ScriptedUpstream._responses,
}


async def _record(scope: MutableMapping[str, Any], receive: Receive) -> Recorded:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Recorded(scope["method"], scope["path"], scope["query_string"].decode(), headers, body)


async def _refuse(exchange: Exchange, turn: Turn) -> None:
    build = anthropic_error if exchange.request.path.startswith("/v1/messages") else openai_error
    headers = {} if turn.retry_after is None else {"retry-after": str(turn.retry_after)}
    await _whole(exchange, turn.status, build(turn.status, turn.message), headers=headers)


async def _whole(
    exchange: Exchange, status: int, body: Any, *, headers: dict[str, str] | None = None, drop: bool = False
) -> None:
    raw = json.dumps(body, ensure_ascii=False).encode()
    fixed = {"content-type": "application/json", "content-length": str(len(raw)), **_ids(exchange.request)}
    await exchange.start(status, {**fixed, **(headers or {})})
    if drop:
        await exchange.write(raw[: len(raw) // 2], more=True)
        raise Dropped
    await exchange.write(raw, more=False)


async def _stream(exchange: Exchange, turn: Turn, answer: Answer) -> None:
    fixed = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    await exchange.start(200, {**fixed, **_ids(exchange.request)})
    for number, event in enumerate(_until_failure(answer.events, turn, answer.failure)):
        if number == turn.disconnect_after:
            raise Dropped
        await exchange.pause(turn.event_delay if number else 0)
        if exchange.gone:
            exchange.request.disconnected = True
            return
        await exchange.write(frame(event), more=True)
    await exchange.write(b"", more=False)


def _until_failure(events: Iterable[anthropic.Event], turn: Turn, failure: Failure) -> Iterator[anthropic.Event]:
    for number, event in enumerate(events):
        if number == turn.fail_after:
            yield failure(turn)
            return
        yield event


def frame(event: anthropic.Event) -> bytes:
    """An event on the wire."""
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode()


def _ids(request: Recorded) -> dict[str, str]:
    name = "request-id" if re.match(r"/v1/messages", request.path) else "x-request-id"
    return {name: "req_scripted"}
