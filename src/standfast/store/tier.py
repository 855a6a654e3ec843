"""A tier below the latest contexts: a shelf, a policy that says what goes, a codec, and a bound."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from standfast.store.codec import Codec
from standfast.store.layout import Layout
from standfast.store.policy import Policy
from standfast.store.record import Kind, Record
from standfast.store.shelf import Shelf


class Tier:
    """Books and medium agree but for what others do to a shared medium: what is not there any more is a miss."""

    def __init__(
        self, name: str, shelf: Shelf, policy: Policy[bytes], codec: Codec, capacity: int, *, quota: float = 1.0
    ) -> None:
        """``capacity``: bytes as stored; ``quota``: the share of it that one namespace may fill."""
        self.name, self.shelf, self.codec, self.capacity = name, shelf, codec, capacity
        self.refused = 0
        """Records that found no room."""
        self.on_gone: Callable[[bytes], object] = lambda key: None
        """Told of each key that the tier holds no more."""
        self.used = 0
        self._policy, self._quota = policy, quota
        self._lock = threading.RLock()
        self._sizes: dict[bytes, tuple[int, bytes]] = {}
        self._of: Counter[bytes] = Counter()
        shelf.on_lost = self.forget

    def __contains__(self, key: object) -> bool:
        return key in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, key: bytes) -> int:
        """Bytes of a record as stored; 0 if it is not there."""
        return self._sizes.get(key, (0, b""))[0]

    def note(self, key: bytes, size: int, namespace: bytes, parent: bytes, cost: float = 1.0) -> None:
        """The medium holds this."""
        with self._lock:
            if key not in self._sizes:
                self._sizes[key] = size, namespace
                self._of[namespace] += size
                self.used += size
                self._policy.insert(key, size, cost, parent)

    def trim(self) -> None:
        """Keep the bound where more was found on the medium: others wrote there, or the bound was another."""
        self._evict(self.used - self.capacity)

    def hit(self, keys: Sequence[bytes]) -> None:
        """These served a request."""
        with self._lock:
            for key in keys:
                if key in self._policy:
                    self._policy.hit(key)

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
            self.note(coded.run.key, coded.nbytes, coded.namespace, coded.run.parent, cost)
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
            size, namespace = known
            self._of[namespace] -= size
            self.used -= size
            self._policy.discard(key)
        self.on_gone(key)

    def _encoded(self, record: Record, layout: Layout | None, exact: int) -> Record:
        if record.kind is not Kind.BLOCK or layout is None or not self.codec.fits(layout):
            return record
        body = self.codec.encode(record.body, layout, len(record.run.tokens), exact)
        return Record(record.kind, self.codec.id, record.namespace, record.run, record.decoded, memoryview(body))

    def _fits(self, record: Record) -> bool:
        """Whether there is room for a record now; makes some."""
        if record.nbytes > self.capacity or self._of[record.namespace] + record.nbytes > self._quota * self.capacity:
            return False
        return self._evict(self.used + record.nbytes - self.capacity)

    def _evict(self, size: int) -> bool:
        """Free so many bytes; False if there were not as many."""
        victims = list[bytes]()
        with self._lock:
            wanted = self.used - size
            while self.used > wanted and len(self._policy):
                victims.append(self._policy.victim())
                self.forget(victims[-1])
        self.shelf.delete(victims)
        return self.used <= wanted
