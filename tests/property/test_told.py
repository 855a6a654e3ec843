"""Under ``isolate``, whatever volatile text comes, goes and changes: no cause is made up, and no fact is lost."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from hypothesis import given
from property.drive import Drive, rngs
from property.talk import Habit, Talk, body, talk, wire

from standfast.lab.breaks.reader import meaning, shown
from standfast.policy import Policy

PROSE = "You are a careful assistant for the Larch project. Keep answers short and cite the tickets that you used. " * 3
SYSTEM = ("system", "developer")
UPDATE = re.compile(r"<system-update>\n(.*?)\n</system-update>", re.DOTALL)
SAYS = "The system prompt applies as written, except that it "
VOLATILE = {"S1", "S3", "S4"}
FORMS = {"T1", "T2", "H2", "H3", "H4", "H5", "I1"}


def blocks(rng: Random) -> list[str]:
    """A system prompt as one of many clients writes it: blocks, sections and lines that come, go and change."""
    here = [rng.random() < 0.7 for _ in range(5)]
    memories = "\n".join(f"- likes {what}" for what in ("tea", "dogs", "trains") if rng.random() < 0.5)
    first = [PROSE, f"Current time: 09:1{rng.randrange(3)}" * here[0], "Be kind.", "## Git status\n\n M a.py" * here[1]]
    last = [f"Open files:\n- {rng.choice('xyz')}.py" * here[2], "Answer in English."]
    own = [
        f"Memories:\n{memories}" * (here[3] and memories != ""),
        f"Today is 2026-10-0{rng.randrange(1, 4)}." * here[4],
    ]
    return [text for text in ("\n\n".join(filter(None, first)), *own, "\n\n".join(filter(None, last))) if text]


def request(t: Talk, rng: Random, habit: Habit, upto: int, *, clock: int) -> dict[str, Any]:
    """A body with such a system prompt, a system message in its midst, and a note on its newest turn."""
    made = body(t, habit, upto)
    field = "input" if "input" in made else "messages"
    if isinstance(made[field], str):
        made[field] = [{"role": "user", "content": made[field]}]
    items, texts = made[field], blocks(rng)
    if t.dialect == "anthropic":
        made["system"] = [{"type": "text", "text": text} for text in texts]
    else:
        items.insert(1, {"role": "developer", "content": f"Go on.\nThe session clock shows 10:2{clock}."})
        made["instructions" if field == "input" else "unused"] = texts.pop(0) if field == "input" else None
        items[:0] = [{"role": "developer", "content": text} for text in texts]
    made.pop("unused", None)
    newest = items[-1]
    if newest.get("role") == "user" and rng.random() < 0.5:
        content, kind = newest["content"], "input_text" if field == "input" else "text"
        content = [{"type": kind, "text": content}] if isinstance(content, str) else content
        newest["content"] = [*content, {"type": kind, "text": f"<reminder>{rng.randrange(9)}</reminder>"}]
    return made


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in strings(one)]


def of_system(made: dict[str, Any]) -> list[str]:
    """Lines of all system text, wherever it stands, but for updates."""
    messages = [m for m in made["input" if "input" in made else "messages"] if m.get("role") in SYSTEM]
    texts = strings([made.get("system"), made.get("instructions"), [m["content"] for m in messages]])
    return [line for text in texts for line in UPDATE.sub("", text).splitlines() if line.strip()]


def untold(made: dict[str, Any]) -> dict[str, Any]:
    """A body without system text, updates and notes: what users said, the model answered and tools gave."""
    made, field = dict(made), "input" if "input" in made else "messages"
    said = []
    for item in made[field]:
        content = item.get("content")
        if isinstance(content, list):
            content = [b for b in content if not str(b.get("text")).startswith(("<system-update>\n", "<reminder>"))]
        elif isinstance(content, str):
            content = content.partition("\n\n<system-update>\n")[0]
        if item.get("role") not in SYSTEM:
            said.append({**item, "content": content} if "content" in item else item)
    return {**{k: v for k, v in made.items() if k not in ("system", "instructions")}, field: said}


def told(made: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What the last update says that the system prompt says now, and no longer says."""
    found = [text for one in strings(made) for text in UPDATE.findall(one)]
    if not found or SAYS not in found[-1]:
        assert not found or "applies again exactly" in found[-1]
        return [], []
    new: list[str] = []
    gone: list[str] = []
    for says in found[-1].split(SAYS)[1:]:
        now, _, no_longer = says.partition("no longer says:\n")
        new += now.removeprefix("now says:\n").removesuffix("\nand ").splitlines()
        gone += no_longer.splitlines()
    return new, gone


def label(line: str) -> str:
    """What of a line stays when its value changes."""
    return re.split(r"\d", line)[0]


def check_facts(came: dict[str, Any], out: dict[str, Any]) -> None:
    """A reader of what goes out knows the lines that came, and of no other line believes that it is said still."""
    meant, there, (new, gone) = of_system(came), of_system(out), told(out)
    assert {*meant} <= {*there, *new}
    assert {*new} <= {*meant}
    assert {*gone}.isdisjoint(meant)
    stale = {*there} - {*meant} - {*gone}
    assert {label(line) for line in stale} <= {label(line) for line in new}


@given(rngs)
def test_no_cause_is_made_up_and_no_fact_lost(rng: Random) -> None:
    t = talk(rng, steps=7)
    drive, before, changes_forms, clock = Drive(t.dialect, Policy.ISOLATE), list[str](), rng.random() < 0.3, 0
    for n in range(len(t.steps)):
        habit = Habit(rng, f"p{n}") if changes_forms else Habit()
        for _ in range(rng.choice((1, 1, 2))):  # a request, and it may be tried again
            clock += rng.randrange(2)  # had it been there before, that request would be the one to go on from
            made = request(t, rng, habit, n + 1, clock=clock)
            raw = wire(made)
            plan = drive.send(raw, n)
            assert drive.failures == []
            found = {d.cause for d in plan.diagnosis.drifts}
            assert found <= VOLATILE | {"H1"} | (FORMS if changes_forms else set())
            out = json.loads(plan.body)
            check_facts(json.loads(raw), out)
            assert meaning(json.dumps(untold(out)).encode(), t.dialect) == meaning(
                json.dumps(untold(json.loads(raw))).encode(), t.dialect
            )
            assert all(d.repaired for d in plan.diagnosis.drifts)
            now = shown(plan.body, t.dialect)
        if t.steps[n].calls != []:  # what the model is to go on with is no place for news: it stands in front of that
            assert now[: len(before)] == before
        before = now
