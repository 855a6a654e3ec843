from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kv_states import LAYOUT, NAMESPACE, body_of, joined, states, tokens_of

from standfast.errors import MediumFailed
from standfast.store.codecs.raw import Raw
from standfast.store.layout import Layout
from standfast.store.media.ram import RamMedium
from standfast.store.names import Scope, Tokens
from standfast.store.policies.lru import LRU
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier
from standfast.store.tiers import Loaded, Store

WHOLE = Layout("test whole", (), 1 << 30)


class Outside(RamMedium):
    """A medium that outlives a store, and that others can write to."""

    down = False
    shared = True
    trusted = False

    @contextmanager
    def get_many(self, keys: Any) -> Iterator[Any]:
        if self.down:
            raise MediumFailed("it is gone")
        with super().get_many(keys) as views:
            yield views

    def put_many(self, values: Any) -> list[bool]:
        if self.down:
            raise MediumFailed("it is gone")
        return super().put_many(values)

    def close(self) -> None:
        pass


def make(*media: Outside, contexts: int = 100, capacity: int = 1 << 30, below: int = 1 << 30) -> Store:
    tiers = [Tier(f"l{n}", Shelf(medium), LRU, Raw(), below) for n, medium in enumerate(media, 2)]
    store = Store(Shelf(RamMedium(1 << 30)), tiers, contexts=contexts, capacity=capacity)
    store.mover.flush()
    return store


def keep(store: Store, tokens: Tokens, name: int = 0, *, follows: int | None = None) -> int:
    names = [b"h" * 32] + ([] if follows is None else [follows.to_bytes(32, "big")]) + [name.to_bytes(32, "big")]
    heads = [(head, len(tokens)) for head in names]
    return store.keep(NAMESPACE, tokens, heads, LAYOUT, body_of(states(tokens)))


@contextmanager
def loading(store: Store, tokens: Tokens, namespace: bytes = NAMESPACE) -> Iterator[Loaded]:
    with store.load(store.find(namespace, tokens, LAYOUT), LAYOUT) as loaded:
        yield loaded


def loads(store: Store, tokens: Tokens) -> int:
    """Tokens that come back for a prompt; their states are right."""
    with loading(store, tokens) as loaded:
        assert np.array_equal(joined(loaded), states(tokens)[: loaded.tokens])
        return loaded.tokens


@pytest.fixture
def disk() -> Outside:
    return Outside(1 << 30)


A, B = tokens_of(range(50)), tokens_of(range(20), range(100, 130))


def test_what_was_kept_comes_back_to_the_token(disk: Outside) -> None:
    store = make(disk)
    assert keep(store, A) == 50
    assert loads(store, A) == 50
    assert loads(store, A[:37]) == 37
    assert loads(store, B) == 20  # in mid-block
    assert loads(store, tokens_of([7], range(9))) == 0
    assert keep(store, B, 1) == 34  # the block that both share is there
    store.close()


def test_another_namespace_finds_nothing() -> None:
    store = make()
    keep(store, A)
    other = Scope(b"model", LAYOUT.id, salt=b"other").namespace()
    assert store.find(other, A, LAYOUT).tokens == 0
    assert store.recall(other, [b"h" * 32]) is None


def test_a_restart_loses_nothing_that_was_archived(disk: Outside) -> None:
    first = make(disk)
    keep(first, A, 1)
    first.close()
    second = make(disk)
    found = second.recall(NAMESPACE, [b"h" * 32, (1).to_bytes(32, "big"), b"new" * 10 + b"!!"])
    assert found is not None
    assert (found[0].tokens.tolist(), found[1:]) == (A.tolist(), (50, 2))
    assert loads(second, A) == 50


def test_what_others_write_to_a_shared_medium_is_found(disk: Outside) -> None:
    here, there = make(disk), make(disk)
    keep(there, A, 1)
    there.mover.flush()
    with loading(here, A) as loaded:
        assert loaded.by_tier == {"l2": 50}


def test_the_latest_contexts_are_in_memory_and_the_others_below(disk: Outside) -> None:
    store = make(disk, contexts=1)
    keep(store, A, 1)
    keep(store, B, 2)
    store.mover.flush()
    with loading(store, A) as loaded:
        assert loaded.by_tier == {"l1": 16, "l2": 34}
    with loading(store, B) as loaded:
        assert loaded.by_tier == {"l1": 50}


def test_blocks_that_contexts_share_are_stored_once(disk: Outside) -> None:
    store = make(disk)
    stem = list(range(320))
    for n in range(20):
        keep(store, tokens_of(stem, [1000 + n] * 16), n)
    store.mover.flush()
    blocks = 20 + 20
    assert store.tiers[-1].shelf.medium.stats().entries == blocks + 20  # and the contexts


def test_a_context_that_goes_on_replaces_the_one_before(disk: Outside) -> None:
    store = make(disk)
    longer = tokens_of(A.tolist(), range(60))
    keep(store, A, 1)
    store.mover.flush()
    entries = store.tiers[0].shelf.medium.stats().entries
    keep(store, longer, 2, follows=1)
    store.mover.flush()
    assert store.recall(NAMESPACE, [(1).to_bytes(32, "big")]) is not None  # by name still, while it is remembered
    assert loads(store, longer) == 110
    # Four blocks and a context more; the old tail and context gave way.
    assert store.tiers[0].shelf.medium.stats().entries == entries + 4 + 1 - 2


