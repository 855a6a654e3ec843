"""The inner loops of quantised codecs, compiled. Arrays are ``[layers, tokens, heads, head]`` of 16-bit floats as bits.

Halves are converted by whole numbers: compiled code has none on a CPU. Tiles have tokens in the inner dimension, and
inner loops run over one row, so that they become vector instructions; none of them meets a subnormal float, which
would cost a hundred times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., None])


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def _inlined(function: F) -> F:
    return cast(F, numba.njit(inline="always")(function))


@_inlined
def _rotate(tile: Array) -> None:
    """The Walsh-Hadamard transform over the rows, without its factor."""
    rows = tile.shape[0]
    step = 1
    while step < rows:
        for first in range(0, rows, 2 * step):
            for row in range(first, first + step):
                upper, lower = tile[row], tile[row + step]
                for t in range(upper.shape[0]):
                    a, b = upper[t], lower[t]
                    upper[t] = a + b
                    lower[t] = a - b
        step *= 2


@_inlined
def _to_halves(values: Array, words: Array, out: Array, half: bool) -> None:
    """A row of floats (and its bits) → bits of halves or bfloat16: to nearest, ties to even, saturated."""
    if half:
        for t in range(words.shape[0]):
            u = words[t] & np.uint32(0x7FFFFFFF)
            r = (u - np.uint32(112 << 23) + np.uint32(0xFFF) + ((u >> np.uint32(13)) & np.uint32(1))) >> np.uint32(13)
            r = np.uint32(0x7BFF) if r > np.uint32(0x7BFF) else r
            # A half is subnormal below 2^-14. Added to a half, a float has the grain of these: 2^-24.
            small = abs(values[t]) + np.float32(0.5)
            r = np.uint32((small - np.float32(0.5)) * np.float32(1 << 24)) if u < np.uint32(113 << 23) else r
            out[t] = r | ((words[t] >> np.uint32(16)) & np.uint32(0x8000))
    else:
        for t in range(words.shape[0]):
            u = words[t] & np.uint32(0x7FFFFFFF)
            r = (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
            r = np.uint32(0x7F7F) if r > np.uint32(0x7F7F) else r
            out[t] = r | ((words[t] >> np.uint32(16)) & np.uint32(0x8000))


@_inlined
def _to_floats(words: Array, values: Array, half: bool) -> None:
    """Bits of halves or bfloat16 in a row of words → floats in their place."""
    if half:
        for t in range(words.shape[0]):
            u = words[t]
            low = u & np.uint32(0x7FFF)
            small = np.float32(low) * np.float32(2.0**-24)
            sign = np.float32(-1) if u & np.uint32(0x8000) else np.float32(1)
            words[t] = (low << np.uint32(13)) + np.uint32(112 << 23)
            values[t] = (small if low < np.uint32(0x400) else values[t]) * sign
    else:
        for t in range(words.shape[0]):
            words[t] <<= np.uint32(16)


@_compiled
def rotated(bits: Array, half: bool, out: Array) -> None:
    """Halves ``[layers, tokens, heads, head]`` → floats ``[layers, heads, head, tokens]``, each head rotated."""
    layers, tokens, heads, head = bits.shape
    factor = np.float32(1 / np.sqrt(head))
    for layer in range(layers):
        for h in range(heads):
            tile = out[layer, h]
            words = tile.view(np.uint32)
            for t in range(tokens):
                source = bits[layer, t, h]
                for c in range(head):
                    words[c, t] = source[c]
            for c in range(head):
                values = tile[c]
                _to_floats(words[c], values, half)
                for t in range(tokens):
                    values[t] *= factor
            _rotate(tile)


@_compiled
def ranges(values: Array, by_channel: bool, low: Array, high: Array) -> None:
    """Least and greatest of ``[layers, heads, head, tokens]``: of each channel, to ``[layers, heads · head]``, or of
    each token, to ``[layers, tokens]``."""
    layers, heads, head, tokens = values.shape
    for layer in range(layers):
        lows, highs = low[layer], high[layer]
        if not by_channel:
            lows[:], highs[:] = values[layer, 0, 0], values[layer, 0, 0]
        for h in range(heads):
            for c in range(head):
                row = values[layer, h, c]
                if by_channel:
                    least = most = row[0]
                    for t in range(tokens):
                        least = row[t] if row[t] < least else least
                        most = row[t] if row[t] > most else most
                    lows[h * head + c], highs[h * head + c] = least, most
                else:
                    for t in range(tokens):
                        lows[t] = row[t] if row[t] < lows[t] else lows[t]
                        highs[t] = row[t] if row[t] > highs[t] else highs[t]


@_compiled
def coded(values: Array, inverse: Array, zero: Array, by_channel: bool, packed: bool, out: Array) -> None:
    """Floats ``[layers, heads, head, tokens]`` → codes, one or two in a byte. ``inverse``, ``zero``: as ``ranges``."""
    layers, heads, head, tokens = values.shape
    half = np.float32(0.5)
    most = np.float32(15.5) if packed else np.float32(255.5)
    codes = np.zeros(tokens + (tokens & 1), np.uint8)
    for layer in range(layers):
        steps, zeros = inverse[layer], zero[layer]
        for h in range(heads):
            for c in range(head):
                source, target = values[layer, h, c], out[layer, h, c]
                row = codes if packed else target
                if by_channel:
                    s, z = steps[h * head + c], zeros[h * head + c] - half
                    for t in range(tokens):
                        row[t] = np.uint8(np.int32(min(max(source[t] * s - z, half), most)))
                else:
                    for t in range(tokens):
                        x = source[t] * steps[t] - zeros[t] + half
                        row[t] = np.uint8(np.int32(min(max(x, half), most)))
                if packed:
                    for t in range(target.shape[0]):
                        target[t] = codes[2 * t] | (codes[2 * t + 1] << np.uint8(4))


@_inlined
def _spread(row: Array, packed: bool, values: Array) -> None:
    """Codes of a row, one or two in a byte, as floats."""
    if packed:
        for t in range(row.shape[0]):
            values[2 * t] = np.float32(row[t] & np.uint8(15))
            values[2 * t + 1] = np.float32(row[t] >> np.uint8(4))
    else:
        for t in range(row.shape[0]):
            values[t] = np.float32(row[t])


@_compiled
def decoded(codes: Array, step: Array, zero: Array, by_channel: bool, packed: bool, half: bool, out: Array) -> None:
    """Codes ``[layers, heads, head, tokens]`` → halves ``[layers, tokens, heads, head]``; see ``coded``."""
    layers, tokens, heads, head = out.shape
    factor = np.float32(1 / np.sqrt(head))
    tile = np.zeros((head, tokens + (tokens & 1)), np.float32)
    words, halves = tile.view(np.uint32), np.empty(tile.shape, np.uint16)
    for layer in range(layers):
        steps, zeros = step[layer] * factor, zero[layer]
        for h in range(heads):
            for c in range(head):
                values = tile[c]
                _spread(codes[layer, h, c], packed, values)
                if by_channel:
                    s, z = steps[h * head + c], zeros[h * head + c]
                    for t in range(tokens):
                        values[t] = (values[t] + z) * s
                else:
                    for t in range(tokens):
                        values[t] = (values[t] + zeros[t]) * steps[t]
            _rotate(tile)
            for c in range(head):
                _to_halves(tile[c], words[c], halves[c], half)
            for t in range(tokens):
                target = out[layer, t, h]
                for c in range(head):
                    target[c] = halves[c, t]
