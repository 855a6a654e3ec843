from __future__ import annotations

from dataclasses import replace

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from standfast.errors import RecordBroken
from standfast.store.names import Run, key_of, token_ids
from standfast.store.record import TOKENS_AT, Kind, Record, Seal, body_at, expect, pack, peek, unpack, verify

NAMESPACE, PARENT = bytes(range(32)), bytes(32)


def record(tokens: list[int], body: bytes = b"state", kind: Kind = Kind.BLOCK) -> Record:
    ids = token_ids(tokens)
    run = Run(key_of(NAMESPACE, PARENT, ids), PARENT, 64, ids)
    return Record(kind, 3, NAMESPACE, run, 9, memoryview(body))


def packed(given: Record, seal: Seal = Seal.FORGERY) -> bytes:
    return b"".join(bytes(piece) for piece in pack(given, seal))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=80), st.binary(max_size=99), st.sampled_from(Seal))
def test_what_was_packed_comes_back(tokens: list[int], body: bytes, seal: Seal) -> None:
    made = record(tokens, body)
    data = packed(made, seal)
    back = unpack(data, NAMESPACE, made.run.key)
    assert (back.kind, back.codec, back.decoded, bytes(back.body)) == (Kind.BLOCK, 3, 9, body)
    assert expect(back, made.run) is back
    assert (len(data), body_at(len(tokens)) % 64) == (made.nbytes, 0)
    seen = peek(data[: TOKENS_AT + 8])
    assert verify(data).nbytes == len(data)
    assert (seen.kind, seen.length, seen.nbytes) == (Kind.BLOCK, len(tokens), len(data))
    assert seen.run.tokens.tolist() == tokens[:2]


@given(st.data(), st.sampled_from(Seal))
def test_any_byte_that_changed_is_found(data: st.DataObject, seal: Seal) -> None:
    made = record([1, 2, 3], b"some state")
    whole = bytearray(packed(made, seal))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RecordBroken):
        unpack(whole, NAMESPACE, made.run.key)
    if not 144 <= at < 160:  # the keyed half
        with pytest.raises(RecordBroken):
            verify(whole)


@given(st.binary(max_size=400))
def test_noise_is_no_record(noise: bytes) -> None:
    with pytest.raises(RecordBroken):
        unpack(noise, NAMESPACE, PARENT)


@pytest.mark.parametrize("cut", [1, 5, 64, 170, 200])
def test_a_record_that_was_torn_is_found(cut: int) -> None:
    made = record([1, 2, 3], bytes(100))
    with pytest.raises(RecordBroken):
        unpack(packed(made)[:-cut], NAMESPACE, made.run.key)


def test_another_namespace_or_key_is_refused_before_anything_is_read() -> None:
    made = record([1])
    for namespace, key, check in ((PARENT, made.run.key, "namespace"), (NAMESPACE, PARENT, "key")):
        with pytest.raises(RecordBroken) as caught:
            unpack(packed(made), namespace, key)
        assert caught.value.check == check


def test_forgery_is_found_by_the_keyed_seal() -> None:
    """Who can write to the medium and has no namespace can make any record but the one that is asked for."""
    made = record([1, 2], b"true")
    head, tokens, _ = pack(made, Seal.FORGERY)
    other = bytes(32)
    lies = bytes(head[:128]) + bytes(tokens) + b"lies"
    forged = bytes(head[:128]) + xxh3_128_digest(lies) + blake3(lies, key=other).digest(16)
    with pytest.raises(RecordBroken, match="seal"):
        unpack(b"".join([forged, bytes(tokens), b"lies"]), NAMESPACE, made.run.key)


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"key": b"k" * 32}, "key"),
        ({"parent": b"p" * 32}, "parent"),
        ({"start": 0}, "position"),
        ({"tokens": token_ids([1, 9])}, "tokens"),
        ({"tokens": token_ids([1])}, "tokens"),
    ],
)
def test_a_record_of_another_run_is_refused(changed: dict[str, object], check: str) -> None:
    made = record([1, 2])
    with pytest.raises(RecordBroken) as caught:
        expect(made, made.run._replace(**changed))  # type: ignore[arg-type]
    assert caught.value.check == check


def test_the_page_on_the_format_says_where_everything_lies() -> None:
    """A second reader, from docs/format/block-record.md alone."""
    made = replace(record([7, 8]), codec=2)
    data = packed(made)
    assert data[:8] == b"SFKV\x01\x01\x02\x02"
    assert [int.from_bytes(data[a:b], "little") for a, b in ((8, 12), (12, 16), (16, 24), (24, 32))] == [2, 64, 9, 5]
    space = blake3(NAMESPACE, derive_key_context="standfast kv namespace id 1").digest()
    assert (data[32:64], data[64:96], data[96:128]) == (space, PARENT, made.run.key)
    sealed = data[:128] + data[160:]
    assert data[128:160] == xxh3_128_digest(sealed) + blake3(sealed, key=NAMESPACE).digest(16)
    assert NAMESPACE not in data
    assert data[160:192] == bytes([7, 0, 0, 0, 8, 0, 0, 0]) + bytes(24)
    assert data[192:] == b"state"
