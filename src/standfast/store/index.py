"""Which runs of tokens are stored, and where: the longest stored head of a prompt in one walk, without I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from standfast.store.names import BLOCK, Run, Tokens, runs, shared_length, space_id


@dataclass(slots=True)
class Entry:
    """One run and the tiers that hold it."""

    run: Run
    tiers: int = 0
    """Bit n: tier n holds it."""


class Held(NamedTuple):
    """A part of a prompt that is stored."""

    entry: Entry
    used: int
    """Tokens of the run that the prompt has too: all of them, but for the last part."""


class Index:
    """Runs by key, and by what they follow. Not for several threads at once."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._behind: defaultdict[tuple[bytes, int], list[Entry]] = defaultdict(list)
        """By parent and first token."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def add(self, run: Run, tier: int) -> None:
        """A tier holds the run now."""
        entry = self._entries.get(run.key)
        if entry is None:
            entry = self._entries[run.key] = Entry(run)
            self._behind[run.parent, int(run.tokens[0])].append(entry)
        entry.tiers |= 1 << tier

    def drop(self, key: bytes, tier: int) -> None:
        """A tier does not hold it any more."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.tiers &= ~(1 << tier)
        if not entry.tiers:
            del self._entries[key]
            place = entry.run.parent, int(entry.run.tokens[0])
            self._behind[place].remove(entry)
            if not self._behind[place]:
                del self._behind[place]

    def shadowed(self, run: Run) -> list[bytes]:
        """Keys of shorter runs in the same place that hold nothing but the first tokens of this one."""
        near = self._behind.get((run.parent, int(run.tokens[0])), ())
        return [
            e.run.key
            for e in near
            if len(e.run.tokens) < len(run.tokens) and shared_length(e.run.tokens, run.tokens) == len(e.run.tokens)
        ]

    def match(self, namespace: bytes, tokens: Tokens, block: int = BLOCK) -> list[Held]:
        """The longest stored head of a prompt, in ascending order: whole runs, then at most one part of a run."""
        held, parent, at = [], space_id(namespace), 0
        for run in runs(namespace, tokens, block):
            entry = self._entries.get(run.key)
            if entry is None:
                break
            held.append(Held(entry, len(run.tokens)))
            parent, at = run.key, at + len(run.tokens)
        rest = tokens[at : at + block]
        if len(rest) and (near := self._behind.get((parent, int(rest[0])))):
            used, entry = max(((shared_length(e.run.tokens, rest), e) for e in near), key=lambda pair: pair[0])
            held.append(Held(entry, used))
        return held
