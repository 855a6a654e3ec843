"""Small pictures, and the same pixels in other bytes."""

from __future__ import annotations

import base64
import struct
import zlib
from random import Random

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(rng: Random, side: int = 24) -> str:
    """A picture of random stripes, in base64."""
    colours = [bytes(rng.randrange(256) for _ in range(3)) for _ in range(4)]
    rows = [colours[y // 6 % 4] * side for y in range(side)]
    return _encoded(rows, level=6)


def again(data: str, rng: Random) -> str:
    """The same pixels from another encoder: other compression, other filters, a comment."""
    rows = pixels(data)
    comment = b"tEXt", b"Software\0" + rng.choice([b"Pillow", b"sharp", b"libvips", b"ImageMagick"])
    others = [
        _encoded(rows, level=0),
        _encoded(rows, level=1),
        _encoded(rows, level=9, extra=[comment]),
        _encoded(rows, level=6, filters=True),
        _encoded(rows, level=9, filters=True, extra=[comment]),
    ]
    return rng.choice([other for other in others if other != data])


def changed(data: str, rng: Random) -> str:
    """The picture resampled: other pixels."""
    rows = pixels(data)
    smaller = [row[: len(row) // 6 * 3] for row in rows[::2]]
    noisy = [bytes(min(255, value + 3) for value in row) for row in rows]
    return _encoded(rng.choice([smaller, noisy]), level=6)


def _encoded(
    rows: list[bytes], level: int, *, filters: bool = False, extra: list[tuple[bytes, bytes]] | None = None
) -> str:
    width, height = len(rows[0]) // 3, len(rows)
    lines = [_up(row, rows[y - 1]) if filters and y else b"\0" + row for y, row in enumerate(rows)]
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        *(extra or []),
        (b"IDAT", zlib.compress(b"".join(lines), level)),
        (b"IEND", b""),
    ]
    return base64.b64encode(_SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks)).decode()


def _up(row: bytes, above: bytes) -> bytes:
    """A line stored as its difference to the one above."""
    return b"\2" + bytes((a - b) % 256 for a, b in zip(row, above, strict=True))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pixels(data: str) -> list[bytes]:
    """The lines of pixels of a picture that this module made, filters undone."""
    raw = base64.b64decode(data)
    at, width, found = len(_SIGNATURE), 0, b""
    while at < len(raw):
        (size,), name = struct.unpack(">I", raw[at : at + 4]), raw[at + 4 : at + 8]
        if name == b"IHDR":
            (width,) = struct.unpack(">I", raw[at + 8 : at + 12])
        if name == b"IDAT":
            found = zlib.decompress(raw[at + 8 : at + 8 + size])
        at += 12 + size
    line, rows = 1 + 3 * width, list[bytes]()
    for i in range(0, len(found), line):
        row, above = found[i + 1 : i + line], rows[-1] if rows else bytes(3 * width)
        rows.append(bytes((a + b) % 256 for a, b in zip(row, above, strict=True)) if found[i] == 2 else row)
    return rows
