"""The store: the latest contexts in memory, recurring fragments in shared memory, everything else in an archive.

A request asks with ``recall`` and ``find`` and loads with ``load``; none of these waits for a write. After its response
``keep`` takes the state in. What goes further down is moved by a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from standfast.errors import RecordBroken
from standfast.store.codecs import CODECS
from standfast.store.contexts import Context, Heads, Latest, context_key, heads_of, to_record
from standfast.store.index import Held, Index
from standfast.store.layout import Layout
from standfast.store.mover import Mover
from standfast.store.names import Run, Tokens, runs
from standfast.store.record import Buffer, Kind, Record, body_at, expect, peek
from standfast.store.shelf import Pace, Shelf
from standfast.store.sketch import Sketch
from standfast.store.tier import Tier

_PEEK = 1 << 10
"""Bytes that hold the head of a block's record."""
_LARGEST = 1 << 34
"""Bytes of a decoded state that are believed."""
_AHEAD = 64
"""Blocks that a shared medium is asked for at once."""
_RECURS = 2
"""A block is a fragment that recurs once so many contexts besides its first have begun with it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The stored head of a prompt."""

    namespace: bytes
    held: tuple[Held, ...] = ()
    seconds: float = 0.0
    """What loading it should take."""

    @property
    def tokens(self) -> int:
        return sum(part.used for part in self.held)


@dataclass(slots=True)
class Loaded:
    """States in ascending order, from the first token on. Views: they hold until the ``with`` block ends."""

    parts: list[tuple[Run, memoryview, int]] = field(default_factory=list)
    """A run, its decoded state, and how many of its tokens are wanted."""
    by_tier: Counter[str] = field(default_factory=Counter)
    """Tokens that each tier served: ``l1`` the latest contexts, the others by their names."""
    size: int = 0
    """Bytes of them, decoded."""
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(used for _, _, used in self.parts)


