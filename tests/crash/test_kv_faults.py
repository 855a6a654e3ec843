"""Whatever happens to the KV store, a state that is served is the one that a model computes for these tokens.

STANDFAST_TRIALS=10000 python -m pytest tests/crash/test_kv_faults.py runs as many seeded trials; 600 without it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kv_states import LAYOUT, NAMESPACE, body_of, joined, states, tokens_of

from standfast.errors import MediumFailed
from standfast.store.check import check, repair
from standfast.store.codecs.raw import Raw
from standfast.store.media.disk import DiskMedium
from standfast.store.media.ram import RamMedium
from standfast.store.names import Tokens
from standfast.store.policies.prefix import PrefixLRU
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier
from standfast.store.tiers import Store

TRIALS = int(os.environ.get("STANDFAST_TRIALS", "600"))


class Faulty(RamMedium):
    """A medium that outlives its stores, and whose contents, room and presence others play with."""

    shared, trusted = True, False

    def __init__(self) -> None:
        super().__init__(1 << 30)
        self.gone = self.full = False

    @contextmanager
    def get_many(self, keys: Sequence[bytes]) -> Iterator[list[memoryview | None]]:
        self._there()
        with super().get_many(keys) as views:
            yield views

    def peek_many(self, keys: Sequence[bytes], size: int) -> list[bytes | None]:
        self._there()
        return super().peek_many(keys, size)

    def put_many(self, values: Sequence[tuple[bytes, Sequence[Any]]]) -> list[bool]:
        self._there()
        return [False] * len(values) if self.full else super().put_many(values)

    def delete_many(self, keys: Sequence[bytes]) -> int:
        self._there()
        return super().delete_many(keys)

    def close(self) -> None:
        pass

    def _there(self) -> None:
        if self.gone:
            raise MediumFailed("it is gone")

    def set(self, key: bytes, value: bytes) -> None:
        """Put another value in the place of one."""
        RamMedium.delete_many(self, [key])
        RamMedium.put_many(self, [(key, [value])])

    def value(self, key: bytes) -> bytes:
        with RamMedium.get_many(self, [key]) as (view,):
            return bytes(view or b"")


class Trial:
    """A store, a random life, and one kind of fault in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.media = Faulty(), Faulty()
        self.now = 0.0
        self.kept: list[list[int]] = []
        self.store = self.opened()

    def opened(self) -> Store:
        tiers = [Tier(f"l{n}", Shelf(m, self.clock), PrefixLRU, Raw(), self.rng.choice([6000, 1 << 30]))
                 for n, m in enumerate(self.media, 2)]  # fmt: skip
        return Store(Shelf(RamMedium(1 << 30)), tiers, contexts=self.rng.randint(1, 3), clock=self.clock)

    def clock(self) -> float:
        return self.now

    def chain(self) -> list[int]:
        """Tokens that begin like others more often than not."""
        stem = self.rng.choice(self.kept)[: self.rng.randint(0, 40)] if self.kept else []
        return stem + [self.rng.randint(0, 1) for _ in range(self.rng.randint(1, 40))]

    def live(self, steps: int) -> None:
        for _ in range(steps):
            chain = self.chain()
            tokens, name = tokens_of(chain), len(self.kept).to_bytes(32, "big")
            self.store.keep(NAMESPACE, tokens, [(name, len(chain))], LAYOUT, body_of(states(tokens)))
            self.kept.append(chain)
            self.ask(tokens_of(self.chain()))

    def ask(self, tokens: Tokens) -> int:
        """What is served is right; how many tokens it was."""
        with self.store.load(self.store.find(NAMESPACE, tokens, LAYOUT), LAYOUT) as loaded:
            assert np.array_equal(joined(loaded), states(tokens)[: loaded.tokens])
            return loaded.tokens

    def some(self, medium: Faulty) -> bytes | None:
        keys = sorted(dict(medium.keys()))
        return self.rng.choice(keys) if keys else None


