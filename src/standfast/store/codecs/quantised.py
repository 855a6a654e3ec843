"""States in 8 or 4 bits: rotated, keys by channel and values by token, first and newest tokens exact, then Zstandard.

A rotation of each head spreads what one channel or token has more of over all of them, so that a group's range is used
by all its members; attention is the same for rotated queries and keys, so its error is that of the rotated values.
Keys differ by channel more than by token and values by token (Liu et al., "KIVI", 2024); the first tokens of a chain
get attention from all later ones (Xiao et al., "attention sinks", 2023), so they are kept as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from standfast.errors import RecordBroken
from standfast.store.codecs.lossless import compressed, decompressed, shuffled, unshuffled
from standfast.store.layout import Layout, Plane
from standfast.store.record import Buffer

_HEAD = Struct("<IIII")
_OCTAVE = 16
"""Steps between a power of two and the next."""
_REACH = 1 << 14
"""The lowest level is at most so many steps from zero."""
_LEAST = 2.0**-30
_NOT_FINITE = {"f16": 0x7C00, "bf16": 0x7F80}
Halves = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int16]


class Quantised:
    """docs/format/kv-codecs.md, 2 and 3."""

    lossless = False

    def __init__(self, id: int, name: str, bits: int) -> None:
        self.id, self.name = id, name
        self._packed, self._top = bits == 4, (1 << bits) - 1

    def fits(self, layout: Layout) -> bool:
        """Planes of half precision or bfloat16 whose heads have a power of two of values."""
        return bool(layout.planes) and all(
            plane.dtype in _NOT_FINITE and plane.head in (2, 4, 8, 16, 32, 64, 128, 256) for plane in layout.planes
        )

    def encode(self, body: memoryview, layout: Layout, tokens: int, exact: int = 0) -> Buffer:
        """Quantise; the first ``exact`` tokens, and all of a block that is not full, come back bit for bit."""
        planes = _halves(layout, body, tokens)
        odd = any(_is_odd(plane.dtype, array) for plane, array in zip(layout.planes, planes, strict=True))
        exact = tokens if tokens < layout.block or odd else min(exact, tokens)
        kept = shuffled(b"".join(array[:, :exact].tobytes() for array in planes))
        if exact == tokens:
            return _HEAD.pack(exact, len(kept), 0, 0) + kept
        coded = [self._coded(plane, array) for plane, array in zip(layout.planes, planes, strict=True)]
        steps = shuffled(b"".join(numbers[n].tobytes() for n in range(2) for _, *numbers in coded))
        codes = compressed(b"".join(array.tobytes() for array, _, _ in coded))
        return b"".join([_HEAD.pack(exact, len(kept), len(steps), len(codes)), kept, steps, codes])

    def decode(self, body: memoryview, layout: Layout, tokens: int, out: memoryview) -> None:
        """Write the decoded state to ``out``. Raises RecordBroken."""
        if body.nbytes < _HEAD.size or not self.fits(layout):
            raise RecordBroken("body")
        exact, *sizes = _HEAD.unpack_from(body)
        if sum(sizes) + _HEAD.size != body.nbytes or exact > tokens:
            raise RecordBroken("body")
        kept, steps, codes = _parts(body[_HEAD.size :], sizes)
        planes = _halves(layout, out, tokens)
        if exact < tokens:
            self._restore(layout.planes, planes, steps, codes, tokens)
        flat = np.frombuffer(unshuffled(kept, exact * layout.token_bytes), np.uint16)
        at = 0
        for array in planes:
            size = array[:, :exact].size
            array[:, :exact] = flat[at : at + size].reshape(array[:, :exact].shape)
            at += size

    def _coded(self, plane: Plane, bits: Halves) -> tuple[npt.NDArray[np.uint8], Steps, Steps]:
        from standfast.store.codecs import kernels

        layers, tokens, heads, head = bits.shape
        by_channel = plane.role == "k"
        values = np.empty((layers, heads, head, tokens), np.float32)
        kernels.rotated(bits, plane.dtype == "f16", values)
        low, high = np.empty((2, layers, heads * head if by_channel else tokens), np.float32)
        kernels.ranges(values, by_channel, low, high)
        s, z = self._steps(low, high)
        inverse = np.exp2(-s.astype(np.float32) / _OCTAVE)
        codes = np.empty((layers, heads, head, self._row(tokens)), np.uint8)
        kernels.coded(values, inverse, z.astype(np.float32), by_channel, self._packed, codes)
        return codes, s, z

    def _row(self, tokens: int) -> int:
        """Bytes of the codes of one channel."""
        return (tokens + 1) // 2 if self._packed else tokens

    def _steps(self, low: Floats, high: Floats) -> tuple[Steps, Steps]:
        """The least steps that cover a range, and the lowest level of each."""
        step = np.maximum((high - low) / np.float32(self._top), np.maximum(abs(low), abs(high)) / np.float32(_REACH))
        s = np.ceil(np.log2(np.maximum(step, np.float32(_LEAST))) * _OCTAVE)
        return s.astype(np.int16), np.floor(low / np.exp2(s / _OCTAVE) + np.float32(0.5)).astype(np.int16)

    def _restore(
        self, planes: Sequence[Plane], arrays: Sequence[Halves], steps: memoryview, codes: memoryview, tokens: int
    ) -> None:
        from standfast.store.codecs import kernels

        shapes = [(p.layers, p.heads * p.head if p.role == "k" else tokens) for p in planes]
        counts = [rows * columns for rows, columns in shapes]
        row = self._row(tokens)
        sizes = [p.layers * p.heads * p.head * row for p in planes]
        numbers = np.frombuffer(unshuffled(steps, 4 * sum(counts)), np.int16)
        data = np.frombuffer(decompressed(codes, sum(sizes)), np.uint8)
        with np.errstate(over="ignore"):
            step = np.exp2(numbers[: sum(counts)].astype(np.float32) / _OCTAVE)
        zero, at, start = numbers[sum(counts) :].astype(np.float32), 0, 0
        for p, array, shape, count, size in zip(planes, arrays, shapes, counts, sizes, strict=True):
            kernels.decoded(
                data[start : start + size].reshape(p.layers, p.heads, p.head, row),
                step[at : at + count].reshape(shape), zero[at : at + count].reshape(shape),
                p.role == "k", self._packed, p.dtype == "f16", array,
            )  # fmt: skip
            at, start = at + count, start + size


INT8, INT4 = Quantised(2, "int8", 8), Quantised(3, "int4", 4)


def warm() -> None:
    """Compile the loops, or load them from numba's cache: seconds that no request should wait for."""
    layout = Layout("warm", (Plane("k", "f16", 1, 1, 2), Plane("v", "f16", 1, 1, 2)), 2)
    for codec in (INT8, INT4):
        body = codec.encode(memoryview(bytes(16)), layout, 2)
        codec.decode(memoryview(body), layout, 2, memoryview(bytearray(16)))


def _halves(layout: Layout, body: memoryview, tokens: int) -> list[Any]:
    return [array.view(np.uint16) for array in layout.arrays(body, tokens)]


def _is_odd(dtype: str, bits: Halves) -> bool:
    """Whether something in it is not finite."""
    return bool(((bits & _NOT_FINITE[dtype]) == _NOT_FINITE[dtype]).any())


def _parts(body: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    ends = [0, *accumulate(sizes)]
    return [body[a:b] for a, b in pairwise(ends)]
