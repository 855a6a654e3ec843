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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from standfast.prompt.causes import Repair
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import Drift
from standfast.prompt.model import Head, Item, Sent, Tier, Tip
from standfast.prompt.repair import Mended
from standfast.prompt.request import Request

BYTES_PER_TOKEN = 4
_ORDER = (Tier.MODEL, Tier.TOOLS, Tier.SYSTEM, Tier.PARAMS, Tier.MESSAGES)
_HARMLESS = Tier.ROUTE


@dataclass(frozen=True, slots=True)
class Tokens:
    """Estimated token counts, see the module."""

    prompt: int = 0
    reference: int = 0
    attainable: int = 0
    before: int = 0
    after: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    tier: Tier
    key: bytes
    item: Item | None = None

    @property
    def size(self) -> int:
        return self.item.size if self.item else 0


def _steps(dialect: Dialect, head: Head, tools: Iterable[Item], system: Iterable[Item], units: Iterable[Sequence[Item]]) -> Iterator[_Step]:
    def params(tier: Tier) -> Iterator[_Step]:
        for param in dialect.params:
            if param.tier is tier:
                yield _Step(tier, head.params.get(param.path, b""))

    yield _Step(Tier.MODEL, head.model.encode())
    yield from params(Tier.TOOLS)
    yield from (_Step(Tier.TOOLS, tool.key, tool) for tool in tools)
    yield from params(Tier.SYSTEM)
    yield from (_Step(Tier.SYSTEM, item.key, item) for item in system)
    yield from params(Tier.PARAMS)
    yield from (_Step(Tier.MESSAGES, item.key, item) for unit in units for item in unit)


def measure(request: Request, mended: Mended, reference: Tip | None) -> Tokens:
    """Count one request against its reference."""
    dialect = request.dialect
    came = list(_steps(dialect, request.head, request.head.tools, request.head.system, (u.items for u in request.units)))
    prompt = _tokens(sum(step.size for step in came))
    if reference is None:
        return Tokens(prompt=prompt)
    old = list(_steps(dialect, reference.head, reference.head.tools, reference.head.system, (s.items for s in reference.sent)))
    goes = list(_steps(dialect, request.head, mended.tools, mended.system, (s.items for s in mended.sent)))
    before, after = _shared(old, came), _shared(old, goes)
    total = sum(step.size for step in old)
    stable = _stable(old, reference.sent, mended, total, after)
    attainable = max(min(_reach(old, mended.drifts, after), stable), after)
    numbers = (total, attainable, before, after, max(0, stable - before))
    return Tokens(prompt, *map(_tokens, numbers))


def _tokens(size: int) -> int:
    return size // BYTES_PER_TOKEN


def _shared(old: Sequence[_Step], new: Sequence[_Step]) -> int:
    """Bytes of the common head of two prompts, the first difference entered as far as its bytes agree."""
    size = 0
    for a, b in zip(old, new, strict=False):
        if a.key != b.key:
            if a.item and b.item and a.tier is b.tier:
                size += min(_common(a.item.wire, b.item.wire), a.size, b.size)
            break
        size += a.size
    return size


def _common(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _stable(old: Sequence[_Step], sent: Sequence[Sent], mended: Mended, total: int, after: int) -> int:
    """Bytes of the reference that the request would share had nothing drifted."""
    if any(d.tier is Tier.MESSAGES and not d.repaired for d in mended.drifts):
        return total
    head = sum(step.size for step in old if step.tier is not Tier.MESSAGES)
    shared = sum(item.size for unit in sent[: mended.shared] for item in unit.items)
    return max(head + shared, after)


def _reach(old: Sequence[_Step], drifts: Sequence[Drift], after: int) -> int:
    """Bytes up to the first drift that only the client can mend."""
    final = [d for d in drifts if d.repair in (Repair.SOURCE, Repair.REPORT) and d.tier is not _HARMLESS]
    if not final:
        return sum(step.size for step in old)
    first = min(_ORDER.index(d.tier) for d in final)
    if first == _ORDER.index(Tier.MESSAGES):
        return sum(step.size for step in old)
    return max(after, sum(step.size for step in old if _ORDER.index(step.tier) < first))
