"""Caches as providers describe them, one class a regime. Simulated: tokens are counted, nothing is computed.

All keep what they hold under the names of whole prefixes, so that a prefix is found only by the very same one of the
very same scope (workspace, key, salt). Time is handed in. One request is three calls: ``look_up`` when it comes,
``begin`` when its response begins, ``finish`` when that has ended; what it wrote can be read from the one on that the
rules name, so that siblings under way miss.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from standfast.lab.prefixes import Branches, End, ends, follow
from standfast.lab.reading import BYTES_A_TOKEN, Block, Json, Prompt, Refused
from standfast.providers.rules import Regime, Rules

_SEEN = 1_000_000  # blocks among which common prefixes are looked for
_NEVER_CACHEABLE = ("thinking", "redacted_thinking", "empty text")


@dataclass(slots=True)
class Served:
    """What a cache did with one request, in tokens."""

    line: list[End]
    total: int
    cached: int
    written: dict[str, int]
    """By the name of the life; only where writing is told apart."""
    pending: list[tuple[End, str]] = field(default_factory=list)
    """Entries that cannot be read yet, with their lives, in the order of the prompt."""
    life: str = ""
    """That its answer will have in a cache which keeps all."""


@dataclass(slots=True)
class _Entry:
    end: End
    weight: int
    """Tokens that it added to what was held."""
    life: str
    until: float


class Cache(ABC):
    """One machine's cache. ``capacity``: tokens that it holds, the least recently used entries go first; 0: all."""

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        self.rules = rules
        self.capacity = capacity
        self.held = 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        """Serve one request. Raises Refused."""
        served = self._serve(prompt, ends(prompt, scope, self.rules.invalidates), now)
        if self.rules.readable == "once":
            self._store(served, now)
        return served

    def begin(self, served: Served, now: float) -> None:
        """The response begins."""
        if self.rules.readable == "first_byte":
            self._store(served, now)

    def finish(self, served: Served, answer: Sequence[Block], now: float) -> None:
        """The response has ended; ``answer`` is what it will be in the history of the next request."""
        self._store(served, now)

    def forget(self, share: float = 1.0, dice: random.Random | None = None) -> None:
        """Lose a part of the entries, as a machine under pressure does; 1 and more: all."""
        names = list(self._entries)
        for name in names if share >= 1 else (dice or random.Random(0)).sample(names, round(share * len(names))):
            self._drop(name)

    @abstractmethod
    def _serve(self, prompt: Prompt, line: list[End], now: float) -> Served: ...

    def _outcome(
        self, line: list[End], hit: End | None, places: Iterable[tuple[End, str]], now: float, *, counts: bool
    ) -> Served:
        """Serve ``hit`` and write at ``places``; ``counts``: whether usage tells what was written."""
        if hit and self.rules.refreshed:
            entry = self._entries[hit.name]
            entry.until = now + self._ttl(entry.life)
        cached = done = hit.tokens if hit else 0
        pending = sorted((p for p in places if p[0].tokens >= self.rules.minimum), key=lambda p: p[0].tokens)
        written: dict[str, int] = {}
        for end, life in pending if counts else ():
            if end.tokens > done:
                written[life] = written.get(life, 0) + end.tokens - done
                done = end.tokens
        return Served(line, line[-1].tokens if line else 0, cached, written, pending)

    def _store(self, served: Served, now: float) -> None:
        done = 0
        for end, life in served.pending:
            done = max(done, served.cached if served.cached < end.tokens else 0)
            self._put(end, life, end.tokens - done, now)
            done = end.tokens
        served.pending = []
        for end in reversed(served.line):  # what others build on is the younger, and goes last
            if end.name in self._entries:
                self._entries.move_to_end(end.name)
        while self.capacity and self.held > self.capacity and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))

    def _put(self, end: End, life: str, weight: int, now: float) -> None:
        entry = self._entries.get(end.name)
        if entry is None:
            self._entries[end.name] = _Entry(end, weight, life, now + self._ttl(life))
            self.held += weight
            self._added(end)
            return
        is_live = entry.until >= now
        if is_live and not self.rules.refreshed:
            return
        entry.life = max(life, entry.life, key=self._ttl) if is_live else life
        entry.until = now + self._ttl(entry.life)

    def _drop(self, name: bytes) -> None:
        entry = self._entries.pop(name)
        self.held -= entry.weight
        self._dropped(entry.end)

    def _added(self, end: End) -> None:  # noqa: B027  most caches need not know
        """An entry is new."""

    def _dropped(self, end: End) -> None:  # noqa: B027
        """An entry is gone."""

    def _ttl(self, life: str) -> float:
        return self.rules.ttls.get(life, self.rules.life)

    def _is_live(self, name: bytes, now: float) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.until >= now

    def _life(self, asked: object) -> str:
        life = str(asked or self.rules.default_ttl)
        if self.rules.ttls and life not in self.rules.ttls:
            raise Refused(f"ttl must be one of {', '.join(self.rules.ttls)}")
        return life


