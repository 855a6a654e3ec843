"""How often a key was seen of late, in a few bytes: a count-min sketch whose counts fade.

Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005; counters of four bits that are
halved at intervals as in Einziger, Friedman and Manes, "TinyLFU", ACM ToS 2017.
"""

from __future__ import annotations

from collections.abc import Hashable

FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
"""An odd multiplier a row."""
MOST = 15
WIDTH = 4
"""Counters a row and key."""
FADE = 10
"""The counts are halved after as many uses as ten times the keys it is made for."""
_ALL = (1 << 64) - 1
_HALVES = bytes(value >> 1 for value in range(256))


class Sketch:
    """Never counts too little, but for what faded; too much when keys collide in all four rows.

    It grows by itself: a table twice as wide in which each half is the old one gives the old counts.
    """

    __slots__ = ("_bits", "_keys", "_rows", "_seen")

    def __init__(self, keys: int = 1024) -> None:
        self._keys = keys
        self._bits = (WIDTH * keys - 1).bit_length()
        self._rows = [bytearray(1 << self._bits) for _ in FACTORS]
        self._seen = 0

    def add(self, key: Hashable) -> None:
        """The key was seen. Only the least of its counters grow: the others count somebody else as well."""
        name, shift = hash(key), 64 - self._bits
        places = [((name * factor) & _ALL) >> shift for factor in FACTORS]
        counts = [row[place] for row, place in zip(self._rows, places, strict=True)]
        least = min(counts)
        if least < MOST:
            for row, place, count in zip(self._rows, places, counts, strict=True):
                if count == least:
                    row[place] = least + 1
        self._seen += 1
        if self._seen >= FADE * self._keys:
            self._rows = [row.translate(_HALVES) for row in self._rows]
            self._seen //= 2

    def count(self, key: Hashable) -> int:
        """How often the key was seen of late, 0 to 15."""
        name, shift = hash(key), 64 - self._bits
        return min(row[((name * factor) & _ALL) >> shift] for row, factor in zip(self._rows, FACTORS, strict=True))

    def fit(self, keys: int) -> None:
        """Be wide enough for so many keys."""
        self._keys = max(keys, self._keys)
        while WIDTH * keys > 1 << self._bits:
            # The place is the upper bits of a product: one bit more parts each place into two neighbours.
            self._rows = [_doubled(row) for row in self._rows]
            self._bits += 1


def _doubled(row: bytearray) -> bytearray:
    wide = bytearray(2 * len(row))
    wide[::2] = wide[1::2] = row
    return wide
