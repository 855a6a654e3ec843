"""The very bytes, in less room: low bytes apart from high bytes, then Zstandard."""

from __future__ import annotations

import threading

import numpy as np
import zstandard

from standfast.errors import RecordBroken
from standfast.store.layout import Layout
from standfast.store.record import Buffer

_LEVEL = 1
_own = threading.local()


class Lossless:
    """docs/format/kv-codecs.md, 1."""

    id = 1
    name = "lossless"
    lossless = True

    def fits(self, layout: Layout) -> bool:
        """Every layout."""
        return True

    def encode(self, body: memoryview, layout: Layout, tokens: int, exact: int = 0) -> Buffer:
        """Shuffle and compress."""
        return shuffled(body)

    def decode(self, body: memoryview, layout: Layout, tokens: int, out: memoryview) -> None:
        """Decompress and put in order."""
        out[:] = unshuffled(body, out.nbytes)


def compressed(data: Buffer) -> bytes:
    """One Zstandard frame."""
    if not hasattr(_own, "writer"):
        _own.writer = zstandard.ZstdCompressor(level=_LEVEL)
    return bytes(_own.writer.compress(data))


def decompressed(data: Buffer, size: int) -> bytes:
    """What a frame holds, which must be just ``size`` bytes. Raises RecordBroken."""
    if not hasattr(_own, "reader"):
        _own.reader = zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(data) != size:
            raise RecordBroken("body")
        return bytes(_own.reader.decompress(data, max_output_size=size))
    except zstandard.ZstdError as error:
        raise RecordBroken("body") from error


def shuffled(data: Buffer) -> bytes:
    """All low bytes, all high bytes, and the odd byte; compressed."""
    flat = np.frombuffer(data, np.uint8)
    even = len(flat) & ~1
    return compressed(np.concatenate([flat[:even:2], flat[1:even:2], flat[even:]]).data)


def unshuffled(data: Buffer, size: int) -> memoryview:
    """The bytes in their order. Raises RecordBroken."""
    flat = np.frombuffer(decompressed(data, size), np.uint8)
    out, half = np.empty(size, np.uint8), size // 2
    out[: 2 * half : 2], out[1 : 2 * half : 2], out[2 * half :] = flat[:half], flat[half : 2 * half], flat[2 * half :]
    return out.data
