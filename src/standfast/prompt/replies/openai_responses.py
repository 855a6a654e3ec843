"""Responses of OpenAI Responses: the output items are what a later request carries, so they are taken raw."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from standfast.prompt.replies import finding
from standfast.prompt.replies.base import StreamReader
from standfast.prompt.replies.finding import Finding
from standfast.prompt.replies.reply import Reply, Usage
from standfast.prompt.replies.wire import ABSENT, LIMIT, Malformed, decode

_ENDED = ("completed", "incomplete")
"""Statuses of a response that ended properly; an incomplete one ran into a limit."""


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None

    def usage(self) -> Usage | None:
        if self.input_tokens is None:
            return None
        details = self.input_tokens_details or _Details()
        cached, written = details.cached_tokens or 0, details.cache_write_tokens or 0
        tells = details.cached_tokens is not None
        return Usage(self.input_tokens, cached, written, self.output_tokens or 0, tells_cache=tells)


class _Response(Struct):
    id: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: _Usage | None = None
    prompt_cache_diagnostics: Raw = ABSENT


class _Event(Struct):
    type: str = ""
    output_index: int = -1
    item: Raw = ABSENT
    response: _Response | None = None


_body = msgspec.json.Decoder(_Response)
_event = msgspec.json.Decoder(_Event)


def read(body: bytes) -> Reply:
    """A whole response body."""
    response = decode(_body, body)
    produced = tuple(bytes(item) for item in response.output or ())
    usage = response.usage.usage() if response.usage else None
    found = finding.openai(response.prompt_cache_diagnostics)
    return Reply(usage, produced, response.id, response.status in _ENDED, found)


class ResponseStream(StreamReader):
    """A streamed response."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._items: dict[int, bytes] = {}
        self._final: _Response | None = None

    def event(self, data: bytes) -> None:
        event = decode(_event, data)
        if event.type == "response.output_item.done":
            self._item(event)
        elif event.response is not None:
            self._lifecycle(event.type, event.response)
        elif event.type == "error":
            self.broken = True

    def _item(self, event: _Event) -> None:
        item = bytes(event.item)
        if not self.collecting or not self.keep(len(item) + 128):
            return
        if event.output_index < 0 or item[:1] != b"{":
            raise Malformed
        self._items[event.output_index] = item

    def _lifecycle(self, kind: str, response: _Response) -> None:
        self.response_id = response.id or self.response_id
        if kind in ("response.completed", "response.incomplete"):
            self.ended = True
            self._final = response
        elif kind in ("response.failed", "response.cancelled"):
            self.broken = True
            self._final = response

    def produced(self, complete: bool) -> tuple[bytes, ...]:
        items = tuple(item for _, item in sorted(self._items.items()))
        final = tuple(bytes(item) for item in (self._final.output if self._final else None) or ())
        # A stream picked up in the middle misses the events of the first items; the last event holds them all.
        return final if len(final) > len(items) else items

    def usage(self) -> Usage | None:
        return self._final.usage.usage() if self._final and self._final.usage else None

    def finding(self) -> Finding | None:
        return finding.openai(self._final.prompt_cache_diagnostics) if self._final else None
