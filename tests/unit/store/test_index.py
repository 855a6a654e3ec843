from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kv_states import NAMESPACE, tokens_of

from standfast.store.index import Index
from standfast.store.names import runs, token_ids

chains = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=14), min_size=1, max_size=6)


@given(chains, st.lists(st.integers(0, 2), max_size=14))
def test_the_longest_stored_head_is_found(stored: list[list[int]], prompt: list[int]) -> None:
    index = Index()
    for chain in stored:
        for run in runs(NAMESPACE, token_ids(chain), 4):
            index.add(run, 0)
    held = index.match(NAMESPACE, token_ids(prompt), 4)
    got = [t for part in held for t in part.entry.run.tokens[: part.used].tolist()]
    best = max((next((n for n, (a, b) in enumerate(zip(s, prompt, strict=False)) if a != b), min(len(s), len(prompt)))
                for s in stored), default=0)  # fmt: skip
    assert got == prompt[: len(got)]
    assert len(got) == best


def test_what_no_tier_holds_is_forgotten() -> None:
    index = Index()
    (run,) = runs(NAMESPACE, tokens_of([1, 2]))
    index.add(run, 0)
    index.add(run, 2)
    index.drop(run.key, 0)
    assert [entry.tiers for entry in index] == [4]
    index.drop(run.key, 2)
    index.drop(run.key, 2)
    assert len(index) == 0
    assert index.match(NAMESPACE, run.tokens) == []


def test_a_longer_run_shadows_the_shorter_ones_that_it_begins_with() -> None:
    index = Index()
    tails = [next(runs(NAMESPACE, tokens_of(t))) for t in ([1], [1, 2], [1, 3], [2])]
    for run in tails:
        index.add(run, 0)
    longer = next(runs(NAMESPACE, tokens_of([1, 2, 3])))
    assert index.shadowed(longer) == [tails[0].key, tails[1].key]
    assert index.shadowed(tails[0]) == []
