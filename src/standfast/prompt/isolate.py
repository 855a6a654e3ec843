"""The policy ``isolate``: volatile system text is frozen, its news told at the tail.

The system prompt goes out as it first went out. What changed in it since is appended to the newest turn, once per
change, and stays there when that turn becomes history: the ledger replays it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standfast.prompt import canonical, drift, volatile
from standfast.prompt.dialects.base import MARKERS
from standfast.prompt.items import Items
from standfast.prompt.mended import Mended
from standfast.prompt.model import Item, Sent, Tier
from standfast.prompt.request import Request

_TAG = "<system-update>\n"
MOVABLE = frozenset({"S1", "S2", "S3", "S4"})
_OPEN = f"{_TAG}These lines of the system prompt have changed and now read:\n"
_HINT = b"<system-update>"
_SAME = "The system prompt applies again exactly as written."
_CLOSE = "\n</system-update>"


def can_be_told(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether the news of a system prompt tells all that is new in it, if the old one goes out again."""
    changed = [(a, b) for a, b in zip(old, new, strict=True) if drift.meaning(a) != drift.meaning(b)]
    return all(
        same_but_text(a, b) and _only_replaced(drift.text_of(a), drift.text_of(b)) and not _in_code(a, b)
        for a, b in changed
    )


def same_but_text(before: Item, after: Item) -> bool:
    """Whether two system items differ in their text only."""
    return _without_text(canonical.decode(before.wire)) == _without_text(canonical.decode(after.wire))


def _in_code(before: Item, after: Item) -> bool:
    """Whether a change lies inside a fenced block of code: what stands there is an example, not news."""
    text, other = drift.text_of(before), drift.text_of(after)
    start, _, _ = volatile.changed_span(text, other)
    return text.count("```", 0, start) % 2 == 1


def _without_text(value: canonical.Json) -> bytes:
    """All that a system item says beside its text."""

    def rest(value: canonical.Json) -> canonical.Json:
        if isinstance(value, dict):
            return {k: rest(v) if k in ("text", "content") else v for k, v in value.items() if k not in MARKERS}
        return [rest(v) for v in value] if isinstance(value, list) else None

    return canonical.meaning_form(rest(value))


def _only_replaced(before: str, after: str) -> bool:
    """Whether the new lines tell all of the change: a line that is merely gone could not be told."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total() > 0 and (old - new).total() <= (new - old).total()


def news(old: Sequence[Item], new: Sequence[Item]) -> str:
    """The lines of the new system prompt that the old one does not have."""
    known = {line for item in old for line in drift.text_of(item).splitlines()}
    return "\n".join(line for item in new for line in drift.text_of(item).splitlines() if line not in known)


def tell(request: Request, items: Items, mended: Mended) -> None:
    """Tell the model the news in the newest unit, unless that is what it was told last.

    Not in the model's own words, and not in a unit that went out before, unless it is the last again (a retry): then
    the next turn tells it.
    """
    last = len(mended.sent) - 1
    place = next((i for i in range(last, -1, -1) if _takes_news(mended.sent[i])), None)
    if place is None or place < min(mended.shared, last):
        return
    text = f"{_OPEN}{mended.news}{_CLOSE}" if mended.news else f"{_TAG}{_SAME}{_CLOSE}"
    told = next(
        (s.items[-1].wire for s in reversed(mended.sent) if s.ours and s.items and _HINT in s.items[-1].wire), None
    )
    if _ends_on(told, text) if told else not mended.news:
        return
    unit, dialect = mended.sent[place], request.dialect
    elements = dialect.with_tail(canonical.decode(unit.items[-1].wire), text)
    tail = tuple(items.get(dialect, Tier.MESSAGES, canonical.key_form(element)) for element in elements)
    mended.sent[place] = Sent((*unit.items[:-1], *tail), unit.links, ours=True)


def tells(sent: Sent) -> bool:
    """Whether a unit as sent ends on an update."""
    return any(_HINT in item.wire for item in sent.items)


def _takes_news(sent: Sent) -> bool:
    return bool(sent.items) and sent.items[-1].role != "assistant"


def _ends_on(wire: bytes, text: str) -> bool:
    """Whether the last update told in an item is this one."""
    quoted = canonical.key_form(text)[1:-1]
    return wire.rpartition(_HINT)[2].startswith(quoted.removeprefix(_HINT))
