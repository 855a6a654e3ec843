"""Breaks around the prompt: parameters, model, side requests, marks, keys (P, X, B, I)."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from standfast.lab.breaks.made import REPORT, Break, Made
from standfast.lab.breaks.places import RESULT, SAID, SYSTEM, USER, field_of, found, history, places
from standfast.lab.breaks.sessions import (
    ANTHROPIC,
    CHAT,
    MODELS,
    RESPONSES,
    Body,
    Session,
    Unfit,
    code,
    mark,
)

_SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_FORMAT = {"type": "json_schema", "name": "answer", "schema": _SCHEMA, "strict": True}
_PARAMETERS: dict[str, tuple[tuple[str, Any, Any], ...]] = {
    ANTHROPIC: (
        ("tool_choice", None, {"type": "none"}),
        ("tool_choice", {"type": "auto"}, {"type": "any"}),
        ("thinking", {"type": "enabled", "budget_tokens": 2048}, {"type": "enabled", "budget_tokens": 8000}),
        ("thinking", {"type": "enabled", "budget_tokens": 2048}, None),
        ("thinking", None, {"type": "adaptive"}),
        ("output_config.effort", "high", "low"),
        ("output_config.format", None, {"type": "json_schema", "schema": _SCHEMA}),
        ("speed", None, "fast"),
    ),
    CHAT: (
        ("tool_choice", None, "none"),
        ("tool_choice", "auto", "required"),
        ("reasoning_effort", "medium", "high"),
        ("reasoning_effort", None, "low"),
        ("response_format", None, {"type": "json_object"}),
        ("response_format", {"type": "text"}, {"type": "json_schema", "json_schema": {"name": "a", "schema": _SCHEMA}}),
        ("verbosity", "low", "high"),
    ),
    RESPONSES: (
        ("tool_choice", "auto", "none"),
        ("tool_choice", None, "required"),
        ("reasoning.effort", "low", "high"),
        ("reasoning.effort", "medium", "minimal"),
        ("text.format", None, _FORMAT),
        ("text.verbosity", "low", "medium"),
    ),
}


def _set(body: Body, path: str, value: Any) -> None:
    *outer, name = path.split(".")
    for field in outer:
        body = body.setdefault(field, {})
    body.pop(name, None)
    if value is not None:
        body[name] = copy.deepcopy(value)


def _parameter(session: Session, rng: Random) -> Made:
    path, old, new = rng.choice(_PARAMETERS[session.dialect])
    for body in session.both():
        _set(body, path, old)

    def change(after: Body) -> str:
        _set(after, path, new)
        return path

    return Made(change, f"{path}: {json.dumps(old)} → {json.dumps(new)}")


PARAMETERS: tuple[Break, ...] = (_parameter,)


def _model(session: Session, rng: Random) -> Made:
    old = session.before["model"]
    new = rng.choice([m for m in (*MODELS[session.dialect], f"{old}-20260901") if m != old])

    def change(after: Body) -> str:
        after["model"] = new
        return "model"

    return Made(change, f"{old} → {new}")


SWITCHES: tuple[Break, ...] = (_model,)


# X1: a side request with a prefix of its own

_ASKS = (
    ("You summarise conversations.", "Summarise the conversation above in five lines."),
    ("You write titles.", "Write a title of at most six words for this conversation."),
    ("Compact the transcript. Keep names, numbers and open questions.", "Summarise."),
    ("You extract tasks from transcripts.", "List every open task."),
)
_SPEAKERS = {USER: "User", SAID: "Assistant", RESULT: "Tool"}


def _transcript(session: Session, rng: Random) -> Made:
    """The conversation told again in one text, with what tools returned or without."""
    form = rng.choice(["[{}]: {}", "{}: {}", "<{0}>{1}</{0}>", "## {}\n{}"])
    kinds = rng.choice([(USER, SAID), (USER, SAID, RESULT)])
    system, ask = rng.choice(_ASKS)

    def change(after: Body) -> str:
        told = [
            form.format(_SPEAKERS[p.kind], p.value.strip())
            for p in places(session.before, session.dialect)
            if p.kind in kinds
        ]
        return _aside(after, session.dialect, system, [{"role": "user", "content": "\n".join([*told, ask])}])

    return Made(change, "a transcript")


def _same_messages(session: Session, rng: Random) -> Made:
    """The same messages behind another system prompt, without tools, and one instruction more."""
    system, ask = rng.choice(_ASKS)

    def change(after: Body) -> str:
        first = found(after, session.dialect, USER)[0].element
        kept = history(after)[first : session.shared]
        return _aside(after, session.dialect, system, [*kept, {"role": "user", "content": ask}])

    return Made(change, "the same messages")


def _aside(after: Body, dialect: str, system: str, elements: list[Body]) -> str:
    for name in ("tools", "thinking", "prompt_cache_key", "reasoning"):
        after.pop(name, None)
    if dialect == ANTHROPIC:
        after["system"] = system
    elif dialect == CHAT:
        elements = [{"role": "system", "content": system}, *elements]
    else:
        after["instructions"] = system
    after[field_of(after)] = elements
    return "tools[0]"


SIDE_REQUESTS: tuple[Break, ...] = (_transcript, _transcript, _same_messages)


# B: breakpoints

_RULES = (
    "Quote the paragraph that a statement rests on, with its number and the date of the edition.",
    "Where two paragraphs disagree, the later one holds; say that they disagree.",
    "Amounts are given without tax unless the paragraph says otherwise.",
    "A term of days counts working days of the seat of the seller.",
    "What is not mentioned is not agreed; do not fill gaps from general knowledge.",
    "Annexes are part of the document and bind like its paragraphs.",
)
_QUESTIONS = ("Who bears the risk?", "When does it end?", "What is the cap?", "Which law applies?", "Who may assign?")


def _document(rng: Random) -> str:
    """A text long enough for any provider's minimum."""
    return "\n".join(f"§ {i} {rng.choice(_RULES)} (ref {rng.randrange(10_000)})" for i in range(1, 420))


