"""What every ledger promises, and what only the one on disk does."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from standfast.errors import LedgerError
from standfast.ledger import Ledger
from standfast.ledger.check import check
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.prompt.model import Head, Item, Key, Kind, Link, Meaning, Part, Sent, Tier, Tip

MB = 1 << 20


def parse(dialect: str, tier: Tier, wire: bytes) -> Item:
    """A stand-in for a dialect's parser: an item is a function of these three."""
    name = blake3(dialect.encode() + tier.encode() + wire).digest()
    part = Part(".content", Kind.TEXT, Meaning(name), Key(name), len(wire), plain=wire[:4])
    return Item(wire, tier, dialect, Meaning(name), (part,), Key(name), False, len(wire))


def sent(chain: Sequence[bytes], salt: bytes = b"") -> tuple[Sent, ...]:
    """A history of these messages: links are a chain over them."""
    units, link = [], b""
    for wire in chain:
        link = blake3(link + wire + salt).digest()
        units.append(Sent((parse("openai_chat", Tier.MESSAGES, wire),), (Link(link),)))
    return tuple(units)


def links_of(units: Sequence[Sent]) -> list[Link]:
    return [link for unit in units for link in unit.links]


def head_of(text: bytes = b"be brief") -> Head:
    tools = tuple(parse("openai_chat", Tier.TOOLS, b'{"name":"%d"}' % i) for i in range(3))
    system = (parse("openai_chat", Tier.SYSTEM, text),)
    return Head("small", tools, system, {"temperature": b"0"}, {"prompt_cache_key": b'"k"'})


def tip_of(
    id: int, chain: Sequence[bytes], *, lineage: bytes = b"L", at: float | None = None, produced: int = 0
) -> Tip:
    units = sent(chain)
    cut = len(units) - produced
    return Tip(
        id=b"%016d" % id,
        lineage=lineage.ljust(16),
        at=float(id) if at is None else at,
        dialect="openai_chat",
        head=head_of(),
        sent=units[:cut],
        produced=units[cut:],
        fingerprint=b"fp%d" % id,
    )


HEAD = b"h" * 32


def put(ledger: Ledger, tip: Tip, head: bytes = HEAD) -> Tip:
    ledger.record(tip, links_of(tip.sent + tip.produced), head)
    return tip


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


