"""Recorded serving traces as streams of requests for chains of blocks. Nothing but names of blocks: no text.

Readers of two public formats, plain or gzipped, each line an object:

- Mooncake (Qin et al., FAST 2025): ``timestamp`` in ms, ``input_length``, ``hash_ids`` of 512-token blocks.
- kv-cache-tester: one conversation a line (or a file, as it is published), ``hash_ids`` of 64-token blocks, local to
  the conversation; or, in place of ``hash_ids``, ``k`` and ``r``: the first k ids of the request before, then runs.
"""

from __future__ import annotations

import gzip
import random
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_LOCAL = 32
"""Bits of a block's id within a conversation."""
_LOGGED_TWICE = 8
"""A request whose chain equals one of so many before it was logged twice: v1 of kv-cache-tester does that."""


class Request(NamedTuple):
    at: float
    """Seconds since the start of the trace."""
    unit: int
    """What it belongs to: a conversation."""
    chain: list[int]
    """Names of its blocks: a name holds for the block and all in front of it."""
    common: int = 0
    """How many of them other units may have too."""


def mooncake(path: Path) -> Iterator[Request]:
    """Requests in the order and at the times recorded. The second block tells the conversation."""
    for row in _objects(path):
        chain = row["hash_ids"]
        yield Request(row["timestamp"] / 1000, chain[min(1, len(chain) - 1)], chain, 1)


_Waiting = list[tuple[Request, Iterator[Request]]]
"""A heap of conversations under way, by their next request."""


class Conversation(NamedTuple):
    requests: list[tuple[float, list[int]]]
    """Seconds since its start, and chain."""
    kind: tuple[str, int, int]
    """Model, tokens of tools and of system prompt: conversations of one kind may begin with the same blocks."""


def conversations(path: Path, block: int = 64) -> Iterator[Conversation]:
    """Conversations of kv-cache-tester, one at a time; a folder is read file by file.

    ``block``: a multiple of 64, tokens of the blocks to make of theirs; what is over at the end of a chain is left out.
    """
    for path_of_one in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        for row in _objects(path_of_one):
            step = block // int(row.get("block_size", 64))
            requests = sorted(_logged_once(_unrolled(row["requests"], 0.0)), key=itemgetter(0))
            kind = (row["models"][0] if row.get("models") else "", row["tool_tokens"], row["system_tokens"])
            yield Conversation([(at - requests[0][0], chain[step - 1 :: step]) for at, chain in requests], kind)


def arriving(
    conversations: Iterable[Conversation], *, between: float, seed: int, block: int = 64, keep: float = 1.0
) -> Iterator[Request]:
    """SYNTHETIC arrivals: conversations start as a Poisson process, and run at the pace that was recorded.

    The traces tell time within a conversation only. ``between``: mean seconds from one start to the next; ``keep``: the
    share of conversations to take, at random. Conversations of one kind are given the same blocks for tools and system
    prompt. Only the conversations that are under way are held.
    """
    chance, start = random.Random(seed), 0.0
    waiting: _Waiting = []
    kinds: dict[tuple[str, int, int], int] = {}
    for number, conversation in enumerate(c for c in conversations if chance.random() < keep):
        start += chance.expovariate(1 / between)
        yield from _until(start, waiting)
        kind = kinds.setdefault(conversation.kind, len(kinds))
        _wait(waiting, _named(conversation, number + 1, kind, start, block))
    yield from _until(float("inf"), waiting)


def _named(conversation: Conversation, number: int, kind: int, start: float, block: int) -> Iterator[Request]:
    """Its requests, with names that hold in the whole trace: negative ones for what its kind has in common."""
    own, shared = number << _LOCAL, -(kind + 1) << _LOCAL
    first = conversation.requests[0][1] if conversation.requests else []
    common = first[: (conversation.kind[1] + conversation.kind[2]) // block]
    places = {local: place for place, local in enumerate(common)}
    for at, chain in conversation.requests:
        head = 0
        while head < len(chain) and places.get(chain[head]) == head:
            head += 1
        yield Request(start + at, number, [*range(shared, shared + head), *(own + i for i in chain[head:])], head)


def _wait(waiting: _Waiting, requests: Iterator[Request]) -> None:
    for request in requests:
        heappush(waiting, (request, requests))
        return


def _until(time: float, waiting: _Waiting) -> Iterator[Request]:
    """What happens before a time, in order."""
    while waiting and waiting[0][0].at < time:
        request, requests = heappop(waiting)
        yield request
        _wait(waiting, requests)


def _unrolled(rows: Iterable[dict[str, Any]], start: float) -> Iterator[tuple[float, list[int]]]:
    """Requests with their times and whole chains; those of subagents, whose times count from their own start, too."""
    chain: list[int] = []
    for row in rows:
        if "requests" in row:
            yield from _unrolled(row["requests"], start + row["t"])
            continue
        if "hash_ids" in row:
            chain = row["hash_ids"]
        elif "k" in row:
            chain = chain[: row["k"]] + [i for first, n in row["r"] for i in range(first, first + n)]
        else:
            continue
        yield start + row["t"], chain


def _logged_once(requests: Iterable[tuple[float, list[int]]]) -> Iterator[tuple[float, list[int]]]:
    latest: deque[list[int]] = deque(maxlen=_LOGGED_TWICE)
    for at, chain in requests:
        if chain and chain not in latest:
            yield at, chain
        latest.append(chain)


def _objects(path: Path) -> Iterator[Any]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        if path.suffixes[-1:] == [".json"]:
            yield msgspec.json.decode(file.read())
            return
        for line in file:
            if line.strip():
                yield msgspec.json.decode(line)
