"""``standfast explain``: what kept one request from sharing the prefix of the one before.

Runs the requests through the same turn as the gateway, over an empty ledger in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from rich.console import Console
from rich.text import Text

from standfast.caching import Outlook
from standfast.errors import BrokenBody, ConfigError
from standfast.events import FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import LOSSLESS, Breakpoints, Leave
from standfast.prompt import canonical, volatile
from standfast.prompt.causes import CAUSES, OF_MARKS
from standfast.prompt.dialects import DIALECTS, detect_all
from standfast.prompt.drift import Drift
from standfast.prompt.replies import Reply, Usage, reader
from standfast.providers.catalogue import Catalogue
from standfast.providers.rules import Regime, Rules
from standfast.turn import Arrival, Diagnosis, Plan, Turns
from standfast.verdict import Evidence, Verdict, judge

_TENANT = bytes(32)
_CONTEXT = 32  # characters shown on either side of a change


@dataclass(frozen=True, slots=True)
class Case:
    """Requests of one session, in the order in which they were sent."""

    requests: tuple[bytes, ...]
    usage: tuple[Any, ...] = ()
    """The provider's usage object of each request, if known."""
    times: tuple[float, ...] = ()
    """When each was sent, in seconds."""
    provider: str = ""
    """Whose cache it went to, if that is told."""


@dataclass(slots=True)
class Step:
    """One request held against the one that it continues."""

    request: int
    """Index of the later request."""
    dialect: str | None
    diagnosis: Diagnosis
    usage: Usage | None = None
    scale: float = 1.0
    """True tokens for each estimated one, of this request; 1 where no usage is known."""
    shared_scale: float = 1.0
    """The same of the request before, which the shared prefix is a part of."""
    gap: float | None = None
    """Seconds since the request before."""
    diff: list[str] = field(default_factory=list)
    note: str | None = None
    """Why the request passes untouched, if it does."""
    verdict: Verdict | None = None
    outlook: Outlook | None = None
    marks: list[dict[str, Any]] = field(default_factory=list)
    """Breakpoints that should go out, where they are not those of the client."""

    @property
    def cause(self) -> str | None:
        """What drifted first, else what the rules of the cache or its usage say."""
        if self.diagnosis.drifts or self.verdict is None or self.verdict.cause in OF_MARKS:
            return self.diagnosis.cause
        return self.verdict.cause

    def as_json(self) -> dict[str, Any]:
        """The object of ``--json``; docs/cli.md lists the fields."""
        d, t = self.diagnosis, self.diagnosis.tokens
        cause, verdict = CAUSES[self.cause] if self.cause else None, self.verdict
        return {
            "request": self.request,
            "dialect": self.dialect,
            "cause": self.cause,
            "title": cause.title if cause else None,
            "path": d.path,
            "tier": d.primary.tier if d.primary else None,
            "repair": d.repair if d.drifts or cause is None else cause.repair,
            "repaired": d.repaired,
            "attainable_tokens": round(t.attainable * self.shared_scale),
            "hit_tokens_before": round(t.before * self.shared_scale),
            "hit_tokens_after": round(t.after * self.shared_scale),
            "lost_tokens": round(d.lost_tokens * self.shared_scale),
            "prompt_tokens": round(t.prompt * self.scale),
            "tokens": "estimated" if self.usage is None else "scaled to usage",
            "cached_tokens_reported": self.usage.cached_tokens if self.usage else None,
            "gap_seconds": self.gap,
            "remedy": d.primary.remedy if d.primary else cause.remedy if cause else None,
            "provider": self.outlook.rules.provider if self.outlook else None,
            "expected_cached_tokens": round(self.outlook.expected.cached) if self.outlook else None,
            "full_hit": verdict.hit if verdict else None,
            "fix": verdict.fix if verdict else None,
            "money": verdict.bill.as_json() if verdict and verdict.bill else None,
            "breakpoints": self.marks,
            "diff": self.diff,
            "note": self.note,
            "drifts": self._drifts(),
        }

    def _drifts(self) -> list[dict[str, Any]]:
        """Dearest first; each with what would hit if it and all in front of it were mended, and what then breaks."""
        found = self.diagnosis.drifts
        reach = list(accumulate((d.lost for d in found), initial=self.diagnosis.tokens.before))[1:]
        rows = [
            {
                "cause": d.cause,
                "path": d.path,
                "tier": d.tier,
                "repair": d.repair,
                "repaired": d.repaired,
                "lost_tokens": round(d.lost * self.shared_scale),
                "hit_tokens_if_mended": round(hit * self.shared_scale),
                "then_broken_by": [x.cause for x in found[i + 1 :]],
            }
            for i, (d, hit) in enumerate(zip(found, reach, strict=True))
        ]
        return sorted(rows, key=lambda row: -row["lost_tokens"])


