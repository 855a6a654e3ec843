"""Caches as providers describe them, one class a regime. Simulated: tokens are counted, nothing is computed.

All of them keep what they hold under digests of whole prefixes, so that a prefix is found only by the very same one of
the very same scope (workspace, key, salt). Time is handed in. What a request writes can be read once ``begin`` was
called for it: until its response begins, its siblings miss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from standfast.lab.reading import Block, Prompt, Refused
from standfast.providers.rules import Regime, Rules

_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Point:
    """The end of one block."""

    name: bytes
    """Digest of the whole prefix up to here."""
    tokens: int
    """Tokens up to here."""
    mark: Mapping[str, object] | None = None


@dataclass(slots=True)
class Served:
    """What a cache did with one request."""

    total: int
    cached: int = 0
    written: dict[str, int] = field(default_factory=dict)
    """By the name of the life."""
    pending: list[tuple[bytes, int, str]] = field(default_factory=list)
    """Entries that wait for the response to begin: name, tokens, life."""
    row: tuple[bytes, tuple[Block, ...]] | None = None
    """A whole prompt that waits for it: its scope and its blocks."""


def points(blocks: Sequence[Block], scope: bytes) -> list[Point]:
    """The ends of the blocks; what opens a tier belongs to the block behind it."""
    chain, total, found = blake2b(scope, digest_size=16), 0, list[Point]()
    for block in blocks:
        chain.update(len(block.key).to_bytes(8) + block.key)
        total += block.tokens
        if block.kind != "opening":
            found.append(Point(chain.digest(), total, block.mark))
    return found


class Cache(ABC):
    """One machine's cache. ``capacity``: tokens that it holds, the least recently used entries go first; 0: all."""

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        self.rules = rules
        self.capacity = capacity
        self.entries: OrderedDict[bytes, tuple[int, str, float]] = OrderedDict()
        """Prefix → its tokens, its life, and when that ends; least recently used first."""
        self._held = 0

    @abstractmethod
    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        """Serve one request. Raises Refused."""

    def begin(self, served: Served, now: float) -> None:
        """The response begins: what the request wrote can be read."""
        for name, tokens, life in served.pending:
            self._put(name, tokens, life, now)
        served.pending = []

    def finish(self, prompt: Prompt, scope: bytes, answer: Block, now: float) -> None:  # noqa: B027 -- most do nothing
        """The response has ended."""

    def forget(self, count: int) -> None:
        """Lose the least recently used entries, as a machine under pressure does."""
        for _ in range(min(count, len(self.entries))):
            self._held -= self.entries.popitem(last=False)[1][0]

    def _put(self, name: bytes, tokens: int, life: str, now: float) -> None:
        until = now + self.rules.ttls.get(life, self.rules.life)
        if name in self.entries:
            self._held -= self.entries[name][0]
            until = max(until, self.entries[name][2])
        self.entries[name] = (tokens, life, until)
        self.entries.move_to_end(name)
        self._held += tokens
        while self.capacity and self._held > self.capacity and len(self.entries) > 1:
            self.forget(1)

    def _is_live(self, name: bytes, now: float) -> bool:
        return name in self.entries and self.entries[name][2] >= now

    def _hit(self, name: bytes, now: float) -> None:
        tokens, life, until = self.entries[name]
        if self.rules.refreshed:
            until = now + self.rules.ttls.get(life, self.rules.life)
        self.entries[name] = (tokens, life, until)
        self.entries.move_to_end(name)


class MarkCache(Cache):
    """Entries where a mark stood; found from a mark within the look-back."""

    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        ends = points(prompt.blocks, scope)
        served = Served(ends[-1].tokens if ends else 0)
        marks = self._marks(prompt, ends)
        best = -1
        for at in marks:
            first = max(-1, at - self.rules.lookback) if self.rules.lookback else -1
            found = next((i for i in range(at, first, -1) if self._is_live(ends[i].name, now)), -1)
            best = max(best, found)
        if best >= 0:
            self._hit(ends[best].name, now)
            served.cached = ends[best].tokens
        done = served.cached
        for at, life in sorted(marks.items()):
            if at > best and ends[at].tokens >= self.rules.minimum:
                served.written[life] = served.written.get(life, 0) + ends[at].tokens - done
                done = ends[at].tokens
            if ends[at].tokens >= self.rules.minimum:
                served.pending.append((ends[at].name, ends[at].tokens, life))
        return served

    def _marks(self, prompt: Prompt, ends: Sequence[Point]) -> dict[int, str]:
        marks = {i: self._life(end.mark) for i, end in enumerate(ends) if end.mark}
        if prompt.automatic and self.rules.automatic and ends:
            last = [b.kind for b in prompt.blocks if b.kind != "opening"]
            cacheable = [i for i, kind in enumerate(last) if kind not in ("thinking", "redacted_thinking")]
            marks.setdefault(cacheable[-1] if cacheable else len(ends) - 1, self._life(prompt.automatic))
        if len(marks) > self.rules.most_marks:
            raise Refused(f"A maximum of {self.rules.most_marks} blocks with cache_control may be provided.")
        lives = [self.rules.ttls.get(life, 0.0) for _, life in sorted(marks.items())]
        if lives != sorted(lives, reverse=True):
            raise Refused("a longer ttl must not come after a shorter one")
        return marks

    def _life(self, mark: Mapping[str, object] | None) -> str:
        life = str((mark or {}).get("ttl") or self.rules.default_ttl)
        if self.rules.ttls and life not in self.rules.ttls:
            raise Refused(f"cache_control.ttl must be one of {', '.join(self.rules.ttls)}")
        return life


