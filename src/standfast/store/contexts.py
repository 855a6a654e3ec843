"""Complete contexts: the tokens that were computed for one request, and the names by which they are found again.

A context is named by the head of the request at its end: a digest over all its segments. The request that continues it
has that head among its own, so it is found without a tokenizer; the engine compares tokens itself, so a name that
promises too much costs time and never a wrong token.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

from blake3 import blake3

from standfast.errors import RecordBroken
from standfast.store.names import Run, Tokens
from standfast.store.record import Kind, Record

_HEAD = Struct("<32sI")


@dataclass(frozen=True, slots=True)
class Context:
    """One request's tokens, prompt and answer."""

    namespace: bytes
    tokens: Tokens
    keys: tuple[bytes, ...]
    """Of its runs."""
    heads: tuple[tuple[bytes, int], ...]
    """For each segment of the request: the name of the head up to its end (32 bytes), and the tokens up to there."""

    @property
    def name(self) -> bytes:
        return self.heads[-1][0]

    @property
    def key(self) -> bytes:
        """Of its record."""
        return context_key(self.namespace, self.name)


def context_key(namespace: bytes, name: bytes) -> bytes:
    """Key of the record of the context with that name."""
    return blake3(b"context\0" + name, key=namespace).digest()


def to_record(context: Context) -> Record:
    """The context as it is archived."""
    body = b"".join(_HEAD.pack(*head) for head in context.heads)
    run = Run(context.key, context.keys[-1], 0, context.tokens)
    return Record(Kind.CONTEXT, 0, context.namespace, run, len(body), memoryview(body))


def heads_of(record: Record) -> tuple[tuple[bytes, int], ...]:
    """The heads that a record of a context names. Raises RecordBroken."""
    if record.kind is not Kind.CONTEXT or record.body.nbytes % _HEAD.size or not record.body.nbytes:
        raise RecordBroken("body")
    return tuple((name, min(upto, len(record.run.tokens))) for name, upto in _HEAD.iter_unpack(record.body))


class Latest:
    """The latest contexts, least recently used first: at most ``count``, and ``capacity`` bytes of the blocks that they
    share among them. Blocks are counted once, however many contexts hold them. Not for several threads at once.
    """

    def __init__(self, count: int, capacity: int) -> None:
        self._count, self._capacity = count, capacity
        self._contexts: OrderedDict[bytes, Context] = OrderedDict()
        self._holders: Counter[bytes] = Counter()
        self._sizes: dict[bytes, int] = {}
        self.used = 0
        """Bytes of their blocks."""

    def __len__(self) -> int:
        return len(self._contexts)

    def __contains__(self, key: object) -> bool:
        """Whether a block is held."""
        return key in self._sizes

    def keep(self, context: Context, sizes: Mapping[bytes, int]) -> list[bytes]:
        """Take a context in; ``sizes``: bytes of its blocks that are new. Returns keys that no context holds now."""
        old = self._contexts.pop(context.key, None)
        self._holders.update(context.keys)
        for key in context.keys:
            if key not in self._sizes:
                self._sizes[key] = sizes[key]
                self.used += sizes[key]
        self._contexts[context.key] = context
        gone = self._release(old) if old else []
        while len(self._contexts) > self._count or (self.used > self._capacity and len(self._contexts) > 1):
            gone += self.drop([next(iter(self._contexts))])
        return [key for key in gone if key not in self._sizes]

    def keys_of(self, key: bytes) -> frozenset[bytes]:
        """Keys of the blocks of a context, by the key of its record; none if it is not here."""
        return frozenset(self._contexts[key].keys) if key in self._contexts else frozenset()

    def touch(self, key: bytes) -> None:
        """A context was used."""
        if key in self._contexts:
            self._contexts.move_to_end(key)

    def drop(self, keys: Iterable[bytes]) -> list[bytes]:
        """Let contexts go, by the keys of their records; returns the keys of blocks that no context holds now."""
        contexts = filter(None, (self._contexts.pop(key, None) for key in keys))
        return [key for context in contexts for key in self._release(context)]

    def _release(self, context: Context) -> list[bytes]:
        self._holders.subtract(context.keys)
        gone = [key for key in context.keys if not self._holders[key]]
        for key in gone:
            del self._holders[key]
            self.used -= self._sizes.pop(key)
        return gone


class Heads:
    """Which context begins like this? Bounded; the least recently used names are forgotten first."""

    def __init__(self, limit: int = 1 << 14) -> None:
        self._limit = limit
        self._places: OrderedDict[tuple[bytes, bytes], tuple[Context, int]] = OrderedDict()

    def add(self, context: Context) -> None:
        for name, upto in context.heads:
            place = context.namespace, name
            self._places[place] = context, upto
            self._places.move_to_end(place)
        last = context.namespace, context.name
        self._places[last] = context, len(context.tokens)
        while len(self._places) > self._limit:
            self._places.popitem(last=False)

    def find(self, namespace: bytes, names: Sequence[bytes]) -> tuple[Context, int, int] | None:
        """The context that shares the longest head with a request: it, its tokens up to there, and how many names."""
        for n in range(len(names), 0, -1):
            if found := self._places.get((namespace, names[n - 1])):
                return *found, n
        return None
