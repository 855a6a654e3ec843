"""Breaks of a prompt cache with the truth about them: pairs of requests, and what was done to the later one.

    for variant in islice(variants("S1", seed=7), 60): ...

The truth is written down where the break is made and owes nothing to the core: to find it is what is tested.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from standfast.lab.breaks import around, history, past, system, tools
from standfast.lab.breaks.made import LOSSLESS, POLICY, REPORT, SOURCE, Break, Made
from standfast.lab.breaks.quiet import QUIET
from standfast.lab.breaks.sessions import CHAT, DIALECTS, Body, Session, Unfit, airline, own

_GAPS = (4.0, 21.0, 65.0, 170.0)  # no life of a cache ends within
_TRIES = 400


@dataclass(frozen=True, slots=True)
class Variant:
    """Two requests and what was done to the later one."""

    id: str
    dialect: str
    before: bytes
    after: bytes
    clean: bytes
    """The later request without the break: what it could share with the one before is what a repair can win back."""
    cause: str
    """Its class; empty if nothing is broken."""
    path: str
    """Where, in ``after``; the fields of a body as a client would write them: ``messages[3].content[0]``."""
    repair: str
    """lossless, policy, source, report, or empty."""
    by: str
    """The policy or option that mends it where lossless is not enough; empty if none does."""
    gap_seconds: float
    note: str
    also: tuple[tuple[str, str], ...] = ()
    """(cause, path) of further breaks in it, in render order behind the first."""


@dataclass(frozen=True, slots=True)
class _Class:
    breaks: tuple[Break, ...]
    repair: str
    by: str = ""


CLASSES: dict[str, _Class] = {
    "T1": _Class(tools.ORDERS, LOSSLESS),
    "T2": _Class(tools.KEYS, LOSSLESS),
    "T3": _Class(tools.VOLATILE, SOURCE, "pin"),
    "T4": _Class(tools.SETS, POLICY, "tools"),
    "T5": _Class(tools.KINDS_OF_RUN, SOURCE, "tools"),
    "S1": _Class(system.CLOCKS, POLICY, "isolate"),
    "S2": _Class(system.REQUEST_IDS, LOSSLESS),
    "S3": _Class(system.WORKSPACES, POLICY, "isolate"),
    "S4": _Class(system.MEMORIES, POLICY, "isolate"),
    "S5": _Class(system.SECTIONS, LOSSLESS),
    "S6": _Class(system.MODES, SOURCE),
    "S7": _Class(system.USERS, SOURCE),
    "H1": _Class(past.DECORATIONS, POLICY, "isolate"),
    "H2": _Class(history.SHAPES, LOSSLESS),
    "H3": _Class(history.IDS, LOSSLESS),
    "H4": _Class(history.SPELLINGS, LOSSLESS),
    "H5": _Class(history.RESULT_ORDERS, LOSSLESS),
    "H6": _Class(history.THOUGHTS, LOSSLESS),
    "H7": _Class(past.PRUNINGS, REPORT, "window"),
    "H8": _Class(past.PICTURES, LOSSLESS),
    "H9": _Class(history.TOKENS, LOSSLESS),
    "H10": _Class(past.ATTACHED, LOSSLESS),
    "H11": _Class(past.JOINTS, LOSSLESS),
    "P1": _Class(around.PARAMETERS, REPORT),
    "P2": _Class(around.SWITCHES, REPORT, "model"),
    "X1": _Class(around.SIDE_REQUESTS, SOURCE),
    "B1": _Class(around.MARKS, LOSSLESS),
    "B2": _Class(around.REACHES, LOSSLESS),
    "B6": _Class(around.BOUNDARIES, LOSSLESS),
    "I1": _Class(around.KEYS, LOSSLESS),
    "I2": _Class(around.SALTS, REPORT),
}
"""Every class that can be seen in two bodies, with the ways to break it."""

PAIRS: tuple[tuple[str, str], ...] = (
    ("T1", "T2"), ("T1", "S1"), ("T2", "H3"), ("T3", "S3"), ("T4", "S4"), ("S1", "H2"), ("S2", "H9"), ("S3", "H4"),
    ("S1", "H7"), ("H3", "H4"), ("S4", "H5"), ("T1", "H6"), ("T1", "I1"), ("S6", "P1"), ("T2", "S2"), ("H2", "I1"),
)  # fmt: skip
"""Two breaks in one request, in render order."""


def variants(cause: str, seed: int, recorded: Path | None = None) -> Iterator[Variant]:
    """Endless variants of one class. ``recorded``: a file of recorded chats, for a third of the chat sessions."""
    made = CLASSES[cause].breaks
    for i in count():
        rng = Random(f"{cause}/{seed}/{i}")
        yield _made(f"{cause}-{seed}-{i}", {cause: [made[i % len(made)]]}, i, rng, recorded)


def pairs(first: str, second: str, seed: int, recorded: Path | None = None) -> Iterator[Variant]:
    """Endless requests with two breaks."""
    for i in count():
        rng = Random(f"{first}+{second}/{seed}/{i}")
        ways = {cause: CLASSES[cause].breaks for cause in (first, second)}
        yield _made(f"{first}+{second}-{seed}-{i}", ways, i, rng, recorded)


def negatives(seed: int, recorded: Path | None = None) -> Iterator[Variant]:
    """Endless requests in which nothing is broken."""
    for i in count():
        rng = Random(f"quiet/{seed}/{i}")
        quiet = QUIET[i % len(QUIET)]
        for attempt in range(_TRIES):
            try:
                session = _session(i + attempt, rng, recorded)
                note = quiet(session, rng)
            except Unfit:
                continue
            write, gap = _writer(rng), rng.choice(_GAPS)
            before, after = write(session.before), write(session.after)
            yield Variant(f"quiet-{seed}-{i}", session.dialect, before, after, after, "", "", "", "", gap, note)
            break


def _made(name: str, ways: Mapping[str, Sequence[Break]], i: int, rng: Random, recorded: Path | None) -> Variant:
    """A session with one break of each class, by any of the ways given for it. Raises Unfit if none will have it."""
    for attempt in range(_TRIES):
        try:
            session = _session(i + attempt, rng, recorded)
            planted = [rng.choice(breaks)(session, rng) for breaks in ways.values()]
            clean, after = copy.deepcopy(session.after), session.after
            paths = [made.change(after) for made in planted]
        except Unfit:
            continue
        if len({_element(path) for path in paths}) < len(paths):
            continue  # two breaks of one element are one change
        if after == session.before and clean == after:
            continue
        return _variant(name, session, clean, list(ways), planted, paths, rng)
    raise Unfit(f"{name}: no session fits in {_TRIES} tries")


def _variant(
    name: str,
    session: Session,
    clean: Body,
    causes: Sequence[str],
    planted: Sequence[Made],
    paths: Sequence[str],
    rng: Random,
) -> Variant:
    write, (cause, made) = _writer(rng), (causes[0], planted[0])
    repairs = [m.repair or CLASSES[c].repair for c, m in zip(causes, planted, strict=True)]
    return Variant(
        name,
        session.dialect,
        write(session.before),
        write(session.after),
        write(clean),
        cause,
        paths[0],
        repairs[0],
        made.by if made.by is not None else "" if repairs[0] == LOSSLESS else CLASSES[cause].by,
        rng.choice(_GAPS),
        f"{' and '.join(m.note for m in planted)}; {session.name}",
        tuple(zip(causes[1:], paths[1:], strict=True)),
    )


def _session(i: int, rng: Random, recorded: Path | None) -> Session:
    dialect = DIALECTS[i % 3]
    if dialect == CHAT and recorded is not None and rng.random() < 0.5:
        return airline(rng, recorded)
    return own(rng, dialect, steps=rng.choice([1, 1, 1, 2]))


def _element(path: str) -> str:
    return path.partition("]")[0]


class _Writer:
    """How one client spells JSON."""

    def __init__(self, rng: Random) -> None:
        self._separators = rng.choice([(",", ":"), (", ", ": ")])
        self._ascii = rng.random() < 0.5

    def __call__(self, body: Body) -> bytes:
        return json.dumps(body, separators=self._separators, ensure_ascii=self._ascii).encode()


def _writer(rng: Random) -> _Writer:
    return _Writer(rng)
