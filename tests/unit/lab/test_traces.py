"""Readers of recorded traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import shared

from standfast.lab.traces import Request, arriving, conversations, mooncake
from standfast.store.ghosts import Ghost
from standfast.store.policies.clairvoyant import Clairvoyant
from standfast.store.policies.lru import LRU


def _conversation(times: list[float], chains: list[list[int]], **more: object) -> dict[str, object]:
    rows = [{"t": t, "hash_ids": chain} for t, chain in zip(times, chains, strict=True)]
    return {"models": ["m"], "tool_tokens": 100, "system_tokens": 28, "block_size": 64, "requests": rows, **more}


def _written(folder: Path, *rows: object) -> Path:
    path = folder / "trace.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


def test_mooncake(tmp_path: Path) -> None:
    path = _written(tmp_path, {"timestamp": 2500, "input_length": 900, "output_length": 3, "hash_ids": [0, 7]})
    assert list(mooncake(path)) == [Request(2.5, 7, [0, 7], 1)]


def test_runs_say_the_same_as_whole_chains(tmp_path: Path) -> None:
    whole = _conversation([0, 5, 9], [[1, 2, 3], [1, 2, 3, 4, 9], [1, 2, 5]])
    runs = dict(whole)
    runs["requests"] = [
        {"t": 0, "k": 0, "r": [[1, 3]]},
        {"t": 5, "k": 3, "r": [[4, 1], [9, 1]]},
        {"t": 9, "k": 2, "r": [[5, 1]]},
    ]
    first, second = conversations(_written(tmp_path, whole, runs))
    assert first == second
    assert first.requests == [(0, [1, 2, 3]), (5, [1, 2, 3, 4, 9]), (9, [1, 2, 5])]


def test_a_folder_of_files_reads_like_one_file(tmp_path: Path) -> None:
    rows = [_conversation([0, n], [[1], [1, n]]) for n in (2, 3)]
    for n, row in enumerate(rows):
        (tmp_path / f"trace_{n}.json").write_text(json.dumps(row, indent=1))
    assert list(conversations(tmp_path)) == list(conversations(_written(tmp_path, *rows)))


def test_subagents_run_within_their_conversation(tmp_path: Path) -> None:
    row = _conversation([10, 20], [[1], [1, 2]])
    row["requests"].append({"t": 12, "requests": [{"t": 0, "hash_ids": [5]}, {"t": 3, "hash_ids": [5, 6]}]})  # type: ignore[attr-defined]
    (conversation,) = conversations(_written(tmp_path, row))
    assert conversation.requests == [(0, [1]), (2, [5]), (5, [5, 6]), (10, [1, 2])]


def test_what_was_logged_twice_counts_once(tmp_path: Path) -> None:
    (conversation,) = conversations(_written(tmp_path, _conversation([0, 1, 2, 3], [[1], [2], [1], [3]])))
    assert [chain for _, chain in conversation.requests] == [[1], [2], [3]]


def test_larger_blocks_leave_out_what_is_over(tmp_path: Path) -> None:
    (conversation,) = conversations(_written(tmp_path, _conversation([0], [[1, 2, 3, 4, 5]])), 128)
    assert conversation.requests == [(0, [2, 4])]


def test_conversations_of_one_kind_share_their_first_blocks_and_nothing_else(tmp_path: Path) -> None:
    row = _conversation([0, 30], [[1, 2, 3], [1, 2, 3, 4]])
    other = _conversation([0], [[1, 2, 3]], tool_tokens=99)
    found = list(arriving(conversations(_written(tmp_path, row, row, other)), between=10, seed=4))
    assert sorted(r.at for r in found) == [r.at for r in found]
    one, two, three = (next(r for r in found if r.unit == n) for n in (1, 2, 3))
    assert one.chain[:2] == two.chain[:2]
    assert one.common == 2
    assert set(one.chain[2:]).isdisjoint(two.chain[2:])
    assert set(one.chain).isdisjoint(three.chain)
    assert [r.chain[:3] == one.chain for r in found if r.unit == 1] == [True, True]


def test_arrivals_are_seeded(tmp_path: Path) -> None:
    path = _written(tmp_path, *[_conversation([0, 50], [[n], [n, n + 1]]) for n in range(30)])

    def times(seed: int) -> list[float]:
        return [r.at for r in arriving(conversations(path), between=10, seed=seed, keep=0.5)]

    assert times(1) == times(1) != times(2)
    assert 0 < len(times(1)) < 60


@pytest.mark.parametrize(
    ("name", "infinite", "lru", "clairvoyant"),
    [("mooncake-conversation", 0.366, 0.112, 0.339), ("mooncake-synthetic", 0.640, 0.279, 0.524)],
)
def test_known_shares_of_the_recorded_traces(name: str, infinite: float, lru: float, clairvoyant: float) -> None:
    """Contiguous-prefix hits with 5,000 blocks, as measured by others."""
    requests = list(mooncake(shared.path(f"data/{name}.jsonl.gz")))
    blocks = sum(len(r.chain) for r in requests)

    def share(ghost: Ghost[int]) -> float:
        return sum(ghost.serve(r.chain, [1] * len(r.chain)) for r in requests) / blocks

    assert share(Ghost(LRU(), float("inf"))) == pytest.approx(infinite, abs=0.001)
    assert share(Ghost(LRU(), 5000)) == pytest.approx(lru, abs=0.002)
    assert share(Ghost(Clairvoyant(key for r in requests for key in r.chain), 5000)) == pytest.approx(
        clairvoyant, abs=0.003
    )