class Store:
    """KV states of any number of namespaces. For several threads."""

    def __init__(
        self,
        ram: Shelf,
        tiers: Sequence[Tier] = (),
        *,
        contexts: int = 100,
        capacity: int = 4 << 30,
        sinks: int = 4,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``ram``: shelf of the latest contexts, at most ``contexts`` of ``capacity`` bytes.

        ``tiers``: below it, fast ones first. The last takes everything that is kept, those before it what recurs.
        ``sinks``: so many tokens at the start of a chain are archived exactly.
        """
        self.tiers = tuple(tiers)
        self.mover = Mover()
        self.computing = Pace(0.0, 300.0)
        """How fast the engine computes tokens."""
        self._ram, self._clock, self._sinks = ram, clock, sinks
        self._codecs = {codec.id: codec for codec in CODECS.values()}
        self._index, self._heads, self._latest = Index(), Heads(), Latest(contexts, capacity)
        self._sketch = Sketch(1 << 16)
        self._lock = threading.RLock()
        ram.on_lost = partial(self._gone, 0)
        for number, tier in enumerate(self.tiers, 1):
            tier.on_gone = partial(self._gone, number)
            self.mover.submit(partial(self._survey, number))

    def recall(self, namespace: bytes, heads: Sequence[bytes]) -> tuple[Context, int, int] | None:
        """The context that begins like a request: it, its tokens up to there, and how many of the heads they share."""
        with self._lock:
            found = self._heads.find(namespace, heads)
        if (found is None or found[2] < len(heads)) and self._unarchive(namespace, heads[found[2] if found else 0 :]):
            with self._lock:
                found = self._heads.find(namespace, heads)
        return found

    def find(self, namespace: bytes, tokens: Tokens, layout: Layout) -> Found:
        """The longest stored head of a chain of tokens, as far as loading it is quicker than computing it."""
        with self._lock:
            held = self._index.match(namespace, tokens, layout.block)
        if sum(part.used for part in held) < len(tokens) and self._discover(namespace, tokens, layout, len(held)):
            with self._lock:
                held = self._index.match(namespace, tokens, layout.block)
        if held and not layout.planes and held[-1].used < len(held[-1].entry.run.tokens):
            held.pop()  # a whole state cannot be cut
        return self._worth(namespace, held)

    @contextmanager
    def load(self, found: Found, layout: Layout) -> Iterator[Loaded]:
        """The states of what was found, each checked throughout. What does not hold, and all behind it, is left out."""
        started, out = self._clock(), Loaded()
        places = [_fastest(part.entry.tiers) for part in found.held]
        records = dict[bytes, Record | None]()
        with ExitStack() as lent:
            for number in sorted({place for place in places if place is not None}):
                keys = [p.entry.run.key for p, place in zip(found.held, places, strict=True) if place == number]
                shelf = self.tiers[number - 1].shelf if number else self._ram
                records |= zip(keys, lent.enter_context(shelf.read(found.namespace, keys)), strict=True)
            for part, place in zip(found.held, places, strict=True):
                record = records.get(part.entry.run.key)
                body = self._decoded(record, part.entry.run, layout, place or 0) if record else None
                if body is None:
                    break
                out.parts.append((part.entry.run, body, part.used))
                out.by_tier[self.tiers[place - 1].name if place else "l1"] += part.used
                out.size += body.nbytes
            out.seconds = self._clock() - started
            yield out
            out.parts, records = [], {}

    def keep(
        self,
        namespace: bytes,
        tokens: Tokens,
        heads: Sequence[tuple[bytes, int]],
        layout: Layout,
        body_of: Callable[[int, int], Buffer],
    ) -> int:
        """Take in the state of all tokens of a request. Returns how many of them were not in memory before.

        ``body_of(a, b)``: the state of tokens a to b; ``heads``: see Context. Contexts that this one goes on from are
        not needed any more.
        """
        chain = list(runs(namespace, tokens, layout.block))
        context = Context(namespace, tokens, tuple(run.key for run in chain), tuple(heads))
        with self._lock:
            fresh = [run for run in chain if run.key not in self._latest]
            known = [run.key for run in chain if run.key in self._index]
        sizes = dict[bytes, int]()
        for run in fresh:
            record = _record(namespace, run, layout, body_of)
            if not self._ram.publish(record):
                return 0
            sizes[run.key] = record.nbytes
        followed = [context_key(namespace, name) for name, _ in context.heads[:-1]]
        with self._lock:
            recurring = set(known).difference(*map(self._latest.keys_of, [context.key, *followed]))
            for run in fresh:
                self._index.add(run, 0)
            gone = self._latest.keep(context, sizes) + self._latest.drop(followed)
            self._heads.add(context)
            outdated = followed + [key for run in fresh for key in self._index.shadowed(run)]
        for key in recurring:
            self._sketch.add(key)
        self.mover.submit(partial(self._send_down, context, chain, layout, outdated))
        # Behind it: what leaves memory is archived first.
        if gone and not self.mover.submit(partial(self._leave, gone)):
            self._leave(gone)
        return sum(len(run.tokens) for run in fresh)

    def close(self) -> None:
        """Finish what is to be moved, then release the media."""
        self.mover.close()
        for shelf in (self._ram, *(tier.shelf for tier in self.tiers)):
            shelf.medium.close()

    def _worth(self, namespace: bytes, held: Sequence[Held]) -> Found:
        """As much of a head as gains time: up to where computing minus loading is greatest."""
        best, gain, loading, computing, cost = 0, 0.0, 0.0, 0.0, 0.0
        met = set[int]()
        for n, part in enumerate(held, 1):
            if number := _fastest(part.entry.tiers):
                tier = self.tiers[number - 1]
                seconds = tier.shelf.pace.seconds(tier.size(part.entry.run.key))
                loading += seconds if number not in met else seconds - tier.shelf.pace.wait
                met.add(number)
            computing += self.computing.seconds(part.used)
            if computing - loading > gain:
                best, gain, cost = n, computing - loading, loading
        return Found(namespace, tuple(held[:best]), cost)

    def _decoded(self, record: Record, run: Run, layout: Layout, number: int) -> memoryview | None:
        shelf = self.tiers[number - 1].shelf if number else self._ram
        try:
            expect(record, run)
            if not record.codec:
                return record.body
            wanted = layout.token_bytes * len(run.tokens) if layout.planes else record.decoded
            if record.codec not in self._codecs or not 0 < record.decoded == wanted <= _LARGEST:
                raise RecordBroken("codec")
            out = memoryview(bytearray(record.decoded))
            self._codecs[record.codec].decode(record.body, layout, len(run.tokens), out)
        except RecordBroken as error:
            shelf.reject(run.key, error.check)
            return None
        return out

    def _send_down(self, context: Context, chain: Sequence[Run], layout: Layout, outdated: Sequence[bytes]) -> None:
        """Archive what is new, give fragments that recur to the tiers in between, delete what is superseded."""
        for number, tier in enumerate(self.tiers, 1):
            is_archive = number == len(self.tiers)
            tier.hit([run.key for run in chain])  # those from memory too; before a newcomer may push out its own parent
            wanted = [r for r in chain if r.key not in tier and (is_archive or self._sketch.count(r.key) >= _RECURS)]
            with self._ram.read(context.namespace, [run.key for run in wanted]) as records:
                for run, record in zip(wanted, records, strict=True):
                    exact = max(0, self._sinks - run.start)
                    cost = self.computing.seconds(len(run.tokens))
                    if record and tier.put(record, layout, cost=cost, exact=exact):
                        self._came(run, number)
            tier.discard(outdated)
            if is_archive:
                tier.discard([context.key])
                tier.put(to_record(context), None)

    def _leave(self, keys: Sequence[bytes]) -> None:
        """These are in no context any more."""
        with self._lock:
            gone = [key for key in keys if key not in self._latest]
            for key in gone:
                self._index.drop(key, 0)
        self._ram.delete(gone)

    def _came(self, run: Run, number: int) -> None:
        with self._lock:
            self._index.add(run, number)

    def _gone(self, number: int, key: bytes) -> None:
        with self._lock:
            self._index.drop(key, number)

    def _unarchive(self, namespace: bytes, heads: Sequence[bytes]) -> bool:
        """Look for the contexts that end with one of these heads in the archive; the newest is enough."""
        if not self.tiers:
            return False
        keys = [context_key(namespace, head) for head in reversed(heads)]
        shelf = self.tiers[-1].shelf
        there = [key for key, head in zip(keys, shelf.peek(keys, 1), strict=True) if head]
        for key in there[:1]:
            with shelf.read(namespace, [key]) as records:
                if records[0] is not None and (context := _context(records[0], key)):
                    with self._lock:
                        self._heads.add(context)
                    return True
        return False

    def _discover(self, namespace: bytes, tokens: Tokens, layout: Layout, known: int) -> bool:
        """Ask shared media for the blocks that come next: others may have written them. True if some are there."""
        chain = list(runs(namespace, tokens[: (known + _AHEAD) * layout.block], layout.block))[known:]
        found = False
        for number, tier in enumerate(self.tiers, 1):
            if not tier.shelf.medium.shared or not chain:
                continue
            heads = tier.shelf.peek([run.key for run in chain], _PEEK)
            for run, head in zip(chain, heads, strict=True):
                if head is None:
                    break
                found = self._note(run.key, head, number) or found
            tier.trim()
        return found

    def _survey(self, number: int) -> None:
        """Learn what a medium holds from before."""
        tier = self.tiers[number - 1]
        keys = [key for key, _ in tier.shelf.medium.keys()]  # noqa: SIM118
        heads = list[tuple[bytes, bytes, bytes]]()
        for at in range(0, len(keys), _AHEAD):
            batch = keys[at : at + _AHEAD]
            found = zip(batch, tier.shelf.peek(batch, _PEEK), strict=True)
            heads += [(head[15:11:-1], key, head) for key, head in found if head is not None]
        for _, key, head in sorted(heads):  # by position: parents first, as policies want to be told
            self._note(key, head, number)
        tier.trim()

    def _note(self, key: bytes, head: bytes, number: int) -> bool:
        """A medium holds this record. False if it is none."""
        tier = self.tiers[number - 1]
        try:
            seen = peek(head)
        except RecordBroken as error:
            tier.shelf.reject(key, error.check)
            return False
        if seen.kind is Kind.WHOLE and len(seen.run.tokens) < seen.length:
            whole = tier.shelf.peek([key], body_at(seen.length))[0]
            return whole is not None and len(whole) > len(head) and self._note(key, whole, number)
        tier.note(key, seen.nbytes, seen.space, seen.run.parent)
        if seen.kind is not Kind.CONTEXT:
            self._came(seen.run, number)
        return True


def _fastest(tiers: int) -> int | None:
    """The lowest tier among the bits; None if there is none."""
    return (tiers & -tiers).bit_length() - 1 if tiers else None


def _record(namespace: bytes, run: Run, layout: Layout, body_of: Callable[[int, int], Buffer]) -> Record:
    body = memoryview(body_of(run.start, run.start + len(run.tokens))).cast("B")
    kind = Kind.BLOCK if layout.planes else Kind.WHOLE
    return Record(kind, 0, namespace, run, body.nbytes, body)


def _context(record: Record, key: bytes) -> Context | None:
    """A context as it was archived. Its blocks are found by its tokens, so it need not name them."""
    try:
        heads = heads_of(record)
    except RecordBroken:
        return None
    return Context(record.namespace, record.run.tokens.copy(), (record.run.parent,), heads)
