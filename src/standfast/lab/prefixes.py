"""Prefixes of prompts, told apart by chained digests, and where two prompts part."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from standfast.lab.reading import BYTES_A_TOKEN, TIERS, Block, Prompt


@dataclass(frozen=True, slots=True)
class End:
    """Where one block of a prompt ends, or a part of it."""

    name: bytes
    """Digest of the prefix that ends here."""
    before: bytes
    """Digest of the prefix in front of the block."""
    tokens: int
    """Of the prefix."""
    block: Block
    length: int = 0
    """Bytes of the block, where it ends within it; else 0."""

    def cut(self, length: int) -> End:
        """The end behind the first ``length`` bytes of the block; itself where those are all."""
        if length >= len(self.block.key):
            return self
        lost = self.block.tokens - min(self.block.tokens, length // BYTES_A_TOKEN)
        name = _name(self.before, b"cut", self.block.key[:length])
        return End(name, self.before, self.tokens - lost, self.block, length)


def ends(prompt: Prompt, scope: bytes, invalidates: Mapping[str, str]) -> list[End]:
    """The ends of all blocks. A setting stands in front of the tier that it invalidates, as the facts have it."""
    openings = [b""] * len(TIERS)
    for name, (usual, value) in sorted(prompt.settings.items()):
        tier = TIERS.index(invalidates.get(name, usual))
        openings[tier] = _name(openings[tier], name.encode(), value)
    found, before, total, opened = list[End](), scope, 0, 0
    for block in prompt.blocks:
        if "tools with defer_loading" in block.traits:
            continue  # no part of the prompt until a search has found it
        while opened <= TIERS.index(block.tier):
            before = _name(before, b"tier", openings[opened])
            opened += 1
        total += block.tokens
        found.append(End(_name(before, block.digest), before, total, block))
        before = found[-1].name
    return found


def follow(line: Sequence[End], blocks: Sequence[Block]) -> list[End]:
    """A prompt with an answer behind it."""
    found = list(line)
    for block in blocks:
        before, total = (found[-1].name, found[-1].tokens) if found else (b"", 0)
        found.append(End(_name(before, block.digest), before, total + block.tokens, block))
    return found


def _name(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.digest()


class Branches:
    """The blocks that followed each prefix, sorted, so that the nearest ones are neighbours."""

    def __init__(self) -> None:
        self._below: dict[bytes, list[tuple[bytes, bytes]]] = {}

    def add(self, end: End) -> None:
        """Note a block behind its prefix. Not to be called twice for one."""
        insort(self._below.setdefault(end.before, []), (end.block.key, end.name))

    def remove(self, end: End) -> None:
        """Forget it."""
        row = self._below[end.before]
        del row[bisect_left(row, (end.block.key, end.name))]
        if not row:
            del self._below[end.before]

    def shared(self, end: End, is_live: Callable[[bytes], bool]) -> int:
        """Bytes that a new block has in common with the likest live one behind the same prefix."""
        row = self._below.get(end.before, [])
        at = bisect_left(row, (end.block.key, b""))
        after = next((key for key, name in row[at:] if is_live(name)), b"")
        ahead = next((key for key, name in reversed(row[:at]) if is_live(name)), b"")
        return max(_common(end.block.key, after), _common(end.block.key, ahead))


def _common(a: bytes, b: bytes) -> int:
    """Length of the common prefix, by halving."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
