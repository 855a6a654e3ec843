"""The default policy."""

from __future__ import annotations

import random

from standfast.store.ghosts import Ghost
from standfast.store.policies.density import Density
from standfast.store.policies.lru import LRU
from standfast.store.policy import Policy


def _people_and_passers_by(policy: Policy[tuple[int, int]], room: int) -> float:
    """Share served. One in four newcomers comes back after a while, and again, ten times; the others never do."""
    chance, ghost, hits, asked = random.Random(5), Ghost(policy, room), 0, 0
    due: dict[int, tuple[int, int]] = {}
    for turn in range(6000):
        who, blocks = due.pop(turn, (turn, 4))
        hits += ghost.serve([(who, n) for n in range(blocks)], [1] * blocks)
        asked += blocks
        if blocks > 4 or chance.random() < 0.25:
            later = turn + chance.randint(100, 140)
            while later in due:
                later += 1
            if blocks < 14:
                due[later] = who, blocks + 1
    return hits / asked


def test_learns_who_comes_back() -> None:
    assert _people_and_passers_by(Density(), 500) > 1.2 * _people_and_passers_by(LRU(), 500)


def test_gives_up_the_young_where_keys_come_back_late_and_surely() -> None:
    policy, calls = Density[int](), list[int]()
    for turn in range(3000):
        calls += [turn, turn - 150] if turn >= 150 else [turn]
    young = 0
    for now, key in enumerate(calls):
        if key in policy:
            policy.hit(key)
            continue
        if len(policy) == 100:
            gone = policy.victim()
            assert gone != calls[now - 1], "it may be the parent of what comes"
            young += gone in calls[now - 5 : now]
        policy.insert(key, 1)
    assert young > 1000


def test_a_parent_that_came_back_has_no_children_from_before() -> None:
    policy: Density[str] = Density()
    policy.insert("parent", 1)
    policy.insert("child", 1, parent="parent")
    policy.discard("parent")
    policy.insert("parent", 1)
    policy.insert("other", 1)
    policy.discard("child")
    assert {policy.victim(), policy.victim()} == {"parent", "other"}
