"""Where to set cache breakpoints.

A mark pays where the next request still agrees: a written token costs 1.25 to 2.5 input tokens, a read one 0.05 to 0.1,
so one later hit pays for a write several times over. What a session will send again is known: all of it up to the
newest turn. What other sessions will send is known too: tools and system. That gives four marks, the most that
providers take, in the order of what they are worth:

1. the current tail, which the next turn of the session reads;
2. the end of what this request shares with the one before, if no entry ends there: the newest turn was another one, and
   may be once more (B1, B6);
3. the previous tail, which this turn reads: marked again, it is found however many blocks the turn has added (B2);
4. the end of the system prompt, which the next session reads; then places within a long turn, and the end of the
   tools, which a session with another system prompt reads.

A client's own marks stay where they do no harm, and stand for ours where they do the same work. What changes from
request to request is never marked, nor anything behind it but the part in front: a mark there is paid and never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from standfast.prompt.model import Entry
from standfast.providers.rules import Blocks, Regime, Rules

_SPACING = 0.75
"""Share of the look-back within which marks are kept, so that a turn that is cut or retried still finds one."""

TAIL = "the end of the newest turn, for the next one to read"
SHARED = "the end of what two requests had in common, where no entry ends"
PREVIOUS = "the end of the turn before, so that this one finds it"
SYSTEM = "the end of the system prompt, for other sessions to read"
TOOLS = "the end of the tools, for sessions with another system prompt"
BETWEEN = "within reach of the look-back"
CLIENT = "as the client set it"

VOLATILE = "it stands on or behind text that changes from request to request, so it is paid and never read"
SHORT = "the prefix up to it is below the provider's minimum"
SURPLUS = "there are more marks than the provider takes"
REFUSED = "the provider refuses a mark on such a block"


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks that should go out."""

    places: Mapping[int, str]
    """Block → name of its life; empty for the default."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why each of them."""
    dropped: tuple[tuple[int, str], ...] = ()
    """Marks of the client that do not go out, and why."""


def plan(
    rules: Rules,
    blocks: Blocks,
    *,
    shared: int,
    entries: Sequence[Entry],
    now: float,
    late: float = 0.0,
) -> Marks:
    """Plan the marks of one request.

    ``shared``: leading blocks in common with the request that left ``entries``. ``late``: share of a session's requests
    that come when the default life is over and the longest is not; 0: a longer life must not be asked for.
    """
    if rules.regime not in (Regime.MARKS, Regime.BOUNDARIES) or not rules.marker:
        return Marks(dict(blocks.marks), dict.fromkeys(blocks.marks, CLIENT))
    kept, dropped = _client(rules, blocks)
    held = max((e.blocks for e in entries if e.until >= now and e.blocks <= shared), default=0)
    wanted = _wanted(rules, blocks, shared, held)
    budget = rules.most_marks - (blocks.automatic is not None)
    places, reasons = dict[int, str](), dict[int, str]()
    for block, reason in wanted:
        if block in kept or not _is_covered(rules, blocks, block, reason, kept):
            reasons[block] = CLIENT if block in kept else reason
    ours = list(reasons)[:budget]
    room = budget - len(ours)
    surplus = [block for block in sorted(kept, reverse=True) if block not in ours]
    dropped += [(block, SURPLUS) for block in surplus[room:]]
    life = _life(rules, blocks, held, late)
    for block in sorted([*ours, *surplus[:room]]):
        places[block] = kept.get(block, life)
    _order_lives(rules, places)
    return Marks(places, {block: reasons.get(block, CLIENT) for block in places}, tuple(sorted(dropped)))


def _stable(blocks: Blocks) -> int:
    """How many leading blocks do not change from request to request, as far as is known."""
    return min(blocks.volatile, default=len(blocks.ends))


def _is_long_enough(rules: Rules, blocks: Blocks, block: int) -> bool:
    return blocks.tokens(block + 1) >= rules.minimum


