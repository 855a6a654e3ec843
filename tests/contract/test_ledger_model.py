"""Every ledger against a naive one: lists that are searched from the front."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from ledger_tips import MB, links_of, parse, put, sent, tip_of

from standfast.ledger import Ledger
from standfast.ledger.check import check
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.prompt.model import Link, Tip

Names = tuple[bytes, bytes]
NAMES = st.sampled_from([(head, kin) for head in (b"1", b"2") for kin in (b"", b"k")])
"""Head and kin of a request."""


class Machine(RuleBasedStateMachine):
    """Against a model that keeps everything in a list."""

    paths = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=7)

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, tuple[Tip, list[Link], Names]] = {}
        self.firsts: dict[bytes, bytes] = {}
        self.clock = 0
        self.ledger: Ledger = MemoryLedger(16 * MB)

    @rule(path=paths, produced=st.integers(0, 2), late=st.booleans(), names=NAMES)
    def record(self, path: list[bytes], produced: int, late: bool, names: Names) -> None:
        self.clock += 1
        at = self.clock - 3.5 if late else float(self.clock)
        lineage = path[0] if path else b"none"
        self._put(tip_of(self.clock, path, lineage=lineage, at=at, produced=min(produced, len(path))), names)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), more=paths)
    def extend(self, data: st.DataObject, more: list[bytes]) -> None:
        old, _, names = self.model[data.draw(st.sampled_from(sorted(self.model)))]
        self.clock += 1
        path = [unit.items[0].wire for unit in old.sent + old.produced] + more
        self._put(tip_of(self.clock, path, lineage=old.lineage), names)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), path=paths, keep=st.booleans(), moved=st.none() | NAMES)
    def again(self, data: st.DataObject, path: list[bytes], keep: bool, moved: Names | None) -> None:
        id = data.draw(st.sampled_from(sorted(self.model)))
        old, _, names = self.model[id]
        if keep:
            path = [unit.items[0].wire for unit in old.sent + old.produced] + path
        self._put(tip_of(id, path, lineage=old.lineage, at=old.at), moved or names)

    @rule(path=paths)
    def look(self, path: list[bytes]) -> None:
        links = links_of(sent(path))
        rows = list(self.model.values())
        depth = max((i for i in range(len(links) + 1) if any(r[1][:i] == links[:i] for r in rows)), default=0)
        passing = [tip for tip, its, _ in rows if its[:depth] == links[:depth]] if depth else []
        assert self.ledger.tips_at(links) == (depth, self._newest(passing))

    @rule(head=st.sampled_from([b"1", b"2", b"k"]))
    def look_at_head(self, head: bytes) -> None:
        assert self.ledger.tips_of_head(head) == self._newest(
            [tip for tip, _, its in self.model.values() if head in its]
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

    def _put(self, tip: Tip, names: Names) -> None:
        put(self.ledger, tip, *names)
        self.model[int(tip.id)] = (tip, links_of(tip.sent + tip.produced), names)

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
