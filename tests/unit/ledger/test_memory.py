"""How the ledger in memory keeps within its bound."""

from __future__ import annotations

from ledger_tips import HEAD, MB, links_of, put, sent, tip_of, words

from standfast.ledger.memory import MemoryLedger


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