class MarkCache(Cache):
    """Entries where a mark stood, found from a mark within the look-back."""

    def _serve(self, prompt: Prompt, line: list[End], now: float) -> Served:
        marks = self._marks(prompt, line)
        best = max((self._found(line, at, now) for at in marks), default=-1)
        places = ((line[at], life) for at, life in marks.items())
        return self._outcome(line, line[best] if best >= 0 else None, places, now, counts=True)

    def _found(self, line: Sequence[End], mark: int, now: float) -> int:
        """The last entry that is found from a mark; -1 if there is none."""
        first = max(0, mark + 1 - self.rules.lookback) if self.rules.lookback else 0
        return next((at for at in range(mark, first - 1, -1) if self._is_live(line[at].name, now)), -1)

    def _marks(self, prompt: Prompt, line: Sequence[End]) -> dict[int, str]:
        """Place → life, in the order of the prompt."""
        field = self.rules.marker
        self._check(prompt.blocks, field)
        marks = {at: self._life(end.block.marks[field].get("ttl")) for at, end in enumerate(line) if self._bears(end)}
        if self.rules.automatic and prompt.of(field):
            self._mark_last(marks, line, self._life(prompt.of(field).get("ttl")))
        if len(marks) > self.rules.most_marks:
            raise Refused(f"A maximum of {self.rules.most_marks} blocks may have {field}. There are {len(marks)}.")
        ttls = [self._ttl(life) for _, life in sorted(marks.items())]
        if ttls != sorted(ttls, reverse=True):
            raise Refused(f"{field}: a longer ttl must not come after a shorter one.")
        return marks

    def _bears(self, end: End) -> bool:
        return self.rules.marker in end.block.marks

    def _check(self, blocks: Iterable[Block], field: str) -> None:
        for block in blocks:
            if field in block.marks and (wrong := block.traits.intersection(self.rules.unmarkable)):
                raise Refused(f"{field} cannot be set on {', '.join(wrong)}.")

    def _mark_last(self, marks: dict[int, str], line: Sequence[End], life: str) -> None:
        """What a mark at the top of the body does: it marks the last block that can be cached."""
        able = [at for at, end in enumerate(line) if end.block.traits.isdisjoint(_NEVER_CACHEABLE)]
        if able and marks.setdefault(able[-1], life) != life:
            raise Refused(f"The last block has {self.rules.marker} of another ttl.")


