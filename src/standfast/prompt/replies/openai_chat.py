"""Responses of OpenAI Chat Completions, and of those who speak it (llama.cpp, vLLM, DeepSeek, OpenRouter …)."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec import Raw, Struct

from standfast.prompt.replies.base import StreamReader
from standfast.prompt.replies.reply import Reply, Usage
from standfast.prompt.replies.wire import (
    ABSENT,
    LIMIT,
    NULL,
    Malformed,
    decode,
    fields,
    inner,
    json_array,
    json_object,
    quoted,
    told,
)

_TEXTS = ("content", "reasoning_content", "refusal")
_CARRIED = ("reasoning_content", "refusal", "tool_calls", "function_call")
_CALL_TEXT = {"function": "arguments", "custom": "input"}
"""Which field of a call holds the text that the model wrote."""


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek
    cached_tokens: int | None = None  # Moonshot


class _Timings(Struct):
    """llama.cpp's own account: cached and computed prompt tokens, generated tokens."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None


class _Calls(Struct):
    index: int | None = None
    id: Raw = ABSENT
    type: Raw = ABSENT
    function: Raw = ABSENT
    custom: Raw = ABSENT
    extra_content: Raw = ABSENT


class _Delta(Struct):
    content: Raw = ABSENT
    reasoning_content: Raw = ABSENT
    refusal: Raw = ABSENT
    tool_calls: list[_Calls] | None = None
    function_call: Raw = ABSENT


class _Choice(Struct):
    index: int = 0
    message: Raw = ABSENT
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: Raw = ABSENT  # Moonshot


