"""What every ledger promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_tips import HEAD, MB, links_of, parse, put, sent, tip_of, words

from standfast.ledger import Ledger
from standfast.ledger.check import check
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.prompt.model import Entry, Link, Sent, Tip


class Elsewhere:
    """One process writes, another one looks: two ledgers on one file."""

    def __init__(self, path: Path, memory: int) -> None:
        self.writer = SqliteLedger(path, 64 * MB, MemoryLedger(16 * MB), parse=parse)
        self.reader = SqliteLedger(path, 64 * MB, MemoryLedger(memory), parse=parse)
        self.tips_at, self.tips_of_head, self.tip = self.reader.tips_at, self.reader.tips_of_head, self.reader.tip
        self.first = self.reader.first

    def record(self, tip: Tip, links: Sequence[Link], head: bytes, kin: bytes = b"") -> None:
        self.writer.record(tip, links, head, kin)
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

    def test_found_by_head_and_by_kin(self, ledger: Ledger) -> None:
        first = put(ledger, tip_of(1, words("a"), lineage=b"L"), kin=b"k" * 32)
        second = put(ledger, tip_of(2, words("b"), lineage=b"M"), head=b"i" * 32, kin=b"k" * 32)
        assert ledger.tips_of_head(b"k" * 32) == [second, first]
        assert ledger.tips_of_head(HEAD) == [first]
        answered = put(ledger, replace(first, response_id="msg_1"), kin=b"k" * 32)
        assert ledger.tips_of_head(b"k" * 32) == [second, answered]
        moved = put(ledger, answered, kin=b"l" * 32)
        assert ledger.tips_of_head(b"l" * 32) == ledger.tips_of_head(HEAD) == [moved]
        assert ledger.tips_of_head(b"k" * 32) == [second]

    def test_what_the_provider_holds_is_remembered(self, ledger: Ledger) -> None:
        entries = (Entry(3, "1h", 1.5), Entry(7, "", float("inf")))
        tip = put(ledger, replace(tip_of(1, words("a b")), entries=entries, response_id="résp_1"))
        assert ledger.tip(tip.id) == tip
        assert ledger.tips_of_head(HEAD)[0].entries == entries

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
