"""What breaks nothing: the later request of a client that does nothing wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

from standfast.lab.breaks.made import at
from standfast.lab.breaks.places import RESULT, SAID, USER, found, history, places
from standfast.lab.breaks.sessions import ANTHROPIC, CHAT, RESPONSES, Body, Session, Unfit, mark

Quiet = Callable[[Session, Random], str]
"""Changes a session into one in which nothing breaks; returns what was done. Raises Unfit."""

_ASIDES = ("Never mind, start over.", "Do the other one first.", "Explain that again, shorter.", "In one line, please.")


def _grown(session: Session, rng: Random) -> str:
    return "the next turn"


def _again(session: Session, rng: Random) -> str:
    session.after = copy.deepcopy(session.before)
    return "the same again"


def _newest_text(body: Body, dialect: str, text: str) -> None:
    place = found(body, dialect, USER)[-1]
    if place.element != len(history(body)) - 1:
        raise Unfit("the newest turn is a result")
    place.put(text)


def _forked(session: Session, rng: Random) -> str:
    session.after = copy.deepcopy(session.before)
    _newest_text(session.after, session.dialect, rng.choice(_ASIDES))
    return "another newest turn"


def _edited(session: Session, rng: Random) -> str:
    session.after = copy.deepcopy(session.before)
    place = found(session.after, session.dialect, USER)[-1]
    reminder = f"<reminder>it is {rng.randrange(60)} past</reminder>"
    _newest_text(session.after, session.dialect, f"{place.value} Be quick.\n{reminder}")
    return "the newest turn edited"


def _rewound(session: Session, rng: Random) -> str:
    """An earlier turn is the newest again, with other words."""
    starts = [p.element for p in found(session.before, session.dialect, USER)]
    if len(set(starts)) < 2 or session.marks:
        raise Unfit("one turn")
    session.after = copy.deepcopy(session.before)
    del history(session.after)[rng.choice(starts[1:]) + 1 :]
    _newest_text(session.after, session.dialect, rng.choice(_ASIDES))
    return "an earlier turn asked otherwise"


def _marked(session: Session, rng: Random) -> str:
    """Marks move on with the newest message."""
    if session.dialect != ANTHROPIC:
        raise Unfit("no marks")
    for body in session.both():
        mark(body)
    return "marks that move on"


def _another_user(session: Session, rng: Random) -> str:
    """The same agent, and a conversation that has nothing to do with this one."""
    first = found(session.after, session.dialect, USER)[0].element
    del history(session.after)[first + 1 :]
    if session.marks:
        mark(session.after)
    place = found(session.after, session.dialect, USER)[-1]
    place.put(rng.choice(_ASIDES))
    return "another user"


def _parameters(session: Session, rng: Random) -> str:
    session.after.update(temperature=rng.random(), stream=rng.random() < 0.5, metadata={"user_id": str(rng.random())})
    if session.dialect == RESPONSES:
        session.after["max_output_tokens"] = rng.randrange(100, 9_000)
    else:
        session.after["max_tokens"] = rng.randrange(100, 9_000)
    return "parameters that do not change the prompt"


def _default_choice(session: Session, rng: Random) -> str:
    session.after["tool_choice"] = {"type": "auto"} if session.dialect == ANTHROPIC else "auto"
    return "a default said"


def _allowed(session: Session, rng: Random) -> str:
    if session.dialect == ANTHROPIC:
        raise Unfit("no such choice")
    tools = [{"type": "function", "name": "search"}]
    inner: Body = {"mode": "auto", "tools": tools}
    told = {"allowed_tools": inner} if session.dialect == CHAT else inner
    session.after["tool_choice"] = {"type": "allowed_tools", **told}
    return "fewer tools allowed, the same declared"


def _top_level(session: Session, rng: Random) -> str:
    session.after = {name: session.after[name] for name in rng.sample(list(session.after), len(session.after))}
    return "fields of the body in another order"


def _shape(session: Session, rng: Random) -> str:
    """To Anthropic's cache a string and a list of one text are the same."""
    if session.dialect != ANTHROPIC:
        raise Unfit("a difference")
    options = [p for p in places(session.after, ANTHROPIC) if p.kind in (USER, SAID, RESULT) and p.key == "content"]
    if not options:
        raise Unfit("no string")
    place = rng.choice(options)
    place.put([{"type": "text", "text": place.value}])
    return "a string as a list of one text"


def _clock_in_the_newest(session: Session, rng: Random) -> str:
    place = found(session.after, session.dialect, USER)[-1]
    if place.element < session.shared:
        raise Unfit("no new turn")
    place.put(f"{place.value}\nCurrent time: 2026-10-02T09:{rng.randrange(60):02}:07Z, cch={rng.getrandbits(20):05x}")
    return "a clock in the newest turn"


def _long_newest(session: Session, rng: Random) -> str:
    """The newest turn holds a second message."""
    last = history(session.after)[-1]
    if last.get("role") != "user" or session.marks:
        raise Unfit("the newest turn is a result")
    history(session.after).append({"role": "user", "content": rng.choice(_ASIDES)})
    return "two messages in the newest turn"


def _old_clock(session: Session, rng: Random) -> str:
    """Volatile text that stands still."""
    path = rng.choice(found(session.after, session.dialect, RESULT, session.shared)).path
    for body in session.both():
        place = at(body, session.dialect, path)
        place.put(f"{place.value}\n2026-10-02T09:14:07Z request_id=req_8f31ac cwd: /tmp/x-0f6c\n")
    return "an old clock in a result"


QUIET: tuple[Quiet, ...] = (
    _grown, _again, _forked, _edited, _marked, _another_user, _parameters, _default_choice, _allowed, _top_level,
    _shape, _clock_in_the_newest, _long_newest, _old_clock, _rewound, _grown,
)  # fmt: skip
