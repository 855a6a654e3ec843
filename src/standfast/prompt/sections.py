"""Texts made of sections whose order among themselves has no meaning: lists, tagged blocks, parts under headings.

A text is split into pieces. Those of a *kind* may stand in any order among their neighbours of the same kind; a piece
without a kind (a heading, the name of a list) stays where it is, and nothing moves past it: what is allowed and what
is forbidden may be lists of the same entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import groupby

from standfast.prompt.quoted import Span, quoted, shown, touches
from standfast.prompt.volatile import changed_span

_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]{0,80})(?:\s[^<>]{0,400})?>")
_HEADING = re.compile(r"(?m)^(#{1,6}) ")
_GAP = re.compile(r"\n[ \t]*\n")
_ENTRIES = {
    "bullet": re.compile(r"\s*[-*•+][ \t]"),
    "path": re.compile(r"\s*(?:~?/|\.{1,2}/|[A-Za-z]:\\)"),
    "tag": re.compile(r"\s*<[^<>]+>(?:.*</[^<>]+>)?\s*$"),
    "pair": re.compile(r"\s*[\w.-]+(?::[ \t]+|=)\S"),
    "word": re.compile(r"\s*\S*[^\s:]\s*$"),
}
_INDENT = re.compile(r"[ \t]*")
_FOLLOWS = re.compile(
    r"(?i)[\s#>*•+-]*(?:<\W*)?(?:\d+[.):]|[a-z]\)|"
    r"(?:step|phase|part|stage|then|next|first|second|third|last|finally|after|before|now|also|otherwise|else|however|"
    r"but|and|or|so|thus|therefore|it|this|that|these|those|they|he|she|above|below|again)(?:\b|_|\d))"
)
_IN_ORDER = re.compile(r"(?i)\b(?:order|steps?|sequence|priorit\w+|precedence|procedure|workflow|rank\w*|then)\b")
_LONGEST = 200_000  # characters; a longer text is compared as it is

Piece = tuple[str, str]
"""Kind, or "" for what stays where it is; and text."""
Split = Callable[[str, list[Span]], list[Piece]]
"""Takes a text and what of it is code."""


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
    >>> compare("May:\\n- a\\nMust not:\\n- b", "May:\\n- b\\nMust not:\\n- a")
    <Order.BOUND: 'bound'>
    """
    if before == after:
        return Order.SAME
    start, end, end_after = changed_span(before, after)
    if (
        len(before) != len(after)
        or sorted(before[start:end]) != sorted(after[start:end_after])
        or len(before) > _LONGEST
    ):
        return None
    near, near_after = (start, end), (start, end_after)
    if sorted(shown(before, near)) == sorted(shown(after, near_after)):  # code may move, and nothing inside it
        code, other = quoted(before, near), quoted(after, near_after)
        for split in _SPLITS:
            if (order := _moved(split(before, code), split(after, other))) is not None:
                return order
    lines, others = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
    return Order.BOUND if _permuted(lines, others) else None


def permutation(before: Sequence[bytes], after: Sequence[bytes]) -> bool:
    """Whether two rows hold the same pieces in another order."""
    return _permuted(before, after)


def follows(text: str) -> bool:
    """Whether a section says that it stands behind or in front of another: a step, a "then", the name of a list."""
    return _FOLLOWS.match(text) is not None or text.rstrip().endswith((":", "："))


def _permuted(before: Sequence[str] | Sequence[bytes], after: Sequence[str] | Sequence[bytes]) -> bool:
    return len(before) > 1 and before != after and sorted(map(_edge, before)) == sorted(map(_edge, after))


def _edge(piece: str | bytes) -> str | bytes:
    """The last section of a text has no line break behind it."""
    return piece.strip()


