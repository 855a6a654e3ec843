"""Ghost caches, and the regret they tell."""

from __future__ import annotations

import random

import pytest

from standfast.store.ghosts import Ghost, Ghosts
from standfast.store.policies import POLICIES
from standfast.store.policies.lru import LRU


def test_a_key_counts_only_if_all_in_front_of_it_were_in() -> None:
    ghost = Ghost(LRU[int](), 10)
    assert ghost.serve([1, 2, 3], [1, 1, 1]) == 0
    assert ghost.serve([1, 9, 3], [1, 1, 1]) == 1
    assert ghost.serve([1, 2, 3], [1, 1, 1]) == 3


def test_keeps_its_bound_in_bytes() -> None:
    ghost = Ghost(LRU[int](), 10)
    for key in range(20):
        ghost.serve([key], [1 + key % 4])
        assert ghost.used <= 10
    ghost.serve([99], [11])
    assert ghost.serve([99], [11]) == 0


def _requests(seed: int, count: int) -> list[tuple[int, list[str]]]:
    """Conversations behind one system prompt: some go on, and most of them are read once."""
    chance, length, out = random.Random(seed), dict[int, int](), []
    for n in range(count):
        who = chance.choice([*list(length)[-300:], n]) if chance.random() < 0.6 else n
        length[who] = length.get(who, 2) + 2
        out.append((who, [*(f"system {i}" for i in range(10)), *(f"{who} {i}" for i in range(length[who]))]))
    return out


def test_a_sample_tells_what_the_whole_would() -> None:
    requests, capacity = _requests(3, 20_000), 1_500
    names = ("lru", "sieve", "s3-fifo")
    ghosts: Ghosts[str] = Ghosts("lru", {name: POLICIES[name] for name in names}, capacity, one_in=4)
    whole = {name: Ghost(POLICIES[name](), capacity) for name in names}
    served, asked = dict.fromkeys(names, 0), 0
    for who, chain in requests:
        sizes = [1] * len(chain)
        ghosts.serve(who, chain, sizes, common=10)
        if who >= 15_000:
            asked += len(chain)
        for name, ghost in whole.items():
            hits = ghost.serve(chain, sizes)
            served[name] += hits if who >= 15_000 else 0
    told = ghosts.regret()
    for name in names:
        assert told.shares[name] == pytest.approx(served[name] / asked, abs=0.04)
    assert told.regret == told.shares[told.best] - told.shares["lru"] >= 0


def test_only_the_sample_costs_work() -> None:
    policy: LRU[int] = LRU()
    ghosts: Ghosts[int] = Ghosts("lru", {"lru": lambda: policy}, 1 << 20)
    for unit in range(1600):
        ghosts.serve(unit, [unit], [1])
    assert 50 < len(policy) < 200


def test_nothing_asked_no_regret() -> None:
    assert Ghosts("lru", {"lru": LRU}, 1).regret().regret == 0
