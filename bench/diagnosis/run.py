"""Standfast beside public tools that diagnose breaks of a prompt cache: the same cases, the same scoring, one table.

    python bench/diagnosis/run.py --tools DIR [--each 8] [--missed]

DIR holds a virtual environment for each tool, named like its package on PyPI; a tool without one is skipped. Cases: the
recorded ones beside the repository (where they are there) and a fixed sample of generated ones, both with controls.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from standfast.explain import Case, explain
from standfast.lab.breaks.reader import common, shown
from standfast.lab.perturb import CLASSES, Variant, negatives, variants
from standfast.policy import Leave, Option, Policy
from standfast.prompt.dialects import detect_all

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
SEED = 7
WHOLE = 0.999
BY_MARKS = ("B1", "B2", "B6")
_PATH = re.compile(r"(tools|system|messages|input)\[\d+\]|prompt_cache_key")
_PLACES = {"04-tool-added-midsession": "tools[2]", "16-param-toggle": "thinking", "21-compaction-fork": "tools[0]"}
"""Where the recorded cases say it in words."""
MENDABLE = ("lossless", "policy")

_CLOCK, _ID = ("S1",), ("S2",)
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "hearth-ai": {
        "tools_reordered": ("T1",), "tools_changed": ("T4",), "volatile_in_prefix": ("S1", "S2"),
        "session_mutated": ("S4",), "history_rewritten": ("H7",), "image_toggled": ("H8",),
        "params_changed": ("P1", "P2"), "no_breakpoints": ("B1",),
    },
    "kvlint": {
        "dynamic_time": _CLOCK, "dynamic_id": _ID, "user_in_system": ("S7",), "key_order": ("T2", "H4"),
        "whitespace_drift": ("H2",), "volatile_fewshot": ("S4",),
    },
    "cachelint": {
        "tool_choice": ("P1",), "thinking": ("P1",), "reasoning": ("P1",), "reasoning_effort": ("P1",),
        "response_format": ("P1",), "output_config": ("P1",), "verbosity": ("P1",), "prompt_cache_key": ("I1",),
        "requests must use the same provider and model": ("P2",),
    },
    "promptcachelint": {
        "CL002": ("T4",), "CL003 model": ("P2",), "CL003 prompt_cache_key": ("I1",), "CL003": ("P1",),
        "CL004": ("B1",), "CL007": ("B2",), "CL010": ("B1",), "CL012": ("S1", "S2"), "CL014": ("B6",),
        "window slid": ("H7",),
    },
    "prefixguard": {
        "TOOL_REORDER": ("T1",), "TOOL_SET_CHANGED": ("T4", "T5"), "TOOL_SCHEMA_DRIFT": ("T2", "T3"),
        "HISTORY_DROP": ("H7",), "COMPACTION": ("H7",), "VOLATILE_CONTENT": ("S1", "S2"),
    },
    "prefixcash": {
        "dynamic_iso_datetime": _CLOCK, "dynamic_datetime": _CLOCK, "dynamic_date": _CLOCK, "dynamic_time": _CLOCK,
        "dynamic_uuid": _ID, "dynamic_hex_token": _ID, "dynamic_high_entropy": _ID, "dynamic_email": ("S7",),
    },
    "prefixlens": {},
}  # fmt: skip
"""What a tool's own word stands for, by its documentation. A word for a whole tier names nothing, but may place."""


@dataclass(frozen=True, slots=True)
class Break:
    """One case: two bodies, and what is wrong with the second. ``cause`` is empty for a control."""

    id: str
    dialect: str
    before: bytes
    after: bytes
    clean: bytes
    cause: str
    path: str
    repair: str
    gap: float


