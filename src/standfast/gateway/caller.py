"""The server side of one request: its body, its answer, and whether the caller is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from standfast.errors import BodyTooLarge
from standfast.gateway.headers import Pair, value_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gone(Exception):
    """The caller closed the connection."""


class Cut(Exception):
    """Raised out of the application to break the connection off: the response cannot be ended properly."""


class Caller:
    """One exchange with the caller. ``left`` tells that the caller went away before its end.

    While it is ``watched`` the task that serves it is cancelled as soon as the caller leaves.
    """

    def __init__(self, headers: Sequence[Pair], receive: Receive, send: Send) -> None:
        self.headers = headers
        self._receive = receive
        self._send = send
        self._body_read = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._served_by: asyncio.Task[Any] | None = None
        self.left = False
        self.started = False
        self.ended = False

    @property
    def length(self) -> int | None:
        """The announced Content-Length."""
        value = value_of(self.headers, b"content-length")
        return int(value) if value is not None and value.isdigit() else None

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises BodyTooLarge as soon as it is known to be over the limit, announced or counted."""
        if (self.length or 0) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            chunk, more = await self._next()
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        more = True
        while more:
            chunk, more = await self._next()
            if chunk:
                yield chunk

    async def short_body_or_chunks(self) -> bytes | AsyncIterator[bytes]:
        """The body if it came in one piece, as most do, else its pieces."""
        chunk, more = await self._next()
        return self._from(chunk) if more else chunk

    async def _from(self, first: bytes) -> AsyncIterator[bytes]:
        if first:
            yield first
        async for chunk in self.chunks():
            yield chunk

    async def _next(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._leave()
            raise Gone
        more = bool(message.get("more_body"))
        if not more:
            self._body_read.set()
        return message.get("body", b""), more

    def watch(self) -> None:
        """Cancel the current task if the caller leaves, from now until ``unwatch`` or the end of the response."""
        self._served_by = asyncio.current_task()
        self._watch = asyncio.create_task(self._wait_until_gone())

    def unwatch(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._served_by = None

    async def _wait_until_gone(self) -> None:
        await self._body_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        if self.ended:  # the server tells "disconnected" after every response too
            return
        self.left = True
        if self._served_by is not None:
            self._served_by.cancel()
            self._served_by = None

    async def start(self, status: int, headers: list[Pair]) -> None:
        """Send status and headers."""
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body; returns when the caller takes more."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last piece."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(self, status: int, body: bytes, content_type: bytes, headers: list[Pair]) -> None:
        """Send a whole response of our own."""
        own = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        await self.start(status, own + headers)
        await self.end(body)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is over this gateway's limit of {limit >> 20} MB (max_body_mb).")
