from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.engines.slots import Slots, with_slot

HEAD, A1, A2, A3, B1, B2, C1 = (bytes([n]) * 8 for n in range(7))


def ask(slots: Slots, chain: list[bytes], now: float, sizes: list[int] | None = None) -> int:
    """One whole request."""
    slot = slots.choose(chain, sizes or [100] * len(chain), now)
    slots.release(slot, chain)
    return slot


def test_needs_a_slot() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Slots(0)


def test_a_session_keeps_its_slot() -> None:
    slots = Slots(2)
    first = ask(slots, [HEAD, A1], 1)
    other = ask(slots, [HEAD, B1], 2)
    assert first != other
    assert ask(slots, [HEAD, A1, A2], 3) == first
    assert ask(slots, [HEAD, B1, B2], 4) == other
    assert ask(slots, [HEAD, A1, A2, A3], 5) == first


def test_a_new_session_takes_an_empty_slot_rather_than_a_long_prefix() -> None:
    slots = Slots(2)
    long = ask(slots, [HEAD, A1, A2], 1, [500, 9000, 9000])
    assert ask(slots, [HEAD, B1], 2, [500, 10]) != long


def test_a_new_session_takes_the_staler_slot_when_none_is_empty() -> None:
    slots = Slots(2)
    stale = ask(slots, [HEAD, A1], 1)
    ask(slots, [HEAD, B1], 2)
    assert ask(slots, [HEAD, C1], 3) == stale


def test_a_changed_tail_goes_to_the_same_slot() -> None:
    slots = Slots(2)
    first = ask(slots, [HEAD, A1, A2], 1, [500, 9000, 50])
    assert ask(slots, [HEAD, A1, A3], 2, [500, 9000, 60]) == first


def test_a_fork_near_the_head_does_not_destroy_the_trunk() -> None:
    slots = Slots(2)
    trunk = ask(slots, [HEAD, A1, A2], 1, [500, 100, 90_000])
    assert ask(slots, [HEAD, A1, A3], 2, [500, 100, 10]) != trunk


def test_busy_slots_are_avoided_while_one_is_idle() -> None:
    slots = Slots(2)
    first = slots.choose([HEAD, A1], [10, 10], 1)
    assert slots.choose([HEAD, A1], [10, 10], 2) != first
    assert slots.busy == 2


def test_all_busy_takes_the_best_match_then_the_shorter_queue() -> None:
    slots = Slots(2)
    a = slots.choose([HEAD, A1], [10, 90], 1)
    b = slots.choose([HEAD, B1], [10, 90], 2)
    assert slots.choose([HEAD, A1, A2], [10, 90, 5], 3) == a
    assert slots.choose([C1], [10], 4) == b


def test_a_request_that_broke_off_leaves_only_what_is_certain() -> None:
    slots = Slots(1)
    ask(slots, [HEAD, A1, A2], 1)
    slots.release(slots.choose([HEAD, B1], [100, 100], 2))
    assert slots._slots[0].chain == (HEAD,)


def test_lease_releases_on_every_way_out() -> None:
    slots = Slots(1)
    with pytest.raises(KeyboardInterrupt), slots.lease([HEAD], [10], 1):
        raise KeyboardInterrupt
    assert slots.busy == 0
    assert not slots._slots[0].chain
    with slots.lease([HEAD], [10], 2) as lease:
        lease.answered = True
    assert slots._slots[0].chain == (HEAD,)


def test_release_of_a_free_slot_is_an_error() -> None:
    with pytest.raises(ValueError, match="not in use"):
        Slots(1).release(0)


@pytest.mark.parametrize(("answered", "held"), [([HEAD, A1], (HEAD, A1)), ([], ())])
def test_forget_empties_idle_slots_and_leaves_running_requests_what_they_will_fill(
    answered: list[bytes], held: tuple[bytes, ...]
) -> None:
    slots = Slots(2)
    idle = slots.choose([HEAD], [10], 1)
    slots.release(idle, [HEAD])
    busy = slots.choose([A1], [10], 2)
    assert busy != idle
    slots.forget()
    assert not slots._slots[idle].chain
    slots.release(busy, [A1] if answered else [])
    assert slots.busy == 0
    assert slots._slots[busy].chain == ((A1,) if held else ())


