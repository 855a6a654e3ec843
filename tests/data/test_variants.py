"""Generated breaks with known truth: each class named, placed and mended; nothing said where nothing broke.

``pytest tests/data/test_variants.py -s`` prints the tables.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, takewhile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from shared import FOLDER, lines
from simulated import Line

from standfast.explain import Case, explain
from standfast.lab.breaks.reader import common, meaning, shown
from standfast.lab.perturb import CLASSES, PAIRS, Variant, negatives, pairs, variants
from standfast.lab.reading import read
from standfast.policy import Leave, Option, Policy
from standfast.prompt.causes import CAUSES
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.fingerprint import tool_set
from standfast.prompt.items import build
from standfast.prompt.model import Item, Tier

SEED = 20261002
EACH = 50
NEGATIVES = 304
EACH_PAIR = 6
WANTED = 0.99
WHOLE = 0.999
BY_MARKS = {"B1", "B2", "B6"}
"""Classes that are mended by marks, so that they show in a cache and not in the bytes."""


@dataclass(frozen=True)
class Outcome:
    """What was found in one variant."""

    variant: Variant
    causes: tuple[str, ...]
    """In render order."""
    path: str
    sent: tuple[bytes, ...]

    @property
    def cause(self) -> str:
        return self.causes[0] if self.causes else ""

    @property
    def won_back(self) -> float:
        """Share of what could be shared that is."""
        v = self.variant
        prompts = [shown(body, v.dialect) for body in (*self.sent, v.before, v.clean)]
        return common(*prompts[:2]) / common(*prompts[2:])


def look(variant: Variant, leave: Leave) -> Outcome:
    case = Case((variant.before, variant.after), times=(0.0, variant.gap_seconds))
    (step,), sent = explain(case, leave=leave)
    told = step.as_json()
    causes = tuple(d.cause for d in step.diagnosis.drifts) or ((told["cause"],) if told["cause"] else ())
    return Outcome(variant, causes, told["path"] or "", tuple(sent))


def leave_of(variant: Variant) -> Leave:
    """The least leave under which a variant is to be mended."""
    if variant.by in list(Option):
        return Leave(Policy.LOSSLESS, frozenset({Option(variant.by)}))
    return Leave(Policy.ISOLATE)


def recorded() -> Path | None:
    path = FOLDER / "data/airline-agent.jsonl.gz"
    return path if path.exists() else None


@cache
def looked(*, mending: bool) -> list[Outcome]:
    """Every variant of every class, under lossless or under the leave that mends it."""
    found = []
    for cause in CLASSES:
        for variant in islice(variants(cause, SEED, recorded()), EACH):
            found.append(look(variant, leave_of(variant) if mending else Leave(Policy.LOSSLESS)))
    return found


@cache
def quiet() -> list[Outcome]:
    return [look(v, Leave(Policy.ISOLATE)) for v in islice(negatives(SEED, recorded()), NEGATIVES)]


def element(path: str) -> str:
    """The element of a body that a path leads into. A system prompt of one block may be a string, too."""
    found = re.match(r"[a-z_.]+(\[\d+\])?", path)
    if found is None:
        return ""
    return "system" if found[0] == "system[0]" else found[0]


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def report(outcomes: list[Outcome]) -> tuple[float, float]:
    """Print precision, recall and F1 of each class and what was taken for what; returns both macro means."""
    told = Counter((o.variant.cause, o.cause) for o in outcomes)
    print(f"\n{'class':6}{'n':>5}{'precision':>11}{'recall':>8}{'F1':>7}{'placed':>8}   taken for")
    rows = []
    for cause in CLASSES:
        own = [o for o in outcomes if o.variant.cause == cause]
        right = told[cause, cause]
        precision = share(right, sum(n for (_, said), n in told.items() if said == cause))
        recall = share(right, len(own))
        placed = share(sum(element(o.path) == element(o.variant.path) for o in own if o.cause == cause), right)
        others = ", ".join(f"{said or '-'} {n}" for (true, said), n in told.items() if true == cause != said)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        print(f"{cause:6}{len(own):5}{precision:11.3f}{recall:8.3f}{f1:7.3f}{placed:8.3f}   {others}")
        rows.append((precision, recall))
    alarms = sum(n for (true, said), n in told.items() if not true and said)
    print(f"{'quiet':6}{sum(not o.variant.cause for o in outcomes):5}   false alarms {alarms}")
    precision, recall = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    print(f"macro precision {precision:.4f}, macro recall {recall:.4f}")
    for cause, notes in missed(outcomes).items():
        print(f"  {cause} missed: {'; '.join(f'{said} ×{n}' for said, n in notes.most_common(12))}")
    return precision, recall


def missed(outcomes: list[Outcome]) -> dict[str, Counter[str]]:
    """What was done in the variants that were named otherwise, by class."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for o in outcomes:
        if o.cause != o.variant.cause:
            found[o.variant.cause or "quiet"][f"{o.variant.note.partition('; ')[0][:70]!r} → {o.cause or '-'}"] += 1
    return found


