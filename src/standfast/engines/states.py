"""Keeps the KV state of a llama-server's slots: after a response it is taken in, before a request it is put back.

Nothing here knows a prompt's tokens beforehand. A request is named segment by segment; the context that begins like it
is found by those names, with the tokens that the server itself computed for them; the server compares these with the
request's own and goes on from where they part. So a name that promises too much costs time, never a wrong token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from blake3 import blake3

from standfast.engines.llama_server import LlamaServer
from standfast.engines.slot_file import read_slot, read_whole, write_slot, write_whole
from standfast.engines.slot_probe import Probed, probe
from standfast.errors import StandfastError, reason
from standfast.store.names import Scope
from standfast.store.tiers import Loaded, Store

logger = logging.getLogger("standfast.engine")

_MARGIN = 1.1
"""Where the tokens of a shared head are only estimated, so much more is loaded; the server drops what differs."""
_WORTH = 64
"""Tokens under which nothing is loaded."""


@dataclass(frozen=True, slots=True)
class Named:
    """A request as it is found again."""

    namespace: bytes
    heads: tuple[bytes, ...]
    """For each segment, in render order: the name of the head up to its end."""
    sizes: tuple[int, ...]
    """Rendered bytes of each segment."""

    @classmethod
    def of(cls, namespace: bytes, chain: Sequence[bytes], sizes: Sequence[int]) -> Named:
        """A request by the keys of its segments and their sizes."""

        def name(head: bytes, key: bytes) -> bytes:
            return blake3(head + key, key=namespace).digest()

        return cls(namespace, tuple(accumulate(chain, name, initial=namespace))[1:], tuple(sizes))

    def places(self, prompt: int) -> list[tuple[bytes, int]]:
        """Each head with the tokens up to there, by its share of the bytes; the last is the end of the prompt."""
        whole = sum(self.sizes) or 1
        return [(head, prompt * upto // whole) for head, upto in zip(self.heads, accumulate(self.sizes), strict=True)]


@dataclass(slots=True)
class Placed:
    """What was put into a slot before a request."""

    by_tier: dict[str, int] = field(default_factory=dict)
    """Tokens from each tier."""
    size: int = 0
    """Bytes of it."""
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(self.by_tier.values())


class States:
    """One llama-server, and the store its states are kept in. Used from one event loop; the work is done in threads."""

    def __init__(self, server: LlamaServer, store: Store, weights: bytes = b"") -> None:
        """``weights``: see ``probe``."""
        self.store = store
        self.failed = 0
        """Times that a slot could not be saved or restored."""
        self._server, self._weights = server, weights
        self._probed: Probed | None = None
        self._serial = 0
        self._spare = list[Path]()
        """Files that nobody uses."""

    async def open(self) -> None:
        """Find out what the server's slots are. Without an answer nothing is kept, and the log says why."""
        await self._server.open()
        try:
            self._probed = await probe(self._server, self._weights)
        except StandfastError as error:
            logger.warning("no KV state is kept: %s", reason(error))

    @property
    def slots(self) -> int:
        """Slots of the server; 0 if it could not be asked."""
        return self._probed.slots if self._probed else 0

    async def close(self) -> None:
        """Finish what is to be stored."""
        await self._server.close()
        for path in self._server.folder.glob("*.slot"):
            path.unlink(missing_ok=True)
        await asyncio.to_thread(self.store.close)

    def name(self, tenant: bytes, chain: Sequence[bytes], sizes: Sequence[int]) -> Named | None:
        """The request as it is found again; None if nothing is kept."""
        if (probed := self._probed) is None:
            return None
        scope = Scope(probed.model, probed.layout.id, probed.template, salt=tenant)
        return Named.of(scope.namespace(), chain, sizes)

    async def place(self, named: Named, slot: int, live: int) -> Placed:
        """Put the longest stored head of a request into an idle slot, unless that holds as much: the first ``live`` of
        the request's segments are there. Never raises."""
        placed, started = Placed(), time.perf_counter()
        path = self._spare.pop() if self._spare else self._file()
        try:
            if await asyncio.to_thread(self._fetch, named, live, path, placed):
                await self._server.restore(slot, path.name)
            self._spare.append(path)  # written over next time; not after a failure: somebody may still read it
        except StandfastError as error:
            self._fell("put into", slot, error)
            placed.by_tier = {}
        placed.seconds = time.perf_counter() - started
        return placed

    async def take(self, named: Named, slot: int, prompt: int) -> None:
        """Take in what a slot holds after a response to ``prompt`` tokens (0: not known). Never raises."""
        path = self._file()
        try:
            await self._server.save(slot, path.name)
            await asyncio.to_thread(self._keep, named, path, prompt)
        except StandfastError as error:
            self._fell("taken from", slot, error)
        finally:
            path.unlink(missing_ok=True)

    async def slot_of(self, prompt: int, output: int, expected: int) -> int:
        """The slot that ran a request of ``prompt`` tokens and wrote ``output``, where the server chose it."""
        try:
            ran = await self._server.last_with(prompt, prompt + output)
        except StandfastError:
            ran = None
        return expected if ran is None else ran

    def computed(self, tokens: int, seconds: float) -> None:
        """The engine computed so many tokens of a prompt: tells what a load must beat."""
        if tokens >= _WORTH:
            self.store.computing.saw(tokens, seconds, small=0)

    def _fetch(self, named: Named, live: int, path: Path, placed: Placed) -> bool:
        """Write the longest stored head to a slot file. False if the slot's own is as good, or there is none."""
        recalled = self.store.recall(named.namespace, named.heads)
        if recalled is None or self._probed is None:
            return False
        context, upto, shared = recalled
        if live >= shared:
            return False
        goes_on = named.heads[shared - 1] == context.name
        tokens = context.tokens if goes_on else context.tokens[: int(upto * _MARGIN) + _WORTH]
        found = self.store.find(named.namespace, tokens, self._probed.layout)
        if found.tokens < _WORTH:
            return False
        with self.store.load(found, self._probed.layout) as loaded:
            if loaded.parts:
                self._write(path, self._probed, loaded)
            placed.by_tier, placed.size = dict(loaded.by_tier), loaded.size
        return bool(placed.by_tier)

    def _write(self, path: Path, probed: Probed, loaded: Loaded) -> None:
        if probed.shape is None:
            write_whole(path, loaded.parts[0][1])
        else:
            write_slot(path, probed.layout, probed.shape, loaded.parts)

    def _keep(self, named: Named, path: Path, prompt: int) -> None:
        if self._probed is None:
            return
        read = read_whole if self._probed.shape is None else read_slot
        with read(path) as state:
            if len(state.tokens) < max(prompt, 1):
                return  # another request has the slot already
            heads = named.places(prompt or len(state.tokens))
            self.store.keep(named.namespace, state.tokens, heads, self._probed.layout, state.body)

    def _file(self) -> Path:
        self._serial += 1
        return self._server.folder / f"{self._serial}.slot"

    def _fell(self, what: str, slot: int, error: StandfastError) -> None:
        self.failed += 1
        logger.warning("KV state could not be %s slot %d: %s", what, slot, reason(error))
