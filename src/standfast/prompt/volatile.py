"""Text that changes by itself: clocks, request ids, counters, places. ``patterns`` has the tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import AnyStr

from standfast.prompt.hunks import Hunk, edges, hunks, one_by_one
from standfast.prompt.patterns import HINTS, PATTERNS

BILLING_PREFIX = "x-anthropic-billing-header:"
"""How the text of a client's per-request billing block begins, in any case."""
BILLING_TOKEN = re.compile(r"\bcch=([0-9A-Za-z]+)")
"""The token in it that changes with each request."""
_BILLING_LINE = re.compile(rf"\A\s*{BILLING_PREFIX}.*", re.IGNORECASE)
TOKEN_HINT = b"cch="
_BEFORE = rb"(?:\b|(?<=\\[bfnrt]))"  # in JSON a line break before it reads as the letter n
_ANY_TOKEN = re.compile(_BEFORE + rb"cch=[0-9A-Za-z]+")

_HEADING_WITHIN = 40  # lines
_DEEPER_THAN_ANY = 7
_TAG = re.compile(r"<(/?)([\w.:-]*)")
_SAYS_NOTHING = re.compile(r"\s*(?:<[^<>]*>\s*)?")
_LABEL = re.compile(r"([^:=]{1,60})[:=]")
LONGEST_LINE = 1_000
"""Characters of a line that are looked at."""
_NEAR = 400  # characters on either side of a change that say where it is
_MOST_HUNKS = 12  # changes of one text that are named one by one
_SURROUNDINGS = 120  # characters on either side of a change; no pattern is longer by much
_LONGEST_CHANGE = 8_000  # characters of changed lines, before and after together
_LONGEST_INSERTION, _MOST_LINES_INSERTED = 400, 3


@dataclass(frozen=True, slots=True)
class Volatile:
    """A volatile span [start, end) of a text."""

    start: int
    end: int
    cause: str


def find(text: str) -> list[Volatile]:
    """All volatile spans, in order, not overlapping; where two patterns meet the earlier, then the longer wins."""
    found = [
        Volatile(match.start(), match.end(), pattern.cause)
        for pattern in PATTERNS
        for match in pattern.regex.finditer(text)
        if match.end() > match.start()
    ]
    found.sort(key=lambda span: (span.start, -span.end))
    kept: list[Volatile] = []
    for span in found:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def skeleton(text: str) -> str:
    """The text with every volatile span taken out: equal skeletons differ in volatile text only."""
    pieces, position = [], 0
    for span in find(text):
        pieces.append(text[position : span.start])
        position = span.end
    pieces.append(text[position:])
    return "\0".join(pieces)


def looks_volatile(before: str, after: str) -> bool:
    """Whether two texts differ, and in volatile spans only."""
    pairs = _changed_lines(before, after)
    return bool(pairs) and all(skeleton(old) == skeleton(new) for old, new in pairs)


def _changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    """The lines that differ, cut to the surroundings of the change; none if lines came or went, or if it is long.

    Patterns are tried on these alone: what they cost depends on the change, not on the length of the prompt.
    """
    old, new = before.splitlines(), after.splitlines()
    if len(old) != len(new):
        return []
    pairs = [_around(a, b) for a, b in zip(old, new, strict=True) if a != b]
    return pairs if sum(len(a) + len(b) for a, b in pairs) <= _LONGEST_CHANGE else []


def place_of_change(before: str, after: str) -> tuple[str, str]:
    """What stands around the lines that changed, and these lines as they are now, both without volatile spans.

    ("", "") where what changed is most of the text, so that there is no place that one could know again.
    """
    start, end, end_after = changed_span(before, after)
    first = after.rfind("\n", 0, start) + 1
    last = after.find("\n", end_after)
    last = len(after) if last < 0 else last
    around = f"{after[max(0, first - _NEAR) : first]}\0{after[last : last + _NEAR]}"
    lines = after[first:last]
    if not lines or max(len(lines), end - start) > len(around):
        return "", ""
    return skeleton(around), skeleton(lines)


def _around(before: str, after: str) -> tuple[str, str]:
    start, end_before, end_after = changed_span(before, after)
    first = max(0, start - _SURROUNDINGS)
    return before[first : end_before + _SURROUNDINGS], after[first : end_after + _SURROUNDINGS]


def changed_span(before: str, after: str) -> tuple[int, int, int]:
    """(start, end of the change in before, end of it in after): what lies between the common head and tail."""
    limit = min(len(before), len(after))
    start = common_prefix(before, after)
    tail = common_prefix(before[start:][::-1], after[start:][::-1]) if start < limit else 0
    return start, len(before) - tail, len(after) - tail


