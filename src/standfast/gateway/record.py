"""What is known of one exchange, and what is told about it: to the ledger, to the observer, in response headers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from standfast.errors import place, reason
from standfast.events import FailedOpen, Finished, Observer
from standfast.gateway.headers import Pair
from standfast.gateway.routes import OTHER
from standfast.prompt.replies import Reply, ReplyReader, reader
from standfast.turn import Plan, Turns

logger = logging.getLogger("standfast.gateway")

CLIENT_LEFT = 499
"""The status that is recorded when the caller left before there was another."""


class Record:
    """The facts of one exchange, gathered as they come. Nothing here raises."""

    def __init__(
        self, turns: Turns, observe: Observer, request_id: str, flush: Callable[[], object] | None = None
    ) -> None:
        self._turns = turns
        self._flush = flush
        self._observe = observe
        self._began = time.perf_counter()
        self._first: float | None = None
        self._reader: ReplyReader | None = None
        self._reply: Reply | None = None
        self._learned = False
        self.request_id = request_id
        self.upstream = ""
        self.dialect = OTHER
        self.plan: Plan | None = None
        self.status = 0
        self.whole = False
        """The response came to its end."""
        self.on_first: Callable[[], object] = lambda: None
        """Called at the first byte of the response."""

    def begin_reply(self, status: int, *, streaming: bool, readable: bool) -> None:
        """A response to a conversation begins. ``readable``: it is not compressed."""
        self.status = status
        if readable:
            try:
                self._reader = reader(self.dialect, streaming=streaming)
            except Exception as error:
                self.failed("read", error)

    def chunk(self, data: bytes) -> None:
        """A piece of the response has been relayed."""
        if self._first is None:
            self._first = time.perf_counter()
            self.on_first()
        if self._reader is None:
            return
        try:
            self._reader.feed(data)
        except Exception as error:
            self._reader = None
            self.failed("read", error)

    def reply(self) -> Reply:
        """What the response said. Called once it is at its end, or will not get there."""
        if self._reply is None:
            self._reply = self._read()
        return self._reply

    def _read(self) -> Reply:
        good = self.whole and 200 <= self.status < 300
        if self._reader is not None:
            try:
                reply = self._reader.finish()
                return reply if good else replace(reply, complete=False)
            except Exception as error:
                self.failed("read", error)
        # It could not be read; yet a good one says that the upstream has computed the prompt.
        return Reply(usage=None, produced=(), response_id=None, complete=good)

    def learn(self) -> None:
        """Hand plan and reply to the ledger, once."""
        if self._learned or self.plan is None or not self.status:
            return
        self._learned = True
        try:
            self._turns.learn(self.plan, self.reply())
        except Exception as error:
            self.failed("learn", error)

    async def settle(self) -> None:
        """Learn before the end is told, so that the caller's next request finds it, whichever worker it goes to."""
        self.learn()
        if self._flush is None or self.plan is None:
            return
        try:
            await asyncio.to_thread(self._flush)
        except Exception as error:
            self.failed("ledger", error)

    def verdict(self, *, ended: bool) -> list[Pair]:
        """The response headers that tell what Standfast did. ``ended``: the response was read, so its usage is known.

        Before that the hit is the expected number of tokens, written ``~N``.
        """
        diagnosis = self.plan.diagnosis if self.plan is not None else None
        cause = diagnosis.cause if diagnosis is not None else None
        repaired = diagnosis is not None and diagnosis.repaired
        usage = self.reply().usage if ended else None
        out = [(b"x-standfast-cause", (cause or "none").encode()), (b"x-standfast-repaired", b"%d" % repaired)]
        if usage is not None:
            out.append((b"x-standfast-hit", b"%d/%d" % (usage.cached_tokens, usage.prompt_tokens)))
        elif diagnosis is not None and self.status < 300:
            out.append((b"x-standfast-hit", b"~%d" % diagnosis.tokens.after))
        return out

    def failed(self, stage: str, error: Exception) -> None:
        """Tell that something of ours failed and the request went on without it."""
        self._tell(FailedOpen(self.request_id, self.upstream, stage, reason(error)))

    def close(self, *, left: bool) -> None:
        """The exchange is over."""
        self.learn()
        usage = self.reply().usage if self._reader is not None else None
        now = time.perf_counter()
        self._tell(
            Finished(
                self.request_id,
                upstream=self.upstream,
                dialect=self.dialect,
                model=self.plan.model if self.plan is not None else "",
                status=self.status or (CLIENT_LEFT if left else 500),
                prompt_tokens=usage.prompt_tokens if usage else None,
                cached_tokens=usage.cached_tokens if usage else None,
                output_tokens=usage.output_tokens if usage else None,
                first_byte_seconds=(self._first or now) - self._began,
                seconds=now - self._began,
                disconnected=left,
            )
        )

    def _tell(self, event: FailedOpen | Finished) -> None:
        # An observer that fails must not take a request with it, and there is nobody else to tell.
        try:
            self._observe(event)
        except Exception as error:
            logger.error("request %s: an observer failed: %s", self.request_id, place(error))
