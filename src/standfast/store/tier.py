"""A tier below the latest contexts: a shelf, a policy that says what goes, a codec, and a bound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from standfast.store.codec import Codec
from standfast.store.codecs.lossless import Lossless
from standfast.store.layout import Layout
from standfast.store.names import space_id
from standfast.store.policy import Policy
from standfast.store.record import Kind, Record
from standfast.store.shelf import Shelf

_ALWAYS = Lossless()
"""For layouts that a tier's codec does not understand."""


class Tier:
    """Books and medium agree but for what others do to a shared medium: what is not there any more is a miss."""

    def __init__(
        self,
        name: str,
        shelf: Shelf,
        policy: Callable[[], Policy[bytes]],
        codec: Codec,
        capacity: int,
        *,
        quota: float = 1.0,
    ) -> None:
        """``capacity``: bytes as stored; ``quota``: the share of it that one namespace may fill. With a quota
        each has a policy of its own, and whoever fills most makes room for others.
        """
        self.name, self.shelf, self.codec, self.capacity = name, shelf, codec, capacity
        self.refused = 0
        """Records that found no room."""
        self.on_gone: Callable[[bytes], object] = lambda key: None
        """Told of each key that the tier holds no more."""
        self.used = 0
        self._new, self._quota = policy, quota
        self._lock = threading.RLock()
        self._sizes: dict[bytes, tuple[int, _Share]] = {}
        self._shares: dict[bytes, _Share] = {}
        shelf.on_lost = self.forget

    def __contains__(self, key: object) -> bool:
        return key in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, key: bytes) -> int:
        """Bytes of a record as stored; 0 if it is not there."""
        return self._sizes[key][0] if key in self._sizes else 0

    def note(self, key: bytes, size: int, space: bytes, parent: bytes, cost: float = 1.0) -> None:
        """The medium holds this; ``space``: id of its namespace."""
        with self._lock:
            if key not in self._sizes:
                share = self._share(space)
                self._sizes[key] = size, share
                share.used += size
                self.used += size
                share.policy.insert(key, size, cost, parent)

    def trim(self) -> None:
        """Keep the bound where more was found on the medium: others wrote there, or the bound was another."""
        self._evict(self.used - self.capacity)

    def hit(self, keys: Sequence[bytes]) -> None:
        """These served a request."""
        with self._lock:
            for key in keys:
                if key in self._sizes:
                    self._sizes[key][1].policy.hit(key)

    def put(self, record: Record, layout: Layout | None, *, cost: float = 1.0, exact: int = 0) -> bool:
        """Store a record whose body is not encoded yet. cost: seconds to compute it; exact: tokens to keep bit for bit.

        False if there is no room for it.
        """
        if record.run.key in self or self.shelf.asleep:
            return record.run.key in self
        coded = self._encoded(record, layout, exact)
        stored = self._fits(coded) and (
            self.shelf.publish(coded) or (self._evict(coded.nbytes) and self.shelf.publish(coded))
        )
        if stored:
            self.note(coded.run.key, coded.nbytes, space_id(coded.namespace), coded.run.parent, cost)
        else:
            self.refused += 1
        return stored

    def discard(self, keys: Sequence[bytes]) -> None:
        """Delete what need not be kept."""
        known = [key for key in keys if key in self]
        for key in known:
            self.forget(key)
        self.shelf.delete(known)

    def forget(self, key: bytes) -> None:
        """The medium does not hold this any more."""
        with self._lock:
            known = self._sizes.pop(key, None)
            if known is None:
                return
            size, share = known
            share.used -= size
            self.used -= size
            share.policy.discard(key)
        self.on_gone(key)

    def _encoded(self, record: Record, layout: Layout | None, exact: int) -> Record:
        if record.kind is Kind.CONTEXT or layout is None:
            return record
        codec = self.codec if self.codec.fits(layout) else _ALWAYS
        body = codec.encode(record.body, layout, len(record.run.tokens), exact)
        return Record(record.kind, codec.id, record.namespace, record.run, record.decoded, memoryview(body))

    def _fits(self, record: Record) -> bool:
        """Whether there is room for a record now; makes some."""
        share, limit = self._share(space_id(record.namespace)), int(self._quota * self.capacity)
        if record.nbytes > limit:
            return False
        return self._evict(share.used + record.nbytes - limit, share) and self._evict(
            self.used + record.nbytes - self.capacity
        )

    def _evict(self, size: int, share: _Share | None = None) -> bool:
        """Free so many bytes, of one share or of whoever fills most; False if there were not as many."""
        victims, freed = list[bytes](), 0
        with self._lock:
            while freed < size and (self._sizes if share is None else share.used):
                largest = share or max(self._shares.values(), key=lambda each: each.used)
                victims.append(largest.policy.victim())
                freed += self.size(victims[-1])
                self.forget(victims[-1])
        self.shelf.delete(victims)
        return freed >= size

    def _share(self, space: bytes) -> _Share:
        owner = space if self._quota < 1 else b""
        if owner not in self._shares:
            self._shares[owner] = _Share(self._new())
        return self._shares[owner]


@dataclass(slots=True)
class _Share:
    """What one namespace has, or all of them."""

    policy: Policy[bytes]
    used: int = 0
