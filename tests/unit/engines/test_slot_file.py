from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.engines.slot_file import Shape, parse, read_slot, read_whole, write_slot, write_whole
from standfast.errors import SlotFileUnknown
from standfast.store.names import Run, token_ids

GGML = {"f32": (0, 4), "f16": (1, 2), "bf16": (30, 2)}
RNG = np.random.default_rng(1)


def slot_file(
    tokens: list[int],
    *,
    streams: int = 2,
    stream: int = 1,
    widths: tuple[tuple[str, int], ...] = (("f16", 6),) * 2,
    transposed: int = 0,
    first: int = 0,
) -> bytes:
    """A file as docs/engine.md describes it, by code of its own; a layer for each (dtype, values a token)."""
    out = struct.pack("<IIIiii", 0x67677371, 4, len(tokens) + 4, -1, 1, len(tokens))
    out += b"".join(struct.pack("<i", token) for token in tokens) + struct.pack("<iI", 0, streams)
    for n in range(streams):
        if n != stream:
            out += struct.pack("<I", 0)
            continue
        out += struct.pack("<I", len(tokens))
        out += b"".join(struct.pack("<iIi", first + place, 1, 0) for place in range(len(tokens)))
        out += struct.pack("<IIII", transposed, len(widths), 0, 0)
        for _ in "kv":
            for dtype, width in widths:
                number, size = GGML[dtype]
                out += struct.pack("<iQ", number, width * size) + RNG.bytes(len(tokens) * width * size)
    return out


layers = st.lists(st.tuples(st.sampled_from(sorted(GGML)), st.sampled_from([2, 4, 8])), min_size=1, max_size=4)


@given(st.data(), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40), layers.map(tuple), st.integers(1, 3))
def test_a_file_taken_apart_and_put_together_is_the_same(
    data: st.DataObject, tokens: list[int], widths: tuple[tuple[str, int], ...], streams: int
) -> None:
    stream, block = data.draw(st.integers(0, streams - 1)), data.draw(st.integers(1, 9))
    whole = slot_file(tokens, streams=streams, stream=stream, widths=widths)
    state = parse(whole)
    assert state.tokens.tolist() == tokens
    assert state.layout.token_bytes == 2 * sum(GGML[dtype][1] * width for dtype, width in widths)
    assert all(plane.head in (2, 4, 8) for plane in state.layout.planes)
    parts = []
    for start in range(0, len(tokens), block):
        end = min(start + block, len(tokens))
        parts.append((Run(b"", b"", start, state.tokens[start:end]), memoryview(state.body(start, end)), end - start))
    path = Path(f"/dev/shm/standfast-test-{id(parts)}") if Path("/dev/shm").is_dir() else Path(f"slot-{id(parts)}")
    try:
        assert write_slot(path, state.layout, state.shape, parts) == len(whole)
        assert path.read_bytes() == whole
        assert path.stat().st_mode & 0o777 == 0o600
        cut = data.draw(st.integers(1, len(parts[-1][0].tokens)))
        write_slot(path, state.layout, state.shape, [*parts[:-1], (*parts[-1][:2], cut)])
        with read_slot(path) as shorter:
            kept = len(tokens) - len(parts[-1][0].tokens) + cut
            assert shorter.tokens.tolist() == tokens[:kept]
            assert shorter.body(0, kept) == state.body(0, kept)
    finally:
        path.unlink(missing_ok=True)


GOOD = slot_file([1, 2, 3])


@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_was_cut_off_is_refused(size: int) -> None:
    with pytest.raises(SlotFileUnknown):
        parse(GOOD[:size])


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_damage_is_refused_or_is_in_the_state_alone(at: int, change: int) -> None:
    broken = bytearray(GOOD)
    broken[at] ^= change
    try:
        state = parse(broken)
    except SlotFileUnknown:
        return
    assert len(state.tokens) == 3


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GGUF" + GOOD[4:], "magic"),
        (GOOD[:4] + b"\3\0\0\0" + GOOD[8:], "magic and version"),
        (slot_file([1, 2], transposed=1), "flash attention"),
        (slot_file([1, 2], first=5), "sliding window"),
        (slot_file([-1, 2]), "no text"),
        (slot_file([1], streams=2, stream=9), "no state"),
        (GOOD + b"\0", "1 bytes follow"),
        (GOOD.replace(struct.pack("<iQ", 1, 12), struct.pack("<iQ", 1, 0)), "row of 0 bytes"),
        (GOOD.replace(struct.pack("<iQ", 1, 12), struct.pack("<iQ", 1, 11)), "row of 11 bytes"),
        (GOOD.replace(struct.pack("<iQ", 1, 12), struct.pack("<iQ", 8, 12)), "quantised"),
    ],
)
def test_what_cannot_be_cut_says_why(data: bytes, why: str) -> None:
    with pytest.raises(SlotFileUnknown, match=why):
        parse(data)


def test_a_whole_file_is_kept_as_it_is(tmp_path: Path) -> None:
    path, data = tmp_path / "slot", slot_file([4, 5], transposed=1)
    write_whole(path, memoryview(data))
    with read_whole(path) as state:
        assert state.tokens.tolist() == [4, 5]
        assert bytes(state.body(0, 2)) == data


def test_files_that_are_not_there_or_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SlotFileUnknown, match="read"), read_slot(tmp_path / "none"):
        pass
    (tmp_path / "empty").touch()
    with pytest.raises(SlotFileUnknown, match="read"), read_slot(tmp_path / "empty"):
        pass
    state, run = parse(GOOD), Run(b"", b"", 0, token_ids([1, 2, 3]))
    with pytest.raises(SlotFileUnknown, match="written"):
        write_slot(tmp_path / "no" / "folder", state.layout, Shape(1, 0, (0, 0), (-1, 1, 0)), [(run, state.rows[0], 1)])