class BoundaryCache(Cache):
    """Entries at marks and at ends that the provider chose; found wherever the prompt passes one."""

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        super().__init__(rules, capacity)
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        ends = points(prompt.blocks, scope)
        served = Served(ends[-1].tokens if ends else 0)
        best = next((i for i in range(len(ends) - 1, -1, -1) if self._is_live(ends[i].name, now)), -1)
        if best >= 0:
            self._hit(ends[best].name, now)
            served.cached = ends[best].tokens
        done = served.cached
        for at, life in sorted(self._ends(prompt, ends).items()):
            if ends[at].tokens < self.rules.minimum:
                continue
            if at > best and self.rules.write_price:
                served.written[life] = served.written.get(life, 0) + ends[at].tokens - done
                done = ends[at].tokens
            served.pending.append((ends[at].name, ends[at].tokens, life))
        for end in ends:
            self._seen[end.name] = None
        return served

    def _ends(self, prompt: Prompt, ends: Sequence[Point]) -> dict[int, str]:
        """Where this request writes: index → life."""
        usual = str(prompt.options.get("ttl") or self.rules.default_ttl)
        explicit = prompt.options.get("mode") == "explicit"
        marks = [i for i, end in enumerate(ends) if end.mark and self.rules.marker]
        latest = marks[-(self.rules.most_marks + explicit) :]
        found = {i: str((ends[i].mark or {}).get("ttl") or usual) for i in latest}
        if "input" in self.rules.writes_at and ends and not explicit:
            found.setdefault(len(ends) - 1, usual)
        if "common" in self.rules.writes_at:
            common = next((i for i in range(len(ends) - 1, -1, -1) if ends[i].name in self._seen), -1)
            if common >= 0:
                found.setdefault(common, usual)
        if "interval" in self.rules.writes_at and self.rules.interval:
            steps = [end.tokens // self.rules.interval for end in ends]
            for i in range(1, len(ends)):
                if steps[i] > steps[i - 1]:
                    found.setdefault(i - 1 if ends[i].tokens % self.rules.interval else i, usual)
        return found

    def finish(self, prompt: Prompt, scope: bytes, answer: Block, now: float) -> None:
        if "output" in self.rules.writes_at:
            end = points([*prompt.blocks, answer], scope)[-1]
            self._put(end.name, end.tokens, self.rules.default_ttl, now)


@dataclass(slots=True)
class _Node:
    """One block in a tree of prompts."""

    key: bytes
    tokens: int
    until: float
    below: dict[bytes, _Node] = field(default_factory=dict)


class PrefixCache(Cache):
    """Whatever was computed before is found, as far as two prompts agree, in steps."""

    def __init__(self, rules: Rules, capacity: int = 0) -> None:
        super().__init__(rules, capacity)
        self._roots: dict[bytes, _Node] = {}

    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        total = sum(block.tokens for block in prompt.blocks)
        node, reach = self._roots.get(scope), 0
        for block in prompt.blocks:
            if node is None:
                break
            found = node.below.get(block.key)
            if found is None or found.until < now:
                reach += self._part(node, block, now)
                break
            reach, node = reach + found.tokens, found
        cached = reach // self.rules.step * self.rules.step
        served = Served(total, cached if reach >= self.rules.minimum else 0)
        served.row = (scope, prompt.blocks)
        return served

    def _part(self, node: _Node, block: Block, now: float) -> int:
        """Tokens at the head of a block that differs further on."""
        likes = (other.key for other in node.below.values() if other.until >= now)
        return max((_same(key, block.key) // _BYTES_A_TOKEN for key in likes), default=0)

    def begin(self, served: Served, now: float) -> None:
        if served.row:
            self._insert(*served.row, now)
        served.row = None

    def finish(self, prompt: Prompt, scope: bytes, answer: Block, now: float) -> None:
        self._insert(scope, (*prompt.blocks, answer), now)

    def _insert(self, scope: bytes, blocks: Sequence[Block], now: float) -> None:
        until = now + self.rules.life
        node = self._roots.setdefault(scope, _Node(b"", 0, float("inf")))
        for block in blocks:
            found = node.below.get(block.key)
            if found is None:
                found = node.below[block.key] = _Node(block.key, block.tokens, until)
                self._held += block.tokens
            found.until = until if self.rules.refreshed else max(found.until, until)
            node = found
        if self.capacity and self._held > self.capacity:
            self._evict()

    def forget(self, count: int) -> None:
        self._roots.clear()
        self._held = 0

    def _evict(self) -> None:
        """Drop leaves, the one whose life ends first before the others, until it fits."""
        while self._held > self.capacity:
            leaf = min(self._leaves(), key=lambda found: found[1].until, default=None)
            if leaf is None:
                return
            del leaf[0].below[leaf[1].key]
            self._held -= leaf[1].tokens

    def _leaves(self) -> list[tuple[_Node, _Node]]:
        found, rest = list[tuple[_Node, _Node]](), list(self._roots.values())
        while rest:
            node = rest.pop()
            for child in node.below.values():
                if child.below:
                    rest.append(child)
                else:
                    found.append((node, child))
        return found


class NoCache(Cache):
    """Nothing is ever served."""

    def look_up(self, prompt: Prompt, scope: bytes, now: float) -> Served:
        return Served(sum(block.tokens for block in prompt.blocks))


def _same(left: bytes, right: bytes) -> int:
    """Bytes at which two keys begin alike."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


REGIMES: dict[Regime, type[Cache]] = {
    Regime.PREFIX: PrefixCache,
    Regime.MARKS: MarkCache,
    Regime.BOUNDARIES: BoundaryCache,
    Regime.NONE: NoCache,
}
