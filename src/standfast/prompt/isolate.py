"""The policy ``isolate``: volatile system text is frozen, its news told at the tail.

The system prompt goes out as it first went out. What changed in it since is appended to the newest turn, once per
change, and stays there when that turn becomes history: the ledger replays it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from standfast.prompt import canonical, drift, offered, volatile
from standfast.prompt.dialects.base import MARKERS, Dialect
from standfast.prompt.hunks import Hunk, hunks
from standfast.prompt.items import Items
from standfast.prompt.mended import Mended
from standfast.prompt.model import SYSTEM_ROLES, Item, Sent, Tier, Unit
from standfast.prompt.quoted import shown
from standfast.prompt.request import Request

Place = tuple[Sequence[Item], Sequence[Item]]
"""System items as they were sent, and what the client has in their place now."""
MOVABLE = frozenset({"S1", "S2", "S3", "S4"})
_GAP, _TAG, _CLOSE = "\n\n", "<system-update>\n", "\n</system-update>"
_HINT = b"<system-update>"
_SAME = "The system prompt applies again exactly as written."
_SAYS = "The system prompt applies as written, except that it "
_NOW, _GONE = "now says", "no longer says"
_FIELDS = frozenset({"type", "role", "content", "text"})
_LABEL = re.compile(r"[^\d:=]{1,60}[:=]")


def can_be_told(places: Sequence[Place], now: Sequence[Item]) -> bool:
    """Whether news can tell all that is another in these places, if what was sent goes out again.

    ``now``: all that the system prompt says now; what is gone must stand nowhere in it.
    """
    lines = {line for item in now for line in drift.text_of(item).splitlines()}
    return all(_is_text(*place) and _is_clear(*_texts(place), lines) for place in places)


def _is_text(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether items differ in their text only."""
    if len(old) == len(new) and all(same_but_text(a, b) for a, b in zip(old, new, strict=True)):
        return True
    return all(_is_plain(canonical.decode(item.wire)) for item in (*old, *new))


def _texts(place: Place) -> tuple[str, str]:
    before, after = ("\n".join(map(drift.text_of, items)) for items in place)
    return before, after


def _is_clear(before: str, after: str, lines: Collection[str]) -> bool:
    """Whether lines differ, not too many, none of them in code, and none is gone that still stands elsewhere."""
    found = hunks(before, after)
    gone = {line for hunk in found or () for line in _not_replaced(hunk) if line.strip()}
    return bool(found) and gone.isdisjoint(lines) and not is_shown(before, after)


def _is_plain(value: canonical.Json) -> bool:
    """Whether a system item says nothing beside its text."""
    if isinstance(value, dict):
        return value.keys() <= _FIELDS | MARKERS and _is_plain(value.get("content", value.get("text")))
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, str)


def same_but_text(before: Item, after: Item) -> bool:
    """Whether two system items differ in their text only."""
    return _without_text(canonical.decode(before.wire)) == _without_text(canonical.decode(after.wire))


def is_shown(before: str, after: str) -> bool:
    """Whether code or an example is another now: what stands there is no news."""
    start, end, end_after = volatile.changed_span(before, after)
    code, other = shown(before, (start, end)), shown(after, (start, end_after))
    return code != other


def _without_text(value: canonical.Json) -> bytes:
    """All that a system item says beside its text."""

    def rest(value: canonical.Json) -> canonical.Json:
        if isinstance(value, dict):
            return {k: rest(v) if k in ("text", "content") else v for k, v in value.items() if k not in MARKERS}
        return [rest(v) for v in value] if isinstance(value, list) else None

    return canonical.meaning_form(rest(value))


def news(places: Sequence[Place]) -> str:
    """What a reader of the old system items must be told: lines that are new, and lines that nothing stands for."""
    now: list[str] = []
    gone: list[str] = []
    for before, after in map(_texts, places):
        for hunk in hunks(before, after) or ():
            now += [*_lead(hunk, before, after), *hunk.new]
            gone += _not_replaced(hunk)
    told = "\nand ".join(f"{verb}:\n{text}" for verb, text in ((_NOW, _written(now)), (_GONE, _written(gone))) if text)
    return f"{_SAYS}{told}" if told else ""


def _written(lines: Sequence[str]) -> str:
    return "\n".join(line for line in lines if line.strip())


def _lead(hunk: Hunk, before: str, after: str) -> list[str]:
    """The line in front of those that changed, where their own words do not tell which of several they are."""
    inside = "\n".join(hunk.old)
    if all(before.count(name) == inside.count(name) for name in map(_words, filter(str.strip, hunk.new))):
        return []
    return [line for line in after.splitlines()[: hunk.line] if line.strip()][-1:]


