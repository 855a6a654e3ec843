"""Breaks of the history that change what is in it (H1, H7, H8, H10, H11)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from standfast.lab.breaks.made import LOSSLESS, REPORT, Break, Made, at
from standfast.lab.breaks.media import again, changed, png
from standfast.lab.breaks.places import RESULT, USER, Place, field_of, found, history
from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, RESPONSES, Body, Session, Unfit
from standfast.lab.breaks.wording import ATTACHMENTS, REMINDERS


def _part(text: str, dialect: str) -> Body:
    return {"type": "input_text" if dialect == RESPONSES else "text", "text": text}


def _parts(message: Body, dialect: str) -> list[Body]:
    """The content of a message as a list, made one if it is none."""
    if isinstance(message["content"], str):
        message["content"] = [_part(message["content"], dialect)]
    found: list[Body] = message["content"]
    return found


def _is_user(element: Body) -> bool:
    return element.get("role") == "user"


# H1: a decoration of what was the newest turn


def _decorated(how: str, decorate: Callable[[Body, str, str], None]) -> Break:
    def made(session: Session, rng: Random) -> Made:
        last = session.shared - 1
        if not _is_user(history(session.before)[last]):
            raise Unfit("the newest turn is a result")
        text, later = (rng.choice(REMINDERS).format(n=rng.randrange(2, 80)) for _ in range(2))
        bare = copy.deepcopy(history(session.after)[last])
        for body in session.both():
            decorate(history(body)[last], text, session.dialect)
        if rng.random() < 0.7 and _is_user(history(session.after)[-1]):
            decorate(history(session.after)[-1], later, session.dialect)

        def change(after: Body) -> str:
            history(after)[last] = copy.deepcopy(bare)
            return f"{field_of(after)}[{last}]"

        return Made(change, f"{how}: {text}")

    return made


def _behind(message: Body, text: str, dialect: str) -> None:
    _parts(message, dialect).append(_part(text, dialect))
    _move_mark(message)


def _before(message: Body, text: str, dialect: str) -> None:
    if any("tool_use_id" in part for part in _parts(message, dialect)):
        raise Unfit("results come first")
    _parts(message, dialect).insert(0, _part(text, dialect))


def _written(form: str) -> Callable[[Body, str, str], None]:
    def decorate(message: Body, text: str, dialect: str) -> None:
        content = message["content"]
        holder, key = (message, "content") if isinstance(content, str) else (content[-1], "text")
        if key not in holder:
            raise Unfit("no text")
        holder[key] = form.format(said=holder[key], text=text)

    return decorate


def _move_mark(message: Body) -> None:
    """A client that marks its newest block marks the decoration."""
    for part in message["content"]:
        if mark := part.pop("cache_control", None):
            message["content"][-1]["cache_control"] = mark


DECORATIONS: tuple[Break, ...] = (
    _decorated("a block behind", _behind),
    _decorated("a paragraph behind", _written("{said}\n\n{text}")),
    _decorated("a block before", _before),
    _decorated("a line behind", _written("{said}\n{text}")),
    _decorated("a paragraph before", _written("{text}\n\n{said}")),
)


# H7: pruned


_CLEARED = ("[older output removed]", "[Old tool result content cleared]", "(pruned)", "[tool result omitted]", "…")


def _long_results(session: Session) -> list[Place]:
    some = [p for p in found(session.after, session.dialect, RESULT, session.shared) if len(p.value) > 60]
    if not some:
        raise Unfit("no long result")
    return some


def _pruned(how: str, shorten: Callable[[str, Random], str], *, all_of_them: bool) -> Break:
    def made(session: Session, rng: Random) -> Made:
        some = _long_results(session)
        paths = [p.path for p in (some if all_of_them else [rng.choice(some)])]
        seed = rng.getrandbits(32)

        def change(after: Body) -> str:
            for path in paths:
                place = at(after, session.dialect, path)
                place.put(shorten(place.value, Random(seed)))
            return paths[0]

        return Made(change, how)

    return made


def _turns(session: Session) -> list[int]:
    """Where turns of the user begin, in what both requests hold."""
    starts = [p.element for p in found(session.after, session.dialect, USER, session.shared)]
    return [i for i in dict.fromkeys(starts) if not _holds_results(history(session.after)[i])]


def _holds_results(message: Body) -> bool:
    return isinstance(message["content"], list) and any("tool_use_id" in part for part in message["content"])


def _windowed(session: Session, rng: Random) -> Made:
    starts = _turns(session)
    if len(starts) < 2:
        raise Unfit("one turn")
    keep = rng.choice(starts[1:])

    def change(after: Body) -> str:
        del history(after)[starts[0] : keep]
        return f"{field_of(after)}[{starts[0]}]"

    return Made(change, "the oldest turns cut off")


def _summarised(session: Session, rng: Random) -> Made:
    starts = _turns(session)
    if len(starts) < 2:
        raise Unfit("one turn")
    keep, said = rng.choice(starts[1:]), "The user asked, the tools were called, and the answer was given."
    heading = rng.choice(["Summary of the conversation so far:", "<summary>", "[Earlier turns, compacted]"])

    def change(after: Body) -> str:
        summary = [{"role": "user", "content": f"{heading}\n{said}"}, {"role": "assistant", "content": "Understood."}]
        history(after)[starts[0] : keep] = summary
        return f"{field_of(after)}[{starts[0]}]"

    return Made(change, "the oldest turns summarised")


PRUNINGS: tuple[Break, ...] = (
    _pruned("one result cleared", lambda text, rng: rng.choice(_CLEARED), all_of_them=False),
    _pruned("all results cleared", lambda text, rng: rng.choice(_CLEARED), all_of_them=True),
    _windowed,
    _pruned("a result cut short", lambda text, rng: f"{text[: len(text) // 3]}\n[truncated]", all_of_them=False),
    _pruned("a result said before", lambda text, rng: "(as above)", all_of_them=False),
    _summarised,
)


# H8: media


def _pictured(how: str, edit: Callable[[Body, str, Random, str], Body], repair: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        first = found(session.after, session.dialect, USER, session.shared)[0].element
        data = png(rng)
        for body in session.both():
            if _holds_results(history(body)[first]):
                raise Unfit("a result")
            _parts(history(body)[first], session.dialect).insert(0, picture(data, session.dialect))
        path, seed = f"{field_of(session.after)}[{first}].content[0]", rng.getrandbits(32)

        def change(after: Body) -> str:
            place = at(after, session.dialect, path)
            place.put(edit(place.value, data, Random(seed), session.dialect))
            return path

        return Made(change, how, repair)

    return made


def picture(data: str, dialect: str) -> Body:
    """A part that holds a picture."""
    if dialect == ANTHROPIC:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    url = f"data:image/png;base64,{data}"
    if dialect == CHAT:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _placeholder(part: Body, data: str, rng: Random, dialect: str) -> Body:
    return _part(rng.choice(["[image omitted]", "[Image removed to save space]", "<image/>"]), dialect)


PICTURES: tuple[Break, ...] = (
    _pictured("the same pixels", lambda part, data, rng, d: picture(again(data, rng), d), LOSSLESS),
    _pictured("other pixels", lambda part, data, rng, d: picture(changed(data, rng), d), REPORT),
    _pictured("the same pixels", lambda part, data, rng, d: picture(again(data, rng), d), LOSSLESS),
    _pictured("aged out", _placeholder, REPORT),
)  # fmt: skip


# H10: attachments


def _attached(how: str, move: Callable[[list[Body], list[Body], Random], int], repair: str) -> Break:
    """``move`` gets the parts of the message with the attachments and of a later one; returns the first place."""

    def made(session: Session, rng: Random) -> Made:
        starts = _turns(session)
        first = starts[0]
        if first == session.shared - 1:
            raise Unfit("what is dropped from the newest turn is a decoration")
        texts = rng.sample(ATTACHMENTS, rng.randrange(3, 5))
        for body in session.both():
            _parts(history(body)[first], session.dialect)[:0] = [_part(text, session.dialect) for text in texts]
        elements = list(enumerate(history(session.after)))[first + 1 :]
        others = [i for i, element in elements if _is_user(element) and not _holds_results(element)]
        if not others:
            raise Unfit("one turn")
        other, seed = rng.choice(others), rng.getrandbits(32)
        for body in session.both():
            for message in history(body)[other : other + 1]:
                _parts(message, session.dialect)

        def change(after: Body) -> str:
            parts = [_parts(history(after)[i], session.dialect) for i in (first, other)]
            place = move(parts[0], parts[1], Random(seed))
            return f"{field_of(after)}[{first}].content[{place}]"

        return Made(change, how, repair)

    return made


def _dropped(parts: list[Body], later: list[Body], rng: Random) -> int:
    place = rng.randrange(2)
    del parts[place]
    return place


def _scattered(parts: list[Body], later: list[Body], rng: Random) -> int:
    place = rng.randrange(2)
    later.insert(0, parts.pop(place))
    return place


def _turned(parts: list[Body], later: list[Body], rng: Random) -> int:
    parts[0], parts[1] = parts[1], parts[0]
    return 0


ATTACHED: tuple[Break, ...] = (
    _attached("moved to a later message", _scattered, LOSSLESS),
    _attached("dropped", _dropped, REPORT),
    _attached("in another order", _turned, LOSSLESS),
)


# H11: joints


def _user(text: str, dialect: str, *, parts: bool) -> Body:
    return {"role": "user", "content": [_part(text, dialect)] if parts else text}


def _twins(session: Session, rng: Random, *, parts: bool) -> int:
    """Make an old message of the user two in both requests; returns the index of the first."""
    first = rng.choice(_turns(session))
    text = rng.choice(ATTACHMENTS)
    for body in session.both():
        elements = history(body)
        if parts:
            _parts(elements[first], session.dialect)
        if not parts and not isinstance(elements[first]["content"], str):
            raise Unfit("no string")
        elements.insert(first, _user(text, session.dialect, parts=parts))
    session.shared += 1
    return first


def _merged(*, parts: bool) -> Break:
    def made(session: Session, rng: Random) -> Made:
        first = _twins(session, rng, parts=parts)

        def change(after: Body) -> str:
            elements = history(after)
            one, two = elements[first]["content"], elements[first + 1]["content"]
            elements[first : first + 2] = [{"role": "user", "content": one + two if parts else f"{one}\n\n{two}"}]
            return f"{field_of(after)}[{first}]"

        return Made(change, "two messages made one")

    return made


def _split(session: Session, rng: Random) -> Made:
    first = _twins(session, rng, parts=True)
    for body in session.both():
        elements = history(body)
        elements[first : first + 2] = [
            {"role": "user", "content": elements[first]["content"] + elements[first + 1]["content"]}
        ]
    session.shared -= 1

    def change(after: Body) -> str:
        elements = history(after)
        one, *rest = elements[first]["content"]
        elements[first : first + 1] = [{"role": "user", "content": [one]}, {"role": "user", "content": rest}]
        return f"{field_of(after)}[{first}]"

    return Made(change, "one message made two")


def _hoisted(session: Session, rng: Random) -> Made:
    """A system message within the history, moved to the front of it."""
    if session.dialect == ANTHROPIC:
        raise Unfit("no such message")
    starts = _turns(session)
    if len(starts) < 2:
        raise Unfit("one turn")
    place: int = rng.choice(starts[1:])
    role = "developer" if session.dialect == RESPONSES else "system"
    note: dict[str, Any] = {"role": role, "content": rng.choice(ATTACHMENTS)}
    for body in session.both():
        history(body).insert(place, dict(note))
    session.shared += 1

    def change(after: Body) -> str:
        elements = history(after)
        elements.insert(starts[0], elements.pop(place))
        return f"{field_of(after)}[{starts[0]}]"

    return Made(change, "a system message hoisted", REPORT)


JOINTS: tuple[Break, ...] = (_merged(parts=True), _split, _merged(parts=False), _hoisted)
