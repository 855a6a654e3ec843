"""Breaks of the system prompt (S)."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from standfast.lab.breaks import wording
from standfast.lab.breaks.made import LOSSLESS, POLICY, Break, Made, at, shuffled
from standfast.lab.breaks.places import SYSTEM, USER, Place, found, history
from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, Body, Session, Unfit
from standfast.lab.breaks.wording import Maker

_GAP = "\n\n"
_BOUND = re.compile(r"\d+\. |#{1,6} .*\Z")
_SKILLS = (
    "- pdf: reads and fills forms.", "- slides: makes decks of slides.", "- sheets: edits tables.",
    "- mail: drafts answers.", "- maps: plans routes.", "- charts: draws figures.",
)  # fmt: skip
_OPENINGS = (
    "Hello, who are you?",
    "What can you do for me?",
    "Where do I begin?",
    "Explain this to me as to a newcomer, please.",
)
_WHERES = ("first", "midst", "last", "alone")


def _plant(session: Session, text: str, where: str, rng: Random) -> str:
    """Put a paragraph into the system prompt of both requests; returns the path of its text."""
    if where == "alone":
        return _plant_alone(session, text, rng)
    spots = found(session.after, session.dialect, SYSTEM)
    spot = {"first": spots[0], "last": spots[-1], "midst": rng.choice(spots)}[where]
    sections = spot.value.split(_GAP)
    i = {"first": 0, "last": len(sections), "midst": rng.randrange(len(sections) + 1)}[where]
    for body in session.both():
        place = at(body, session.dialect, spot.path)
        parts = place.value.split(_GAP)
        place.put(_GAP.join([*parts[:i], text, *parts[i:]]))
    return spot.path


def _plant_alone(session: Session, text: str, rng: Random) -> str:
    """As a block, or a message, of its own."""
    if session.dialect == ANTHROPIC:
        if isinstance(session.after["system"], str):
            raise Unfit("one string")
        i = rng.randrange(len(session.after["system"]))
        for body in session.both():
            body["system"].insert(i, {"type": "text", "text": text})
        return f"system[{i}]"
    if session.dialect != CHAT:
        raise Unfit("no blocks")
    for body in session.both():
        body["messages"].insert(1, {"role": body["messages"][0]["role"], "content": text})
    session.shared += 1
    return "messages[1].content"


def _exchange(session: Session, path: str, old: str, new: str) -> Callable[[Body], str]:
    def change(after: Body) -> str:
        place = at(after, session.dialect, path)
        place.put(place.value.replace(old, new))
        return path

    return change


def _varying(maker: Maker, where: str, repair: str = "", by: str | None = None) -> Break:
    def made(session: Session, rng: Random) -> Made:
        old, new = maker(rng)
        while new == old:
            old, new = maker(rng)
        path = _plant(session, old, where, rng)
        return Made(_exchange(session, path, old, new), f"{old!r} → {new!r}, {where}", repair, by)

    return made


def _table(makers: Sequence[Maker]) -> tuple[Break, ...]:
    """Each maker at each place, so that the places turn faster than the makers."""
    return tuple(_varying(maker, _WHERES[(i + j) % 4]) for j in range(4) for i, maker in enumerate(makers))


def _appearing(maker: Maker, where: str, *, comes: bool) -> Break:
    """A paragraph or a block that stands in one of two requests only."""

    def made(session: Session, rng: Random) -> Made:
        if where == "alone" and session.dialect != ANTHROPIC:
            raise Unfit("no blocks")
        (text, _), field = maker(rng), "system" if session.dialect == ANTHROPIC else "instructions"
        bare = [_system_of(body, field) for body in session.both()]
        path = _plant(session, text, where, rng)
        full = _system_of(session.after, field)
        if comes:
            for body, without in zip(session.both(), bare, strict=True):
                _put_system(body, field, without)

        def change(after: Body) -> str:
            _put_system(after, field, full if comes else bare[1])
            return path

        return Made(change, f"{text!r} {'comes' if comes else 'goes'}, {where}")

    return made


def _system_of(body: Body, field: str) -> Any:
    return copy.deepcopy(body[field] if field in body else history(body)[0])


def _put_system(body: Body, field: str, value: Any) -> None:
    if field in body:
        body[field] = copy.deepcopy(value)
    else:
        history(body)[0] = copy.deepcopy(value)


def _volatile(makers: Sequence[Maker]) -> tuple[Break, ...]:
    """Such a table, in which every fifth text comes or goes whole."""
    rows: list[Break] = []
    for i, varying in enumerate(_table(makers)):
        rows.append(varying)
        if i % 4 == 3:
            rows.append(_appearing(makers[i % len(makers)], _WHERES[i // 4 % 4], comes=i % 8 < 4))
    return tuple(rows)


CLOCKS = _volatile(wording.CLOCKS)
WORKSPACES = _volatile(wording.WORKSPACES)
MEMORIES = _volatile(wording.MEMORIES)
MODES = _table(wording.MODES)


def _billing(session: Session, rng: Random) -> Made:
    """A client's billing block in front of everything."""
    old, new = wording.billing(rng)
    if session.dialect == ANTHROPIC and isinstance(session.after["system"], list):
        for body in session.both():
            body["system"].insert(0, {"type": "text", "text": old})
        path = "system[0]"
    else:
        path = found(session.after, session.dialect, SYSTEM)[0].path
        for body in session.both():
            place = at(body, session.dialect, path)
            place.put(f"{old}\n{place.value}")
    return Made(_exchange(session, path, old, new), "a billing block", LOSSLESS)


