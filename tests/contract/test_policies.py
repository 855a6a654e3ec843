"""What every policy promises, and that each is the algorithm it is named after."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from policy_references import REFERENCES, Reference

from standfast.store.ghosts import Ghost
from standfast.store.policies import POLICIES
from standfast.store.policies.clairvoyant import Clairvoyant
from standfast.store.policy import Policy

PREFIX_AWARE = {"prefix-lru", "density"}
Path = tuple[int, ...]
"""A key that tells its parent: itself without its last part."""
PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


class Contract(RuleBasedStateMachine):
    """A policy beside a plain set of what is in."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.policy: Policy[Path] = POLICIES[self.name]()
        self.inside: set[Path] = set()

    @rule(path=PATHS, size=st.integers(1, 9), room=st.integers(3, 20))
    def use_chain(self, path: Path, size: int, room: int) -> None:
        for end in range(1, len(path) + 1):
            key = path[:end]
            if key in self.inside:
                self.policy.hit(key)
                continue
            while len(self.inside) >= room:
                self.let_one_go()
            if end > 1 and key[:-1] not in self.inside:
                return
            self.policy.insert(key, size, cost=size / 2, parent=key[:-1] if end > 1 else None)
            self.inside.add(key)

    @precondition(lambda self: self.inside)
    @rule()
    def let_one_go(self) -> None:
        key = self.policy.victim()
        assert key in self.inside
        self.inside.remove(key)
        if self.name in PREFIX_AWARE:
            assert not any(other[:-1] == key for other in self.inside), "a parent went before its child"

    @rule(path=PATHS)
    def discard_with_all_below(self, path: Path) -> None:
        for key in [k for k in self.inside if k[: len(path)] == path] or [path]:
            self.policy.discard(key)
            self.inside.discard(key)

    @invariant()
    def agrees(self) -> None:
        assert len(self.policy) == len(self.inside)
        assert all(key in self.policy for key in self.inside)

    @precondition(lambda self: not self.inside)
    @rule()
    def nothing_to_take(self) -> None:
        with pytest.raises(KeyError):
            self.policy.victim()

    def teardown(self) -> None:
        while self.inside:
            self.let_one_go()
        assert len(self.policy) == 0


@pytest.mark.parametrize("name", POLICIES)
def test_holds_each_key_once_and_gives_back_what_is_in(name: str) -> None:
    contract: Any = type("Machine", (Contract,), {"name": name})
    machine = contract.TestCase
    machine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
    machine().runTest()


@pytest.mark.parametrize("name", POLICIES)
def test_a_key_that_was_discarded_is_out(name: str) -> None:
    policy: Policy[str] = POLICIES[name]()
    policy.insert("a", 1)
    policy.insert("b", 1)
    policy.discard("a")
    policy.discard("never")
    assert "a" not in policy
    assert policy.victim() == "b"


def victims(policy: Policy[int] | Reference, trace: Sequence[int], room: int) -> list[int]:
    """Keys in the order in which they went."""
    inside, gone = set[int](), list[int]()
    for key in trace:
        if key in inside:
            policy.hit(key)
            continue
        if len(inside) == room:
            gone.append(policy.victim())
            inside.remove(gone[-1])
        policy.insert(key, *_weights(key))
        inside.add(key)
    return gone


def _weights(key: int) -> tuple[int, float]:
    """Size and cost; equal sizes, as the papers have them."""
    return 1, 1.0 + key % 3


SKEWED = st.builds(
    lambda seed, keys, length: [int(keys * random.Random(seed * 10**6 + n).random() ** 2) for n in range(length)],
    st.integers(0, 10**6),
    st.integers(5, 80),
    st.integers(50, 600),
)


@pytest.mark.parametrize("name", REFERENCES)
@settings(deadline=None, max_examples=60)
@given(trace=SKEWED, room=st.integers(2, 30))
def test_is_the_published_algorithm(name: str, trace: list[int], room: int) -> None:
    assert victims(POLICIES[name](), trace, room) == victims(REFERENCES[name](room), trace, room)


@settings(deadline=None, max_examples=60)
@given(trace=SKEWED, room=st.integers(2, 30))
def test_nothing_beats_who_knows_the_future(trace: list[int], room: int) -> None:
    fewest = len(victims(Clairvoyant(trace), trace, room))
    for name, make in POLICIES.items():
        assert fewest <= len(victims(make(), trace, room)), name


def test_gdsf_keeps_what_costs_much_for_its_size() -> None:
    policy = POLICIES["gdsf"]()
    policy.insert("large and cheap", 100, cost=1.0)
    policy.insert("small and dear", 1, cost=10.0)
    policy.hit("large and cheap")
    assert policy.victim() == "large and cheap"


def in_sizes(make: Callable[[], Policy[Any]], large: int) -> Ghost[int]:
    """A cache of a hundred small keys, then flooded with keys of another size, seen once."""
    ghost = Ghost(make(), 100)
    for _ in range(3):
        for key in range(50):
            ghost.serve([key], [1])
    for key in range(1000, 1000 + 400 // large):
        ghost.serve([key], [large])
    return ghost


@pytest.mark.parametrize("name", ["s3-fifo", "w-tinylfu", "arc"])
@pytest.mark.parametrize("large", [1, 5])
def test_a_flood_of_keys_seen_once_leaves_what_is_used_often(name: str, large: int) -> None:
    ghost = in_sizes(POLICIES[name], large)
    assert sum(ghost.serve([key], [1]) for key in range(50)) >= 25


def test_lru_is_flooded() -> None:
    assert sum(in_sizes(POLICIES["lru"], 5).serve([key], [1]) for key in range(50)) < 25


def test_w_tinylfu_lets_nobody_in_who_was_not_seen_more_often() -> None:
    policy = POLICIES["w-tinylfu"]()
    for key in range(100):
        policy.insert(key, 1)
    gone = [policy.victim()]
    for key in range(100, 200):
        policy.insert(key, 1)
        gone.append(policy.victim())
    assert set(gone) == set(range(98, 199)), "each candidate was seen once, like the keys that are in"