def _not_replaced(hunk: Hunk) -> Iterator[str]:
    """Old lines of which no new one says what became of them: it has their label, or their other words."""
    left = Counter(map(_words, hunk.new))
    for line in hunk.old:
        name = _words(line)
        if name != line and left[name]:
            left[name] -= 1
        else:
            yield line


def _words(line: str) -> str:
    """What stays of a line when its value changes: its label, or its words; all of it if neither is known."""
    if label := _LABEL.match(line):
        return label[0]
    words = volatile.skeleton(line[: volatile.LONGEST_LINE])
    return words if "\0" in words and any(c.isalpha() for c in words) else line


def tell(request: Request, items: Items, mended: Mended) -> None:
    """Tell the model the news in the newest unit, unless that is what it was told last.

    Not in the model's own words: where it goes on with those, the news stands in front of them.
    """
    place = next((i for i in range(len(mended.sent) - 1, -1, -1) if _takes_news(mended.sent[i])), None)
    if place is None:
        return
    said = "\n".join(filter(None, (mended.news, _news_of_history(request, items, mended))))
    text = f"{_TAG}{said or _SAME}{_CLOSE}"
    old = (item for sent in reversed(mended.sent) if sent.ours for item in reversed(sent.items))
    told = next((item.wire for item in old if bare(request.dialect, item, items) is not item), None)
    if _ends_on(told, text) if told else not said:
        return
    unit, dialect = mended.sent[place], request.dialect
    at = max(n for n, item in enumerate(unit.items) if not offered.is_change(item))
    elements = dialect.with_tail(canonical.decode(unit.items[at].wire), text)
    tail = (items.get(dialect, Tier.MESSAGES, canonical.key_form(element)) for element in elements)
    mended.sent[place] = Sent((*unit.items[:at], *tail, *unit.items[at + 1 :]), unit.links, ours=True)


def tells(sent: Sent) -> bool:
    """Whether a unit as sent ends on an update."""
    return any(_HINT in item.wire for item in sent.items)


def bare(dialect: Dialect, item: Item, items: Items) -> Item | None:
    """An item of ours without the updates that were told at its end: the very item if there are none, None if it is
    nothing else."""
    if _HINT not in item.wire:
        return item
    value = canonical.decode(item.wire)
    less = _untold(value)
    if less == value:
        return item
    return None if less is None else items.get(dialect, item.tier, canonical.key_form(less))


def _untold(value: canonical.Json) -> canonical.Json:
    """The reverse of ``with_tail``, wherever a mark has made a list of a text since."""
    match value:
        case str():
            return _front(value)
        case {"role": "tool"}:  # nothing is told inside a result
            return value
        case {"content": content}:
            less = _untold(content)
            return None if less is None else {**value, "content": less}
        case [*others, {"text": str(text)} as last]:
            less = _front(text)
            return _untold(others) if less is None else [*others, {**last, "text": less}]
    return value or None


def _front(text: str) -> str | None:
    """A text without the updates at its end; None if it is an update."""
    while text.endswith(_CLOSE):
        front, tag, _ = text.rpartition(_TAG)
        if not front:
            return None if tag else text
        if not front.endswith(_GAP):
            break
        text = front.removesuffix(_GAP)
    return text


def _news_of_history(request: Request, items: Items, mended: Mended) -> str:
    """What system messages in the midst of the history say now, that go out as they were sent."""
    held: list[Place] = []
    for unit, sent in zip(request.units, mended.sent, strict=True):
        if sent.ours and unit.items[0].role in SYSTEM_ROLES:
            said = (item for item in sent.items if not offered.is_change(item))
            meant = [old for item in said if (old := bare(request.dialect, item, items))]
            held += [((old,), unit.items) for old in meant[-1:] if old.role in SYSTEM_ROLES]
    return news(held)


def has_room(request: Request) -> bool:
    """Whether news can be told anywhere in a request."""
    return any(map(_takes_news, request.units))


def _takes_news(unit: Sent | Unit) -> bool:
    return bool(unit.items) and unit.items[-1].role != "assistant"


def _ends_on(wire: bytes, text: str) -> bool:
    """Whether the last update told in an item is this one."""
    form = canonical.key_form(text)[1:-1]
    return wire.rpartition(_HINT)[2].startswith(form.removeprefix(_HINT))
