"""Which of the engine's contexts ("slots") a request goes to. Pure: no clock, no I/O.

llama.cpp keeps in each slot the KV state of the last request it ran there. A new request in that slot reuses the shared
head and *overwrites everything after it*. So a choice has a gain (the head that need not be computed again) and a loss
(what the slot held behind that head and nobody can use again). All sessions of one agent share a head, its tools and
system prompt; going by the longest head alone would let every new session wipe out a running one to save that head.
Therefore, among idle slots:

1. the one with the longest shared head, if it destroys at most an eighth of what it saves beyond the slot of rule 2
   (a session that goes on destroys nothing, so it always gets its own slot; one with another last message, nearly so);
2. else an empty slot, else the least recently used.

With a weaker limit than the eighth two sessions could go on overwriting each other in one slot, turn by turn, beside
a slot that nobody needs.

If all are busy, the one with the longest shared head: the server queues the request there.

A slot's content is always known from below: after a request that broke off, only the part that is there for certain is
believed to be there. Believing too little costs a worse choice, never a wrong answer: the server itself compares
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

OBEYED_BY = frozenset({"openai_chat", "openai_responses"})
"""Dialects in which the server obeys id_slot. On /v1/messages it drops the member and chooses by its own tokens, so
such a request must take no slot here: what is believed would be wrong."""

_WORTH = 8
"""Bytes that must be saved for each byte that is destroyed."""


@dataclass(slots=True)
class _Slot:
    chain: tuple[bytes, ...] = ()
    """What it holds, or will hold once all that is queued there has run."""
    sizes: tuple[int, ...] = ()
    certain: int = 0
    """So many links of the chain are there whatever becomes of the requests that run."""
    users: int = 0
    last_used: float = float("-inf")

    def shared(self, chain: Sequence[bytes]) -> int:
        """How many links a request has in common with the slot."""
        count = 0
        for mine, other in zip(self.chain, chain, strict=False):
            if mine != other:
                break
            count += 1
        return count


class Slots:
    """The engine's slots, as far as this process has used them. Not for several threads.

    It knows only its own requests: where several workers share one engine, leave id_slot out of the requests instead,
    and llama.cpp chooses by the tokens it holds.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("an engine has at least one slot")
        self._slots = [_Slot() for _ in range(count)]

    def choose(self, chain: Sequence[bytes], sizes: Sequence[int], now: float) -> int:
        """Take a slot for a request. Each call must be followed by one ``release`` (or use ``lease``).

        sizes[i] is the number of bytes behind chain[i]; now is any clock that does not go backwards.
        """
        shared = [slot.shared(chain) for slot in self._slots]
        heads = [sum(sizes[:count]) for count in shared]
        number = self._pick(shared, heads)
        slot = self._slots[number]
        # While several requests are queued, only what all of them share is certain.
        slot.certain = min(slot.certain, shared[number]) if slot.users else shared[number]
        slot.chain, slot.sizes = tuple(chain), tuple(sizes)
        slot.users += 1
        slot.last_used = now
        return number

    def release(self, slot: int, chain: Sequence[bytes] = ()) -> None:
        """The request has ended. chain: what it sent, if the engine had begun to answer (so the whole prompt was
        computed); empty if it was cancelled or failed before that, and nobody knows how far it came.
        """
        held = self._slots[slot]
        if not held.users:
            raise ValueError(f"slot {slot} is not in use")
        held.users -= 1
        reached = held.shared(chain)
        if not chain and held.users:
            held.certain = 0  # how far it came is as unknown as what those that still wait will leave
        if chain:
            # Another chain than the latest: the two may have run in either order.
            held.certain = reached if reached == len(held.chain) else min(held.certain, reached)
        if not held.users:
            held.chain, held.sizes = held.chain[: held.certain], held.sizes[: held.certain]

    @contextmanager
    def lease(self, chain: Sequence[bytes], sizes: Sequence[int], now: float) -> Iterator[Lease]:
        """A slot for the time of a ``with`` block, released however the block ends."""
        lease = self.take(chain, sizes, now)
        try:
            yield lease
        finally:
            self.release(lease.slot, chain if lease.answered else ())

    def take(self, chain: Sequence[bytes], sizes: Sequence[int], now: float) -> Lease:
        """``choose``, and what is known of the slot that was chosen."""
        number = self.choose(chain, sizes, now)
        slot = self._slots[number]
        return Lease(number, slot.certain, slot.users == 1)

    def landed(self, lease: Lease, number: int, chain: tuple[bytes, ...], sizes: tuple[int, ...]) -> None:
        """The server ran a request, which has ended, in another slot than the one that was chosen for it."""
        chosen, used = self._slots[lease.slot], self._slots[number]
        if chosen.chain == chain and not chosen.users:
            chosen.chain, chosen.sizes, chosen.certain = (), (), 0
        if used.users:
            used.certain = 0
        else:
            used.chain, used.sizes, used.certain = chain, sizes, len(chain)

    def forget(self) -> None:
        """The engine was restarted: all slots are empty. Requests that run keep theirs, and will fill them again."""
        for slot in self._slots:
            slot.certain = 0
            if not slot.users:
                slot.chain, slot.sizes = (), ()

    @property
    def busy(self) -> int:
        """Slots with at least one request."""
        return sum(slot.users > 0 for slot in self._slots)

    def _pick(self, shared: list[int], heads: list[int]) -> int:
        idle = [n for n, slot in enumerate(self._slots) if not slot.users]
        if not idle:
            return max(range(len(heads)), key=lambda n: (heads[n], -self._slots[n].users))
        oldest = min(idle, key=lambda n: (bool(self._slots[n].chain), self._slots[n].last_used))
        best = max(idle, key=lambda n: (heads[n], -self._destroyed(n, shared[n]), -self._slots[n].last_used))
        saved = heads[best] - heads[oldest]
        return best if saved > 0 and saved >= _WORTH * self._destroyed(best, shared[best]) else oldest

    def _destroyed(self, number: int, shared: int) -> int:
        return sum(self._slots[number].sizes[shared:])


@dataclass(slots=True)
class Lease:
    """A slot that is held. Set ``answered`` as soon as the first byte of a good response has come."""

    slot: int
    shared: int = 0
    """So many links of the request the slot holds already."""
    alone: bool = True
    """No other request has the slot."""
    answered: bool = False


def with_slot(body: bytes, slot: int) -> bytes:
    """The body with ``"id_slot"`` as its first member; every other byte stays. The body is a JSON object.

    A client's own id_slot comes later in the body and wins, as llama.cpp takes the last of two equal names.
    """
    start = body.find(b"{")
    if start < 0 or body[:start].strip(b" \t\r\n"):
        raise ValueError("the body is not a JSON object")
    rest = body[start + 1 :]
    comma = b"" if rest.lstrip(b" \t\r\n").startswith(b"}") else b","
    return b'%b{"id_slot":%d%b%b' % (body[:start], slot, comma, rest)
