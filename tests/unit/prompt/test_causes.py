"""The table of causes, and that every cause in it has a place where it is named."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from standfast.prompt.causes import CAUSES, Cause, Repair
from standfast.prompt.drift import Drift
from standfast.prompt.model import Tier

LOSSLESS = {
    "T1",
    "T2",
    "S2",
    "S5",
    "H2",
    "H3",
    "H4",
    "H5",
    "H6",
    "H8",
    "H9",
    "H10",
    "H11",
    "B1",
    "B2",
    "B5",
    "B6",
    "I1",
}
POLICY = {"T4", "S1", "S3", "S4", "H1", "B4", "E1", "E2"}
SOURCE = {"T3", "T5", "S6", "S7", "X1"}
REPORT = {"H7", "P1", "P2", "B3", "I2", "I3", "I4", "E3", "E4", "C1"}


@pytest.mark.parametrize(
    ("repair", "names"),
    [(Repair.LOSSLESS, LOSSLESS), (Repair.POLICY, POLICY), (Repair.SOURCE, SOURCE), (Repair.REPORT, REPORT)],
)
def test_what_may_be_done_about_each(repair: Repair, names: set[str]) -> None:
    assert {cause.id for cause in CAUSES.values() if cause.repair is repair} == names
    for name in names:
        assert Drift(name, "x", Tier.MESSAGES, b"", b"").repair is repair


def test_all_forty_classes_and_no_more() -> None:
    assert len(CAUSES) == 41
    assert len(CAUSES.keys() - {"C1"}) == 40


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_what_is_no_lossless_repair_needs_its_own_leave(cause: Cause) -> None:
    assert (cause.by is not None) >= (cause.repair is Repair.POLICY)
    assert cause.by is None or cause.repair is not Repair.LOSSLESS


def test_every_cause_is_told_in_one_sentence() -> None:
    for name, cause in CAUSES.items():
        assert cause.id == name
        assert cause.title[0].islower() or not cause.title[0].isalpha()
        assert cause.remedy[0].isupper()
        assert cause.remedy.endswith(".")
        assert ". " not in cause.remedy


def test_the_table_cannot_be_changed_by_accident() -> None:
    with pytest.raises(FrozenInstanceError):
        CAUSES["T1"].title = "x"  # type: ignore[misc]
