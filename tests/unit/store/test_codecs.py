from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from struct import Struct

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import RecordBroken
from standfast.store.codec import Codec
from standfast.store.codecs import CODECS
from standfast.store.codecs.quantised import INT4, INT8, Quantised
from standfast.store.layout import Layout, Plane

ALL = pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
LOSSY = {"int8": 0.01, "int4": 0.16}
"""Root mean square error, as a share of the values' spread."""


def layout(dtype: str = "f16", layers: int = 2, heads: int = 3, head: int = 8, block: int = 16) -> Layout:
    return Layout("t", (Plane("k", dtype, layers, heads, head), Plane("v", dtype, layers, heads, head)), block)


layouts = st.builds(
    layout, st.sampled_from(["f16", "bf16", "f32", "u8"]), st.integers(1, 3), st.integers(1, 3),
    st.sampled_from([1, 2, 6, 8, 64]), st.sampled_from([4, 16]),
)  # fmt: skip


def through(codec: Codec, body: bytes, at: Layout, tokens: int, exact: int = 0) -> bytes:
    coded = codec.encode(memoryview(body), at, tokens, exact)
    out = bytearray(len(body))
    codec.decode(memoryview(coded), at, tokens, memoryview(out))
    return bytes(out)


def gaussian(at: Layout, tokens: int, seed: int = 0) -> bytes:
    """Values as models have them: channels of different size and offset."""
    rng = np.random.default_rng(seed)
    planes = []
    for p in at.planes:
        shape = (p.layers, tokens, p.heads, p.head)
        spread, offset = np.exp(rng.normal(0, 1, (p.layers, 1, *shape[2:]))), rng.normal(0, 2, p.head)
        values = rng.normal(0, 1, shape) * spread + (offset if p.role == "k" else 0)
        planes.append(values.astype(np.float16).tobytes())
    return b"".join(planes)


@ALL
@settings(deadline=None, max_examples=60)
@given(at=layouts, tokens=st.integers(1, 33), seed=st.integers(0, 9), exact=st.integers(0, 40))
def test_any_bytes_of_any_layout_come_back_as_they_must(
    codec: Codec, at: Layout, tokens: int, seed: int, exact: int
) -> None:
    """Random bytes: infinities, numbers that are none, subnormals, signed zeros."""
    body = np.random.default_rng(seed).bytes(tokens * at.token_bytes)
    if not codec.fits(at):
        return
    back = through(codec, body, at, tokens, exact)
    if codec.lossless or tokens < at.block:
        assert back == body
    for before, after in zip(at.arrays(memoryview(body), tokens), at.arrays(memoryview(back), tokens), strict=True):
        assert before[:, :exact].tobytes() == after[:, :exact].tobytes()