def _client(rules: Rules, blocks: Blocks) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """The client's marks that do no harm, and those that do, with the reason."""
    kept: dict[int, str] = {}
    dropped: list[tuple[int, str]] = []
    for block, life in blocks.marks.items():
        if block not in blocks.markable:
            dropped.append((block, REFUSED))
        elif block >= _stable(blocks):
            dropped.append((block, VOLATILE))
        elif not _is_long_enough(rules, blocks, block):
            dropped.append((block, SHORT))
        else:
            kept[block] = life
    return kept, dropped


def _wanted(rules: Rules, blocks: Blocks, shared: int, before: int) -> list[tuple[int, str]]:
    """Blocks to mark, most valuable first. ``before``: blocks that an entry holds already."""
    stable = _stable(blocks)
    tail = _last(blocks, 0, stable)
    found = [
        (tail, TAIL),
        (_last(blocks, before, min(shared, stable)), SHARED),
        (before - 1 if before else None, PREVIOUS),
        (_last(blocks, blocks.tools, min(blocks.system, stable)), SYSTEM),
    ]
    if rules.regime is Regime.BOUNDARIES:
        found = [pair for pair in found if pair[1] in (SHARED, SYSTEM)]  # the provider marks the tail by itself
    elif rules.lookback and tail is not None and before:
        reach = max(1, int(rules.lookback * _SPACING))
        steps = range(before - 1 + reach, tail, reach)
        found += [(_last(blocks, before, step + 1), BETWEEN) for step in steps]
    if rules.regime is Regime.MARKS:
        found.append((_last(blocks, 0, min(blocks.tools, stable)), TOOLS))
    wanted: dict[int, str] = {}
    for block, reason in found:
        if block is None or block >= stable or block not in blocks.markable:
            continue
        if _is_long_enough(rules, blocks, block):
            wanted.setdefault(block, reason)
    return list(wanted.items())


def _last(blocks: Blocks, first: int, end: int) -> int | None:
    """The last block of [first, end) that can bear a mark."""
    return next((block for block in range(end - 1, first - 1, -1) if block in blocks.markable), None)


def _is_covered(rules: Rules, blocks: Blocks, block: int, reason: str, kept: Mapping[int, str]) -> bool:
    """Whether a mark of the client's does the work of one that we would set."""
    automatic = blocks.automatic is not None
    if reason is TAIL:
        return automatic
    if reason is PREVIOUS:
        reach = int(rules.lookback * _SPACING) if rules.lookback else len(blocks.ends)
        tails = [*kept, *([max(blocks.markable)] if automatic and blocks.markable else [])]
        return any(0 <= mark - block < reach for mark in tails)
    if reason is TOOLS:
        return any(mark < blocks.system for mark in kept)
    return reason is SYSTEM and any(blocks.tools <= mark < blocks.system for mark in kept)


def _life(rules: Rules, blocks: Blocks, held: int, late: float) -> str:
    """The life to ask for; empty for the default.

    The long one costs more for what is written now, which is all behind the ``held`` blocks, and saves writing all of
    it again when the next request is late.
    """
    longest = max(rules.ttls, key=lambda name: rules.ttls[name], default="")
    if not late or rules.ttls.get(longest, 0.0) <= rules.life:
        return ""
    short, long = (rules.write_price.get(name, 1.0) for name in (rules.default_ttl, longest))
    total = blocks.tokens(len(blocks.ends))
    saved = late * (short - rules.read_price) * total
    return longest if saved > (long - short) * (total - blocks.tokens(held)) else ""


def _order_lives(rules: Rules, places: dict[int, str]) -> None:
    """Providers refuse a long life behind a short one: whatever stands in front of a long one gets its life."""
    longest = ""
    for block in sorted(places, reverse=True):
        mine, other = rules.ttls.get(places[block], rules.life), rules.ttls.get(longest, 0.0)
        if other > mine:
            places[block] = longest
        elif mine > rules.life:
            longest = places[block]
