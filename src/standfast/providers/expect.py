"""What a cache will serve of a request, what it will hold afterwards, and why it is less than it could be.

The model is as good as what it is told: what one earlier request left behind (``entries``), and how many leading blocks
the two share. It knows nothing of evictions, of other machines, of other sessions; ``gap`` names what usage shows
beyond it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from standfast.prompt.model import Entry
from standfast.providers.rules import Blocks, Regime, Rules


@dataclass(frozen=True, slots=True)
class Expected:
    """Tokens of one prompt, by what happens to them: cached + written + uncached is all of it."""

    cached: float = 0.0
    written: Mapping[str, float] = field(default_factory=dict)
    """By the name of the life they are written with; only where writing is told apart (and charged)."""
    uncached: float = 0.0
    entries: tuple[Entry, ...] = ()
    """What the cache holds of this prompt afterwards."""
    cause: str | None = None
    """Why less is served than the shared prefix: B1, B2, B3, B4 or B6."""
    at: int | None = None
    """The block where that can be seen: the mark that stands wrong, or the end of what could have been served."""


def expect(
    rules: Rules,
    blocks: Blocks,
    places: Mapping[int, str],
    *,
    shared: int,
    entries: Sequence[Entry],
    now: float,
) -> Expected:
    """Foresee one request.

    ``places``: its marks, block → name of a life (empty: the default). ``shared``: leading blocks that it has in common
    with the request that left ``entries`` behind.
    """
    if rules.regime is Regime.NONE:
        return Expected(uncached=blocks.tokens(len(blocks.ends)))
    places = _with_automatic(rules, blocks, places)
    if rules.regime is Regime.PREFIX:
        return _prefix(rules, blocks, shared, entries, now)
    known = [e for e in entries if e.blocks <= shared and blocks.tokens(e.blocks) >= rules.minimum]
    live = [e for e in known if e.until >= now]
    usable = [e for e in live if _is_found(rules, e.blocks, places)]
    best = max((e.blocks for e in usable), default=0)
    ends = _ends(rules, blocks, places, shared, bool(entries))
    cause, at = _shortfall(rules, blocks, places, shared, best, entries, known, live)
    return Expected(
        cached=blocks.tokens(best),
        written=_written(rules, blocks, best, ends),
        uncached=blocks.tokens(len(blocks.ends)) - max(blocks.tokens(best), blocks.tokens(max(ends, default=0))),
        entries=_held(rules, live, best, ends, now),
        cause=cause,
        at=at,
    )


def _with_automatic(rules: Rules, blocks: Blocks, places: Mapping[int, str]) -> Mapping[int, str]:
    """The marks, and the one that a top-level field puts on the last block that can bear one."""
    if not rules.automatic or blocks.automatic is None or not blocks.markable:
        return places
    return {max(blocks.markable): blocks.automatic, **places}


def _prefix(rules: Rules, blocks: Blocks, shared: int, entries: Sequence[Entry], now: float) -> Expected:
    total, could = blocks.tokens(len(blocks.ends)), blocks.tokens(shared)
    reach = max((blocks.tokens(min(e.blocks, shared)) for e in entries if e.until >= now), default=0.0)
    cached = reach // rules.step * rules.step if reach >= rules.minimum else 0.0
    cause = None
    if could and not cached:
        cause = "B3" if could < rules.minimum else "B4" if entries else None
    held = (Entry(len(blocks.ends), rules.default_ttl, now + rules.life),) if total >= rules.minimum else ()
    return Expected(cached, {}, total - cached, held, cause, shared - 1 if cause else None)


def _is_found(rules: Rules, end: int, places: Mapping[int, str]) -> bool:
    """Whether an entry that ends behind so many blocks is found from one of the marks."""
    if rules.regime is Regime.BOUNDARIES:
        return True
    return any(mark + 1 - end >= 0 and (not rules.lookback or mark + 1 - end < rules.lookback) for mark in places)


def _ends(rules: Rules, blocks: Blocks, places: Mapping[int, str], shared: int, seen: bool) -> dict[int, str]:
    """Where entries are written: number of blocks → life."""
    ends = {mark + 1: life or rules.default_ttl for mark, life in places.items()}
    if rules.regime is Regime.BOUNDARIES:
        if "input" in rules.writes_at:
            ends.setdefault(len(blocks.ends), rules.default_ttl)
        if "common" in rules.writes_at and seen and shared:
            ends.setdefault(shared, rules.default_ttl)
        if "interval" in rules.writes_at and rules.interval:
            steps = range(rules.interval, int(blocks.tokens(len(blocks.ends))) + 1, rules.interval)
            ends.update({n: rules.default_ttl for t in steps if (n := bisect_right(blocks.ends, t)) and n not in ends})
    return {end: life for end, life in ends.items() if blocks.tokens(end) >= rules.minimum}


def _written(rules: Rules, blocks: Blocks, best: int, ends: Mapping[int, str]) -> dict[str, float]:
    """Tokens written behind what was served, by life: each stretch has the life of the mark that ends it."""
    written: dict[str, float] = {}
    done = best
    for end in sorted(ends):
        if end > done:
            life = ends[end]
            written[life] = written.get(life, 0.0) + blocks.tokens(end) - blocks.tokens(done)
            done = end
    return written


def _held(rules: Rules, live: Sequence[Entry], best: int, ends: Mapping[int, str], now: float) -> tuple[Entry, ...]:
    held = {e.blocks: e for e in live}
    if best in held and rules.refreshed:
        held[best] = _entry(rules, best, held[best].ttl, now)
    for end, life in ends.items():
        if end not in held or held[end].until < now + rules.ttls.get(life, rules.life):
            held[end] = _entry(rules, end, life, now)
    return tuple(held[end] for end in sorted(held))


def _entry(rules: Rules, end: int, life: str, now: float) -> Entry:
    return Entry(end, life, now + rules.ttls.get(life, rules.life))


def _shortfall(
    rules: Rules,
    blocks: Blocks,
    places: Mapping[int, str],
    shared: int,
    best: int,
    entries: Sequence[Entry],
    known: Sequence[Entry],
    live: Sequence[Entry],
) -> tuple[str | None, int | None]:
    """Why less than the shared blocks is served, in the order in which the reasons exclude each other."""
    if best >= shared:
        return None, None
    if blocks.tokens(shared) < rules.minimum:
        return "B3", shared - 1
    if not places and rules.regime is Regime.MARKS:
        return "B1", shared - 1
    if any(e.blocks > best for e in live):
        return "B2", max(e.blocks for e in live) - 1
    if any(e.blocks > best for e in known):
        return "B4", max(e.blocks for e in known) - 1
    if rules.regime is Regime.BOUNDARIES:
        return "B6", shared - 1
    beyond = [e.blocks for e in entries if e.blocks > shared]
    return "B1", (min(beyond) if beyond else shared) - 1


@dataclass(frozen=True, slots=True)
class Gap:
    """What usage shows beyond what was expected."""

    cause: str
    tokens: float
    """Expected, and not served."""
    block: int
    """The block at which the cached prefix really ended."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What in a prompt may stop an engine's cache, by block."""

    thinking: int | None = None
    """The first block of thinking in the history that a template may drop from now on."""
    answer: int | None = None
    """The first block of the answer to the request before, where that is expected to be held."""
    new_day: bool = False
    """The date has changed since the request before."""


def gap(rules: Rules, expected: Expected, blocks: Blocks, cached: float, signs: Signs, tolerance: float) -> Gap | None:
    """Name the difference between expected and reported cached tokens; None within ``tolerance`` (tokens).

    An engine that runs a chat template (no price, no marker) may stop for its own reasons; a hosted cache that served
    less than it held has evicted.
    """
    missing = expected.cached - cached
    if missing <= max(tolerance, rules.step):
        return None
    block = bisect_right(blocks.ends, cached)
    is_engine = rules.regime is Regime.PREFIX and not rules.marker and rules.input_price is None
    if not is_engine:
        return Gap("I3", missing, block)
    near = max(tolerance, rules.step)
    if signs.new_day and cached <= near + blocks.tokens(blocks.tools):
        return Gap("E2", missing, block)
    if signs.thinking is not None and abs(cached - blocks.tokens(signs.thinking)) <= near:
        return Gap("E1", missing, block)
    if signs.answer is not None and cached >= blocks.tokens(signs.answer) - near:
        return Gap("E3", missing, block)
    return Gap("E4" if cached > 0 and missing < 1024 else "I3", missing, block)
