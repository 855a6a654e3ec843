from __future__ import annotations

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from standfast.store.names import Scope, key_of, runs, shared_length, space_id, token_ids

NAMESPACE = Scope(b"m", b"l").namespace()
chains = st.lists(st.integers(0, 2**32 - 1), max_size=40)


def test_a_namespace_is_of_all_its_parts() -> None:
    parts = {"model": b"a", "layout": b"b", "template": b"c", "adapter": b"d", "salt": b"e"}
    names = {Scope(**parts).namespace()} | {Scope(**{**parts, name: b"x"}).namespace() for name in parts}
    assert len(names) == 6
    assert Scope(b"ab", b"c").namespace() != Scope(b"a", b"bc").namespace()


def test_the_page_on_the_format_says_how_keys_are_made() -> None:
    """A second implementation, from docs/format/block-record.md alone."""
    fields = b"".join(len(x).to_bytes(4, "little") + x for x in (b"m", b"", b"l", b"", b""))
    assert blake3(fields, derive_key_context="standfast kv namespace 1").digest() == NAMESPACE
    root = blake3(NAMESPACE, derive_key_context="standfast kv namespace id 1").digest()
    first = blake3(root + bytes([1, 0, 0, 0, 2, 1, 0, 0]), key=NAMESPACE).digest()
    assert [run.key for run in runs(NAMESPACE, token_ids([1, 258]), 2)] == [first]


@given(chains, st.integers(1, 9))
def test_runs_cut_a_chain_and_name_all_that_is_in_front(chain: list[int], block: int) -> None:
    tokens = token_ids(chain)
    cut = list(runs(NAMESPACE, tokens, block))
    assert [t for run in cut for t in run.tokens.tolist()] == chain
    assert [run.start for run in cut] == list(range(0, len(chain), block))
    parent = space_id(NAMESPACE)
    for run in cut:
        assert (run.parent, run.key) == (parent, key_of(NAMESPACE, parent, run.tokens))
        parent = run.key


@given(chains, chains)
def test_equal_keys_mean_equal_chains(a: list[int], b: list[int]) -> None:
    for x, y in zip(runs(NAMESPACE, token_ids(a), 4), runs(NAMESPACE, token_ids(b), 4), strict=False):
        end = x.start + max(len(x.tokens), len(y.tokens))
        assert (x.key == y.key) == (a[:end] == b[:end])


@given(chains, chains)
def test_shared_length(a: list[int], b: list[int]) -> None:
    n = shared_length(token_ids(a), token_ids(b))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_what_is_no_token_is_refused() -> None:
    with pytest.raises(OverflowError):
        token_ids([-1])
    assert token_ids(np.array([[1, 2], [3, 4]], np.uint32)[:, 0]).flags.c_contiguous
