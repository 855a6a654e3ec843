"""What only the ledger on disk does."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from blake3 import blake3
from ledger_tips import MB, links_of, parse, put, sent, tip_of, words

from standfast.errors import LedgerError
from standfast.ledger.check import check
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger


@dataclass
class Files:
    """A ledger's file, and ledgers on it."""

    path: Path

    def open(self, disk: int = 64 * MB, memory: int = 16 * MB) -> SqliteLedger:
        return SqliteLedger(self.path, disk, MemoryLedger(memory), parse=parse)

    def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "ledger.sqlite")


class TestSqlite:
    def test_only_the_owner_may_read(self, files: Files) -> None:
        ledger = files.open()
        put(ledger, tip_of(1, words("a")))
        ledger.flush()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.path.parent.iterdir()}
        assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"} <= modes.keys()
        assert set(modes.values()) == {0o600}
        ledger.close()

    def test_a_page_is_stored_once(self, files: Files) -> None:
        ledger, chain = files.open(), [b"%d" % i * 500 for i in range(64)]
        for i in range(30):
            put(ledger, tip_of(i, [*chain, b"%d" % i]))
        ledger.close()
        assert files.sql("SELECT count(*) FROM blobs WHERE kind=0") == [(64 + 30 + 4,)]
        assert files.sql("SELECT count(*) FROM nodes") == [(64 + 30,)]
        assert files.path.stat().st_size < 250_000

    def test_the_oldest_go_when_the_disk_bound_is_reached(self, files: Files) -> None:
        ledger = files.open(disk=400_000, memory=100_000)
        noise = blake3(b"seed").digest(length=2_000_000)
        tips = [put(ledger, tip_of(i, [b"a", noise[i * 9000 : i * 9000 + 9000]])) for i in range(200)]
        for i in range(500):
            ledger.keep_first(b"%d" % i, b"v" * 1000)
        ledger.close()
        assert check(files.path) == []
        pages, free = (files.sql(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count"))
        assert isinstance(pages, int)
        assert isinstance(free, int)
        assert (pages - free) * 4096 <= 400_000
        assert free < 20
        ledger = files.open()
        assert ledger.tip(tips[0].id) is None
        assert ledger.tip(tips[199].id) == tips[199]
        assert ledger.tips_at(links_of(tips[0].sent)) == (1, tips[:191:-1])
        assert ledger.first(b"499") == b"v" * 1000
        ledger.close()

    def test_a_lineage_longer_than_the_bound_keeps_its_end(self, files: Files) -> None:
        ledger = files.open(disk=330_000, memory=0)
        noise = blake3(b"seed").digest(length=300_000)
        chain = [noise[i * 1000 : i * 1000 + 1000] for i in range(150)]
        for i in range(1, 150):
            tip = put(ledger, tip_of(i, chain[:i]))
            ledger.flush()
        assert ledger.tips_at(links_of(tip.sent)) == (149, [tip])
        ledger.close()
        assert check(files.path) == []

    @pytest.mark.parametrize("version", [1, 99])
    def test_an_unknown_version_is_put_aside(
        self, files: Files, version: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        files.open().close()
        files.sql(f"PRAGMA user_version={version}")
        ledger = files.open()
        put(ledger, tip_of(1, words("a")))
        ledger.close()
        assert f"version is {version}" in caplog.text
        assert files.path.with_name("ledger.sqlite.broken-1").exists()
        assert check(files.path) == []

    def test_another_programs_file_is_put_aside(self, files: Files) -> None:
        for _ in range(2):
            files.path.write_bytes(b"not a database at all, " * 1000)
            files.open().close()
        aside = sorted(path.name for path in files.path.parent.glob("*.broken-*"))
        assert aside == ["ledger.sqlite.broken-1", "ledger.sqlite.broken-2"]

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LedgerError, match="cannot be opened"):
            SqliteLedger(tmp_path / "file" / "ledger.sqlite", MB, MemoryLedger(MB), parse=parse)

    def test_a_closed_ledger_says_so(self, files: Files) -> None:
        ledger = files.open()
        ledger.close()
        with pytest.raises(LedgerError, match="closed"):
            ledger.tips_at(links_of(sent(words("a"))))
        with pytest.raises(LedgerError, match="closed"):
            put(ledger, tip_of(1, words("a")))

    def test_broken_unicode_stays_in_memory(self, files: Files) -> None:
        ledger = files.open()
        broken = tip_of(1, words("a"))
        tip = put(ledger, replace(broken, head=replace(broken.head, model="\ud800")))
        put(ledger, tip_of(2, words("b")))
        assert ledger.tip(tip.id) == tip
        ledger.close()
        assert check(files.path) == []
        assert files.sql("SELECT count(*) FROM tips") == [(1,)]

    def test_a_full_disk_is_told_by_flush_only(self, files: Files) -> None:
        ledger = files.open()
        limit = ledger._queue._connection.execute
        limit("PRAGMA max_page_count=40")
        tips = [put(ledger, tip_of(i, [blake3(b"%d" % i).digest(length=9000)])) for i in range(50)]
        with pytest.raises(LedgerError, match="50 records could not be written"):
            ledger.flush()
        assert ledger.tip(tips[0].id) == tips[0]
        limit("PRAGMA max_page_count=100000")
        put(ledger, tips[1])
        ledger.close()
        assert check(files.path) == []
        assert files.sql("SELECT count(*) FROM tips") == [(1,)]

    def test_another_writer_holds_nobody_up(self, files: Files) -> None:
        ledger = files.open()
        other = sqlite3.connect(files.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        began = time.perf_counter()
        tips = [put(ledger, tip_of(i, [b"%d" % i])) for i in range(20)]
        assert ledger.keep_first(b"n", b"v") == b"v"
        assert ledger.tips_at(links_of(tips[3].sent)) == (1, [tips[3]])
        assert time.perf_counter() - began < 1.0
        other.execute("ROLLBACK")
        other.close()
        ledger.close()
        assert files.sql("SELECT count(*) FROM tips") == [(20,)]

    def test_two_that_name_the_same_at_once_agree_in_the_end(self, files: Files) -> None:
        one, two = files.open(), files.open()
        answers = {one.keep_first(b"n", b"one"), two.keep_first(b"n", b"two")}
        assert answers <= {b"one", b"two"}
        one.flush()
        two.flush()
        assert one.first(b"n") == two.first(b"n") == one.keep_first(b"n", b"three")
        one.close()
        two.close()

    def test_a_database_that_was_replaced_is_followed(self, files: Files) -> None:
        one, two = files.open(), files.open()
        put(one, tip_of(1, words("a")))
        one.flush()
        for path in files.path.parent.glob("ledger.sqlite*"):
            path.rename(path.with_name("old-" + path.name))
        tip = put(two, tip_of(2, words("b")))
        two.flush()
        put(one, tip_of(3, words("c")))
        one.flush()
        assert one.tip(tip.id) == tip
        one.close()
        two.close()
        assert check(files.path) == []


def _session(path: Path, name: bytes, start: Callable[[], int], report: Callable[[object], None]) -> None:
    ledger = SqliteLedger(path, 64 * MB, MemoryLedger(16 * MB), parse=parse)
    start()
    for turn in range(1, 30):
        chain = [b"hello"] + [b"%s.%d" % (name, i) for i in range(turn)]
        put(ledger, tip_of(turn * 10 + name[0], chain, lineage=name))
        ledger.keep_first(b"shared %d" % turn, name)
    ledger.flush()
    start()
    found = ledger.tips_at(
        links_of(sent([b"hello"] + [b"%s.%d" % (b"AB"[b"BA".index(name) :][:1], i) for i in range(40)]))
    )
    report((name, found[0], [tip.id for tip in found[1]], [ledger.first(b"shared %d" % turn) for turn in range(1, 30)]))
    ledger.close()


def test_processes_find_what_the_others_wrote(files: Files) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.SimpleQueue()
    processes = [
        context.Process(target=_session, args=(files.path, name, barrier.wait, queue.put)) for name in (b"A", b"B")
    ]
    for process in processes:
        process.start()
    reports = sorted(queue.get() for _ in processes)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert [(name, depth) for name, depth, _, _ in reports] == [(b"A", 30), (b"B", 30)]
    assert reports[0][2] == [b"%016d" % (290 + ord("B"))]
    assert reports[1][2] == [b"%016d" % (290 + ord("A"))]
    assert reports[0][3] == reports[1][3]
    assert set(reports[0][3]) <= {b"A", b"B"}
    assert check(files.path) == []