def _need(session: Session, dialect: str) -> None:
    if session.dialect != dialect:
        raise Unfit(f"{dialect} only")


def _unmark(body: Body) -> None:
    for holder in (body.get("tools"), body.get("system"), *(m["content"] for m in body["messages"])):
        for part in holder if isinstance(holder, list) else ():
            part.pop("cache_control", None)


def _block(text: str) -> Body:
    return {"type": "text", "text": text}


def _lengthen(body: Body, document: str) -> None:
    """A long document in front of the system prompt, and marks where they belong."""
    system = body["system"] if isinstance(body["system"], list) else [_block(body["system"])]
    body["system"] = [_block(document), *system]
    _unmark(body)
    mark(body)


def _volatile_tail(session: Session, rng: Random) -> Made:
    """A document and a question in one message; the question alone is marked."""
    _need(session, ANTHROPIC)
    document, (one, two) = _document(rng), rng.sample(_QUESTIONS, 2)
    for body in session.both():
        body["messages"] = [{"role": "user", "content": [_block(document), _block(one)]}]
        _unmark(body)
        body["messages"][0]["content"][-1]["cache_control"] = {"type": "ephemeral"}

    def change(after: Body) -> str:
        after["messages"][0]["content"][-1]["text"] = two
        return "messages[0].content[1]"

    return Made(change, "a mark on what changes")


def _lost_marks(session: Session, rng: Random) -> Made:
    """All marks are gone in the later request."""
    _need(session, ANTHROPIC)
    document = _document(rng)
    for body in session.both():
        _lengthen(body, document)

    def change(after: Body) -> str:
        _unmark(after)
        return [p.path for p in places(after, ANTHROPIC) if p.element < session.shared][-1]

    return Made(change, "marks dropped")


MARKS: tuple[Break, ...] = (_volatile_tail, _lost_marks)


def _many_results(session: Session, rng: Random) -> Made:
    """More blocks in one turn than a cache looks back over."""
    _need(session, ANTHROPIC)
    count, name = rng.randrange(13, 24), session.after["tools"][0]["name"]
    head, document = history(session.before), _document(rng)
    ids = [f"toolu_{code(rng, 20)}" for _ in range(count)]
    calls = [{"type": "tool_use", "id": i, "name": name, "input": {"n": n}} for n, i in enumerate(ids)]
    results = [{"type": "tool_result", "tool_use_id": i, "content": f"part {n}"} for n, i in enumerate(ids)]
    session.after["messages"] = [
        *copy.deepcopy(head), {"role": "assistant", "content": calls}, {"role": "user", "content": results},
    ]  # fmt: skip
    for body in session.both():
        _lengthen(body, document)
        if rng.random() < 0.5:
            body["system"][-1].pop("cache_control", None)
    path = [p.path for p in places(session.before, ANTHROPIC)][-1]
    return Made(lambda after: path, f"{2 * count} blocks at once")


REACHES: tuple[Break, ...] = (_many_results,)


def _late_boundary(session: Session, rng: Random) -> Made:
    """A long system prompt and one question, then the same with another question."""
    if session.dialect == ANTHROPIC:
        raise Unfit("marks there")
    document, (one, two) = _document(rng), rng.sample(_QUESTIONS, 2)
    model = rng.choice(["gpt-5.6", "gpt-5.6-mini"])
    for body in session.both():
        body["model"] = model
        place = found(body, session.dialect, SYSTEM)[-1]
        place.put(f"{place.value}\n\n{document}")
        history(body)[found(body, session.dialect, USER)[0].element :] = [{"role": "user", "content": one}]

    def change(after: Body) -> str:
        history(after)[-1]["content"] = two
        return found(after, session.dialect, SYSTEM)[-1].path

    cannot_be_marked = "instructions" in session.after
    return Made(change, "a boundary behind the question", REPORT if cannot_be_marked else "")


BOUNDARIES: tuple[Break, ...] = (_late_boundary,)


# I: keys and tenants


def _route(field: str, form: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        if session.dialect == ANTHROPIC:
            raise Unfit("no key")
        old, new = (form.format(code(rng, 10)) for _ in range(2))
        for body in session.both():
            body[field] = old

        def change(after: Body) -> str:
            after[field] = new
            return field

        return Made(change, f"{old} → {new}")

    return made


KEYS: tuple[Break, ...] = (
    _route("prompt_cache_key", "req-{}"),
    _route("session_id", "{}"),
    _route("prompt_cache_key", "user-1:{}"),
)


def _salt(field: str, form: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        if session.dialect != CHAT:
            raise Unfit("engines speak chat")
        for body in session.both():
            body.pop("prompt_cache_key", None)
        return _route(field, form)(session, rng)

    return made


SALTS: tuple[Break, ...] = (_salt("cache_salt", "tenant-{}"), _salt("cache_salt", "{}"))