@pytest.mark.parametrize("name", LOSSY)
@settings(deadline=None, max_examples=40)
@given(
    heads=st.integers(1, 3), head=st.sampled_from([8, 32, 64]), tokens=st.sampled_from([16, 17, 31, 64]),
    seed=st.integers(0, 99), exact=st.integers(0, 4),
)  # fmt: skip
def test_the_error_is_bounded(name: str, heads: int, head: int, tokens: int, seed: int, exact: int) -> None:
    at = layout(heads=heads, head=head)
    body = gaussian(at, tokens, seed)
    back = through(CODECS[name], body, at, tokens, exact)
    for a, b in zip(at.arrays(memoryview(body), tokens), at.arrays(memoryview(back), tokens), strict=True):
        x, y = a.astype(np.float64), b.astype(np.float64)
        assert np.sqrt(((x - y) ** 2).mean()) <= LOSSY[name] * x.std()
        assert np.array_equal(x[:, :exact], y[:, :exact])


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -7.25, 6.1e-5, 5e-7, 65504.0, -65504.0])
@pytest.mark.parametrize("name", LOSSY)
def test_constant_states(name: str, value: float) -> None:
    at = layout()
    body = np.full(16 * at.token_bytes // 2, value, np.float16).tobytes()
    back = np.frombuffer(through(CODECS[name], body, at, 16), np.float16)
    assert np.allclose(back.astype(np.float64), value, rtol=LOSSY[name], atol=1e-6)


def test_what_layouts_are_understood() -> None:
    assert INT4.fits(layout())
    assert INT4.fits(layout("bf16"))
    for other in (layout("f32"), layout(head=6), layout(head=512), Layout("whole", (), 1 << 30)):
        assert not INT4.fits(other)
        assert CODECS["lossless"].fits(other)


@pytest.mark.parametrize("codec", [INT8, INT4, CODECS["lossless"], CODECS["raw"]], ids=lambda c: str(c.name))
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damage_is_said_and_nothing_else_happens(codec: Codec, data: st.DataObject) -> None:
    at = layout()
    coded = bytearray(codec.encode(memoryview(gaussian(at, 16)), at, 16, 2))
    match data.draw(st.sampled_from(["flip", "cut", "more", "head"])):
        case "flip":
            coded[data.draw(st.integers(0, len(coded) - 1))] ^= data.draw(st.integers(1, 255))
        case "cut":
            del coded[data.draw(st.integers(0, len(coded) - 1)) :]
        case "more":
            coded += data.draw(st.binary(min_size=1, max_size=9))
        case "head":
            coded[:16] = data.draw(st.binary(min_size=16, max_size=16))
    out = memoryview(bytearray(16 * at.token_bytes))
    with suppress(RecordBroken):
        codec.decode(memoryview(coded), at, 16, out)


def reader(codec: Quantised, coded: bytes, at: Layout, tokens: int) -> bytes:
    """A second implementation, from docs/format/kv-codecs.md alone."""

    def unshuffled(part: bytes) -> bytes:
        flat = zstandard.ZstdDecompressor().decompress(part)
        half = len(flat) // 2
        return bytes(x for pair in zip(flat[:half], flat[half:], strict=True) for x in pair)

    exact, a, b, c = Struct("<IIII").unpack(coded[:16])
    kept, steps, codes = coded[16 : 16 + a], coded[16 + a : 16 + a + b], coded[16 + a + b : 16 + a + b + c]
    counts = [p.layers * (p.heads * p.head if p.role == "k" else tokens) for p in at.planes]
    numbers = np.frombuffer(unshuffled(steps), "<i2").astype(np.float32).reshape(2, sum(counts))
    raw, out, at_pair, at_code = zstandard.ZstdDecompressor().decompress(codes), [], 0, 0
    rows = {8: tokens, 4: (tokens + 1) // 2}[4 if codec is INT4 else 8]
    exact_values = np.frombuffer(unshuffled(kept), "<f2")
    for p, count in zip(at.planes, counts, strict=True):
        size = p.layers * p.heads * p.head * rows
        code = np.frombuffer(raw[at_code : at_code + size], np.uint8).reshape(p.layers, p.heads, p.head, rows)
        if codec is INT4:
            code = np.stack([code & 15, code >> 4], -1).reshape(p.layers, p.heads, p.head, 2 * rows)[..., :tokens]
        s, z = numbers[:, at_pair : at_pair + count]
        shape = (p.layers, p.heads, p.head, 1) if p.role == "k" else (p.layers, 1, 1, tokens)
        values = (code + z.reshape(shape)) * np.exp2(s.reshape(shape) / 16)
        matrix = np.array([[1.0]])
        while len(matrix) < p.head:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        plane = np.einsum("ij,lhjt->lthi", matrix / np.sqrt(p.head), values).astype(np.float16)
        size_exact = plane[:, :exact].size
        plane[:, :exact] = exact_values[:size_exact].reshape(plane[:, :exact].shape)
        exact_values = exact_values[size_exact:]
        out.append(plane.tobytes())
        at_pair, at_code = at_pair + count, at_code + size
    return b"".join(out)


@pytest.mark.parametrize("codec", [INT8, INT4], ids=["int8", "int4"])
@pytest.mark.parametrize("tokens", [16, 19])
def test_the_page_on_the_format_is_enough_to_read_it(codec: Quantised, tokens: int) -> None:
    at = layout(head=16)
    body = gaussian(at, tokens, 3)
    coded = bytes(codec.encode(memoryview(body), at, tokens, 3))
    mine = np.frombuffer(reader(codec, coded, at, tokens), np.float16).astype(np.float64)
    theirs = np.frombuffer(through(codec, body, at, tokens, 3), np.float16).astype(np.float64)
    assert np.abs(mine - theirs).max() <= 2e-3 * np.abs(mine).max()


def test_another_process_writes_the_same() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/unit/store')\n"
        "from test_codecs import *\n"
        "print(INT4.encode(memoryview(gaussian(layout(), 16)), layout(), 16, 2).hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    at = layout()
    assert done.stdout.strip() == bytes(INT4.encode(memoryview(gaussian(at, 16)), at, 16, 2)).hex()
