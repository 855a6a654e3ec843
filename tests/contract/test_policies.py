"""What holds for every eviction policy, and what each of the classic ones does, against naive ones written here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from standfast.store.policies.arc import ARC
from standfast.store.policies.clairvoyant import Clairvoyant
from standfast.store.policies.gdsf import GDSF
from standfast.store.policies.lru import LRU
from standfast.store.policies.prefix import PrefixLRU
from standfast.store.policies.s3fifo import S3FIFO
from standfast.store.policies.sieve import Sieve
from standfast.store.policies.wtinylfu import WTinyLFU
from standfast.store.policy import Policy
from standfast.store.sketch import Sketch

POLICIES: list[Callable[[], Policy[int]]] = [LRU, PrefixLRU, Sieve, S3FIFO, ARC, WTinyLFU, GDSF]
traces = st.lists(st.integers(0, 12), max_size=120)


class Membership(RuleBasedStateMachine):
    """A policy holds just the keys that were put in and not taken out."""

    @initialize(make=st.sampled_from(POLICIES))
    def start(self, make: Callable[[], Policy[int]]) -> None:
        self.policy, self.keys = make(), set[int]()

    @rule(key=st.integers(0, 20), size=st.integers(1, 9), cost=st.floats(0, 9), parent=st.integers(0, 20))
    def use(self, key: int, size: int, cost: float, parent: int) -> None:
        if key in self.keys:
            self.policy.hit(key)
        else:
            self.policy.insert(key, size, cost, parent if parent < key else None)
            self.keys.add(key)

    @rule()
    def evict(self) -> None:
        if self.keys:
            self.keys.remove(self.policy.victim())
        else:
            with pytest.raises((KeyError, IndexError)):
                self.policy.victim()

    @rule(key=st.integers(0, 20))
    def discard(self, key: int) -> None:
        self.policy.discard(key)
        self.keys.discard(key)

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "policy"):
            assert len(self.policy) == len(self.keys)
            assert all(key in self.policy for key in self.keys)
            assert 99 not in self.policy


TestMembership = Membership.TestCase
TestMembership.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def run(policy: Policy[int], trace: list[int], room: int) -> list[int]:
    """Victims, in order, with keys of one size."""
    gone = []
    for key in trace:
        if key in policy:
            policy.hit(key)
            continue
        policy.insert(key, 1)
        while len(policy) > room:
            gone.append(policy.victim())
    return gone


@given(traces, st.integers(1, 6))
def test_lru(trace: list[int], room: int) -> None:
    order, gone = list[int](), []
    for key in trace:
        if key in order:
            order.remove(key)
        order.append(key)
        if len(order) > room:
            gone.append(order.pop(0))
    assert run(LRU(), trace, room) == gone


@given(traces, st.integers(1, 6))
def test_sieve(trace: list[int], room: int) -> None:
    queue, seen, hand, gone = list[int](), dict[int, bool](), 0, []
    for key in trace:
        if key in seen:
            seen[key] = True
            continue
        queue.append(key)  # oldest first
        seen[key] = False
        if len(queue) > room:
            while seen[queue[hand % len(queue)]]:
                seen[queue[hand % len(queue)]] = False
                hand = (hand + 1) % len(queue)
            hand %= len(queue)
            gone.append(queue.pop(hand))
            del seen[gone[-1]]
            hand = hand if hand < len(queue) else 0
    assert run(Sieve(), trace, room) == gone


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 5)), max_size=80), st.integers(1, 5))
def test_gdsf(trace: list[tuple[int, int, int]], room: int) -> None:
    policy, known, clock = GDSF[int](), dict[int, list[Any]](), 0.0
    for stamp, (key, size, cost) in enumerate(trace):
        if key in known:
            known[key][0] += 1
            policy.hit(key)
        else:
            known[key] = [1, cost / size, 0.0, 0]
            policy.insert(key, size, float(cost))
        known[key][2:] = clock + known[key][0] * known[key][1], stamp
        if len(known) > room:
            wanted = min(known, key=lambda k: tuple(known[k][2:]))
            clock = known.pop(wanted)[2]
            assert policy.victim() == wanted


@pytest.mark.parametrize("make", POLICIES)
@settings(deadline=None)
@given(trace=traces, room=st.integers(1, 6))
def test_nothing_beats_who_knows_the_future(make: Callable[[], Policy[int]], trace: list[int], room: int) -> None:
    def misses(policy: Policy[int]) -> int:
        return len(run(policy, trace, room)) + len(policy)

    assert misses(Clairvoyant(trace)) <= misses(make())


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=30), st.integers(1, 12))
def test_prefix_lru_leaves_no_orphan(chains: list[list[int]], room: int) -> None:
    policy = PrefixLRU[tuple[int, ...]]()
    for chain in chains:
        for n in range(1, len(chain) + 1):
            key = tuple(chain[:n])
            if key in policy:
                policy.hit(key)
            else:
                policy.insert(key, 1, 1.0, key[:-1] or None)
        while len(policy) > room:
            policy.victim()
        held = [tuple(c[:n]) for c in chains for n in range(1, len(c) + 1) if tuple(c[:n]) in policy]
        assert all(key[:-1] in policy for key in held if len(key) > 1)


@pytest.mark.parametrize("make", [S3FIFO, ARC, WTinyLFU])
def test_a_scan_does_not_wash_out_what_recurs(make: Callable[[], Policy[int]]) -> None:
    """What these were made for: LRU loses all of the working set to a scan that is longer than the cache."""
    rng, kept = random.Random(1), {}
    for name, policy in (("lru", LRU[int]()), ("it", make())):
        held: Policy[int] = policy
        run(held, [rng.randrange(50) for _ in range(3000)], 100)
        run(held, [1000 + n for n in range(300)], 100)
        kept[name] = sum(key in held for key in range(50))
    assert kept["it"] > kept["lru"] == 0


def test_a_sketch_counts_what_was_seen_and_forgets() -> None:
    sketch = Sketch(1024)
    for n in range(200):
        for _ in range(n % 8):
            sketch.add(n)
    assert sum(sketch.count(n) == n % 8 for n in range(200)) >= 195
    assert all(sketch.count(n) >= n % 8 for n in range(200))
    for n in range(10 * 1024):
        sketch.add(10_000 + n % 500)
    assert sketch.count(7) <= 5
    before = [sketch.count(n) for n in range(200)]
    sketch.fit(5000)
    assert [sketch.count(n) for n in range(200)] == before