def test_causes_are_named() -> None:
    precision, recall = report([*looked(mending=False), *quiet()])
    assert precision >= WANTED
    assert recall >= WANTED


def test_places_are_right() -> None:
    wrong = [
        f"{o.variant.id}: {o.path}, not {o.variant.path} ({o.variant.note})"
        for o in looked(mending=False)
        if o.cause == o.variant.cause and element(o.path) != element(o.variant.path)
    ]
    print(*wrong, sep="\n")
    assert len(wrong) <= (1 - WANTED) * len(looked(mending=False))


def test_another_leave_names_the_same() -> None:
    pairs_ = zip(looked(mending=False), looked(mending=True), strict=True)
    assert [a.variant.id for a, b in pairs_ if a.cause != b.cause] == []


def test_where_nothing_broke_nothing_is_said_and_every_byte_stands() -> None:
    assert [(o.variant.id, o.variant.note, o.cause, o.path) for o in quiet() if o.cause] == []
    assert [o.variant.id for o in quiet() if o.sent != (o.variant.before, o.variant.after)] == []


def test_nothing_is_said_besides() -> None:
    """One break, one cause: whatever else is named is a false alarm."""
    besides: dict[str, Counter[str]] = defaultdict(Counter)
    for o in looked(mending=False):
        if o.cause == o.variant.cause:
            besides[o.cause].update(set(o.causes) - {o.cause})
    print(*(f"{cause}: also {dict(more)}" for cause, more in besides.items() if more), sep="\n")
    assert sum(more.total() for more in besides.values()) <= (1 - WANTED) * len(looked(mending=False))


def test_two_breaks_in_one_request_are_both_found() -> None:
    wrong = []
    for pair in PAIRS:
        for variant in islice(pairs(*pair, SEED, recorded()), EACH_PAIR):
            found = look(variant, Leave(Policy.LOSSLESS)).causes
            if set(found) != set(pair):
                wrong.append(f"{variant.id}: {found} ({variant.note})")
    print(*wrong, sep="\n")
    assert len(wrong) <= (1 - WANTED) * len(PAIRS) * EACH_PAIR


def not_won_back(outcomes: list[Outcome]) -> list[str]:
    """Print, by class, how many are back and what is not."""
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    for o in outcomes:
        if o.won_back < WHOLE:
            failed[o.variant.cause][o.variant.note.partition("; ")[0][:60]] += 1
    for cause, count in Counter(o.variant.cause for o in outcomes).items():
        lost = failed[cause]
        print(f"{cause:5}{count - lost.total():4} of {count:3} back   {dict(lost.most_common(6)) if lost else ''}")
    return [cause for cause, lost in failed.items() if lost]


def test_lossless_variants_are_won_back() -> None:
    some = [o for o in looked(mending=False) if o.variant.repair == "lossless" and o.variant.cause not in BY_MARKS]
    assert not_won_back(some) == []


def test_policy_variants_are_won_back_under_their_policy() -> None:
    """Anthropic's API has no tool_choice that lets tools stand in the list and not be called."""
    some = [o for o in looked(mending=True) if o.variant.by]
    assert not_won_back([o for o in some if (o.variant.dialect, o.variant.by) != ("anthropic", "tools")]) == []


def test_the_key_of_a_session_stays() -> None:
    for o in looked(mending=False):
        if o.variant.cause == "I1":
            field = o.variant.path
            assert json.loads(o.sent[1])[field] == json.loads(o.variant.before)[field]


@pytest.mark.parametrize("cause", sorted(BY_MARKS))
def test_marks_win_back_what_marks_lost(cause: str) -> None:
    """Through a simulated cache. What nobody could know to be stable is marked once it has been seen twice."""
    missed: Counter[tuple[str, str]] = Counter()
    for variant in (v for v in islice(variants(cause, SEED), EACH) if v.repair == "lossless"):
        provider = "anthropic" if variant.dialect == "anthropic" else "openai"
        line = Line(provider, variant.dialect)
        line.send(variant.before)
        bodies = (variant.before, variant.after, asked_otherwise(variant.after))
        cached = [line.send(body, after=variant.gap_seconds)[1].served.cached for body in bodies[1:]]
        shared = [shared_tokens(*two, variant.dialect) for two in pairwise(bodies)]
        if not any(got >= WHOLE * could for got, could in zip(cached, shared, strict=True)):
            missed[variant.note.partition("; ")[0], variant.dialect] += 1
    assert not missed


def asked_otherwise(body: bytes) -> bytes:
    """The same request with another newest text."""
    value = json.loads(body)
    newest = value.get("messages", value.get("input"))[-1]
    if isinstance(newest["content"], str):
        newest["content"] = "And one thing more?"
    else:
        last = newest["content"][-1]
        last["text" if "text" in last else "content"] = "And one thing more?"
    return json.dumps(value).encode()


def shared_tokens(before: bytes, after: bytes, dialect: str) -> int:
    """Tokens of the blocks that both requests begin with."""
    old, new = (read(body, dialect).blocks for body in (before, after))
    same = takewhile(lambda pair: pair[0].key == pair[1].key, zip(old, new, strict=False))
    return sum(block.tokens for block, _ in same)


