"""Breaks of the history that keep its meaning, or could: shape, ids, spelling, order, thinking (H2–H6, H9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from standfast.lab.breaks.made import Break, Change, Made, at, shuffled
from standfast.lab.breaks.places import (
    CALL,
    RESULT,
    SAID,
    SYSTEM,
    THINKING,
    USER,
    Place,
    call_id,
    field_of,
    found,
    history,
    places,
)
from standfast.lab.breaks.sessions import ANTHROPIC, RESPONSES, Body, Session, Unfit, code


def _some(options: list[Place], rng: Random) -> list[Place]:
    """One of them, or several, or all, in order."""
    count = rng.choice([1, 1, max(1, len(options) // 2), len(options)])
    return [options[i] for i in sorted(rng.sample(range(len(options)), count))]


def _each(session: Session, options: list[Place], rng: Random, edit: Callable[[Place, Random], None]) -> Change:
    """Edit the same places of the later request."""
    paths, seed = [p.path for p in _some(options, rng)], rng.getrandbits(32)

    def change(after: Body) -> str:
        own = Random(seed)
        for path in paths:
            edit(at(after, session.dialect, path), own)
        return paths[0]

    return change


# H2: shape and white space


def _white_space(kind: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        options = found(session.after, session.dialect, kind, None if kind == SYSTEM else session.shared)
        return Made(_each(session, [p for p in options if p.value.strip()], rng, _respaced), f"white space, {kind}")

    return made


def _respaced(place: Place, rng: Random) -> None:
    bare = place.value.strip()
    place.put(rng.choice([text for text in (bare, f"{bare}\n", f"{bare}\n\n", f"{bare} ") if text != place.value]))


def _shape(session: Session, rng: Random) -> Made:
    """A string becomes a list of one part, or the reverse. To Anthropic's cache that is the same."""
    if session.dialect == ANTHROPIC:
        raise Unfit("no difference")
    kinds = {"user": "input_text", "assistant": "output_text"} if session.dialect == RESPONSES else {}
    options = [
        p for p in places(session.after, session.dialect)
        if p.kind in (USER, SAID) and 0 <= p.element < session.shared and _is_plain(history(session.after)[p.element])
    ]  # fmt: skip
    if not options:
        raise Unfit("no plain message")

    def edit(place: Place, rng: Random) -> None:
        if place.key == "content":
            place.put([{"type": kinds.get(place.holder["role"], "text"), "text": place.value}])

    chosen = rng.choice(options)
    element, suffix = chosen.element, "[0]" if chosen.key == "content" else ""

    def change(after: Body) -> str:
        message = history(after)[element]
        if suffix:
            edit(at(after, session.dialect, chosen.path), rng)
        else:
            message["content"] = message["content"][0]["text"]
        return f"{field_of(after)}[{element}].content{suffix}"

    return Made(change, "shape")


def _is_plain(message: Body) -> bool:
    content = message.get("content")
    return isinstance(content, str) or (isinstance(content, list) and len(content) == 1)


SHAPES: tuple[Break, ...] = (
    _white_space(USER), _shape, _white_space(SAID), _shape, _white_space(SYSTEM), _white_space(RESULT),
)  # fmt: skip


# H3: call ids


def _ids(how: str, name: Callable[[Random], str], *, all_of_them: bool) -> Break:
    def made(session: Session, rng: Random) -> Made:
        calls = found(session.after, session.dialect, CALL, session.shared)
        answered = {i for e in history(session.after)[: session.shared] for i in _answers(e)}
        calls = [c for c in calls if _owner(c, session.after)[call_id(c)] in answered]
        if not calls:
            raise Unfit("no answered call")
        chosen = calls if all_of_them else [rng.choice(calls)]
        names = {_owner(c, session.after)[call_id(c)]: name(rng) for c in chosen}
        path = chosen[0].path

        def change(after: Body) -> str:
            for element in history(after):
                _rename(element, names)
            stem = path.removesuffix(".function.arguments").removesuffix(".arguments").removesuffix(".input")
            return f"{stem}.{'call_id' if session.dialect == RESPONSES else 'id'}"

        return Made(change, how)

    return made


def _owner(call: Place, body: Body) -> Body:
    """The object that holds the id of a call."""
    if "call_id" in call.holder or "id" in call.holder:
        found: Body = call.holder
        return found
    calls = history(body)[call.element]["tool_calls"]
    owner: Body = next(c for c in calls if c["function"] is call.holder)
    return owner


def _answers(element: Body) -> list[str]:
    content = element.get("content")
    inner = [b["tool_use_id"] for b in content if "tool_use_id" in b] if isinstance(content, list) else []
    own = element.get("tool_call_id") or (element.get("call_id") if "output" in element else None)
    return [*inner, *([own] if own else [])]


def _rename(value: Any, names: dict[str, str]) -> None:
    if isinstance(value, list):
        for inner in value:
            _rename(inner, names)
    elif isinstance(value, dict):
        for field in ("id", "call_id", "tool_call_id", "tool_use_id"):
            if value.get(field) in names:
                value[field] = names[value[field]]
        for field in ("content", "tool_calls"):
            _rename(value.get(field), names)


IDS: tuple[Break, ...] = (
    _ids("all ids anew", lambda rng: f"call_{code(rng, 24)}", all_of_them=True),
    _ids("one id anew", lambda rng: f"toolu_{code(rng, 22)}", all_of_them=False),
    _ids("numbered ids", lambda rng: f"call_{rng.randrange(10**9):09d}", all_of_them=True),
    _ids("uuids for ids", lambda rng: f"{rng.getrandbits(128):032x}", all_of_them=True),
    _ids("ids of nine letters", lambda rng: code(rng, 9), all_of_them=True),
)


