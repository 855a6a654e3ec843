"""Text that a prompt shows and does not say: code and examples. What changes there is no news."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

Span = tuple[int, int]
"""[start, end) in a text."""

_FENCE = re.compile(r"(?m)^[ \t>]*(`{3,}|~{3,})(.*)$")
_TAG = re.compile(r"(?i)<(/?)(examples?|samples?|code|pre|script|template|schema)\b[^<>]{0,200}>")
_INDENTED = re.compile(r"(?m)^(?: {4}|\t).*(?:\n(?: {4}|\t).*)*")
_EMPTY_LINE = re.compile(r"\n[ \t]*\n\Z")
_LONGEST_EMPTY = 200
_FLUSH = re.compile(r"\n(?! {4}|\t) {0,3}\S")
_INLINE = re.compile(r"(?<!`)(?:`[^`\n]{1,400}`|``(?!`)(?:[^`\n]|`(?!`)){1,400}``)(?!`)")
_CUE = re.compile(
    r"(?i)(?:\b(?:examples?|e\.g\.|sample|for instance|such as|like (?:this|so)|template|schema|format|"
    r"beispiel|exemple|ejemplo|exemplo|esempio|например)(?!\w)|例|예시)[^:：<>\n]{0,60}[:：](?!\d)[ \t]*"
)
_CONTENT = re.compile(r"\S")
_BLANK = re.compile(r"\n[ \t]*(?=\n)")
_NEAR = 4_000  # characters on either side


def quoted(text: str, near: Span | None = None) -> list[Span]:
    """All that is shown in a text, in order, not overlapping; if ``near`` is given, all of it close to that place.

    >>> quoted("Log like `09:14 up`.")
    [(9, 19)]
    """
    first, last = (max(0, near[0] - _NEAR), near[1] + _NEAR) if near else (0, len(text))
    found = [span for find in _WIDE for span in find(text)]
    found += [(first + start, first + end) for find in _NARROW for start, end in find(text[first:last])]
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def touches(spans: list[Span], start: int, end: int) -> bool:
    """Whether the characters [start, end) are in part in one of the spans, which are in order."""
    last = bisect_left(spans, end, key=lambda span: span[0]) - 1
    return start < end and last >= 0 and spans[last][1] > start


def shown(text: str, near: Span | None = None) -> list[str]:
    """The code and the examples themselves."""
    return [piece for start, end in quoted(text, near) if (piece := text[start:end].strip())]


def _fenced(text: str) -> Iterator[Span]:
    """Up to the fence that closes it, or to the end."""
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opening is None:
            opening = line
        elif line[1].startswith(opening[1]) and not line[2].strip():
            yield opening.start(), line.end()
            opening = None
    if opening is not None:
        yield opening.start(), len(text)


def _tagged(text: str) -> Iterator[Span]:
    """From a tag that shows to its end; one that nothing closes shows nothing."""
    opened: dict[str, int] = {}
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if not tag[1]:
            opened.setdefault(name, tag.start())
        elif name in opened:
            yield opened.pop(name), tag.end()


def _indented(text: str) -> Iterator[Span]:
    """Lines indented by four behind an empty one, unless all of the text is indented."""
    if _FLUSH.search(text):
        for block in _INDENTED.finditer(text):
            if _EMPTY_LINE.search(text, max(0, block.start() - _LONGEST_EMPTY), block.start()):
                yield block.span()


def _inline(text: str) -> Iterator[Span]:
    return (code.span() for code in _INLINE.finditer(text))


def _examples(text: str) -> Iterator[Span]:
    """What stands behind "for example:": the rest of the line, or the paragraph below it; of JSON, all of it."""
    end = 0
    for cue in _CUE.finditer(text):
        start = cue.end()
        if start < end:
            continue
        line = text.find("\n", start)
        end = len(text) if line < 0 else line
        if start == line or text[start : start + 1] in ("{", "["):
            content = _CONTENT.search(text, start)
            blank = _BLANK.search(text, content.start()) if content else None
            end = blank.start() if blank else len(text)
        yield start, end


_Finder = Callable[[str], Iterator[Span]]
_WIDE: tuple[_Finder, ...] = (_fenced, _tagged, _indented)
_NARROW: tuple[_Finder, ...] = (_inline, _examples)