class Elsewhere:
    """One process writes, another one looks: two ledgers on one file."""

    def __init__(self, path: Path, memory: int) -> None:
        self.writer = SqliteLedger(path, 64 * MB, MemoryLedger(16 * MB), parse=parse)
        self.reader = SqliteLedger(path, 64 * MB, MemoryLedger(memory), parse=parse)
        self.tips_at, self.tips_of_head, self.tip = self.reader.tips_at, self.reader.tips_of_head, self.reader.tip
        self.first = self.reader.first

    def record(self, tip: Tip, links: Sequence[Link], head: bytes) -> None:
        self.writer.record(tip, links, head)
        self.writer.flush()

    def keep_first(self, name: bytes, value: bytes) -> bytes:
        kept = self.writer.keep_first(name, value)
        self.writer.flush()
        return kept

    def flush(self) -> None:
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture(params=["memory", "sqlite", "alone", "elsewhere", "no memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "state" / "ledger.sqlite"
    made: Ledger
    if request.param == "memory":
        made = MemoryLedger(16 * MB)
    elif request.param == "elsewhere":
        made = Elsewhere(path, 16 * MB)
    elif request.param == "no memory":
        made = Elsewhere(path, 0)
    else:
        made = SqliteLedger(path, 64 * MB, MemoryLedger(16 * MB), parse=parse, alone=request.param == "alone")
    yield made
    made.close()
    if request.param != "memory":
        assert check(path) == []


class TestContract:
    def test_nothing_is_known_at_first(self, ledger: Ledger) -> None:
        assert ledger.tips_at(links_of(sent(words("a b")))) == (0, [])
        assert ledger.tips_at([]) == (0, [])
        assert ledger.tips_of_head(HEAD) == []
        assert ledger.tip(b"x" * 16) is None
        assert ledger.first(b"n") is None

    def test_a_request_comes_back_whole(self, ledger: Ledger) -> None:
        tip = put(ledger, tip_of(1, words("a b c d"), produced=1))
        links = links_of(tip.sent + tip.produced)
        assert ledger.tips_at(links) == (4, [tip])
        assert ledger.tips_at([*links, Link(b"?" * 32)]) == (4, [tip])
        assert ledger.tip(tip.id) == tip
        assert ledger.tips_of_head(HEAD) == [tip]

    @pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 63, 64, 65, 200])
    def test_longest_known_head_of_any_length(self, ledger: Ledger, length: int) -> None:
        chain = [b"%d" % i for i in range(length)]
        tip = put(ledger, tip_of(1, chain))
        for cut in {1, length // 2, length - 1, length} - {0}:
            other = links_of(sent(chain[:cut] + [b"new %d" % i for i in range(40)]))
            assert ledger.tips_at(other) == (cut, [tip])

    def test_forks_of_one_lineage(self, ledger: Ledger) -> None:
        first = put(ledger, tip_of(1, words("a b")))
        left = put(ledger, tip_of(2, words("a b c l")))
        right = put(ledger, tip_of(3, words("a b r")))
        assert ledger.tips_at(links_of(sent(words("a b c x")))) == (3, [left])
        assert ledger.tips_at(links_of(sent(words("a b r x")))) == (3, [right])
        assert ledger.tips_at(links_of(sent(words("a b y")))) == (2, [right, left, first])
        assert ledger.tips_at(links_of(sent(words("a y")))) == (1, [right, left, first])

    def test_interleaved_sessions_that_share_a_head(self, ledger: Ledger) -> None:
        ones, twos = [], []
        for turn in range(1, 6):
            chain = [b"hello"] + [b"1.%d" % i for i in range(turn)]
            ones.append(put(ledger, tip_of(turn * 2, chain, lineage=b"one")))
            chain = [b"hello"] + [b"2.%d" % i for i in range(turn)]
            twos.append(put(ledger, tip_of(turn * 2 + 1, chain, lineage=b"two")))
        assert ledger.tips_at(links_of(ones[-1].sent)) == (6, [ones[-1]])
        assert ledger.tips_at(links_of(twos[1].sent)) == (3, twos[:0:-1])
        newest = sorted(ones + twos, key=lambda tip: -tip.at)[:8]
        assert ledger.tips_at(links_of(sent([b"hello", b"?"]))) == (1, newest)

    def test_at_most_eight_newest_first(self, ledger: Ledger) -> None:
        tips = [put(ledger, tip_of(i, [b"a", b"%d" % i], at=float(i * 7 % 20))) for i in range(20)]
        newest = sorted(tips, key=lambda tip: -tip.at)[:8]
        assert ledger.tips_at(links_of(sent([b"a"]))) == (1, newest)
        assert ledger.tips_of_head(HEAD) == newest

    def test_the_response_replaces_its_request(self, ledger: Ledger) -> None:
        asked = put(ledger, tip_of(1, words("a b")))
        assert ledger.tip(asked.id) == asked
        other = put(ledger, tip_of(2, words("a b z")))
        answered = put(ledger, tip_of(1, words("a b answer"), produced=1))
        assert ledger.tip(asked.id) == answered
        assert ledger.tips_at(links_of(sent(words("a b answer more")))) == (3, [answered])
        assert ledger.tips_at(links_of(sent(words("a b")))) == (2, [other, answered])
        assert ledger.tips_of_head(HEAD) == [other, answered]

    def test_a_replacement_may_take_another_path(self, ledger: Ledger) -> None:
        put(ledger, tip_of(1, words("a b c d")))
        moved = put(ledger, tip_of(1, words("a x"), lineage=b"M"), head=b"i" * 32)
        assert ledger.tips_at(links_of(sent(words("a b c d")))) == (1, [moved])
        assert ledger.tips_of_head(HEAD) == []
        assert ledger.tips_of_head(b"i" * 32) == [moved]

    def test_many_replacements_keep_the_newest(self, ledger: Ledger) -> None:
        tips = [put(ledger, tip_of(i, [b"a", b"%d" % i])) for i in range(12)]
        for i in (11, 3, 10):
            tips[i] = put(ledger, tip_of(i, [b"b"]))
        left = [tip for i, tip in reversed(list(enumerate(tips))) if i not in (11, 3, 10)]
        assert ledger.tips_at(links_of(sent([b"a"]))) == (1, left[:8])

    def test_a_unit_of_several_parts(self, ledger: Ledger) -> None:
        units = sent(words("a b c d"))
        both = Sent(units[1].items + units[2].items, units[1].links + units[2].links, ours=True)
        tip = replace(tip_of(1, words("a")), sent=(units[0], both, units[3]))
        put(ledger, tip)
        assert ledger.tips_at(links_of(units)) == (4, [tip])
        assert ledger.tips_at(links_of(units[:2])) == (2, [tip])

    def test_a_request_without_history(self, ledger: Ledger) -> None:
        tip = put(ledger, tip_of(1, []))
        assert ledger.tip(tip.id) == tip
        assert ledger.tips_of_head(HEAD) == [tip]
        assert put(ledger, tip_of(1, words("a"))) == ledger.tip(tip.id)

    def test_tenants_do_not_meet(self, ledger: Ledger) -> None:
        put(ledger, tip_of(1, words("a b")))
        assert ledger.tips_at(links_of(sent(words("a b"), salt=b"another tenant"))) == (0, [])

    def test_the_first_value_stays(self, ledger: Ledger) -> None:
        assert ledger.keep_first(b"n", b"one") == b"one"
        assert ledger.keep_first(b"n", b"two") == b"one"
        assert ledger.first(b"n") == b"one"
        assert ledger.keep_first(b"empty", b"") == b""
        assert ledger.first(b"empty") == b""


class Machine(RuleBasedStateMachine):
    """Against a model that keeps everything in a list."""

    paths = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=7)

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, tuple[Tip, list[Link], bytes]] = {}
        self.firsts: dict[bytes, bytes] = {}
        self.clock = 0
        self.ledger: Ledger = MemoryLedger(16 * MB)

    @rule(path=paths, produced=st.integers(0, 2), late=st.booleans(), head=st.sampled_from([b"1", b"2"]))
    def record(self, path: list[bytes], produced: int, late: bool, head: bytes) -> None:
        self.clock += 1
        at = self.clock - 3.5 if late else float(self.clock)
        lineage = path[0] if path else b"none"
        self._put(tip_of(self.clock, path, lineage=lineage, at=at, produced=min(produced, len(path))), head)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), more=paths)
    def extend(self, data: st.DataObject, more: list[bytes]) -> None:
        old, _, head = self.model[data.draw(st.sampled_from(sorted(self.model)))]
        self.clock += 1
        path = [unit.items[0].wire for unit in old.sent + old.produced] + more
        self._put(tip_of(self.clock, path, lineage=old.lineage), head)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), path=paths, keep=st.booleans())
    def again(self, data: st.DataObject, path: list[bytes], keep: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.model)))
        old, _, head = self.model[id]
        if keep:
            path = [unit.items[0].wire for unit in old.sent + old.produced] + path
        self._put(tip_of(id, path, lineage=old.lineage, at=old.at), head)

    @rule(path=paths)
    def look(self, path: list[bytes]) -> None:
        links = links_of(sent(path))
        rows = list(self.model.values())
        depth = max((i for i in range(len(links) + 1) if any(r[1][:i] == links[:i] for r in rows)), default=0)
        passing = [tip for tip, its, _ in rows if its[:depth] == links[:depth]] if depth else []
        assert self.ledger.tips_at(links) == (depth, self._newest(passing))

    @rule(head=st.sampled_from([b"1", b"2"]))
    def look_at_head(self, head: bytes) -> None:
        assert self.ledger.tips_of_head(head) == self._newest(
            [tip for tip, _, its in self.model.values() if its == head]
        )

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        tip = self.model[data.draw(st.sampled_from(sorted(self.model)))][0]
        assert self.ledger.tip(tip.id) == tip

    @rule(name=st.sampled_from([b"x", b"y"]), value=st.binary(max_size=3))
    def keep(self, name: bytes, value: bytes) -> None:
        assert self.ledger.keep_first(name, value) == self.firsts.setdefault(name, value)

    def teardown(self) -> None:
        self.ledger.close()
        assert isinstance(self.ledger, MemoryLedger)
        assert self.ledger.size == 0  # everything counted was counted back

    def _put(self, tip: Tip, head: bytes) -> None:
        put(self.ledger, tip, head)
        self.model[int(tip.id)] = (tip, links_of(tip.sent + tip.produced), head)

    @staticmethod
    def _newest(tips: list[Tip]) -> list[Tip]:
        return sorted(tips, key=lambda tip: -tip.at)[:8]