def load(paths: Sequence[Path]) -> Case:
    """Read a case file, or two or more files of one body each. Raises ConfigError."""
    texts = [_read(path) for path in paths]
    if len(texts) > 1:
        return Case(tuple(texts))
    path = paths[0]
    try:
        case = msgspec.json.decode(texts[0], type=dict[str, Raw])
        bodies = tuple(bytes(raw) for raw in msgspec.json.decode(case["requests"], type=list[Raw]))
        usage, times = (canonical.decode(bytes(case.get(name, b"[]"))) or () for name in ("usage", "times"))
        told, instants = tuple(usage), tuple(float(bytes(t) if isinstance(t, Raw) else t) for t in times)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f'{path}: give two bodies, or one case {{"requests": [...]}}; {error}') from error
    if len(bodies) < 2:
        raise ConfigError(f"{path}: a case needs two or more requests, this one has {len(bodies)}")
    name = case.get("provider")
    provider = canonical.decode(bytes(name)) if name is not None else ""
    return Case(bodies, told, instants, provider if isinstance(provider, str) else "")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def explain(
    case: Case, dialect: str | None = None, leave: Leave = LOSSLESS, provider: str = ""
) -> tuple[list[Step], list[bytes]]:
    """One step for each request after the first, and every request as Standfast would send it.

    ``provider``: whose cache it is; else the one that the case names, else the one that the dialect is named after.
    Raises ConfigError for one that is not known.
    """
    catalogue = Catalogue.load()
    if provider:
        catalogue.provider(provider)
    failed: list[FailedOpen] = []
    turns = Turns(
        MemoryLedger(256 << 20),
        budget_ms=float("inf"),
        observe=lambda event: failed.append(event) if isinstance(event, FailedOpen) else None,
        rules_of=lambda name, model: _rules(catalogue, name, model, bool(case.usage)),
    )
    steps: list[Step] = []
    sent: list[bytes] = []
    before: Plan | None = None
    decoded = [_decoded(body) for body in case.requests]
    for i, (body, found) in enumerate(zip(case.requests, detect_all(decoded), strict=True)):
        spoken = dialect or found
        plan = None
        if spoken:
            whose = provider or (case.provider if catalogue.knows(case.provider) else catalogue.default_for(spoken))
            plan = _plan(turns, body, spoken, leave, i, case, before, whose)
        sent.append(plan.body if plan else body)
        if i:
            steps.append(_step(i, spoken, plan, case, before))
            steps[-1].note = next((f.reason for f in failed if f.request_id == str(i)), None)
        if plan and (usage := _usage(plan, i, case)[0]):
            answer = _answer(plan, case.requests[i + 1]) if i + 1 < len(case.requests) else ()
            turns.learn(plan, Reply(usage, answer, None, complete=True))
            if i:
                steps[-1].verdict = plan.verdict
        before = plan or before
    return steps, sent