def test_a_repair_says_what_the_client_said_or_meant() -> None:
    """Under lossless the meaning is that of the request as it came, or as it was before it was broken."""
    wrong = []
    for o in looked(mending=False):
        v = o.variant
        said = meaning(o.sent[1], v.dialect)
        if said != meaning(v.after, v.dialect) and (v.repair != "lossless" or said != meaning(v.clean, v.dialect)):
            wrong.append(f"{v.id}: {v.note}")
    assert wrong == []


def test_what_is_frozen_is_told() -> None:
    """Under isolate every new line of a system prompt that goes out as it was is told in the newest turn."""
    for o in looked(mending=True):
        v = o.variant
        if v.by != "isolate" or v.cause == "H1" or o.won_back < WHOLE:
            continue
        new = system_lines(v.after) - system_lines(v.clean)
        sent = json.loads(o.sent[1])
        tail = "\n".join(texts(sent.get("messages", sent.get("input"))[-2:]))
        assert all(line in tail for line in new), v.id


def system_lines(body: bytes) -> set[str]:
    value = json.loads(body)
    elements = value.get("messages", value.get("input"))
    leads = [element["content"] for element in elements if element.get("role") in ("system", "developer")]
    told = texts([value.get("system"), value.get("instructions"), leads])
    return {line for text in told for line in text.splitlines()}


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return texts([value.get(name) for name in ("text", "content", "output")])
    return [text for inner in value or () for text in texts(inner)]


def test_the_generator_and_the_table_agree() -> None:
    for cause, made in CLASSES.items():
        assert CAUSES[cause].repair == made.repair
        assert not made.by or CAUSES[cause].by == made.by or cause == "S2"


# The fingerprint of a set of tools

PAIRS_OF_SETS = 100_000
MISJUDGED = 0.003


def other_keys(value: Any, rng: Random) -> Any:
    if isinstance(value, dict):
        return {name: other_keys(value[name], rng) for name in rng.sample(list(value), len(value))}
    return [other_keys(inner, rng) for inner in value] if isinstance(value, list) else value


def one_word(tool: Any, rng: Random) -> None:
    tool["description"] = f"{tool.get('description', '')} {rng.choice(['Slowly', 'carefully', '2', 'now.', 'a', '≠'])}"


def one_field(tool: Any, rng: Random) -> None:
    properties = tool["parameters"].setdefault("properties", {})
    name = rng.choice([*properties, "extra"])
    if rng.random() < 0.5 and name in properties:
        del properties[name]
    else:
        properties[name] = {"type": "null", "title": f"f{rng.randrange(1000)}"}


def one_list(tool: Any, rng: Random) -> None:
    """Another order of an array: of what is required, or of the values of an enum."""
    required = tool["parameters"].get("required") or []
    enums = [p["enum"] for p in tool["parameters"].get("properties", {}).values() if len(p.get("enum") or ()) > 1]
    options = [values for values in (required, *enums) if len(set(map(str, values))) > 1]
    if not options:
        one_word(tool, rng)
        return
    values = rng.choice(options)
    values.append(values.pop(0))


def one_flag(tool: Any, rng: Random) -> None:
    schema = tool["parameters"]
    schema["additionalProperties"] = not schema.get("additionalProperties", True)


def tool_item(tool: Any) -> Item:
    return build(DIALECTS["openai_responses"], Tier.TOOLS, json.dumps(tool, ensure_ascii=False).encode())


def test_sets_of_tools_are_judged_rightly_whatever_their_order() -> None:
    rng = Random(SEED)
    schemas = [{"type": "function", **schema} for schema in lines("bfcl-tool-schemas")]
    first = [tool_item(schema) for schema in schemas]
    rekeyed = [tool_item(other_keys(schema, rng)) for schema in schemas]
    changed: list[list[Item]] = []
    for schema in schemas:
        changed.append([])
        for change in (one_word, one_field, one_list, one_flag):
            other = json.loads(json.dumps(schema))
            change(other, rng)
            changed[-1].append(tool_item(other))
    started, false_same, false_different, labels = time.perf_counter(), 0, 0, Counter[bool]()
    for _ in range(PAIRS_OF_SETS):
        chosen = rng.sample(range(len(schemas)), rng.randrange(2, 17))
        left = [first[i] for i in chosen]
        right = [rng.choice((first, rekeyed))[i] for i in chosen]
        same, place = rng.random() < 0.5, rng.randrange(len(chosen))
        if not same:
            another = first[rng.choice([i for i in rng.sample(range(len(schemas)), 20) if i not in chosen])]
            right[place] = rng.choice([*changed[chosen[place]], another])
        rng.shuffle(right)
        found = tool_set(left) == tool_set(right)
        labels[same] += 1
        false_same += found and not same
        false_different += same and not found
    print(
        f"\n{PAIRS_OF_SETS} pairs of tool sets ({labels[True]} the same in another order, {labels[False]} different): "
        f"false same {false_same}, false different {false_different}, in {time.perf_counter() - started:.1f} s"
    )
    assert false_same + false_different <= MISJUDGED * PAIRS_OF_SETS
