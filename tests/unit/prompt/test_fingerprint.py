"""The fingerprint is pinned: by vectors, and by a second implementation written from its page."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from property.talk import DIALECTS as NAMES
from property.talk import Habit, body, talk, wire
from unit.prompt import fingerprint_again

from standfast.prompt import fingerprint_pb2 as pb
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.fingerprint import record
from standfast.prompt.items import Items
from standfast.prompt.request import read, scope

_FILE = Path(__file__).with_name("vectors.json")
VECTORS: list[dict[str, Any]] = json.loads(_FILE.read_text("utf-8"))


def fingerprint(tenant: bytes, upstream: str, dialect: str, raw: bytes) -> tuple[bytes, list[bytes]]:
    key = scope(tenant, upstream)
    request = read(raw, DIALECTS[dialect], key, Items())
    return record(key, dialect, request.head, request.end, len(request.links)), list(request.links)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_vectors_hold(vector: dict[str, Any]) -> None:
    arguments = (bytes.fromhex(vector["tenant"]), vector["upstream"], vector["dialect"], vector["body"].encode())
    for made, links in (fingerprint(*arguments), fingerprint_again.fingerprint(*arguments)):
        assert [link.hex() for link in links] == vector["links"]
        assert made.hex() == vector["fingerprint"]


@pytest.mark.parametrize("dialect", NAMES)
def test_the_page_alone_is_enough_to_write_it_again(dialect: str) -> None:
    for seed in range(150):
        rng = Random(seed)
        raw = wire(body(talk(rng, steps=6, dialect=dialect), Habit(rng)), rng)
        assert fingerprint(b"k" * 32, "up", dialect, raw) == fingerprint_again.fingerprint(
            b"k" * 32, "up", dialect, raw
        )


def test_the_record_reads_as_the_proto_says() -> None:
    vector = VECTORS[0]
    message = pb.RequestFingerprint.FromString(bytes.fromhex(vector["fingerprint"]))
    assert (message.version, message.dialect, message.segments) == (2, vector["dialect"], len(vector["links"]))
    assert message.history.hex() == vector["links"][-1]


def test_tenants_and_upstreams_share_nothing() -> None:
    vector = VECTORS[0]
    raw = vector["body"].encode()
    chains = [
        set(fingerprint(tenant, upstream, vector["dialect"], raw)[1])
        for tenant, upstream in ((bytes(32), "a"), (bytes(32), "b"), (b"k" * 32, "a"))
    ]
    assert not chains[0] & chains[1] | chains[1] & chains[2] | chains[0] & chains[2]
