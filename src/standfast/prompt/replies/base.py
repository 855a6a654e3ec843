"""The two shapes of a response: one JSON body, or a stream of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from standfast.prompt.replies.finding import Finding
from standfast.prompt.replies.reply import NOTHING, Reply, Usage
from standfast.prompt.replies.sse import Events
from standfast.prompt.replies.wire import LIMIT, Budget, Malformed, checked


class BodyReader:
    """Collects a body and reads it at the end."""

    def __init__(self, read: Callable[[bytes], Reply], limit: int = LIMIT) -> None:
        self._read = read
        self._budget = Budget(limit)
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        if self._budget.take(len(chunk)):
            self._body += chunk
        else:
            self._body.clear()

    def finish(self) -> Reply:
        if self._budget.exceeded:
            return NOTHING
        try:
            reply = self._read(bytes(self._body))
        except Malformed:
            return NOTHING
        return replace(reply, produced=checked(reply.produced))


class StreamReader(ABC):
    """Reads events as they come. A dialect says what an event means, and what all of them amount to.

    ``broken`` is set at the first thing that cannot be read. From then on the content is left alone, as a piece of
    it is missing, while usage is still taken.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._events = Events(limit)
        self._budget = Budget(limit)
        self.broken = False
        self.ended = False
        self.response_id: str | None = None

    def feed(self, chunk: bytes) -> None:
        for data in self._events.feed(chunk):
            self._take(data)

    def finish(self) -> Reply:
        for data in self._events.finish():
            self._take(data)
        lost = self._budget.exceeded or self._events.overflowed
        complete = self.ended and not self.broken
        try:
            produced = () if lost else checked(self.produced(complete))
        except Malformed:
            produced = ()
        return Reply(self.usage(), produced, self.response_id, complete, self.finding())

    def _take(self, data: bytes) -> None:
        try:
            self.event(data)
        except Malformed:
            self.broken = True

    @property
    def collecting(self) -> bool:
        """Whether content still counts."""
        return not self.broken and not self._budget.exceeded

    def keep(self, size: int) -> bool:
        """Whether that many bytes of content may be kept."""
        return self._budget.take(size)

    @abstractmethod
    def event(self, data: bytes) -> None:
        """One event. Raises Malformed."""

    @abstractmethod
    def produced(self, complete: bool) -> tuple[bytes, ...]:
        """What the model produced. Raises Malformed where that cannot be told."""

    @abstractmethod
    def usage(self) -> Usage | None:
        """The usage told so far."""

    def finding(self) -> Finding | None:
        """What the provider told of its cache."""
        return None