def common_prefix(left: AnyStr, right: AnyStr) -> int:
    """Length of the common head of two texts, by bisection over comparisons at memory speed."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def cause_of_change(before: str, after: str) -> str | None:
    """The class of the volatile text that covers all of a change, or None if something else changed.

    Judged on the text after the change: every character that changed must lie in a volatile span, and the spans'
    surroundings must be equal. Where it holds, the first changed span names the class.
    """
    if looks_volatile(before, after):
        return next((cause for pair in _changed_lines(before, after) if (cause := _first_changed(*pair))), None)
    start, end_before, end_after = changed_span(before, after)
    inserted = None
    if end_before == start or end_after == start:
        longer, end = (after, end_after) if end_after > start else (before, end_before)
        inserted = _cause_of_insertion(longer, start, end)
    return inserted or _cause_by_hint(before, after)


def causes_of_changes(before: str, after: str) -> list[tuple[str | None, str, str]]:
    """The causes of all that differs: each with the text before, as far as only this differs, and the text after.

    One for the whole where one explains it; else one for each place, the same cause once.
    """
    whole = cause_of_change(before, after), before, after
    found = hunks(before, after) if whole[0] is None else None
    if not found or len(found) > _MOST_HUNKS:
        return [whole]
    each: dict[str | None, tuple[str | None, str, str]] = {}
    now = "\n".join(after.splitlines())
    for hunk, text in zip(found, one_by_one(after, found), strict=True):
        for cause in _causes_of_hunk(hunk, text, now):
            each.setdefault(cause, (cause, text, now))
    return list(each.values()) if len(each) > 1 or None not in each else [whole]


def _causes_of_hunk(hunk: Hunk, before: str, after: str) -> list[str | None]:
    """The cause of one change; two where something volatile went and something else of that kind stands there now."""
    cause = cause_of_change(before, after)
    if cause or not (hunk.old and hunk.new) or sum(map(len, hunk.old + hunk.new)) > _LONGEST_CHANGE:
        return [cause]
    lines = after.splitlines()
    neither = "\n".join([*lines[: hunk.line], *lines[hunk.line + len(hunk.new) :]])
    both = [cause_of_change(before, neither), cause_of_change(neither, after)]
    return [None] if None in both else both


def _first_changed(before: str, after: str) -> str | None:
    left = [(before[s.start : s.end], s.cause) for s in find(before)]
    right = [(after[s.start : s.end], s.cause) for s in find(after)]
    return next((b[1] for a, b in zip(left, right, strict=False) if a != b), None)


def _cause_of_insertion(text: str, start: int, end: int) -> str | None:
    """A line that came or went: volatile if it holds a volatile span and little else."""
    if end - start > _LONGEST_INSERTION or text.count("\n", start, end) > _MOST_LINES_INSERTED:
        return None
    first = max(0, start - _SURROUNDINGS)
    spans = find(text[first : end + _SURROUNDINGS])
    inside = [s for s in spans if s.start < end - first and s.end > start - first]
    if not inside:
        return None
    return inside[0].cause


def _cause_by_hint(before: str, after: str) -> str | None:
    """What the changed lines, or the headings above them, speak of; None if they do not all speak of one thing.

    Of a section that came or went whole the first thing, if each of its lines speaks of one.
    """
    old, new = before.splitlines(), after.splitlines()
    head, tail = edges(old, new)
    places = ((lines, i) for lines in (old, new) for i in range(head, len(lines) - tail))
    causes = [_hint(lines, i, head) for lines, i in places if not _SAYS_NOTHING.fullmatch(lines[i])]
    is_whole = head + tail in (len(old), len(new)) and None not in causes
    return causes[0] if causes and (is_whole or len({*causes}) == 1) else None


def _hint(lines: Sequence[str], index: int, first: int) -> str | None:
    """What a line speaks of, or the nearest heading above it that speaks of anything.

    A name ("Open files:") reaches to the next empty line; a heading and a tag also over one right below them, and over
    those that changed too, from index ``first`` on.
    """
    is_near, level, closed = True, _DEEPER_THAN_ANY, set[str]()
    for i in range(index, max(-1, index - _HEADING_WITHIN), -1):
        line = lines[i].strip()
        tag = _TAG.match(line)
        depth = len(line) - len(line.lstrip("#"))
        if not line:
            above = next((text for text in map(str.strip, lines[i::-1]) if text), "")
            is_near = is_near and above.startswith(("#", "<"))
            if not is_near and i < first:
                break
        elif i < index and tag and (tag[1] or tag[2] in closed):
            closed ^= {tag[2]}
        elif i < index and (depth >= level if depth else not (tag or (is_near and line.endswith(":")))):
            continue
        elif cause := _spoken_of(line[:LONGEST_LINE]):
            return cause
        elif depth:
            level = depth
    return None


def _spoken_of(line: str) -> str | None:
    """What a line is about: by what stands in front of its colon, if anything does, else by all of it."""
    label = _LABEL.match(line)
    for text in (label[1], line) if label else (line,):
        if cause := next((cause for cause, regex in HINTS if regex.search(text)), None):
            return cause
    return None


def billing_token(text: str) -> str | None:
    """The per-request token of a billing block; None if the text is no such block."""
    if not _BILLING_LINE.match(text):
        return None
    match = BILLING_TOKEN.search(text)
    return match[1] if match else ""


def mask_token(plain: bytes, token: str) -> bytes:
    """A meaning form with each occurrence of this request's own token blanked."""
    if not token:
        return plain
    return re.sub(_BEFORE + rb"cch=" + re.escape(token.encode()) + rb"(?![0-9A-Za-z])", b"cch=*", plain)


def mask_any_token(plain: bytes) -> bytes:
    """A meaning form with whatever stands behind ``cch=`` blanked."""
    return _ANY_TOKEN.sub(b"cch=*", plain)


def mask_billing(text: str) -> str:
    """A system text without what its billing line says: all of that is about the request, not to the model."""
    return _BILLING_LINE.sub(f"{BILLING_PREFIX}*", text)