def _rules(catalogue: Catalogue, provider: str, model: str, told: bool) -> Rules:
    """The rules to hold two requests against. Without usage tokens are estimates: no prefix is called too short."""
    rules = replace(catalogue.rules(provider, model), key_field="", key_header="")
    return rules if told or rules.regime is Regime.BOUNDARIES else replace(rules, minimum=0)


def _decoded(body: bytes) -> Any:
    """A body's JSON; None if only a lenient parser takes it. Raises BrokenBody."""
    try:
        value = canonical.decode(body)
    except (msgspec.DecodeError, RecursionError):
        if broken := canonical.broken(body):
            raise broken from None
        return None
    if not isinstance(value, dict):
        raise BrokenBody("the body must be a JSON object", 0)
    return value


def _plan(
    turns: Turns, body: bytes, dialect: str, leave: Leave, i: int, case: Case, before: Plan | None, provider: str
) -> Plan:
    if dialect not in DIALECTS:
        raise ConfigError(f"dialect {dialect!r}: choose one of {', '.join(DIALECTS)}")
    reference = before.tip if before and before.arrival.dialect == dialect else None
    now = case.times[i] if i < len(case.times) else float(i)
    return turns.plan(
        Arrival(
            body,
            dialect,
            "explain",
            _TENANT,
            leave.policy,
            now,
            str(i),
            options=leave.options,
            provider=provider,
            breakpoints=Breakpoints.MEND,
            reference=reference,
        )
    )


def _answer(plan: Plan, following: bytes) -> tuple[bytes, ...]:
    """What the model answered, where its cache holds that: what stands behind the same history in the next body."""
    if plan.outlook is None or "output" not in plan.outlook.rules.writes_at:
        return ()
    name = DIALECTS[plan.arrival.dialect].history
    history, longer = (_elements(body, name) for body in (plan.arrival.body, following))
    new = longer[len(history) :] if longer[: len(history)] == history else []
    return tuple(takewhile(_is_said_by_model, new))


def _is_said_by_model(wire: bytes) -> bool:
    value = canonical.decode(wire)
    return isinstance(value, dict) and value.get("role") == "assistant"


def _elements(body: bytes, name: str) -> list[bytes]:
    """The objects of a list in a body."""
    try:
        raw = msgspec.json.decode(body, type=dict[str, Raw])[name]
        return [bytes(element) for element in msgspec.json.decode(raw, type=list[Raw])]
    except (msgspec.DecodeError, KeyError):
        return []


def _step(i: int, dialect: str | None, plan: Plan | None, case: Case, before: Plan | None) -> Step:
    step = Step(i, dialect, plan.diagnosis if plan else Diagnosis())
    if len(case.times) > i:
        step.gap = case.times[i] - case.times[i - 1]
    if plan:
        step.usage, scale = _usage(plan, i, case)
        _, earlier = _usage(before, i - 1, case) if before else (None, None)
        step.scale = scale or 1.0
        step.shared_scale = earlier or step.scale
        step.outlook = plan.outlook
        step.verdict = judge(Evidence(plan.diagnosis, plan.outlook, answered=False))
        step.marks = _marks(plan)
    if (drift := step.diagnosis.primary) and (drift.before or drift.after):
        step.diff = diff(drift)
    return step


def _marks(plan: Plan) -> list[dict[str, Any]]:
    """The breakpoints that should go out, and those of the client that should not."""
    if plan.outlook is None or plan.outlook.marks is None:
        return []
    marks, path = plan.outlook.marks, plan.path_of
    kept = [
        {"path": path(block), "ttl": life or plan.outlook.rules.default_ttl, "why": marks.reasons[block]}
        for block, life in marks.places.items()
    ]
    return kept + [{"path": path(block), "ttl": None, "why": f"dropped: {why}"} for block, why in marks.dropped]