def test_fragments_that_recur_are_given_to_the_tier_between() -> None:
    fragments, archive = Outside(1 << 30), Outside(1 << 30)
    store = make(fragments, archive)
    stem = list(range(32))
    for n in range(4):
        keep(store, tokens_of(stem, [1000 + n] * 16), n)
    store.mover.flush()
    assert fragments.stats().entries == 2
    follower = tokens_of(stem, [1000] * 16, [9] * 4)
    keep(store, follower, 9, follows=0)  # a session that goes on is no other context
    store.mover.flush()
    assert fragments.stats().entries == 2


@pytest.mark.parametrize("place", ["body", "tokens", "head"])
def test_damage_is_a_miss_and_is_counted(disk: Outside, place: str) -> None:
    store = make(disk, contexts=1)
    keep(store, A, 1)
    keep(store, tokens_of([5]), 2)
    store.mover.flush()
    key = store.find(NAMESPACE, A, LAYOUT).held[1].entry.run.key
    with disk.get_many([key]) as (view,):
        data = bytearray(view)
    data[{"body": -1, "tokens": 161, "head": 40}[place]] ^= 1
    disk.delete_many([key])
    disk.put_many([(key, [data])])
    assert loads(store, A) == 16
    assert sum(store.tiers[0].shelf.broken.values()) == 1
    assert key not in dict(disk.keys())
    assert loads(store, A) == 16
    keep(store, A, 1)
    assert loads(store, A) == 50


def test_a_medium_that_fails_is_left_alone_for_a_while(disk: Outside) -> None:
    store = make(disk, contexts=1)
    keep(store, A, 1)
    keep(store, tokens_of([5]), 2)
    store.mover.flush()
    disk.down = True
    assert loads(store, A) == 0
    assert store.tiers[0].shelf.asleep
    disk.down = False
    assert loads(store, A) == 0  # it is not asked yet


def test_a_state_is_loaded_only_where_that_is_quicker(disk: Outside) -> None:
    store = make(disk, contexts=1)
    keep(store, A, 1)
    keep(store, tokens_of([5]), 2)
    store.mover.flush()
    store.tiers[0].shelf.pace.wait = 0.1
    store.computing.rate = 400.0
    assert store.find(NAMESPACE, A, LAYOUT).tokens == 50  # 0.125 s to compute
    store.computing.rate = 4000.0
    assert store.find(NAMESPACE, A, LAYOUT).tokens == 0


def test_a_whole_state_serves_its_very_tokens_alone(disk: Outside) -> None:
    store = make(disk, contexts=1)
    namespace = Scope(b"model", WHOLE.id).namespace()
    heads = [(b"n" * 32, 50)]
    store.keep(namespace, A, heads, WHOLE, lambda a, b: b"the engine's own file")
    store.keep(namespace, B, [(b"m" * 32, 50)], WHOLE, lambda a, b: b"another")
    store.mover.flush()
    for asked, expected in ((A, 50), (A[:49], 0), (tokens_of(A.tolist(), [1]), 50)):
        found = store.find(namespace, asked, WHOLE)
        assert found.tokens == expected
    with store.load(store.find(namespace, A, WHOLE), WHOLE) as loaded:
        assert [bytes(body) for _, body, _ in loaded.parts] == [b"the engine's own file"]
        assert loaded.by_tier == {"l2": 50}


class Anything(RuleBasedStateMachine):
    """Whatever is kept, evicted, damaged, restarted: what is served is what the model computes for these tokens."""

    @initialize(contexts=st.integers(1, 3), below=st.sampled_from([4000, 9000, 1 << 30]))
    def start(self, contexts: int, below: int) -> None:
        self.contexts, self.below = contexts, below
        self.media = Outside(1 << 30), Outside(1 << 30)
        self.kept: list[list[int]] = []
        self.open()

    def open(self) -> None:
        self.store = make(*self.media, contexts=self.contexts, below=self.below)

    @rule(chain=st.lists(st.integers(0, 1), min_size=1, max_size=60))
    def keep_one(self, chain: list[int]) -> None:
        keep(self.store, tokens_of(chain), len(self.kept))
        self.kept.append(chain)

    @rule(n=st.integers(0, 99), more=st.lists(st.integers(0, 1), min_size=1, max_size=20))
    def go_on(self, n: int, more: list[int]) -> None:
        if self.kept:
            n %= len(self.kept)
            chain = self.kept[n] + more
            keep(self.store, tokens_of(chain), len(self.kept), follows=n)
            self.kept.append(chain)

    @rule(medium=st.integers(0, 1), n=st.integers(0, 99), other=st.integers(0, 99), at=st.integers(0, 9999))
    def damage(self, medium: int, n: int, other: int, at: int) -> None:
        """Another record's bytes, a bit that flipped, or nothing in the place of a record."""
        self.store.mover.flush()
        keys = sorted(dict(self.media[medium].keys()))
        if not keys:
            return
        with self.media[medium].get_many([keys[other % len(keys)]]) as (view,):
            value = bytearray(view or b"")
        if n % len(keys) == other % len(keys):
            value[at % len(value)] ^= 1 << at % 8
        self.media[medium].delete_many([keys[n % len(keys)]])
        if at % 3:
            self.media[medium].put_many([(keys[n % len(keys)], [value])])

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def wait(self) -> None:
        self.store.mover.flush()

    @rule(chain=st.lists(st.integers(0, 1), max_size=60))
    def ask(self, chain: list[int]) -> None:
        loads(self.store, tokens_of(chain))

    @invariant()
    def bounds_hold(self) -> None:
        for tier in self.store.tiers:
            assert tier.used <= tier.capacity
        assert self.store.mover.failed == 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
