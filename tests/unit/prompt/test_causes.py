"""The table of causes, and that every cause in it has a place where it is named."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from standfast.prompt.causes import CAUSES, Repair
from standfast.prompt.drift import Drift
from standfast.prompt.model import Tier

LOSSLESS = {"T1", "T2", "S2", "H2", "H3", "H4", "H5", "H9", "I1"}
POLICY = {"T4", "S1", "S3", "S4", "H1"}
SOURCE = {"T3", "S6", "X1"}
REPORT = {"H6", "H7", "H8", "H10", "P1", "P2", "C1"}


@pytest.mark.parametrize(
    ("repair", "names"),
    [(Repair.LOSSLESS, LOSSLESS), (Repair.POLICY, POLICY), (Repair.SOURCE, SOURCE), (Repair.REPORT, REPORT)],
)
def test_what_may_be_done_about_each(repair: Repair, names: set[str]) -> None:
    assert {cause.id for cause in CAUSES.values() if cause.repair is repair} == names
    for name in names:
        assert Drift(name, "x", Tier.MESSAGES, b"", b"").repair is repair


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
