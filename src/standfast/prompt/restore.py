"""Putting back what the client changed in old turns, where what was sent is known to say the same, or there is leave.

Each way looks at the step where two histories part, and either takes some units of the request and some of the
reference and says what goes out for them, or leaves them to the next way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from standfast.policy import Leave, Option, Policy
from standfast.prompt import canonical, media, naming
from standfast.prompt.canonical import Json
from standfast.prompt.drift import Drift, meaning, texts_of
from standfast.prompt.fitting import unmarked
from standfast.prompt.model import Item, Kind, Meaning, Part, Sent, Tier, Unit

_JOINTS = ("", "\n", "\n\n", " ")
_ATTACHED_WITHIN = 64  # units over which attachments are sought
_ATTACHABLE = (Kind.TEXT, Kind.MEDIA, Kind.OTHER)
_SUMMARY_MOST = 3  # messages that stand for those that are gone
_HELD_LEAST = 64_000  # bytes of pruned text that are held back at least


@dataclass(frozen=True, slots=True)
class Parting:
    """Two histories from where they part on."""

    units: Sequence[Unit]
    """Of the request; never empty."""
    old: Sequence[Sent]
    """As sent before; never empty."""
    leave: Leave
    same_model: bool
    held: int
    """Bytes that are being held back already."""
    size: int
    """Bytes of the request's whole history."""

    @property
    def unit(self) -> Unit:
        return self.units[0]

    @property
    def pair(self) -> tuple[Item, Item] | None:
        """The item as sent, without its marks, and as it came; None if it is not one each, or the new one is marked."""
        before, after = self.old[0].items, self.unit.items
        if len(before) != 1 or len(after) != 1 or after[0].marked:
            return None
        return unmarked(before[0]), after[0]


@dataclass(frozen=True, slots=True)
class Restored:
    """What goes out for the first units: one Sent for each of them, in place of so many of the old."""

    sent: tuple[Sent, ...]
    old: int
    cause: str
    at: int = 0
    """Which of the units shows the drift."""
    held: int = 0
    """Bytes held back by it."""
    moved: frozenset[Meaning] = frozenset()
    """What must not go out again on a later turn."""


Way = Callable[[Parting], Restored | None]


def restore(parting: Parting) -> Restored | None:
    """The first way that leads anywhere."""
    return next((found for way in _WAYS if (found := way(parting))), None)


def drift_of(parting: Parting, restored: Restored, path: str) -> Drift:
    """What the client changed."""
    before, after = parting.old[0].items[0], parting.units[restored.at].items[0]
    suffix = naming.item_change(before, after, "").path if before.role == after.role else ""
    return Drift(restored.cause, path + suffix, Tier.MESSAGES, before.wire, after.wire, repaired=True)


def _decoration(p: Parting) -> Restored | None:
    """H1 under ``isolate``: what decorated a turn while it was the newest."""
    if p.leave.policy is not Policy.ISOLATE or p.pair is None or len(p.units) < 2:
        return None
    if naming.item_change(*p.pair, "").cause != "H1":
        return None
    return Restored((Sent((p.pair[0],), p.unit.links, ours=True),), 1, "H1")


def _thinking(p: Parting) -> Restored | None:
    """H6: signed thinking that the client left out; the provider reads it only as its own model wrote it."""
    if not p.same_model or len(p.units) < 2:
        return None
    gone = next((n for n, sent in enumerate(p.old) if sent.items[:1] and sent.items[0].role != "reasoning"), 0)
    sealed = [item for sent in p.old[:gone] for item in sent.items]
    if gone and _alike(p.unit, p.old[gone]) and all(map(_is_sealed, sealed)):
        return Restored((Sent((*sealed, *p.old[gone].items), p.unit.links),), gone + 1, "H6")
    if p.pair is None or naming.item_change(*p.pair, "").cause != "H6" or not _is_signed(*p.pair):
        return None
    return Restored((Sent((p.pair[0],), p.unit.links),), 1, "H6")


def _is_sealed(item: Item) -> bool:
    value = canonical.decode(item.wire)
    return isinstance(value, dict) and bool(value.get("encrypted_content"))


def _is_signed(before: Item, after: Item) -> bool:
    """Whether all that is missing is signed, or reasoning in a field of its own that the upstream has taken before."""
    kept = {part.meaning for part in after.parts}
    missing = [part.suffix for part in before.parts if part.meaning not in kept]
    value = canonical.decode(before.wire)
    for suffix in missing:
        block = _at(value, suffix)
        if block is not value and not (block.get("signature") or block.get("data")):
            return False
    return True


def _pictures(p: Parting) -> Restored | None:
    """H8: the same picture in other bytes."""
    if p.pair is None or len(p.pair[0].parts) != len(p.pair[1].parts):
        return None
    other = [(a, b) for a, b in zip(p.pair[0].parts, p.pair[1].parts, strict=True) if a.meaning != b.meaning]
    if not other or any(a.kind is not Kind.MEDIA or b.kind is not Kind.MEDIA for a, b in other):
        return None
    before, after = (canonical.decode(item.wire) for item in p.pair)
    if not all(media.same_picture(_at(before, a.suffix), _at(after, b.suffix)) for a, b in other):
        return None
    return Restored((Sent((p.pair[0],), p.unit.links),), 1, "H8")


def _at(value: Json, suffix: str) -> Json:
    return value["content"][int(suffix[9:-1])] if suffix.startswith(".content[") else value


