"""A difference between a request and what was sent before, and the texts it is read from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from standfast.prompt import canonical
from standfast.prompt.canonical import Json
from standfast.prompt.causes import CAUSES, Repair
from standfast.prompt.fingerprint import meanings
from standfast.prompt.model import Item, Tier

_MOST = 0.6  # of the texts of a history
_SPEAKERS = re.compile(r"(?im)^\W{0,4}(?:user|human|customer)\W{0,3}(?::|$)")
_QUOTE = 6  # characters that make a text worth looking for in another


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between a request and what was sent before."""

    cause: str
    path: str
    tier: Tier
    before: bytes
    """The piece as it was sent."""
    after: bytes
    """The piece as it came."""
    repaired: bool = False
    at_most: Repair | None = None
    """What can be done about this one, where that is less than the table says of its cause."""
    why: str = ""
    """Why this one cannot be mended by what mends others of its cause; empty if it can."""
    lost: int = 0
    """Tokens that this one costs if all before it in render order were mended (estimated)."""

    @property
    def repair(self) -> Repair:
        return self.at_most or CAUSES[self.cause].repair

    @property
    def remedy(self) -> str:
        """What Standfast does about it, or what to change, in one sentence."""
        remedy = CAUSES[self.cause].remedy
        return f"{remedy[:-1]}; not here, for {self.why}." if self.why and not self.repaired else remedy


def meaning(item: Item) -> bytes:
    """The whole meaning of one item, its call ids aside."""
    return meanings([item])


def keys(items: Iterable[Item]) -> list[bytes]:
    """What a cache knows items by."""
    return [item.key for item in items]


def text_of(item: Item) -> str:
    """The plain text of an item."""
    return "\n".join(texts_of(item))


def texts_of(item: Item) -> list[str]:
    """The plain texts in an item."""
    return list(_texts(canonical.decode(item.wire)))


def _texts(value: Json) -> Iterable[str]:
    match value:
        case str():
            yield value
        case {"text": str(text)}:
            yield text
        case {"content": inner} | {"output": inner}:
            yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


def first_difference(before: Json, after: Json) -> tuple[str, Json, Json]:
    """Where two JSON values first differ, the order of keys included: the path there, and both values at it."""
    if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
        for name, left in before.items():
            if not _identical(left, after[name]):
                return _under(f".{name}", first_difference(left, after[name]))
    if isinstance(before, list) and isinstance(after, list):
        for i, (left, right) in enumerate(zip(before, after, strict=False)):
            if not _identical(left, right):
                return _under(f"[{i}]", first_difference(left, right))
    return "", before, after


def _under(name: str, found: tuple[str, Json, Json]) -> tuple[str, Json, Json]:
    return name + found[0], found[1], found[2]


def _identical(left: Json, right: Json) -> bool:
    return canonical.key_form(left) == canonical.key_form(right)


def quotes(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether a request carries most of the words of another's history, in its own messages or inside a text (X1)."""
    told = "\n".join(text_of(item) for item in after)
    words = [text for item in before if len(text := text_of(item).strip()) >= _QUOTE]
    quoted = sum(text in told for text in words)
    return quoted > _MOST * len(words) or (quoted > 1 and _SPEAKERS.search(told) is not None)
