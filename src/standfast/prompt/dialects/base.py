"""What the three dialects share: the table each one fills in, and text of equal meaning.

A dialect is data plus pure functions over decoded JSON. ``describe`` must be total: whatever JSON a client
sends gets a description, if only "something we do not know, take it as a whole".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Raw

from standfast.prompt.canonical import Json, json_text, key_form
from standfast.prompt.model import Kind, Tier
from standfast.prompt.volatile import billing_token, mask_billing

MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Fields that tell a provider where to write its cache. Outside the meaning, at protocol positions only."""


class Piece(NamedTuple):
    """A part before it is digested. ``key`` keeps the order of keys, ``meaning`` need not."""

    suffix: str
    kind: Kind
    meaning: Json
    key: Json
    call_id: str | None = None


class Described(NamedTuple):
    """An item before it is digested."""

    role: str
    frame: Json
    frame_key: Json
    pieces: list[Piece]


class Param(NamedTuple):
    """A parameter that changes the prompt, and where in the render order it does."""

    path: str
    tier: Tier
    default: bytes | None = None
    """Meaning form of the value that an absent field has."""
    harmless: str | None = None
    """A value that is an object of this type leaves the prompt alone too."""


Position = tuple[str | int, ...]
"""Where in an item a marker may stand: () is the item itself, ("content", 0) its first block."""


class Dialect(Protocol):
    """One request format."""

    name: str
    history: str
    """Field of the message list."""
    system: str
    """Field of the system prompt in front of it; empty if it stands in the message list."""
    tools: str
    params: tuple[Param, ...]
    routes: tuple[str, ...]
    salts: tuple[str, ...]
    """Those of the routes that keep caches apart on purpose."""
    results_stand_alone: bool
    """Whether a result is an element of its own, so that results that follow each other are one run."""
    call_id_path: str
    result_id_path: str
    arguments_path: str
    """Where in a part the id of a call, the id that a result answers, and the arguments of a call stand."""
    marks_tools: bool
    """Whether a cache marker may stand on tools and calls, and not on texts and media alone."""
    text_part: str
    """Type of a text in a list of content."""
    own_fields: frozenset[str]
    """Fields of an element that are the client's to set or leave out, and no part of the prompt."""
    seals: frozenset[str]
    """Fields by which a provider knows its model's own thinking again."""

    def describe(self, tier: Tier, value: Json) -> Described:
        """Take one element apart."""
        ...

    def is_leading_system(self, value_role: str) -> bool:
        """Whether a message of this role at the front of the list belongs to the system tier."""
        ...

    def rename(self, value: Json, ids: Mapping[str, str]) -> Json:
        """The element with call ids replaced."""
        ...

    def as_element(self, text: str) -> Json:
        """A text that stood alone in its field, as an element of a list there."""
        ...

    def as_text(self, value: Json) -> str | None:
        """The reverse of ``as_element``; None if the element says more than a text can."""
        ...

    def without_thinking(self, value: Json) -> Json | None:
        """A model's answer without its reasoning; None if it is nothing else."""
        ...

    def allowing(self, choice: Json, tools: Sequence[Json]) -> Json | None:
        """A tool_choice that lets the model call only these of the tools declared; None if there is none like it."""
        ...

    def with_tail(self, value: Json, text: str) -> list[Json]:
        """The last element of a request with text appended for the model: one element, or two."""
        ...


def marked_places(value: Json) -> list[tuple[Position, dict[str, Json]]]:
    """Every object of an element at which a marker may stand: itself, its content, and the content of a tool result."""
    if not isinstance(value, dict):
        return []
    content = value.get("content")
    found: list[tuple[Position, dict[str, Json]]] = [((), value)]
    for i, block in enumerate(content if isinstance(content, list) else ()):
        found.extend((("content", i, *inner), place) for inner, place in marked_places(block))
    return found


def is_marked(value: Json) -> bool:
    """Whether an element carries a marker."""
    return any(not MARKERS.isdisjoint(block) for _, block in marked_places(value))


def unmark(value: Json) -> None:
    """Take every marker off an element, in place."""
    for _, block in marked_places(value):
        for name in MARKERS & block.keys():
            del block[name]


def suffix_of(position: Position) -> str:
    """Suffix of the part of an element in which a marker stands; empty for the element itself."""
    return f".content[{position[1]}]" if position else ""


def put_marks(value: Json, suffix: str, marks: Mapping[str, Json], text_part: str) -> Json:
    """An element with markers on the part at this suffix; a text that stands alone becomes a list of one for them."""
    if isinstance(value, str):
        return [{"type": text_part, "text": value, **marks}]
    if suffix == ".content" and isinstance(value["content"], str):
        value["content"] = [{"type": text_part, "text": value["content"]}]
    in_list = suffix.startswith(".content") and isinstance(value["content"], list)
    (value["content"][int(suffix[9:-1] or 0)] if in_list else value).update(marks)
    return value


def word(value: Json) -> str:
    """A name or type as text, whatever JSON stands in its place."""
    return value if isinstance(value, str) else "" if value is None else key_form(value).decode()


def is_narrow(choice: Json) -> bool:
    """Whether a tool_choice says by itself which tools may be called: none, one, or those allowed."""
    return choice == "none" or isinstance(choice, dict)


def is_empty(value: Json) -> bool:
    """Null and empty containers say the same as an absent field."""
    return value is None or value == [] or value == {}


def without_markers(value: Mapping[str, Json]) -> dict[str, Json]:
    """An object without the marker fields."""
    return {k: v for k, v in value.items() if k not in MARKERS}


def in_order(value: Mapping[str, Json]) -> dict[str, Json]:
    """An object of the protocol in one key order: providers parse it into a record, so its order is never seen."""
    return {k: value[k] for k in sorted(value) if k not in MARKERS}


def said(value: Mapping[str, Json], *, without: tuple[str, ...] = ()) -> dict[str, Json]:
    """The fields of an object that say something."""
    return {k: v for k, v in value.items() if k not in MARKERS and k not in without and not is_empty(v)}


def text_meaning(text: Json) -> Json:
    """A text without the white space at its edges."""
    return text.strip() if isinstance(text, str) else text


def system_meaning(text: Json) -> Json:
    """A system text: a client's billing block without its per-request token."""
    if isinstance(text, str) and billing_token(text) is not None:
        return mask_billing(text)
    return text_meaning(text)


def result_meaning(text: Json) -> Json:
    """The text of a tool result: by value if it is JSON, else as any text."""
    if not isinstance(text, str):
        return text
    form = json_text(text)
    return text.strip() if form is None else {"json": Raw(form)}


def arguments_meaning(arguments: Json) -> Json:
    """An argument string by value if it is JSON, else as written."""
    if isinstance(arguments, str) and (form := json_text(arguments)) is not None:
        return Raw(form)
    return arguments


def whole(role: str, value: Json, suffix: str = "") -> Described:
    """Something we do not know, taken as one part."""
    clean = without_markers(value) if isinstance(value, dict) else value
    return Described(role, None, None, [Piece(suffix, Kind.OTHER, clean, clean)])


def text_piece(suffix: str, text: Json, meaning: Callable[[Json], Json] = text_meaning, **rest: Json) -> Piece:
    """A plain text."""
    return Piece(suffix, Kind.TEXT, {"text": meaning(text), **rest}, {"text": text, **rest})