def _pieces(p: Parting) -> Restored | None:
    """H11: messages of one role merged, or one of them split."""
    if len(p.old) > 1 and len(p.units) > 1 and _is_joined(p.old[0].items, p.old[1].items, p.unit.items):
        return Restored((Sent(p.old[0].items + p.old[1].items, p.unit.links),), 2, "H11")
    if len(p.units) > 2 and _is_joined(p.units[0].items, p.units[1].items, p.old[0].items):
        return Restored((Sent(p.old[0].items, p.units[0].links), Sent((), p.units[1].links)), 1, "H11")
    return None


def _is_joined(first: Sequence[Item], second: Sequence[Item], whole: Sequence[Item]) -> bool:
    """Whether one message says what two said, one behind the other."""
    if not (len(first) == len(second) == len(whole) == 1):
        return False
    a, b, c = first[0], second[0], whole[0]
    if not a.role == b.role == c.role or any(item.marked for item in (a, b, c)):
        return False
    if [part.meaning for part in (*a.parts, *b.parts)] == [part.meaning for part in c.parts]:
        return True
    if any(part.kind is not Kind.TEXT for item in (a, b, c) for part in item.parts):
        return False
    left, right, both = ("\n".join(texts_of(item)) for item in (a, b, c))
    return any(f"{left}{joint}{right}" == both for joint in _JOINTS)


def _attachments(p: Parting) -> Restored | None:
    """H10: the same attachments, on other turns."""
    most = min(_ATTACHED_WITHIN, len(p.units) - 1, len(p.old))
    for count in range(2, most + 1):
        old, new = p.old[:count], p.units[:count]
        if any(
            len(a.items) != len(b.items) or a.items[0].role != b.items[0].role for a, b in zip(old, new, strict=True)
        ):
            return None
        before, after = ([part for u in row for item in u.items for part in item.parts] for row in (old, new))
        if sorted(q.meaning for q in before) == sorted(q.meaning for q in after):
            if any(q.kind in (Kind.CALL, Kind.RESULT) for q in _moved(old, new)) or any(
                item.marked for u in new for item in u.items
            ):
                return None
            pairs = zip(old, new, strict=True)
            sent = tuple(Sent(tuple(map(unmarked, a.items)), b.links) for a, b in pairs)
            return Restored(sent, count, "H10")
    return None


def _moved_on(p: Parting) -> Restored | None:
    """H10: attachments of an old turn that the client sends on a later one now."""
    if p.pair is None or naming.item_change(*p.pair, "").cause != "H10":
        return None
    kept = {part.meaning for part in p.pair[1].parts}
    gone = [part for part in p.pair[0].parts if part.meaning not in kept]
    moved = frozenset(part.meaning for part in gone)
    if not gone or len(kept) + len(gone) != len(p.pair[0].parts) or any(q.kind not in _ATTACHABLE for q in gone):
        return None
    for unit in p.units[1:]:
        item = unit.items[0]
        if item.role == p.unit.items[0].role and moved < {part.meaning for part in item.parts}:
            return Restored((Sent((p.pair[0],), p.unit.links),), 1, "H10", moved=moved)
    return None


def _moved(old: Sequence[Sent], new: Sequence[Unit]) -> list[Part]:
    """The parts of those units that are not the same."""
    pairs = zip(old, new, strict=True)
    return [part for a, b in pairs if not _alike(b, a) for item in (*a.items, *b.items) for part in item.parts]


def _window(p: Parting) -> Restored | None:
    """H7 with the option ``window``: pruned turns go out whole until the cache is cold, or they are too many."""
    if Option.WINDOW not in p.leave.options or p.leave.cold or len(p.units) < 2:
        return None
    if _is_pruned(p.old[0].items, p.unit.items):
        whole = Restored((Sent(tuple(map(unmarked, p.old[0].items)), p.unit.links, ours=True),), 1, "H7")
        return _within(p, whole, _size(p.old[0].items) - _size(p.unit.items))
    for count, unit in enumerate(p.units[: _SUMMARY_MOST + 1]):  # turns that are gone, or that a summary stands for
        later = next((n for n, sent in enumerate(p.old) if n > count and _alike(unit, sent)), None)
        if later is not None:
            gone = tuple(unmarked(item) for sent in p.old[:later] for item in sent.items)
            rest = [Sent((), u.links, ours=True) for u in p.units[1:count]]
            if not count:
                kept = Restored((Sent((*gone, *p.old[later].items), unit.links, ours=True),), later + 1, "H7")
            else:
                kept = Restored((Sent(gone, p.unit.links, ours=True), *rest), later, "H7")
            return _within(p, kept, _size(gone))
    return None


def _is_pruned(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether results, and nothing else, are shorter than they were."""
    if len(before) != len(after) or any(item.marked for item in after):
        return False
    for a, b in zip(before, after, strict=True):
        if a.role != b.role or len(a.parts) != len(b.parts):
            return False
        other = [(x, y) for x, y in zip(a.parts, b.parts, strict=True) if x.meaning != y.meaning]
        if any(x.kind is not Kind.RESULT or y.kind is not Kind.RESULT or y.size >= x.size for x, y in other):
            return False
    return True


def _size(items: Sequence[Item]) -> int:
    return sum(item.size for item in items)


def _within(p: Parting, restored: Restored, more: int) -> Restored | None:
    """Unless what is held back would be more than half of what the client still sends."""
    held = p.held + more
    return None if held > max(_HELD_LEAST, p.size // 2) else replace(restored, held=more)


def _alike(unit: Unit, sent: Sent) -> bool:
    return sorted(map(meaning, unit.items)) == sorted(map(meaning, sent.items))


_WAYS: tuple[Way, ...] = (_pieces, _decoration, _thinking, _pictures, _attachments, _moved_on, _window)

__all__ = ["Parting", "Restored", "drift_of", "restore"]
