"""What the client changed in an old turn, and whether it may go out as it was sent all the same.

What providers make of thinking (https://platform.claude.com/docs, extended thinking): signed blocks of earlier turns
may always be sent back. Models from Opus 4.5 and Sonnet 4.6 on keep them in the prompt, so leaving them out breaks the
cache; older ones strip them themselves. A signature holds for the model that gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from standfast.policy import Leave, Policy
from standfast.prompt import isolate, naming
from standfast.prompt.canonical import Json
from standfast.prompt.drift import texts_of
from standfast.prompt.media import Pictures
from standfast.prompt.model import Item, Kind, Part
from standfast.prompt.naming import Change, value_at

_JOINTS = ("", "\n", "\n\n", " ")
_SLACK = 400  # bytes of frames and joints by which two messages may differ in size from one that says both


@dataclass(slots=True)
class Means:
    """What may be done to put back what changed in one request."""

    leave: Leave
    holds: bool
    """Whether pruned turns may be held back."""
    thinks_alike: bool
    """Whether model and thinking parameters are what they were, so that signed thinking is read."""
    seals: frozenset[str]
    pictures: Pictures = field(default_factory=Pictures)

    def mends(self, found: Sequence[Change], before: Item, after: Item, moved: Collection[bytes]) -> bool:
        """Whether all changes of an item may be undone by sending it as it was sent."""
        return all(c.cause in _WAYS and _WAYS[c.cause](self, c, before, after, moved) for c in found)

    def is_sealed(self, item: Item, part: Part) -> bool:
        """Whether a thought is known to be the model's own: signed, or in a field that took it as it is before."""
        value = value_at(item, part.suffix)
        if isinstance(value, str):
            return True
        blocks: Sequence[Json] = value if isinstance(value, list) else [value]
        return bool(blocks) and all(isinstance(b, dict) and any(b.get(name) for name in self.seals) for b in blocks)


Way = Callable[[Means, Change, Item, Item, Collection[bytes]], bool]


def _decoration(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    return means.leave.policy is Policy.ISOLATE


def _thinking(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    return means.thinks_alike and change.before is not None and means.is_sealed(before, change.before)


def _pruned(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    return means.holds


def _picture(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    a, b = change.before, change.after
    if a is None or b is None or b.kind is not Kind.MEDIA:
        return False
    return means.pictures.same(value_at(before, a.suffix), value_at(after, b.suffix))


def _attachment(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    part = change.before or change.after
    return part is None or part.meaning in moved  # None: the same parts in another order


def _volatile(means: Means, change: Change, before: Item, after: Item, moved: Collection[bytes]) -> bool:
    return means.leave.policy is Policy.ISOLATE and isolate.can_be_told([((before,), (after,))], [after])


_WAYS: dict[str, Way] = {
    "H1": _decoration, "H6": _thinking, "H7": _pruned, "H8": _picture, "H10": _attachment,
    **dict.fromkeys(isolate.MOVABLE, _volatile),
}  # fmt: skip
OURS = frozenset({"H1", "H7"}) | isolate.MOVABLE
"""Causes whose mending shows the model something else than the client means it to see."""


def is_joined(pieces: Sequence[Item], whole: Item) -> bool:
    """Whether one message says what several said, one behind the other (H11).

    Anthropic combines consecutive messages of one role itself; whether its cache then knows them again is not told, so
    they go out in the pieces in which they went out first there too.
    """
    if any(piece.role != whole.role for piece in pieces):
        return False
    if abs(sum(piece.size for piece in pieces) - whole.size) > _SLACK:
        return False
    parts = [part for piece in pieces for part in piece.parts]
    if [part.meaning for part in parts] == [part.meaning for part in whole.parts]:
        return True
    if any(part.kind is not Kind.TEXT for part in (*parts, *whole.parts)):
        return False
    texts, both = ["\n".join(texts_of(piece)) for piece in pieces], "\n".join(texts_of(whole))
    return any(joint.join(texts).strip() == both.strip() for joint in _JOINTS)


def is_attached(item: Item) -> bool:
    """Whether a message is something attached to a conversation, and no words of the user."""
    return item.role == "user" and all(
        part.kind is Kind.MEDIA or (part.kind is Kind.TEXT and naming.is_marked_up(item, part)) for part in item.parts
    )