@dataclass(slots=True)
class Score:
    """What one tool did with all cases."""

    counts: Counter[str] = field(default_factory=Counter)
    classes: set[str] = field(default_factory=set)
    missed: Counter[str] = field(default_factory=Counter)
    ms: float = 0.0

    def add(self, case: Break, found: dict[str, Any], *, named: bool) -> None:
        self.ms += found["ms"]
        self.counts["supported"] += found["supported"]
        if not case.cause:
            self.counts["alarms"] += bool(found["noticed"])
            return
        self.counts["noticed"] += bool(found["noticed"])
        self.counts["named"] += named
        self.counts["placed"] += bool(found["noticed"]) and element(found["path"]) == element(case.path)
        self.counts["repaired"] += is_mended(case, found)
        if named:
            self.classes.add(case.cause)
        else:
            self.missed[case.cause] += 1


def element(path: str | None) -> str:
    """The element of a body that a path leads into; a system prompt of one block may be a string, too."""
    found = re.match(r"[a-z_.]+(\[\d+\])?", path or "")
    return "" if found is None else "system" if found[0] == "system[0]" else found[0]


def is_repairable(case: Break) -> bool:
    """Whether bytes can win back what the case lost, of what they say or under a policy."""
    return case.repair in MENDABLE and case.cause not in BY_MARKS


def is_mended(case: Break, found: dict[str, Any]) -> bool:
    """Whether what the tool would send shares all that the case without its break would."""
    if not is_repairable(case):
        return False
    before, after, clean = found.get("read") or map(json.loads, (case.before, case.after, case.clean))
    dialect = "openai_chat" if found.get("read") else case.dialect
    attainable = [before, clean]
    if _won_back(case, [before, after], attainable, dialect) >= WHOLE:
        return False  # what the tool reads is not broken
    answers = [sent for sent in (found.get("sent"), found.get("also")) if sent]
    return any(_won_back(case, sent, attainable, dialect) >= WHOLE for sent in answers)


def _won_back(case: Break, sent: list[Any], attainable: list[Any], dialect: str) -> float:
    """Share of what two requests could have in common that they have."""
    if case.cause == "I1":
        keys = {(body.get("prompt_cache_key"), body.get("session_id")) for body in sent}
        return float(len(keys) == 1)
    prompts = [shown(json.dumps(body).encode(), dialect) for body in (*sent, *attainable)]
    return common(*prompts[:2]) / max(1, common(*prompts[2:]))


def recorded() -> Iterator[Break]:
    """The cases beside the repository, with the class and the first path that they tell."""
    for file in sorted(SHARED.glob("cases/**/*.json")):
        case = json.loads(file.read_bytes())
        bodies = case["requests"]
        dialect = detect_all(bodies)[1]
        if dialect is None:
            continue
        before, after = (json.dumps(body).encode() for body in bodies)
        is_control = case["repair"] == "control"
        cause, told = ("", None) if is_control else (case["class"].split()[0], _PATH.search(case["expect"]))
        path = _PLACES.get(file.stem, told[0] if told else "")
        yield Break(file.stem, dialect, before, after, before, cause, path, case["repair"], 5.0)


def generated(each: int) -> Iterator[Break]:
    path = SHARED / "data/airline-agent.jsonl.gz"
    chats = path if path.exists() else None
    rows = [v for cause in CLASSES for v in islice(variants(cause, SEED, chats), each)]
    grown = (v for v in negatives(SEED, chats) if _repeats(v))
    for v in (*rows, *islice(grown, 4 * each)):
        repair = "policy" if v.by else v.repair
        yield Break(v.id, v.dialect, v.before, v.after, v.clean, v.cause, v.path, repair, v.gap_seconds)


def _repeats(v: Variant) -> bool:
    """Whether the later request repeats all of the one before: then no reading of it can call the prefix broken."""
    before, after = shown(v.before, v.dialect), shown(v.after, v.dialect)
    return after[: len(before)] == before