# H4: arguments and results serialised again


def _other_keys(value: Any, rng: Random) -> Any:
    if isinstance(value, dict):
        return {name: _other_keys(value[name], rng) for name in rng.sample(list(value), len(value))}
    return [_other_keys(v, rng) for v in value] if isinstance(value, list) else value


def _respelt(text: str, rng: Random) -> str:
    """The same JSON, written otherwise. Raises Unfit for what is no object or list of JSON."""
    if text.strip()[:1] not in ("{", "["):
        raise Unfit("no JSON")
    value = json.loads(text)
    for _ in range(20):
        other = json.dumps(
            _other_keys(value, rng) if rng.random() < 0.5 else value,
            separators=rng.choice([(", ", ": "), (",", ":"), (", ", ":")]),
            ensure_ascii=rng.random() < 0.5,
            indent=rng.choice([None, None, 2]),
        )
        if other.strip() != text.strip():
            return other
    raise Unfit("one spelling only")


def _arguments(session: Session, rng: Random) -> Made:
    options = found(session.after, session.dialect, CALL, session.shared)
    options = [p for p in options if isinstance(p.value, str) or len(p.value) > 1]
    if not options:
        raise Unfit("no arguments to write otherwise")

    def edit(place: Place, rng: Random) -> None:
        if isinstance(place.value, str):
            place.put(_respelt(place.value, rng))
        else:
            place.put({name: place.value[name] for name in shuffled(list(place.value), rng)})

    return Made(_each(session, options, rng, edit), "arguments")


def _results(session: Session, rng: Random) -> Made:
    options = [
        p for p in found(session.after, session.dialect, RESULT, session.shared) if p.value.strip()[:1] in ("{", "[")
    ]
    if not options:
        raise Unfit("no JSON")
    return Made(_each(session, options, rng, lambda place, own: place.put(_respelt(place.value, own))), "results")


SPELLINGS: tuple[Break, ...] = (_arguments, _results)


# H5: results in another order


def _runs(body: Body, within: int) -> list[tuple[Any, list[int], int]]:
    """(list, indices in it, element) of each run of two and more results."""
    elements, run = history(body), list[int]()
    runs: list[tuple[Any, list[int], int]] = []
    for i, element in enumerate([*elements[:within], {}]):
        if element.get("role") == "tool" or element.get("type", "").endswith("_output"):
            run.append(i)
            continue
        if len(run) > 1:
            runs.append((elements, run, run[0]))
        run = []
        content = element.get("content")
        inner = [j for j, b in enumerate(content) if "tool_use_id" in b] if isinstance(content, list) else []
        if len(inner) > 1:
            runs.append((content, inner, i))
    return runs


def _reordered(session: Session, rng: Random) -> Made:
    options = _runs(session.after, session.shared)
    if not options:
        raise Unfit("no parallel results")
    number = rng.randrange(len(options))
    order = shuffled(list(range(len(options[number][1]))), rng)

    def change(after: Body) -> str:
        holder, indices, element = _runs(after, session.shared)[number]
        results = [holder[i] for i in indices]
        marks = [results[-1].pop("cache_control", None)]
        for place, i in zip(indices, order, strict=True):
            holder[place] = results[i]
        if marks[0]:
            holder[indices[-1]]["cache_control"] = marks[0]
        first = indices[next(k for k, i in enumerate(order) if k != i)]
        inner = f"[{element}].content[{first}]" if session.dialect == ANTHROPIC else f"[{first}]"
        return f"{field_of(after)}{inner}"

    return Made(change, "parallel results")


RESULT_ORDERS: tuple[Break, ...] = (_reordered,)


# H6: thinking dropped


def _forgetful(*, all_of_it: bool) -> Break:
    def made(session: Session, rng: Random) -> Made:
        thoughts = found(session.after, session.dialect, THINKING, session.shared)
        if not all_of_it:
            thoughts = [rng.choice(thoughts)]
        paths = [p.path for p in thoughts]

        def change(after: Body) -> str:
            for path in reversed(paths):
                _drop(at(after, session.dialect, path), history(after))
            return paths[0]

        return Made(change, "all thinking" if all_of_it else "one thought")

    return made


def _drop(thought: Place, elements: list[Body]) -> None:
    if thought.key == "encrypted_content":
        del elements[thought.element]
    else:
        del thought.holder[thought.key]


THOUGHTS: tuple[Break, ...] = (_forgetful(all_of_it=True), _forgetful(all_of_it=False))


# H9: a token replaced wherever it stands


def _token(text: str) -> Break:
    def made(session: Session, rng: Random) -> Made:
        path = rng.choice(found(session.after, session.dialect, RESULT, session.shared)).path
        old, new = (f"cch={rng.getrandbits(20):05x}" for _ in range(2))
        for body in session.both():
            place = at(body, session.dialect, path)
            if place.value.strip()[:1] in ("{", "["):
                place.put(json.dumps({"result": json.loads(place.value), "header": text.format(old)}))
            else:
                place.put(f"{place.value}\n{text.format(old)}")

        def change(after: Body) -> str:
            place = at(after, session.dialect, path)
            place.put(place.value.replace(old, new))
            return path

        return Made(change, text)

    return made


TOKENS: tuple[Break, ...] = (
    _token("x-anthropic-billing-header: cc_version=2.1.99.f3a; {};"),
    _token("seen in the log: {}"),
    _token("proxy/trace.py:41: header = '{}; cc_entrypoint=cli'"),
    _token("{}"),
)