def _usage(plan: Plan, i: int, case: Case) -> tuple[Usage | None, float | None]:
    """What the provider told of a request, and how many true tokens an estimated one stands for."""
    if i >= len(case.usage) or not isinstance(case.usage[i], dict):
        return None, None
    told = reader(plan.arrival.dialect, streaming=False)
    told.feed(msgspec.json.encode({"type": "message", "object": "response", "usage": case.usage[i]}))
    usage, estimate = told.finish().usage, plan.diagnosis.tokens.prompt
    return usage, usage.prompt_tokens / estimate if usage and usage.prompt_tokens and estimate else None


def diff(drift: Drift) -> list[str]:
    """Two short lines, "- before" and "+ after", around the place where the pieces first differ."""
    before, after = (_readable(piece) for piece in (drift.before, drift.after))
    start, end_before, end_after = volatile.changed_span(before, after)
    return [
        f"{sign} {_window(text, start, end) or '(nothing)'}"
        for sign, text, end in (("-", before, end_before), ("+", after, end_after))
    ]


def _readable(piece: bytes) -> str:
    try:
        return json.dumps(json.loads(piece), ensure_ascii=False) if piece[:1] in (b"{", b"[") else piece.decode()
    except ValueError:
        return piece.decode(errors="replace")


def _window(text: str, start: int, end: int) -> str:
    left, right = max(0, start - _CONTEXT), min(len(text), max(end, start) + _CONTEXT)
    shown = text[left:right].replace("\n", "⏎")
    if len(shown) > 4 * _CONTEXT:
        shown = f"{shown[: 2 * _CONTEXT]}…{shown[-2 * _CONTEXT :]}"
    return f"{'…' if left else ''}{shown}{'…' if right < len(text) else ''}"


def show(steps: Sequence[Step], console: Console) -> None:
    """For people."""
    for step in steps:
        d, j = step.diagnosis, step.as_json()
        line = Text.assemble((f"request {step.request} → {step.request + 1}  ", "bold"))
        if step.dialect is None:
            line.append("a dialect that Standfast does not know: passes untouched", "yellow")
            console.print(line)
            continue
        if step.note:
            line.append(f"passes untouched: {step.note}", "yellow")
        elif j["cause"] is None:
            line.append("nothing drifted", "green")
        elif not d.drifts:
            line.append(f"{j['cause']} {j['title']}  nothing drifted", "bold yellow")
        else:
            line.append(f"{d.cause} {j['title']}", "bold red" if not d.repaired else "bold yellow")
            line.append(f"  at {d.path}  ")
            line.append("repaired" if d.repaired else f"not repaired ({d.repair})", "green" if d.repaired else "red")
        console.print(line)
        _show_figures(j, console)
        for text in step.diff:
            console.print(Text(f"    {text}", "red" if text[0] == "-" else "green"))
        for other in d.drifts[1:]:
            mended = "repaired" if other.repaired else f"not repaired ({other.repair})"
            console.print(Text(f"    also {other.cause} {CAUSES[other.cause].title} at {other.path}: {mended}", "dim"))
        for mark in step.marks if d.cause in OF_MARKS else ():
            life = f"breakpoint ({mark['ttl']})" if mark["ttl"] else "no breakpoint"
            console.print(Text(f"    {life} at {mark['path']}: {mark['why']}", "dim"))
        if j["remedy"]:
            console.print(Text(f"    {j['remedy']}", "dim"))


def _show_figures(j: dict[str, Any], console: Console) -> None:
    figures = (
        f"    prefix hit {j['hit_tokens_before']} → {j['hit_tokens_after']} of {j['attainable_tokens']} attainable "
        f"tokens, {j['lost_tokens']} at stake, prompt {j['prompt_tokens']} ({j['tokens']})"
    )
    if j["cached_tokens_reported"] is not None:
        figures += f"; the provider reported {j['cached_tokens_reported']} cached"
    if j["gap_seconds"] is not None:
        figures += f"; {j['gap_seconds']:g} s after the one before"
    console.print(Text(figures))
