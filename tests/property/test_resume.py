"""Reading on from a bookmark is the same as reading from scratch."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from property.drive import KEY, reading, rngs
from property.talk import DIALECTS, Habit, Talk, body, talk, value, wire

from standfast.errors import Ambiguous, BrokenBody
from standfast.prompt.dialects import DIALECTS as KNOWN
from standfast.prompt.items import Items
from standfast.prompt.request import Bookmark, Request, bookmark, read


def same(one: Request, other: Request) -> None:
    """Every field but how it was read."""
    for name in ("body", "fields", "head", "items", "ranges", "first", "units", "links", "root", "calls"):
        assert getattr(one, name) == getattr(other, name), name


def _with_tail(t: Talk, n: int, rng: Random, fields: dict[str, Any]) -> bytes:
    """A body of the plain habit whose fields in front of the history stay, and whose fields behind it change."""
    made = body(t, Habit(), n)
    history = "input" if "input" in made else "messages"
    front = {k: v for k, v in made.items() if k not in (history, "system", "prompt_cache_key")}
    behind: dict[str, Any] = {k: made[k] for k in ("system", "prompt_cache_key") if k in made and rng.random() < 0.7}
    behind |= {k: v for k, v in fields.items() if rng.random() < 0.5}
    names = list(behind)
    rng.shuffle(names)
    return wire({**front, history: made[history], **{k: behind[k] for k in names}})


@given(rngs)
def test_any_growth_reads_the_same(rng: Random) -> None:
    t = talk(rng, steps=6)
    fields = {
        "tool_choice": {"type": rng.choice(("auto", "none"))},
        "stream": True,
        "previous_response_id": rng.choice((None, "resp_1", "resp_2")),
        "odd": value(rng),
        "model": rng.choice(("m-1", "m-2")),
    }
    if t.dialect == "anthropic" and rng.random() < 0.3:
        t.system = ["x-anthropic-billing-header: v; cch=1;", *t.system]
    items = Items()
    first = read(_with_tail(t, 1, rng, fields), KNOWN[t.dialect], KEY, items)
    for n in range(1, len(t.steps) + 1):
        mark = bookmark(first)
        if mark is None:
            return
        if t.system and t.system[0].endswith("cch=1;"):
            t.system[0] = "x-anthropic-billing-header: v; cch=2;"
        raw = _with_tail(t, n, rng, fields)
        if not raw.startswith(mark.prefix):
            return
        first = read(raw, KNOWN[t.dialect], KEY, items, mark)
        same(first, reading(raw, t.dialect))


@given(
    rngs, st.binary(max_size=12) | st.sampled_from([b".5]}", b"e5]}", b"1]}", b"]}", b",1]}", b'],"input":[]}', b"]]"])
)
def test_any_bytes_behind_a_bookmark_read_the_same_or_not_at_all(rng: Random, tail: bytes) -> None:
    dialect = rng.choice(DIALECTS)
    history = "input" if dialect == "openai_responses" else "messages"
    raw = wire({history: [{"role": "user", "content": "a"}, rng.choice([1, {"role": "user", "content": "b"}])]})
    mark = bookmark(reading(raw, dialect))
    assert mark is not None
    grown = mark.prefix + tail
    scratch = _attempt(grown, dialect, None)
    resumed = _attempt(grown, dialect, mark)
    if isinstance(resumed, Request) and isinstance(scratch, Request):
        same(resumed, scratch)
    else:
        assert resumed in (scratch, Ambiguous)


def _attempt(raw: bytes, dialect: str, mark: Bookmark | None) -> Request | type[Exception]:
    """The request, or the kind of error that says why there is none."""
    try:
        return read(raw, KNOWN[dialect], KEY, Items(), mark)
    except (Ambiguous, BrokenBody) as error:
        return type(error)