class _Chunk(Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: Raw = ABSENT
    timings: Raw = ABSENT
    error: Raw = ABSENT


_chunk = msgspec.json.Decoder(_Chunk)
_list = msgspec.json.Decoder(list[Raw])
_usages = msgspec.json.Decoder(_Usage)
_timed = msgspec.json.Decoder(_Timings)


class _Count:
    """What was told of usage. Told badly, it is as if untold: the content is not the worse for it."""

    __slots__ = ("_timings", "_usage")

    def __init__(self) -> None:
        self._usage = _Usage()
        self._timings = _Timings()

    def take(self, chunk: _Chunk) -> None:
        for raw in (chunk.usage, *(choice.usage for choice in chunk.choices or ())):
            if told(raw):
                self._take_usage(bytes(raw))
        if told(chunk.timings):
            with suppress(Malformed):
                self._timings = decode(_timed, bytes(chunk.timings))

    def _take_usage(self, raw: bytes) -> None:
        with suppress(Malformed):
            usage = decode(_usages, raw)
            if usage.prompt_tokens is not None:
                self._usage = usage

    def usage(self) -> Usage | None:
        return _usage(self._usage, self._timings)


def _usage(usage: _Usage, timed: _Timings) -> Usage | None:
    if usage.prompt_tokens is None:
        if timed.prompt_n is None:
            return None
        cached = timed.cache_n or 0
        return Usage(cached + timed.prompt_n, cached, 0, timed.predicted_n or 0)
    details = usage.prompt_tokens_details or _Details()
    ways = (details.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens, timed.cache_n)
    told_cached = [count for count in ways if count is not None]
    return Usage(
        usage.prompt_tokens,
        told_cached[0] if told_cached else 0,
        details.cache_write_tokens or 0,
        usage.completion_tokens or 0,
        tells_cache=bool(told_cached),
    )


def read(body: bytes) -> Reply:
    """A whole response body."""
    whole = decode(_chunk, body)
    choices = whole.choices or []
    count = _Count()
    count.take(whole)
    if told(whole.error) or not choices:
        return Reply(count.usage(), (), whole.id, False)
    # Of several choices nobody can tell which one goes on.
    produced = _message(fields(choices[0].message)) if len(choices) == 1 else ()
    return Reply(count.usage(), produced, whole.id, all(choice.finish_reason is not None for choice in choices))


def _message(values: dict[str, bytes]) -> tuple[bytes, ...]:
    """A message of a response as a request carries it."""
    carried = {name: values[name] for name in _CARRIED if told(values.get(name)) and values[name] not in (b"[]", b'""')}
    if "tool_calls" in carried:
        carried["tool_calls"] = json_array(_call(bytes(raw)) for raw in decode(_list, carried["tool_calls"]))
    content = values.get("content", NULL)
    if content == NULL and not carried:
        return ()
    return (json_object({"role": b'"assistant"', "content": content, **carried}),)


def _call(raw: bytes) -> bytes:
    values = fields(raw)
    if "index" not in values:
        return raw
    del values["index"]
    return json_object(values)


class _Pieces:
    """The strings of a call that arrive in pieces: the name at once, the arguments bit by bit."""

    __slots__ = ("extra", "id", "joined", "kind", "name", "type")

    def __init__(self) -> None:
        self.id = self.type = self.name = self.extra = b""
        self.kind = "function"
        self.joined = bytearray()

    def render(self) -> bytes:
        text = _CALL_TEXT[self.kind]
        inside = json_object({"name": self.name or b'""', text: quoted(self.joined)})
        kind = self.type or quoted(self.kind.encode())
        values = {"id": self.id, "type": kind, self.kind: inside, "extra_content": self.extra}
        return json_object({name: value for name, value in values.items() if value})


class ChatStream(StreamReader):
    """A streamed completion."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._texts: dict[str, bytearray] = {}
        self._calls: dict[int, _Pieces] = {}
        self._function_call: _Pieces | None = None
        self._several = False
        self._count = _Count()

    def event(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            return
        chunk = decode(_chunk, data)
        if chunk.id and self.response_id is None:
            self.response_id = chunk.id
        self._count.take(chunk)
        if told(chunk.error):
            self.broken = True
        for choice in chunk.choices or ():
            self._choice(choice)

    def _choice(self, choice: _Choice) -> None:
        if choice.index != 0:
            self._several = True
            return
        if choice.delta and self.collecting:
            self._delta(choice.delta)
        if choice.finish_reason is not None:
            self.ended = True

    def _delta(self, delta: _Delta) -> None:
        for name in _TEXTS:
            raw = bytes(getattr(delta, name))
            if raw and raw != NULL:
                piece = inner(raw)
                if self.keep(len(piece)):
                    self._texts.setdefault(name, bytearray()).extend(piece)
        for call in delta.tool_calls or ():
            self._fill(self._call(call), call)
        if told(delta.function_call):
            self._function_call = self._function_call or _Pieces()
            self._fill_inside(self._function_call, fields(delta.function_call))

    def _call(self, call: _Calls) -> _Pieces:
        """The call that a piece belongs to. Without an index, one with an id begins the next."""
        index = call.index
        if index is None:
            index = len(self._calls) - (0 if told(call.id) or not self._calls else 1)
        if index not in self._calls and self.keep(512):
            self._calls[index] = _Pieces()
        return self._calls.get(index) or _Pieces()

    def _fill(self, pieces: _Pieces, call: _Calls) -> None:
        for name, raw in (("id", call.id), ("type", call.type), ("extra", call.extra_content)):
            value = bytes(raw)
            if told(value) and value != b'""' and not getattr(pieces, name) and self.keep(len(value)):
                setattr(pieces, name, value)
        for kind, inside in (("function", call.function), ("custom", call.custom)):
            if told(inside):
                pieces.kind = kind
                self._fill_inside(pieces, fields(inside))

    def _fill_inside(self, pieces: _Pieces, inside: dict[str, bytes]) -> None:
        name = inside.get("name")
        if name is not None and told(name) and not pieces.name and self.keep(len(name)):
            pieces.name = quoted(inner(name))
        text = inside.get(_CALL_TEXT[pieces.kind])
        if text is not None and told(text):
            piece = inner(text)
            if self.keep(len(piece)):
                pieces.joined += piece

    def produced(self, complete: bool) -> tuple[bytes, ...]:
        if self._several:
            return ()
        values = {name: quoted(text) for name, text in self._texts.items()}
        if self._calls and complete:  # a call that was cut off is nobody's to carry on
            values["tool_calls"] = json_array(call.render() for _, call in sorted(self._calls.items()))
        if self._function_call and complete:
            pieces = self._function_call
            values["function_call"] = json_object({"name": pieces.name or b'""', "arguments": quoted(pieces.joined)})
        return _message(values)

    def usage(self) -> Usage | None:
        return self._count.usage()