def common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Server:
    """llama.cpp's side: a queue per slot; running a request replaces the content."""

    def __init__(self, count: int) -> None:
        self.held: list[tuple[bytes, ...]] = [()] * count
        self.queues: list[deque[tuple[bytes, ...]]] = [deque() for _ in range(count)]


links = st.sampled_from([HEAD, A1, A2, A3])
steps = st.lists(
    st.tuples(st.lists(links, max_size=5), st.sampled_from(["run", "queue", "cancel", "half"])), max_size=40
)


@given(count=st.integers(1, 3), steps=steps)
def test_what_is_believed_to_be_held_is_held(count: int, steps: list[tuple[list[bytes], str]]) -> None:
    """Whatever runs, waits or breaks off: an idle slot really holds the chain that the choice goes by."""
    slots, server = Slots(count), Server(count)

    def finish_one(slot: int) -> None:
        chain = server.queues[slot].popleft()
        server.held[slot] = chain
        slots.release(slot, chain)

    for now, (chain, what) in enumerate(steps):
        idle = {n for n in range(count) if not server.queues[n]}
        slot = slots.choose(chain, [1] * len(chain), now)
        assert not idle or slot in idle
        while what != "queue" and server.queues[slot]:
            finish_one(slot)
        if what == "cancel":  # before it ran at all
            slots.release(slot)
        elif what == "half":  # while its prompt was being computed
            shared = common(server.held[slot], chain)
            server.held[slot] = tuple(chain[: max(shared, len(chain) // 2)])
            slots.release(slot)
        else:
            server.queues[slot].append(tuple(chain))
            if what == "run":
                finish_one(slot)
        for n in range(count):
            believed = slots._slots[n].chain
            if not server.queues[n]:
                assert server.held[n][: len(believed)] == believed
    for n in range(count):
        while server.queues[n]:
            finish_one(n)
    assert slots.busy == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(100, 5000)), max_size=60))
def test_as_many_sessions_as_slots_never_recompute(turns: list[tuple[int, int]]) -> None:
    """Three sessions with a common head on three slots: each keeps everything it sent."""
    slots = Slots(3)
    chains: list[list[bytes]] = [[HEAD], [HEAD], [HEAD]]
    sizes: list[list[int]] = [[10], [10], [10]]
    homes: dict[int, int] = {}
    for now, (session, size) in enumerate(turns):
        chains[session].append(b"%d:%d" % (session, now))
        sizes[session].append(size)
        slot = ask(slots, chains[session], now, sizes[session])
        assert homes.setdefault(session, slot) == slot
    assert len(set(homes.values())) == len(homes)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"{}", b'{"id_slot":1}'),
        (b" { } ", b' {"id_slot":1 } '),
        (b'{"a":1}', b'{"id_slot":1,"a":1}'),
        (b'\n{ "a" : 1.50 }', b'\n{"id_slot":1, "a" : 1.50 }'),
    ],
)
def test_with_slot(body: bytes, sent: bytes) -> None:
    assert with_slot(body, 1) == sent


@pytest.mark.parametrize("body", [b"", b"[]", b'"{}"', b"  "])
def test_with_slot_wants_an_object(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        with_slot(body, 1)


@given(
    st.dictionaries(st.text(), st.none() | st.integers() | st.text()), st.integers(0, 99), st.sampled_from([None, 2])
)
def test_with_slot_only_adds(value: dict[str, object], slot: int, indent: int | None) -> None:
    body = json.dumps(value, indent=indent).encode()
    assert json.loads(with_slot(body, slot)) == {"id_slot": slot, **value}
