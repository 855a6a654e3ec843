"""Reads what the upstream answers: usage, and what the model produced, as a later request will carry it.

Pure and incremental: the gateway feeds every chunk that it relays. The bytes are taken as uncompressed, which the
gateway sees to. Nothing here raises on any input.
"""

from __future__ import annotations

from collections.abc import Callable

from standfast.prompt.replies import anthropic, openai_chat, openai_responses
from standfast.prompt.replies.base import BodyReader
from standfast.prompt.replies.finding import Finding
from standfast.prompt.replies.reply import Reply, ReplyReader, Usage

__all__ = ["Finding", "Reply", "ReplyReader", "Usage", "reader"]

_BODIES: dict[str, Callable[[bytes], Reply]] = {
    "anthropic": anthropic.read,
    "openai_chat": openai_chat.read,
    "openai_responses": openai_responses.read,
}
_STREAMS: dict[str, Callable[[], ReplyReader]] = {
    "anthropic": anthropic.MessageStream,
    "openai_chat": openai_chat.ChatStream,
    "openai_responses": openai_responses.ResponseStream,
}


def reader(dialect: str, *, streaming: bool) -> ReplyReader:
    """A reader for one response. ``streaming``: its content type is text/event-stream. KeyError: no such dialect."""
    if streaming:
        return _STREAMS[dialect]()
    return BodyReader(_BODIES[dialect])