_IDS = tuple(
    _varying(maker, _WHERES[(i + j) % 4], POLICY, "isolate")
    for j in range(2)
    for i, maker in enumerate(wording.REQUEST_IDS)
)
REQUEST_IDS: tuple[Break, ...] = tuple(b for pair in _IDS for b in (pair, _billing))


def _is_free(sections: Sequence[str]) -> bool:
    """Whether sections may stand in any order: none is numbered, and none is a heading of those behind it."""
    return not any(_BOUND.match(section.strip()) for section in sections)


def _paragraphs(session: Session, rng: Random) -> Made:
    spots = [p for p in found(session.after, session.dialect, SYSTEM) if p.value.count(_GAP) > 1]
    spots = [p for p in spots if _is_free(p.value.split(_GAP))]
    if not spots:
        raise Unfit("no paragraphs")
    spot = rng.choice(spots)
    order = shuffled(list(range(spot.value.count(_GAP) + 1)), rng)

    def change(after: Body) -> str:
        place = at(after, session.dialect, spot.path)
        parts = place.value.split(_GAP)
        place.put(_GAP.join(parts[i] for i in order))
        return spot.path

    return Made(change, "paragraphs")


def _blocks(session: Session, rng: Random) -> Made:
    spots = found(session.after, session.dialect, SYSTEM)
    if len(spots) < 3 or not _is_free([p.value for p in spots]):
        raise Unfit("one block")
    order = shuffled(list(range(len(spots))), rng)

    def change(after: Body) -> str:
        places = found(after, session.dialect, SYSTEM)
        texts = [p.value for p in places]
        for place, i in zip(places, order, strict=True):
            place.put(texts[i])
        return places[next(k for k, i in enumerate(order) if k != i)].path

    return Made(change, "blocks")


def _lines(text: str, head: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        rows = rng.sample(_SKILLS, 5)
        old, new = (text.format(head + "\n".join(r)) for r in (rows, shuffled(rows, rng)))
        path = _plant(session, old, rng.choice(_WHERES), rng)
        return Made(_exchange(session, path, old, new), "lines of a list")

    return made


SECTIONS: tuple[Break, ...] = (
    _paragraphs,
    _blocks,
    _lines("{}", "Available skills:\n"),
    _lines("<skills>\n{}\n</skills>", ""),
)


def _another_user(maker: Maker) -> Break:
    def made(session: Session, rng: Random) -> Made:
        old, new = maker(rng)
        path = _plant(session, old, rng.choice(("first", "first", "alone")), rng)
        if not re.fullmatch(r"system(\[0\])?|instructions|(messages|input)\[0\]\.content(\[0\])?", path):
            raise Unfit("not in front")
        exchange, opening = _exchange(session, path, old, new), rng.choice(_OPENINGS)

        def change(after: Body) -> str:
            _begin_anew(after, session, opening)
            return exchange(after)

        return Made(change, f"{old!r} → {new!r}")

    return made


def _begin_anew(after: Body, session: Session, opening: str) -> None:
    first: Place = found(after, session.dialect, USER)[0]
    history(after)[first.element :] = [{"role": "user", "content": opening}]


USERS: tuple[Break, ...] = tuple(_another_user(maker) for maker in wording.USERS)