def _moved(before: Sequence[Piece], after: Sequence[Piece]) -> Order | None:
    """How neighbours of a kind stand now; None if anything else is not where it was."""
    if [kind for kind, _ in before] != [kind for kind, _ in after]:
        return None
    at, lead, order = 0, "", None
    for kind, row in groupby(before, key=lambda piece: piece[0]):
        old = [text for _, text in row]
        new = [text for _, text in after[at : at + len(old)]]
        at += len(old)
        if kind and _permuted(old, new):
            bound = _is_ordered(lead) or any(
                follows(a) for a, b in zip(old, new, strict=True) if a.strip() != b.strip()
            )
            order = Order.BOUND if bound or order is Order.BOUND else Order.FREE
        elif [text.strip() for text in old] != [text.strip() for text in new]:
            return None
        lead = old[-1]
    return order


def _is_ordered(lead: str) -> bool:
    """Whether what stands in front of a list says that its order counts."""
    return _IN_ORDER.search(lead.rstrip().rpartition("\n")[2][-200:]) is not None


def _headed(level: int) -> Split:
    """Parts under headings of one level; a heading above it stays where it is."""

    def split(text: str, code: list[Span]) -> list[Piece]:
        cuts = [
            (heading.start(), str(level) if len(heading[1]) == level else "")
            for heading in _HEADING.finditer(text)
            if len(heading[1]) <= level and not touches(code, *heading.span())
        ]
        ends = [start for start, _ in cuts[1:]] + [len(text)]
        opening = text[: cuts[0][0]] if cuts else text
        return [("", opening), *((kind, text[start:end]) for (start, kind), end in zip(cuts, ends, strict=False))]

    return split


def _tagged(depth: int) -> Split:
    """Tagged blocks inside ``depth`` others, and what stands between them unless it is white space."""

    def split(text: str, code: list[Span]) -> list[Piece]:
        pieces, end = [], 0
        for start, stop in [*_blocks(text, depth), (len(text), len(text))]:
            if text[end:start].strip():
                pieces.append(("", text[end:start]))
            pieces.append(("block", text[start:stop]))
            end = stop
        return pieces[:-1]

    return split


def _blocks(text: str, depth: int) -> Iterator[tuple[int, int]]:
    """[start, end) of the blocks of one depth; a tag that nothing closes is none."""
    pairs, opened = [], dict[str, list[int]]()
    for tag in _TAG.finditer(text):
        starts = opened.setdefault(tag[2], [])
        if not tag[1]:
            starts.append(tag.start())
        elif starts:
            pairs.append((starts.pop(), tag.end()))
    around: list[int] = []
    for start, end in sorted(pairs):
        while around and around[-1] <= start:
            around.pop()
        if len(around) == depth:
            yield start, end
        around.append(end)


def _paragraphs(text: str, code: list[Span]) -> list[Piece]:
    """Paragraphs are sections too, but for the name of what stands below, and for what stands below a heading."""
    found = [paragraph.strip() for paragraph in _GAP.split(text)]
    headed = sum(_HEADING.match(p) is not None for p in found)
    is_mixed = headed > 0 and len(found) - headed > 1
    return [("" if _names(p) or (is_mixed and not _HEADING.match(p)) else "text", p) for p in found]


def _names(paragraph: str) -> bool:
    """Whether a paragraph is the name of what stands below it."""
    return paragraph.endswith((":", "：")) or (_HEADING.match(paragraph) is not None and "\n" not in paragraph)


def _list_entries(text: str, code: list[Span]) -> list[Piece]:
    """Lines that are entries of a list, each with the lines that are indented further."""
    pieces: list[Piece] = []
    indent = ""
    for line in text.splitlines():
        space = _INDENT.match(line)
        own = space[0] if space else ""
        if pieces and pieces[-1][0] and line.strip() and len(own) > len(indent):
            pieces[-1] = (pieces[-1][0], f"{pieces[-1][1]}\n{line}")
            continue
        indent = own
        kind = next((name for name, entry in _ENTRIES.items() if entry.match(line)), "")
        pieces.append((kind and f"{kind}{own}", line))
    return pieces


_SPLITS: tuple[Split, ...] = (*map(_tagged, (0, 1)), *map(_headed, range(1, 5)), _paragraphs, _list_entries)