class BoundaryCache(Cache):
    """Entries at marks and at ends that the provider chooses.

    Where there are marks, a prefix is found at one of this request's own latest boundaries: its marks and, unless it
    asked for none but those, the ends of its user and tool messages. Where there are none, wherever a whole entry fits.
    """

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        super().__init__(rules, capacity)
        self._cuts: dict[bytes, set[int]] = {}
        """Prefix in front of a block → the lengths at which entries end within such blocks."""
        self._seen: dict[bytes, None] = {}
        self._branches = Branches()

    def _serve(self, prompt: Prompt, line: list[End], now: float) -> Served:
        options = prompt.of("prompt_cache_options")
        usual = self._life(options.get("ttl"))
        if self.rules.marker:
            explicit = options.get("mode") == "explicit"
            hit = self._at_boundary(line, explicit, now)
            places = self._marked(line, usual, explicit)
        else:
            hit = self._anywhere(line, now)
            last = line[-1:] if "input" in self.rules.writes_at else []
            places = [(end, usual) for end in (*self._common(line), *self._intervals(line), *last)]
        return self._outcome(line, hit, places, now, counts=bool(self.rules.write_price))

    def finish(self, served: Served, answer: Sequence[Block], now: float) -> None:
        end = follow(served.line, answer)[-1] if "output" in self.rules.writes_at and answer else None
        if end and end.tokens >= self.rules.minimum:
            self._put(end, self.rules.default_ttl, end.tokens - served.total, now)
        super().finish(served, answer, now)

    def _at_boundary(self, line: Sequence[End], explicit: bool, now: float) -> End | None:
        boundaries = [e for e in line if self.rules.marker in e.block.marks or (not explicit and _ends_input(e))]
        latest = boundaries[-self.rules.lookback :]
        return next((end for end in reversed(latest) if self._is_live(end.name, now)), None)

    def _marked(self, line: Sequence[End], usual: str, explicit: bool) -> list[tuple[End, str]]:
        """The latest marks and, unless they are to be the only ones, the end of the newest input."""
        implicit = [] if explicit or "input" not in self.rules.writes_at else [e for e in line if _ends_input(e)][-1:]
        marks: list[tuple[End, Json]] = [
            (end, end.block.marks[self.rules.marker]) for end in line if self.rules.marker in end.block.marks
        ]
        found = {end.name: (end, usual) for end in implicit}
        for end, mark in marks[-(self.rules.most_marks + explicit) :]:
            found[end.name] = (end, self._life(mark.get("ttl") or usual))
        return list(found.values())

    def _anywhere(self, line: Sequence[End], now: float) -> End | None:
        """The longest entry that the prompt begins with."""
        best: End | None = None
        for end in line:
            lengths = self._cuts.get(end.before, ())
            for length in sorted(n for n in lengths if n < len(end.block.key)):
                cut = end.cut(length)
                best = cut if self._is_live(cut.name, now) else best
            best = end if self._is_live(end.name, now) else best
        return best

    def _common(self, line: Sequence[End]) -> list[End]:
        """The end of what this request has in common with any before it."""
        if "common" not in self.rules.writes_at:
            return []
        found: End | None = None
        for at, end in enumerate(line):
            if end.name in self._seen:
                found = end
                continue
            length = self._branches.shared(end, self._seen.__contains__) // BYTES_A_TOKEN * BYTES_A_TOKEN
            found = end.cut(length) if length else found
            self._note(line[at:])
            break
        return [found] if found else []

    def _note(self, line: Iterable[End]) -> None:
        if len(self._seen) > _SEEN:
            self._seen, self._branches = {}, Branches()
        for end in line:
            self._seen[end.name] = None
            self._branches.add(end)

    def _intervals(self, line: Sequence[End]) -> list[End]:
        if "interval" not in self.rules.writes_at or not self.rules.interval or not line:
            return []
        totals = [end.tokens for end in line]
        found = list[End]()
        for tokens in range(self.rules.interval, totals[-1] + 1, self.rules.interval):
            end = line[bisect_left(totals, tokens)]
            found.append(end.cut((tokens - end.tokens + end.block.tokens) * BYTES_A_TOKEN))
        return found

    def _added(self, end: End) -> None:
        if end.length:
            self._cuts.setdefault(end.before, set()).add(end.length)


def _ends_input(end: End) -> bool:
    return end.block.closes in ("user", "tool")


class PrefixCache(Cache):
    """Whatever was computed before is found, as far as two prompts agree, in steps."""

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        super().__init__(rules, capacity)
        self._branches = Branches()

    def _serve(self, prompt: Prompt, line: list[End], now: float) -> Served:
        reach = 0
        for end in line:
            if not self._is_live(end.name, now):
                length = self._branches.shared(end, lambda name: self._is_live(name, now))
                reach += min(end.block.tokens, length // BYTES_A_TOKEN)
                break
            reach = end.tokens
        step = int(self.rules.step)
        cached = reach // step * step if reach >= self.rules.minimum else 0
        asked = str(prompt.fields.get("prompt_cache_retention"))
        life = asked if asked in self.rules.ttls else self.rules.default_ttl
        return Served(line, line[-1].tokens if line else 0, cached, {}, [(end, life) for end in line], life)

    def finish(self, served: Served, answer: Sequence[Block], now: float) -> None:
        line = follow(served.line, answer)
        life = served.life or self.rules.default_ttl
        self._store(Served(line, 0, 0, {}, [(end, life) for end in line]), now)

    def _added(self, end: End) -> None:
        self._branches.add(end)

    def _dropped(self, end: End) -> None:
        self._branches.remove(end)


class NoCache(Cache):
    """Nothing is ever served."""

    def _serve(self, prompt: Prompt, line: list[End], now: float) -> Served:
        return self._outcome(line, None, (), now, counts=False)


REGIMES: dict[Regime, type[Cache]] = {
    Regime.PREFIX: PrefixCache,
    Regime.MARKS: MarkCache,
    Regime.BOUNDARIES: BoundaryCache,
    Regime.NONE: NoCache,
}
