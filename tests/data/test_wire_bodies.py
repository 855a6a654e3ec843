"""Every recorded request body: read, written again byte for byte, compared with the one before it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from shared import lines

from standfast.events import Event, FailedOpen
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Policy
from standfast.prompt.dialects import DIALECTS, detect
from standfast.prompt.items import Items
from standfast.prompt.mended import untouched
from standfast.prompt.render import render
from standfast.prompt.request import read
from standfast.turn import Arrival, Diagnosis, Turns

KEY = bytes(range(32))


class Recorded(NamedTuple):
    """One request of one recording."""

    recording: int
    number: int
    uri: str
    body: Any


@cache
def recorded() -> tuple[Recorded, ...]:
    return tuple(
        Recorded(i, n, request["uri"], request["body"])
        for i, row in enumerate(lines("wire-bodies"))
        for n, request in enumerate(row["requests"])
    )


def spoken(r: Recorded) -> str | None:
    """The dialect by the address alone."""
    path = urlsplit(r.uri).path
    if path.endswith("/v1/messages"):
        return "anthropic"
    if path.endswith("/chat/completions"):
        return "openai_chat"
    return "openai_responses" if path.endswith("/responses") else None


def _shuffled(value: Any, rng: Random) -> Any:
    if isinstance(value, dict):
        names = rng.sample(list(value), len(value))
        return {name: _shuffled(value[name], rng) for name in names}
    return [_shuffled(v, rng) for v in value] if isinstance(value, list) else value


def serialised(value: Any) -> Iterator[bytes]:
    """The ways in which clients write JSON."""
    yield json.dumps(value).encode()
    yield json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    yield json.dumps(value, indent=2).encode()
    yield json.dumps(_shuffled(value, Random(7)), separators=(" ,\t", " : ")).encode()


def test_there_are_recordings_of_each_dialect() -> None:
    counts = Counter(map(spoken, recorded()))
    assert all(counts[name] >= 100 for name in DIALECTS), counts


def test_every_body_reads_and_renders_to_its_very_bytes_and_means_the_same_however_it_is_written() -> None:
    for r in recorded():
        if (name := spoken(r)) is None or detect(r.body) is None:
            continue
        chains = set()
        for raw in serialised(r.body):
            request = read(raw, DIALECTS[name], KEY, Items())
            assert render(request, untouched(request)) is raw
            assert all(raw[a:b] == item.wire for (a, b), item in zip(request.ranges, request.items, strict=True))
            chains.add((tuple(request.links), request.head.tool_set, request.head.system_text))
        assert len(chains) == 1, r.uri


def test_dialects_are_told_apart_by_the_body_alone() -> None:
    wrong = [(r.uri, detect(r.body), spoken(r)) for r in recorded() if detect(r.body) != spoken(r)]
    assert not wrong


def test_consecutive_bodies_get_a_verdict_and_nothing_fails() -> None:
    verdicts = Counter(d.cause for _, d in _verdicts(Policy.LOSSLESS))
    print(f"\ncauses between consecutive requests of one recording: {dict(verdicts)}")
    assert verdicts[None] > 0.8 * verdicts.total()


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.ISOLATE])
def test_the_other_policies_get_through_as_well(policy: Policy) -> None:
    assert sum(1 for _ in _verdicts(policy)) > 200


def _verdicts(policy: Policy) -> Iterator[tuple[Recorded, Diagnosis]]:
    """For each body that has one before it in its recording."""
    events: list[Event] = []
    turns, recording = Turns(MemoryLedger(1 << 20)), -1
    for r in recorded():
        if r.recording != recording:
            recording = r.recording
            turns = Turns(MemoryLedger(16 << 20), clock=lambda: 0.0, observe=events.append)
        if (name := spoken(r)) is None:
            continue
        raw = json.dumps(r.body).encode()
        plan = turns.plan(Arrival(raw, name, "up", KEY, policy, float(r.number), str(r.number)))
        assert policy is not Policy.OBSERVE or plan.body is raw
        if r.number:
            yield r, plan.diagnosis
    assert not [e for e in events if isinstance(e, FailedOpen)]
