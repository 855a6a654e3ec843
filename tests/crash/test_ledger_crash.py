"""Kill the writer at any moment, damage the file anywhere: the acknowledged is there, nothing wrong is served."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from blake3 import blake3

from standfast.ledger.check import check
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.prompt.model import Head, Item, Key, Kind, Link, Meaning, Part, Sent, Tier, Tip

MB = 1 << 20
HEAD = b"h" * 32
ROUNDS = 12
LENGTH = 40


def parse(dialect: str, tier: Tier, wire: bytes) -> Item:
    """A stand-in for a dialect's parser; it refuses what was never written."""
    assert wire.startswith(b"text "), wire
    name = blake3(tier.encode() + wire).digest()
    return Item(
        wire, tier, "user", Meaning(name), (Part("", Kind.TEXT, Meaning(name), Key(name), 1),), Key(name), False
    )


def tip_of(session: int, turn: int) -> tuple[Tip, list[Link]]:
    units, link = [], b"%d" % session
    for i in range(turn):
        link = blake3(link + b"%d" % i).digest()
        units.append(Sent((parse("d", Tier.MESSAGES, b"text %d %d " % (session, i) * 20),), (Link(link),)))
    head = Head("m", (), (parse("d", Tier.SYSTEM, b"text system"),))
    tip = Tip(b"%08d%08d" % (session, turn), b"%016d" % session, float(turn), "d", head, tuple(units))
    return tip, [unit.link for unit in units]


def open_ledger(path: Path, disk: int = 64 * MB) -> SqliteLedger:
    return SqliteLedger(path, disk, MemoryLedger(8 * MB), parse=parse)


def write_until_killed(path: Path, session: int) -> None:
    """The child: says which turn is safe as soon as flush has returned."""
    ledger = open_ledger(path)
    for turn in range(1, 1000):
        tip, links = tip_of(session, turn % LENGTH + 1)
        ledger.record(tip, links, HEAD)
        ledger.keep_first(b"%d %d" % (session, turn), b"%d" % turn)
        if turn % 3 == 0:
            ledger.flush()
            print(turn, flush=True)


def test_killed_at_any_moment(tmp_path: Path) -> None:
    path, seed = tmp_path / "ledger.sqlite", random.Random(5)
    acknowledged: dict[int, int] = {}
    for session in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, __file__, str(path), str(session)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        time.sleep(seed.random() * 0.15)
        child.send_signal(signal.SIGKILL)
        rest, complaint = child.communicate()
        assert complaint == b""
        acknowledged[session] = int((first + rest).rpartition(b"\n")[0].split()[-1])
        assert check(path) == []
    ledger = open_ledger(path)
    for session, last in acknowledged.items():
        for turn in range(1, last + 1):
            tip, links = tip_of(session, turn % LENGTH + 1)
            assert ledger.tip(tip.id) == tip
            assert ledger.first(b"%d %d" % (session, turn)) == b"%d" % turn
        assert ledger.tips_at(links)[0] == len(links)
    ledger.close()
    assert not list(tmp_path.glob("*.broken-*"))


@pytest.fixture
def full(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path)
    for session in range(4):
        for turn in range(1, LENGTH, 3):
            tip, links = tip_of(session, turn)
            ledger.record(tip, links, HEAD)
            ledger.keep_first(b"%d %d" % (session, turn), b"%d" % turn)
    ledger.close()
    return path


def visit(path: Path) -> int:
    """Ask for everything. Nothing wrong may be served; returns how much was found."""
    ledger, found = open_ledger(path), 0
    for session in range(4):
        for turn in range(1, LENGTH, 3):
            tip, links = tip_of(session, turn)
            assert ledger.tip(tip.id) in (None, tip)
            found += ledger.tip(tip.id) == tip
            depth, tips = ledger.tips_at(links)
            assert all(tuple(tip_of(session, int(tip.id[8:]))[1][:depth]) == tuple(links[:depth]) for tip in tips)
            assert all(tip == tip_of(session, int(tip.id[8:]))[0] for tip in tips)
            assert ledger.first(b"%d %d" % (session, turn)) in (None, b"%d" % turn)
    assert all(tip == tip_of(int(tip.id[:8]), int(tip.id[8:]))[0] for tip in ledger.tips_of_head(HEAD))
    ledger.close()
    return found


def sql(path: Path, statement: str, *values: object) -> list[tuple[bytes, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def flipped(data: bytes, seed: random.Random) -> bytes:
    place = seed.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << seed.randrange(8))]) + data[place + 1 :]


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_a_flipped_bit_in_a_blob(full: Path, kind: int) -> None:
    seed = random.Random(kind)
    assert visit(full) == 4 * 13
    for digest, data in sql(full, "SELECT digest, data FROM blobs WHERE kind=? ORDER BY digest LIMIT 5", kind):
        sql(full, "UPDATE blobs SET data=? WHERE digest=?", flipped(data, seed), digest)
    assert visit(full) < 4 * 13
    assert not [line for line in check(full) if "damaged" in line]
    rewritten = open_ledger(full)
    for session in range(4):
        tip, links = tip_of(session, LENGTH)
        rewritten.record(tip, links, HEAD)
    rewritten.close()
    again = open_ledger(full)
    for session in range(4):
        tip, links = tip_of(session, LENGTH)
        assert again.tips_at(links) == (LENGTH, [tip])
    again.close()


@pytest.mark.parametrize(
    ("table", "column", "key"),
    [("tips", "record", "num"), ("firsts", "value", "num"), ("nodes", "link", "link"), ("tips", "id", "num")],
)
def test_a_flipped_bit_in_a_row(full: Path, table: str, column: str, key: str) -> None:
    seed = random.Random(table + column)
    for name, data in sql(full, f"SELECT {key}, {column} FROM {table} ORDER BY {column} LIMIT 6"):
        sql(full, f"UPDATE {table} SET {column}=? WHERE {key}=?", flipped(data, seed), name)
    visit(full)
    visit(full)


@pytest.mark.parametrize("round", range(10))
def test_bytes_overwritten_anywhere(full: Path, round: int) -> None:
    seed = random.Random(round)
    data = bytearray(full.read_bytes())
    for _ in range(3):
        start = seed.randrange(len(data))
        data[start : start + 64] = seed.randbytes(min(64, len(data) - start))
    full.write_bytes(data)
    visit(full)
    visit(full)


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_truncated(full: Path, keep: float) -> None:
    full.write_bytes(full.read_bytes()[: int(full.stat().st_size * keep)])
    visit(full)
    ledger = open_ledger(full)
    tip, links = tip_of(9, 5)
    ledger.record(tip, links, HEAD)
    ledger.close()
    ledger = open_ledger(full)
    assert ledger.tip(tip.id) == tip
    ledger.close()


def test_truncated_while_open(full: Path) -> None:
    ledger = open_ledger(full)
    known, links = tip_of(0, 4)
    assert ledger.tip(known.id) == known
    with full.open("r+b") as file:
        file.truncate(5000)
    for turn in range(1, LENGTH):
        tip, links = tip_of(7, turn)
        ledger.record(tip, links, HEAD)
        ledger.tips_at(tip_of(1, turn)[1])
    ledger.close()
    ledger = open_ledger(full)
    assert ledger.tips_at(links) == (len(links), [tip])
    ledger.close()
    assert check(full) == []


if __name__ == "__main__":
    write_until_killed(Path(sys.argv[1]), int(sys.argv[2]))
