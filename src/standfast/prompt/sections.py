"""Texts made of sections whose order among themselves has no meaning: lists, tagged blocks, parts under headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

_TAGGED = re.compile(r"<([A-Za-z][\w.-]*)\b[^>]*>.*?</\1>", re.DOTALL)
_HEADED = re.compile(r"(?m)^(?=#{1,6} )")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_ENTRY = re.compile(r"\s*(?:[-*•+][ \t]|~?/|\.{1,2}/|[A-Za-z]:\\|<|[\w.-]+[:=]|\S+$)")
_STEP = re.compile(r"\s*(?:\d+[.)]|[a-z]\)|step \d)", re.IGNORECASE)
_FOLLOWS = re.compile(r"\s*(?:\d+[.)]|then|next|first|second|finally|after|before|now|also|step)\b", re.IGNORECASE)
_LONGEST = 200_000  # characters; a longer text is compared as it is


class Order(Enum):
    """How two texts of the same pieces differ."""

    SAME = "same"
    FREE = "free"
    """Known sections stand in another order: they say the same."""
    BOUND = "bound"
    """Sentences or steps do: that may say something else."""


def compare(before: str, after: str) -> Order | None:
    """Whether one text is a permutation of the other's sections; None if it says anything else.

    >>> compare("Paths:\\n- a\\n- b", "Paths:\\n- b\\n- a")
    <Order.FREE: 'free'>
    """
    if before == after:
        return Order.SAME
    if len(before) != len(after) or len(before) > _LONGEST or sorted(before) != sorted(after):
        return None
    for split in (_tagged, _headed):
        if _permuted(split(before), split(after)):
            return Order.FREE
    if (found := _paragraphs(before, after)) is not None:
        return found
    if _permuted(before.splitlines(), after.splitlines()):
        return Order.FREE if _is_list(before.splitlines(), after.splitlines()) else Order.BOUND
    return None


def _paragraphs(before: str, after: str) -> Order | None:
    """Paragraphs are sections too, unless one says that it follows another."""
    paragraphs = _PARAGRAPH.split(before)
    if _permuted(paragraphs, _PARAGRAPH.split(after)):
        return Order.BOUND if any(_FOLLOWS.match(text) for text in paragraphs) else Order.FREE
    return None


def permutation(before: Sequence[bytes], after: Sequence[bytes]) -> bool:
    """Whether two rows hold the same pieces in another order."""
    return _permuted(before, after)


def _permuted(before: Sequence[str] | Sequence[bytes], after: Sequence[str] | Sequence[bytes]) -> bool:
    return len(before) > 1 and before != after and sorted(map(_edge, before)) == sorted(map(_edge, after))


def _edge(piece: str | bytes) -> str | bytes:
    """The last section of a text has no line break behind it."""
    return piece.strip()


def _tagged(text: str) -> list[str]:
    """Tagged blocks, and what stands around them as one piece (so that it must be the same)."""
    blocks = [match[0] for match in _TAGGED.finditer(text)]
    rest = re.sub(r"\s+", " ", _TAGGED.sub("", text))
    return [*blocks, rest] if len(blocks) > 1 else []


def _headed(text: str) -> list[str]:
    opening, *sections = _HEADED.split(text)
    return [opening, *sections] if len(sections) > 1 else []


def _is_list(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether all lines that moved are entries of a list whose order says nothing."""
    moved = [line for line, other in zip(before, after, strict=True) if line != other and line.strip()]
    return all(_ENTRY.match(line) and not _STEP.match(line) for line in moved)