def standfast(cases: list[Break], leave: Leave) -> Iterator[dict[str, Any]]:
    for case in cases:
        started = time.perf_counter()
        steps, sent = explain(Case((case.before, case.after), times=(0.0, case.gap)), leave=leave)
        told = steps[0].as_json()
        ms = 1000 * (time.perf_counter() - started)
        yield {
            "supported": True, "noticed": told["cause"] is not None, "codes": [told["cause"]], "path": told["path"],
            "sent": [json.loads(body) for body in sent], "ms": ms,
        }  # fmt: skip


def outside(tool: str, cases: list[Break], venvs: Path) -> list[dict[str, Any]] | None:
    """A tool's answers, from its own environment; None where there is none."""
    python = venvs / tool / "bin/python"
    if not python.exists():
        return None
    driver = HERE / f"drivers/drive_{tool.removesuffix('-ai')}.py"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), str(driver)],
            input="".join(map(_line, cases)),
            capture_output=True,
            text=True,
            cwd=folder,
            env={"PYTHONPATH": str(HERE.parent), "HEARTH_HOME": folder},
            timeout=1800,
            check=True,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _line(case: Break) -> str:
    bodies = {name: json.loads(getattr(case, name)) for name in ("before", "after", "clean")}
    return json.dumps({"id": case.id, "dialect": case.dialect, "gap": case.gap, **bodies}) + "\n"


def version(tool: str, venvs: Path) -> str:
    code = f"from importlib.metadata import version; print(version({tool!r}))"
    return subprocess.run([str(venvs / tool / "bin/python"), "-c", code], capture_output=True, text=True).stdout.strip()


def score(tool: str, cases: list[Break], answers: list[dict[str, Any]]) -> Score:
    table, result = NAMES.get(tool), Score()
    for case, found in zip(cases, answers, strict=True):
        if table is None:
            causes = set(found["codes"])
        else:
            causes = {c for code in found["codes"] for c in table.get(code, table.get(code.split()[0], ()))}
        result.add(case, found, named=bool(case.cause) and case.cause in causes)
    return result


def table(title: str, cases: list[Break], rows: dict[str, Score]) -> None:
    breaks = sum(bool(c.cause) for c in cases)
    mendable = sum(is_repairable(c) for c in cases)
    print(
        f"\n{title}: {breaks} breaks of {len({c.cause for c in cases} - {''})} classes, "
        f"{mendable} of them repairable, {len(cases) - breaks} controls\n"
    )
    print("| tool | reads | noticed | named | classes named | placed | repaired | false alarms | ms a case |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, s in rows.items():
        c = s.counts
        print(
            f"| {name} | {c['supported']} of {len(cases)} | {c['noticed']} | {c['named']} | {len(s.classes)} "
            f"| {c['placed']} | {c['repaired']} | {c['alarms']} | {s.ms / len(cases):.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True, help="folder with a virtual environment for each tool")
    parser.add_argument("--each", type=int, default=8, help="generated variants of each class")
    parser.add_argument("--missed", action="store_true", help="list, by tool, how many of each class it did not name")
    given = parser.parse_args()
    sets = {"Recorded cases": list(recorded()), "Generated breaks": list(generated(given.each))}
    everything = Leave(Policy.ISOLATE, frozenset(Option))
    for title, cases in sets.items():
        if not cases:
            print(f"{title}: none here, skipped")
            continue
        rows = {}
        for name, leave in (("Standfast, lossless", Leave(Policy.LOSSLESS)), ("Standfast, all leave", everything)):
            rows[name] = score(name, cases, list(standfast(cases, leave)))
        for tool in NAMES:
            answers = outside(tool, cases, given.tools)
            if answers is None:
                print(f"{tool}: no environment {given.tools / tool}, skipped")
                continue
            rows[f"{tool} {version(tool, given.tools)}"] = score(tool, cases, answers)
        table(title, cases, rows)
        if given.missed:
            for name, s in rows.items():
                print(f"- {name}: not named {dict(sorted(s.missed.items()))}")


if __name__ == "__main__":
    main()