class SqliteMachine(Machine):
    """The same with restarts, and with two processes that take turns."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger.sqlite"
        self.ledger, self.other = self._open(), self._open()

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self._open()

    @rule()
    def other_process(self) -> None:
        self.ledger.flush()
        self.ledger, self.other = self.other, self.ledger

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.ledger.close()
            self.other.close()
            assert check(self.path) == []
            shutil.rmtree(self.folder)

    def _open(self) -> Ledger:
        return SqliteLedger(self.path, 64 * MB, MemoryLedger(16 * MB), parse=parse)


TestMemoryModel = Machine.TestCase
TestMemoryModel.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestSqliteModel = SqliteMachine.TestCase
TestSqliteModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class TestMemoryBound:
    def test_the_least_recently_used_goes_first(self) -> None:
        ledger = MemoryLedger(60_000)
        tips = [put(ledger, tip_of(i, [b"%d" % i, b"x" * 2000])) for i in range(10)]
        assert len(ledger) == 10
        assert ledger.tip(tips[0].id) == tips[0]  # a use
        i = 10
        while tips[1].id in ledger:
            put(ledger, tip_of(i, [b"%d" % i, b"%d" % i * 1000]))
            i += 1
        assert ledger.size <= 60_000
        assert tips[0].id in ledger
        assert ledger.tips_at(links_of(tips[1].sent)) == (0, [])

    def test_a_shared_history_is_counted_once(self) -> None:
        ledger, chain = MemoryLedger(64 * MB), [b"%d" % i * 1000 for i in range(50)]
        put(ledger, tip_of(0, chain))
        one = ledger.size
        for i in range(1, 20):
            put(ledger, tip_of(i, [*chain, b"%d" % i]))  # equal bytes, other objects
        assert ledger.size < 1.4 * one
        held = ledger.tips_of_head(HEAD)
        assert len({id(tip.sent[7].items[0].wire) for tip in held}) == 1

    def test_a_request_that_does_not_fit_is_forgotten(self) -> None:
        ledger = MemoryLedger(1000)
        tip = put(ledger, tip_of(1, words("a b")))
        assert ledger.tip(tip.id) is None
        assert ledger.size == 0

    def test_the_newest_left_are_found_after_others_went(self) -> None:
        ledger = MemoryLedger(200_000)
        tips = {i: put(ledger, tip_of(i, [b"a", b"%d" % i * 1000])) for i in range(200)}
        alive = [tip for tip in reversed(tips.values()) if tip.id in ledger]
        assert 8 < len(alive) < 200
        assert ledger.tips_at(links_of(sent([b"a"]))) == (1, alive[:8])

    def test_firsts_are_bounded_too(self) -> None:
        ledger = MemoryLedger(50_000)
        for i in range(1000):
            ledger.keep_first(b"%d" % i, b"v" * 100)
        assert ledger.size <= 50_000
        assert ledger.first(b"0") is None
        assert ledger.first(b"999") == b"v" * 100


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
        ledger = files.open(disk=300_000, memory=0)
        noise = blake3(b"seed").digest(length=300_000)
        chain = [noise[i * 1000 : i * 1000 + 1000] for i in range(150)]
        for i in range(1, 150):
            tip = put(ledger, tip_of(i, chain[:i]))
            ledger.flush()
        assert ledger.tips_at(links_of(tip.sent)) == (149, [tip])
        ledger.close()
        assert check(files.path) == []

    @pytest.mark.parametrize("version", [2, 99])
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
