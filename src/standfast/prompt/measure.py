"""Tokens: what a perfect cache would have served, what goes out hits, what a drift costs.

Without the model's tokenizer a token is taken as four bytes of rendered text; a caller that knows the true count of a
prompt scales by it. Definitions (all in tokens of the reference's prompt as it was sent):

* ``before``: shared prefix of the reference and the request as the client sent it;
* ``after``: the same for the request as it goes out;
* ``attainable``: shared prefix in meaning, where a difference of a lossless or policy class counts as equal. A change
  that only the client can mend ends it;
* ``lost``: what the request would have shared with the reference had nothing drifted, less ``before``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from standfast.prompt.causes import Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift, text_of
from standfast.prompt.mended import Mended
from standfast.prompt.model import Head, Item, Tier, Tip
from standfast.prompt.request import Request
from standfast.prompt.volatile import common_prefix

BYTES_PER_TOKEN = 4
_SIZE_OF = attrgetter("size")
_ORDER = (Tier.MODEL, Tier.TOOLS, Tier.SYSTEM, Tier.PARAMS, Tier.MESSAGES)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Estimated token counts, see the module."""

    prompt: int = 0
    reference: int = 0
    attainable: int = 0
    before: int = 0
    after: int = 0
    lost: int = 0

    def cut_short(self, lost: int, *, repaired: bool) -> Tokens:
        """The same where the bytes were shared, and the client's breakpoints lost so many tokens of them."""
        lost = min(lost, self.before)
        after = self.after if repaired else max(0, self.after - lost)
        return replace(self, before=self.before - lost, after=after, lost=lost)


_Step = tuple[Tier, bytes, int, Item | None]
"""Tier, key, rendered bytes, and the item unless the step is a parameter."""


def _steps(
    dialect: Dialect, head: Head, tools: Iterable[Item], system: Iterable[Item], units: Iterable[Sequence[Item]]
) -> list[_Step]:
    """A prompt in render order, piece by piece."""

    def params(tier: Tier) -> list[_Step]:
        return [(tier, head.params.get(p.path, b""), 0, None) for p in dialect.params if p.tier is tier]

    return [
        (Tier.MODEL, head.model.encode(), 0, None),
        *params(Tier.TOOLS),
        *((Tier.TOOLS, tool.key, tool.size, tool) for tool in tools),
        *params(Tier.SYSTEM),
        *((Tier.SYSTEM, item.key, item.size, item) for item in system),
        *params(Tier.PARAMS),
        *((Tier.MESSAGES, item.key, item.size, item) for unit in units for item in unit),
    ]


def measure(request: Request, mended: Mended, reference: Tip | None) -> Tokens:
    """Count one request against its reference."""
    prompt = _tokens(_size(request.head.tools) + _size(request.head.system) + request.sizes[-1])
    if reference is None:
        return Tokens(prompt=prompt)
    shared = _size(reference.head.tools) + _size(reference.head.system)
    units = min(mended.shared, len(reference.sent))  # what the model answered was in no prompt yet
    if units:
        last = request.units[units - 1]
        shared += request.sizes[last.first + len(last.items)]
    is_fork = mended.shared < min(len(request.units), len(reference.sent))
    if not mended.drifts and not is_fork:
        total = shared + sum(_size(sent.items) for sent in reference.sent[units:])
        return Tokens(prompt, *map(_tokens, (total, shared, shared, shared, 0)))
    dialect = request.dialect
    old = _steps(
        dialect, reference.head, reference.head.tools, reference.head.system, (s.items for s in reference.sent)
    )
    came = _steps(dialect, request.head, request.head.tools, request.head.system, (u.items for u in request.units))
    head = replace(request.head, model=reference.head.model) if "model" in mended.fields else request.head
    goes = _steps(dialect, head, mended.tools, mended.system, (s.items for s in mended.sent))
    before, after = _shared(old, came), _shared(old, goes)
    total, whole = (sum(step[2] for step in steps) for steps in (old, goes))
    broken = any(d.tier is Tier.MESSAGES and not d.repaired for d in mended.drifts)
    stable = total if broken else max(shared, after)
    stable = max(min(stable, whole), after)
    attainable = max(min(_reach(old, mended.drifts, after, total), stable), after)
    return Tokens(*map(_tokens, (whole, total, attainable, before, after, max(0, stable - before))))


def apportion(request: Request, drifts: Sequence[Drift], tokens: Tokens) -> tuple[Drift, ...]:
    """The drifts in render order, each with the tokens that it costs.

    What one costs is what mending it would gain once all before it are mended: the way to the next, or to the end of
    what could be shared. A route drift costs nothing in bytes, but may cost all that the bytes still share.
    """
    placed = sorted(((_place(request, d), d) for d in drifts), key=lambda pair: pair[0])
    shared = tokens.before + tokens.lost
    ends = [*(_tokens(place) for place, _ in placed), shared][1:]
    told, reached = [], tokens.before
    for (_, drift), end in zip(placed, ends, strict=bool(placed)):
        gained = max(0, min(end, shared) - reached)
        reached += gained
        told.append(replace(drift, lost=tokens.attainable if drift.tier is Tier.ROUTE else gained))
    return tuple(told)


def _place(request: Request, drift: Drift) -> int:
    """Rendered bytes in front of a drift in the request as it came; all of them for what is no part of the prompt."""
    head, index = request.head, _index(drift.path)
    match drift.tier:
        case Tier.MODEL:
            return 0
        case Tier.TOOLS:
            return _size(head.tools[:index])
        case Tier.SYSTEM:
            own = len(head.system) - request.first
            first = own if drift.path.startswith(request.dialect.history) else 0
            return _size(head.tools) + _size(head.system[: first + index])
        case Tier.PARAMS:
            return _size(head.tools) + _size(head.system)
        case Tier.MESSAGES:
            place = max(0, min(index - request.first, len(request.sizes) - 1))
            return _size(head.tools) + _size(head.system) + request.sizes[place]
    return _size(head.tools) + _size(head.system) + request.sizes[-1]


def _index(path: str) -> int:
    """The first number in a path: ``messages[3].content`` → 3; 0 where there is none."""
    _, _, rest = path.partition("[")
    number, _, _ = rest.partition("]")
    return int(number) if number.isdigit() else 0


def _size(items: Iterable[Item]) -> int:
    return sum(map(_SIZE_OF, items))


def _tokens(size: int) -> int:
    return size // BYTES_PER_TOKEN


def _shared(old: Sequence[_Step], new: Sequence[_Step]) -> int:
    """Bytes of the common head of two prompts, the first difference entered as far as its bytes agree."""
    size = 0
    for (tier, key, bytes_, item), (other_tier, other_key, other_bytes, other) in zip(old, new, strict=False):
        if key != other_key:
            if item and other and tier is other_tier:
                size += min(_same_start(item, other), bytes_, other_bytes)
            break
        size += bytes_
    return size


def _same_start(left: Item, right: Item) -> int:
    """Bytes that two different items are sure to share at their beginning."""
    if left.tier is Tier.TOOLS:
        return common_prefix(left.wire, right.wire)
    return common_prefix(text_of(left), text_of(right))


def _reach(old: Sequence[_Step], drifts: Sequence[Drift], after: int, total: int) -> int:
    """Bytes up to the first drift that only the client can mend."""
    final = [_ORDER.index(d.tier) for d in drifts if d.repair in (Repair.SOURCE, Repair.REPORT) and d.tier in _ORDER]
    if not final:
        return total
    if min(final) == _ORDER.index(Tier.MESSAGES):
        return after
    return max(after, sum(size for tier, _, size, _ in old if _ORDER.index(tier) < min(final)))
