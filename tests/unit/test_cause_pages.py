"""The pages of the causes: one for each, all of one shape, and the example on it shows what the page says."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from standfast.explain import Case, Step, explain
from standfast.policy import LOSSLESS, Leave, Option, Policy, parse
from standfast.prompt.causes import CAUSES, Cause, Repair
from standfast.providers.rules import Regime

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "causes"
HEADINGS = ["Symptom", "Example", "What Standfast does", "Fix at the source", "Seen in"]
NO_PAIR = {"B5": "two requests at once: no order of bodies shows it (tests/unit/gateway)"}
TOLD = ("B3", "B4", "I3", "I4", "E1", "E2", "E3", "E4")
"""Named by the clock, the rules or the usage; nothing is wrong with the bytes, so nothing is repaired in them."""
_ROW = re.compile(r"^Repair: (\w+) · Policy: (?:`([^`]+)`|none) · Place: ([^·]+) · Hurts: ([a-z, ]+)$", re.M)
_BLOCK = re.compile(r"^```json (before|after|case)\n(.*?)^```$", re.M | re.S)

every = pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda c: c.id)
shown = pytest.mark.parametrize("cause", [c for c in CAUSES.values() if c.id not in NO_PAIR], ids=lambda c: c.id)


def text(cause: Cause) -> str:
    return (FOLDER / f"{cause.id}.md").read_text(encoding="utf-8")


def row(cause: Cause) -> tuple[str, str, str, str]:
    """Repair, policy (or ""), place, regimes."""
    (found,) = _ROW.findall(text(cause))
    repair, policy, place, regimes = found
    return repair, policy, place, regimes


def compared(cause: Cause, leave: Leave) -> Step:
    """The step between the two requests of the page."""
    return explained(cause, leave)[0]


def explained(cause: Cause, leave: Leave) -> tuple[Step, list[bytes]]:
    """That step, and both requests as they go out."""
    blocks = dict(_BLOCK.findall(text(cause)))
    rest: dict[str, Any] = json.loads(blocks.get("case", "{}"))
    usage, times = tuple(rest.get("usage", ())), tuple(rest.get("times", ()))
    bodies = tuple(blocks[name].strip().encode() for name in ("before", "after"))
    (step,), sent = explain(Case(bodies, usage, times, rest.get("provider", "")), leave=leave)
    return step, sent


def mending(cause: Cause) -> str:
    """The least that mends it, as a policy is written; empty if nothing does."""
    if isinstance(cause.by, Option):
        return f"lossless, {cause.by}"
    return str(cause.by or (Policy.LOSSLESS if cause.repair is Repair.LOSSLESS else ""))


def test_every_cause_has_its_page_and_every_page_its_cause() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CAUSES)


@every
def test_the_pages_are_of_one_shape(cause: Cause) -> None:
    page = text(cause)
    prose = re.sub(r"```.*?```", "", page, flags=re.S)
    assert page.startswith(f"# {cause.id} — {cause.title}\n\nRepair: ")
    assert re.findall(r"^#+ (.*)$", prose, re.M)[1:] == HEADINGS
    assert 25 <= page.count("\n") <= 60
    assert page.endswith("\n[All causes](../causes.md) · [Policies](../policies.md)\n")


@every
def test_the_python_on_a_page_parses(cause: Cause) -> None:
    for code in re.findall(r"```python\n(.*?)```", text(cause), re.S):
        compile(code, cause.id, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@every
def test_the_row_says_what_the_table_says(cause: Cause) -> None:
    repair, policy, _, regimes = row(cause)
    assert (repair, policy) == (cause.repair, mending(cause))
    assert set(regimes.split(", ")) <= {*Regime} - {Regime.NONE}
    if policy:
        parse(policy)
        assert f"`{cause.by or policy}`" in text(cause).split("## What Standfast does")[1]


@pytest.fixture(autouse=True)
def _pictures(request: pytest.FixtureRequest) -> None:
    """H8 looks at pixels."""
    if "H8" in request.node.name:
        pytest.importorskip("PIL", reason="needs the extra media")


@shown
def test_the_example_is_named(cause: Cause) -> None:
    assert compared(cause, LOSSLESS).as_json()["cause"] == cause.id
    observed = compared(cause, Leave(Policy.OBSERVE))
    assert observed.as_json()["cause"] == cause.id
    assert not observed.diagnosis.repaired


@shown
def test_the_example_is_mended_by_what_the_page_names_and_by_no_less(cause: Cause) -> None:
    leave = mending(cause) if cause.id not in TOLD else ""
    is_lossless = leave == str(LOSSLESS)
    assert compared(cause, LOSSLESS).diagnosis.repaired is is_lossless
    if leave:
        step = compared(cause, parse(leave))
        figures = step.as_json()
        assert step.diagnosis.repaired
        assert figures["hit_tokens_after"] == figures["attainable_tokens"]


@pytest.mark.parametrize("cause", ["E1", "E2"])
def test_what_the_template_does_is_mended_by_an_argument(cause: str) -> None:
    told, came = explained(CAUSES[cause], LOSSLESS)
    assert told.as_json()["fix"].endswith("; option template would mend it here.")
    step, sent = explained(CAUSES[cause], parse("lossless, template"))
    assert step.as_json()["cause"] != cause  # the usage is of a run without
    argument = {"E1": {"preserve_thinking": True}, "E2": {"date_string": "02 Oct 2026"}}[cause]
    for raw, body in zip(came, sent, strict=True):
        assert json.loads(body) == {**json.loads(raw), "chat_template_kwargs": argument}


@pytest.mark.parametrize("cause", sorted(NO_PAIR))
def test_a_page_without_a_pair_has_none(cause: str) -> None:
    assert not _BLOCK.findall(text(CAUSES[cause]))