def flip(trial: Trial) -> None:
    for medium in trial.media:
        if key := trial.some(medium):
            value = bytearray(medium.value(key))
            for _ in range(trial.rng.randint(1, 4)):
                value[trial.rng.randrange(len(value))] ^= 1 << trial.rng.randrange(8)
            medium.set(key, bytes(value))


def tear(trial: Trial) -> None:
    for medium in trial.media:
        if key := trial.some(medium):
            value = medium.value(key)
            cut = trial.rng.randrange(len(value))
            medium.set(key, value[:cut] + trial.rng.choice([b"", bytes(len(value) - cut)]))


def swap(trial: Trial) -> None:
    for medium in trial.media:
        one, other = trial.some(medium), trial.some(medium)
        if one and other:
            a, b = medium.value(one), medium.value(other)
            medium.set(one, b)
            medium.set(other, a)


def fill(trial: Trial) -> None:
    trial.media[1].full = True


def vanish(trial: Trial) -> None:
    trial.rng.choice(trial.media).gone = True


def come_back(trial: Trial) -> None:
    vanish(trial)
    trial.live(2)
    for medium in trial.media:
        medium.gone = False
    trial.now += 60


def jump(trial: Trial) -> None:
    trial.now += trial.rng.choice([-1e6, 1e6, 1e12])


def restart(trial: Trial) -> None:
    """Without a word: what waits to be moved is lost."""
    trial.store = trial.opened()


def second_writer(trial: Trial) -> None:
    other = trial.opened()
    first, trial.store = trial.store, other
    trial.live(3)
    other.close()
    trial.store = first


FAULTS: list[Callable[[Trial], None]] = [flip, tear, swap, fill, vanish, come_back, jump, restart, second_writer]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: str(f.__name__))
def test_nothing_wrong_is_served_and_nothing_fails(fault: Callable[[Trial], None]) -> None:
    for seed in range(-(-TRIALS // len(FAULTS))):
        trial = Trial(seed)
        trial.live(trial.rng.randint(1, 4))
        trial.store.mover.flush()
        fault(trial)
        trial.live(trial.rng.randint(1, 3))
        for chain in trial.kept:
            trial.ask(tokens_of(chain))
        assert trial.store.mover.failed == 0, f"seed {seed}"
        trial.store.mover.close()


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = ["tests"]
from kv_states import *
from standfast.store.codecs.raw import Raw
from standfast.store.media.disk import DiskMedium
from standfast.store.media.ram import RamMedium
from standfast.store.policies.prefix import PrefixLRU
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier
from standfast.store.tiers import Store
store = Store(Shelf(RamMedium(1 << 30)),
              [Tier("l3", Shelf(DiskMedium(Path(sys.argv[1]), 1 << 22)), PrefixLRU, Raw(), 1 << 20)])
for n in range(10**6):
    tokens = tokens_of(range(40), [n % 97] * 30)
    store.keep(NAMESPACE, tokens, [(n.to_bytes(32, "big"), 70)], LAYOUT, body_of(states(tokens)))
    store.mover.flush()
    print(n, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Two writers on one archive, killed at some instruction, again and again."""
    rng, folder = random.Random(1), tmp_path / "kv"
    for _ in range(max(4, TRIALS // 300)):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        told = [int(writer.stdout.readline()) for writer in writers if writer.stdout]
        time.sleep(rng.uniform(0, 0.3))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            told.append(int((writer.communicate()[0].splitlines() or ["0"])[-1]))
        medium = DiskMedium(folder, 1 << 22)
        report = check(medium)
        assert not report.broken
        store = Store(Shelf(RamMedium(1 << 30)), [Tier("l3", Shelf(medium), PrefixLRU, Raw(), 1 << 20)])
        store.mover.flush()
        tokens = tokens_of(range(40), [max(told) % 97] * 30)
        with store.load(store.find(NAMESPACE, tokens, LAYOUT), LAYOUT) as loaded:
            assert loaded.tokens == 70
            assert np.array_equal(joined(loaded), states(tokens))
        repair(medium, report)
        store.close()
