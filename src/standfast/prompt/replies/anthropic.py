"""Responses of Anthropic Messages.

In a stream a block is opened with its first fields, filled by deltas, closed. Which delta fills which field, and
how, is a table. ``input`` of a call arrives as pieces of JSON text and is put in as raw JSON, exactly as streamed.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from standfast.prompt.replies import finding
from standfast.prompt.replies.base import StreamReader
from standfast.prompt.replies.finding import Finding
from standfast.prompt.replies.reply import Reply, Usage
from standfast.prompt.replies.wire import (
    ABSENT,
    LIMIT,
    NULL,
    Malformed,
    decode,
    fields,
    inner,
    is_object,
    json_array,
    json_object,
    quoted,
    text_of,
    told,
    unmark,
)

_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REPLACED = {"signature_delta": ("signature",), "compaction_delta": ("content", "encrypted_content")}


class _Creation(Struct):
    ephemeral_1h_input_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation: _Creation | None = None

    def merge(self, later: _Usage) -> None:
        """Counts are running totals: a later one wins, where there is one."""
        for name in self.__struct_fields__:
            value = getattr(later, name)
            if value is not None:
                setattr(self, name, value)

    def usage(self) -> Usage | None:
        if self.input_tokens is None:
            return None
        read, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        return Usage(
            self.input_tokens + read + written,
            read,
            written,
            self.output_tokens or 0,
            long_tokens=(self.cache_creation or _Creation()).ephemeral_1h_input_tokens or 0,
            tells_cache=self.cache_read_input_tokens is not None,
        )


class _Message(Struct):
    id: str | None = None
    type: str | None = None
    content: list[Raw] | None = None
    usage: _Usage | None = None
    diagnostics: Raw = ABSENT


class _Delta(Struct):
    type: str = ""
    text: Raw = ABSENT
    thinking: Raw = ABSENT
    partial_json: Raw = ABSENT
    signature: Raw = ABSENT
    citation: Raw = ABSENT
    content: Raw = ABSENT
    encrypted_content: Raw = ABSENT


class _Event(Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: Raw = ABSENT
    delta: _Delta | None = None
    usage: _Usage | None = None


_body = msgspec.json.Decoder(_Message)
_event = msgspec.json.Decoder(_Event)


def read(body: bytes) -> Reply:
    """A whole response body."""
    message = decode(_body, body)
    usage = message.usage.usage() if message.usage else None
    found = finding.anthropic(message.diagnostics)
    if message.type != "message" or message.content is None:
        return Reply(usage, (), message.id, False, found)
    return Reply(usage, _assistant([_block(bytes(raw)) for raw in message.content]), message.id, True, found)


def _assistant(blocks: list[bytes]) -> tuple[bytes, ...]:
    if not blocks:
        return ()
    return (json_object({"role": b'"assistant"', "content": json_array(blocks)}),)


def _block(raw: bytes) -> bytes:
    """A block as a request carries it: ``citations: null`` is said in responses only."""
    if b"citations" not in raw:
        return raw
    values = fields(raw)
    if values.get("citations") != NULL:
        return raw
    del values["citations"]
    return json_object(values)


class _Block:
    """A block under way."""

    __slots__ = ("citations", "closed", "joined", "known", "start")

    def __init__(self, start: dict[str, bytes]) -> None:
        self.start = start
        self.joined: dict[str, bytearray] = {}
        self.citations: list[bytes] = []
        self.closed = False
        self.known = True  # no delta came that could not be placed

    def usable(self, complete: bool) -> bool:
        """Whether a client could carry it on: of a cut stream, what was closed, and the text so far."""
        return complete or self.closed or text_of(self.start.get("type", b'""')) == "text"

    def render(self) -> bytes:
        if not self.known:
            raise Malformed
        values = dict(self.start)
        for name, pieces in self.joined.items():
            if name != "partial_json":
                values[name] = quoted(inner(values.get(name, b'""')) + pieces)
            elif pieces:
                values["input"] = _input(pieces)
        if values.get("citations") == NULL:
            del values["citations"]
        if self.citations:
            values["citations"] = self._all_citations(values.get("citations", b"[]"))
        return json_object(values)

    def _all_citations(self, first: bytes) -> bytes:
        inside = first.strip()[1:-1].strip()
        return json_array([inside, *self.citations] if inside else self.citations)


def _input(pieces: bytearray) -> bytes:
    """The JSON text that was streamed as pieces of a string."""
    raw = text_of(quoted(unmark(pieces))).encode()
    if not is_object(raw):
        raise Malformed
    return raw


class MessageStream(StreamReader):
    """A streamed message."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._started = False
        self._usage = _Usage()
        self._finding: Finding | None = None
        self._blocks: dict[int, _Block] = {}

    def event(self, data: bytes) -> None:
        event = decode(_event, data)
        if event.type == "content_block_delta":
            if self.collecting:
                self._delta(event)
        elif event.type == "content_block_start":
            self._start(event)
        elif event.type == "content_block_stop":
            if self.collecting:
                self._block(event.index).closed = True
        elif event.type == "message_start" and event.message:
            self._started = True
            self.response_id = event.message.id
            self._count(event.message.usage)
            self._finding = finding.anthropic(event.message.diagnostics)
        elif event.type == "message_delta":
            self._count(event.usage)
        elif event.type == "message_stop":
            self.ended = self._started
        elif event.type == "error":
            self.broken = True

    def _count(self, usage: _Usage | None) -> None:
        if usage:
            self._usage.merge(usage)

    def _block(self, index: int) -> _Block:
        try:
            return self._blocks[index]
        except KeyError:
            raise Malformed from None

    def _start(self, event: _Event) -> None:
        raw = bytes(event.content_block)
        if self.collecting and self.keep(len(raw) + 256):
            if event.index in self._blocks:
                raise Malformed
            self._blocks[event.index] = _Block(fields(raw))

    def _delta(self, event: _Event) -> None:
        block, delta = self._block(event.index), event.delta
        if delta is None or block.closed:
            raise Malformed
        field = _JOINED.get(delta.type)
        if field is not None:
            piece = inner(getattr(delta, field))
            if self.keep(len(piece)):
                block.joined.setdefault(field, bytearray()).extend(piece)
        elif delta.type == "citations_delta":
            if not told(delta.citation):
                raise Malformed
            if self.keep(len(bytes(delta.citation)) + 64):
                block.citations.append(bytes(delta.citation))
        elif delta.type in _REPLACED:
            for name in _REPLACED[delta.type]:
                value = bytes(getattr(delta, name))
                if told(value) and self.keep(len(value)):
                    block.start[name] = value
        else:
            block.known = False

    def produced(self, complete: bool) -> tuple[bytes, ...]:
        blocks = [block for _, block in sorted(self._blocks.items()) if block.usable(complete)]
        return _assistant([block.render() for block in blocks])

    def usage(self) -> Usage | None:
        return self._usage.usage()

    def finding(self) -> Finding | None:
        return self._finding
