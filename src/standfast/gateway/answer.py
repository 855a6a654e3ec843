"""Relays an upstream's response to the caller, and lets the record read along. It never delays a chunk of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp

from standfast.errors import UpstreamError, UpstreamTimeout
from standfast.gateway import headers
from standfast.gateway.caller import Caller, Cut
from standfast.gateway.engine import Seat
from standfast.gateway.headers import Pair
from standfast.gateway.record import Record

_HELD_AT_MOST = 8 << 20
"""A non-streaming answer is held until its headers can tell its usage; one over this size is streamed after all."""


class Answer:
    """One response on its way back."""

    def __init__(self, caller: Caller, response: aiohttp.ClientResponse, record: Record) -> None:
        self._caller = caller
        self._response = response
        self._record = record

    async def pass_through(self) -> None:
        """Relay a response that is none of the dialects'."""
        self._record.status = self._response.status
        await self._caller.start(self._response.status, self._headers())
        await self._relay(_chunks(self._response))

    async def converse(self, seat: Seat | None) -> None:
        """Relay the answer of a model. ``seat`` is given for the gateway's own engine."""
        status = self._response.status
        raw = {name.lower(): value for name, value in self._response.raw_headers}
        streaming = raw.get(b"content-type", b"").lower().startswith(b"text/event-stream")
        readable = raw.get(b"content-encoding", b"identity").strip().lower() == b"identity"
        if seat is not None and status < 300:
            seat.answered(streaming=streaming)
        self._record.begin_reply(status, streaming=streaming, readable=readable)
        seat = seat if readable and status < 300 else None
        if not streaming:
            await self._hold(seat)
            return
        chunks = _chunks(self._response)
        told = self._record.verdict(ended=False) + (seat.headers(None) if seat else [])
        await self._caller.start(status, self._headers(framed=seat is None) + told)
        await self._relay(chunks if seat is None else _filled(chunks, seat))

    async def _relay(self, chunks: AsyncIterator[bytes]) -> None:
        """Chunk by chunk, no faster than the caller takes them."""
        try:
            async for chunk in chunks:
                await self._caller.write(chunk)
                self._record.chunk(chunk)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Cut("the upstream broke off its response") from error
        self._record.whole = True
        await self._record.settle()
        await self._caller.end()

    async def _hold(self, seat: Seat | None) -> None:
        held: list[bytes] = []
        size = 0
        chunks = _chunks(self._response)
        try:
            async for chunk in chunks:
                held.append(chunk)
                size += len(chunk)
                if size > _HELD_AT_MOST:
                    break
        except TimeoutError as error:
            raise UpstreamTimeout("The upstream stopped in the middle of its response.") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError("The upstream broke off its response.") from error
        if size > _HELD_AT_MOST:
            await self._caller.start(self._response.status, self._headers() + self._record.verdict(ended=False))
            await self._relay(_joined(held, chunks))
        else:
            await self._send_whole(held[0] if len(held) == 1 else b"".join(held), seat)

    async def _send_whole(self, body: bytes, seat: Seat | None) -> None:
        shown = body if seat is None else seat.whole(body)
        self._record.chunk(shown)
        self._record.whole = True
        out = self._headers(framed=seat is None) + self._record.verdict(ended=True)
        if seat is not None:
            out += [*seat.headers(self._record.reply().usage), (b"content-length", b"%d" % len(shown))]
        await self._record.settle()
        await self._caller.start(self._response.status, out)
        await self._caller.end(shown)

    def _headers(self, *, framed: bool = True) -> list[Pair]:
        kept = headers.to_caller(self._response.raw_headers, framed=framed)
        return [*kept, (b"x-standfast-request-id", self._record.request_id.encode())]


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    while chunk := await response.content.readany():
        yield chunk


async def _filled(chunks: AsyncIterator[bytes], seat: Seat) -> AsyncIterator[bytes]:
    """The engine's stream with all usage fields."""
    fill = seat.stream()
    async for chunk in chunks:
        if shown := fill.feed(chunk):
            yield shown
    if rest := fill.finish():
        yield rest


async def _joined(held: list[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while held:
        yield held.pop(0)
    async for chunk in chunks:
        yield chunk
