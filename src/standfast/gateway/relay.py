"""The client side: one request to an upstream, its errors as ours, its response chunk by chunk."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from standfast.config import Settings
from standfast.errors import RequestError, UpstreamError, UpstreamTimeout

_KEEP_CONNECTION = 30.0  # seconds; hosted upstreams close an idle one after about a minute
_NAMES_LIVE = 60  # seconds that a host's addresses are remembered
_LONGEST_HEADER = 64 * 1024
_POLL = 0.1  # seconds between two tries to reach an engine that is being restarted
# The library would add these; the caller's own, or their absence, must reach the upstream.
_ADDED_BY_LIBRARY = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Body(Payload):
    """A whole body, written in one piece. The library's own cuts anything over 1 MB into copies of 64 KB."""

    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text (the library asks for it when it logs; we never do)."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all of it; returns when the socket has taken most of it."""
        await writer.write(self._value)


class Relay:
    """Connections to the upstreams, kept and used again."""

    def __init__(self, settings: Settings) -> None:
        self._connect = settings.connect_timeout or None
        self._read = settings.read_timeout or None
        self._kept: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the sessions; needs the running loop that will use them."""
        context = ssl.create_default_context()
        self._kept = self._session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_CONNECTION, ttl_dns_cache=_NAMES_LIVE, ssl=context)
        )
        self._fresh = self._session(
            aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=_NAMES_LIVE, ssl=context)
        )

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._kept, self._fresh):
            if session is not None:
                await session.close()
        self._kept = self._fresh = None

    async def send(
        self,
        name: str,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        body: bytes | AsyncIterator[bytes] | None,
        *,
        patient: bool = False,
    ) -> aiohttp.ClientResponse:
        """Send and return the response with its body unread; the caller closes it.

        A kept connection that the upstream had closed is replaced by a new one, once, if nothing of a response had
        come. A body that is streamed cannot be sent twice, so it never goes over a kept connection. ``patient`` waits
        within the connect timeout for an upstream that refuses connections (the embedded engine, while it restarts).
        Raises UpstreamError, UpstreamTimeout, or RequestError for a request that HTTP cannot carry.
        """
        assert self._kept is not None, "the relay is not open"
        assert self._fresh is not None
        target = URL(url, encoded=True)
        if isinstance(body, AsyncIterator):
            return await self._attempt(self._fresh, name, method, target, headers, body, patient, None)
        attempt = SimpleNamespace(fresh=False)
        try:
            return await self._attempt(self._kept, name, method, target, headers, body, patient, attempt)
        except _Stale:
            return await self._attempt(self._fresh, name, method, target, headers, body, patient, None)

    async def _attempt(
        self,
        session: aiohttp.ClientSession,
        name: str,
        method: str,
        url: URL,
        headers: list[tuple[str, str]],
        body: bytes | AsyncIterator[bytes] | None,
        patient: bool,
        attempt: SimpleNamespace | None,
    ) -> aiohttp.ClientResponse:
        loop = asyncio.get_running_loop()
        patience = loop.time() + (self._connect or 0.0)
        while True:
            data = Body(body) if isinstance(body, bytes) else body
            try:
                response = await session.request(
                    method, url, headers=headers, data=data, allow_redirects=False, trace_request_ctx=attempt
                )
                # llama.cpp listens before its model is loaded, and answers 503 until then.
                if not (patient and response.status == 503 and isinstance(body, bytes) and loop.time() < patience):
                    return response
                response.close()
                await asyncio.sleep(_POLL)
            except aiohttp.ClientConnectorError as error:
                if not (patient and isinstance(body, bytes) and loop.time() < patience):
                    raise self._told(name, error) from error
                await asyncio.sleep(_POLL)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                if attempt is not None and not attempt.fresh and _closed_before_answer(error):
                    raise _Stale from error
                raise self._told(name, error) from error

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(_mark_fresh)
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._connect, sock_connect=self._connect, sock_read=self._read
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=_ADDED_BY_LIBRARY,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            trace_configs=[trace],
        )

    def _told(self, name: str, error: Exception) -> Exception:
        """The error as ours. Messages name the upstream, never its address or anything of the request."""
        match error:
            case aiohttp.ConnectionTimeoutError():
                return UpstreamTimeout(f"Upstream {name!r} could not be reached within {self._connect:g} s.")
            case TimeoutError():
                return UpstreamTimeout(f"Upstream {name!r} sent nothing for {self._read or 0:g} s.")
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                return UpstreamError(f"Upstream {name!r} could not be reached over TLS: {error.args[-1]}.")
            case aiohttp.ClientConnectorDNSError():
                return UpstreamError(f"Upstream {name!r} has a host name that cannot be resolved.")
            case aiohttp.ClientConnectorError():
                return UpstreamError(f"Upstream {name!r} could not be reached: {error.os_error.strerror or 'refused'}.")
            case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
                return UpstreamError(f"Upstream {name!r} answered something that is not HTTP.")
            case aiohttp.ClientConnectionError() | OSError():
                return UpstreamError(f"Upstream {name!r} closed the connection before it answered.")
            case _:
                return RequestError("The request has a header or a target that HTTP cannot carry.")


class _Stale(Exception):
    """A kept connection turned out to be closed."""


async def _mark_fresh(session: aiohttp.ClientSession, context: Any, params: Any) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.fresh = True


def _closed_before_answer(error: Exception) -> bool:
    """Whether the connection ended with not a byte of a response read."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # else it holds the part that had come
    return isinstance(error, aiohttp.ClientOSError | aiohttp.ClientConnectionResetError)
