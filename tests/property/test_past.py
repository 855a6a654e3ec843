"""A past that is partly another: the rest of it goes out as it went, and all of it as the client means it."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from property.drive import Drive, rngs
from property.reading import meaning, shown
from property.talk import Habit, Talk, body, talk, wire


def _with_change(t: Talk, rng: Random) -> bool:
    """One result is pruned, or one text of an old turn is another. False if there is nothing to change."""
    steps = t.steps[2:-1]
    pruned = [step for step in steps if len(step.results) == 1 and len(str(step.results)) > 14]
    if pruned and rng.random() < 0.7:
        rng.choice(pruned).results = ["[cut]"]
        return True
    texts = [step for step in steps if step.texts and step.calls is None]
    if texts:
        rng.choice(texts).texts[0] = "said otherwise"
    return bool(texts)


@given(rngs)
def test_one_change_leaves_all_else_as_it_went_out(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive, steps = Drive(t.dialect), len(t.steps)
    was = shown(drive.send(wire(body(t, Habit(), steps)), 0).body, t.dialect)
    changed = _with_change(t, rng)
    t.steps += talk(rng, steps=2, dialect=t.dialect).steps[:1]
    raw = wire(body(t, Habit(rng, "new"), steps + 1), rng)
    plan = drive.send(raw, 1)
    now = shown(plan.body, t.dialect)
    assert meaning(plan.body, t.dialect) == meaning(raw, t.dialect)
    assert sum(a != b for a, b in zip(was, now, strict=False)) <= 2 * changed
    assert not drive.failures
    again = shown(drive.send(raw, 2).body, t.dialect)
    assert again == now


def _split(made: dict[str, Any]) -> dict[str, Any]:
    """Messages of the user that hold several texts, one for each text."""
    field = "input" if "input" in made else "messages"
    items: list[Any] = []
    for item in made[field] if isinstance(made[field], list) else []:
        content = item.get("content")
        plain = isinstance(content, list) and all("text" in block for block in content)
        if item.get("role") == "user" and plain and len(content) > 1 and item is not made[field][-1]:
            items += [{**item, "content": [block]} for block in content]
        else:
            items.append(item)
    return {**made, field: items or made[field]}


@given(rngs)
def test_messages_that_were_split_go_out_in_one_piece(rng: Random) -> None:
    t = talk(rng, steps=6)
    drive, before, whole = Drive(t.dialect), list[str](), rng.randrange(len(t.steps))
    for n in range(len(t.steps)):
        made = body(t, Habit(), n + 1)
        plan = drive.send(wire(made if n <= whole else _split(made), rng), n)
        now = shown(plan.body, t.dialect)
        assert now[: len(before)] == before
        assert meaning(plan.body, t.dialect) == meaning(wire(made), t.dialect)
        before = now
    assert not drive.failures
