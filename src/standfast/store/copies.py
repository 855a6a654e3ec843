"""Records in a file, to carry them elsewhere: ``SFKVX 1`` and a line feed, then for each 8 bytes of length (little
endian) and the record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from standfast.errors import MediumFailed, RecordBroken
from standfast.store.medium import Medium
from standfast.store.record import verify

_MAGIC = b"SFKVX 1\n"
_LIMIT = 1 << 32
"""Bytes of a record that are believed."""


def export(medium: Medium, path: Path) -> int:
    """Write all sound records to a file (0600), whole or not at all; returns how many. Raises MediumFailed."""
    part, count = path.with_name(f".{path.name}.part"), 0
    try:
        with open(part, "wb", opener=_private) as file:
            file.write(_MAGIC)
            for key, _ in medium.keys():  # noqa: SIM118
                with medium.get_many([key]) as (view,):
                    count += view is not None and _write(file, view)
        part.replace(path)
    except OSError as error:
        raise MediumFailed(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return count


def restore(medium: Medium, path: Path) -> tuple[int, int]:
    """Put the records of a file into a medium; returns how many were taken, and how many did not hold or had no room.

    Raises MediumFailed if it is no such file.
    """
    taken, left = 0, 0
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise MediumFailed(f"{path}: no export of KV records")
            for data in _read(file):
                try:
                    key = verify(data).run.key
                except RecordBroken:
                    left += 1
                    continue
                stored = medium.put_many([(key, [data])])[0]
                taken, left = taken + stored, left + (not stored)
    except OSError as error:
        raise MediumFailed(f"{path}: cannot be read: {error.strerror}") from error
    return taken, left


def _private(path: str, flags: int) -> int:

    return os.open(path, flags, 0o600)


def _write(file: BinaryIO, view: memoryview) -> bool:
    try:
        verify(view)
    except RecordBroken:
        return False
    file.write(view.nbytes.to_bytes(8, "little"))
    file.write(view)
    return True


def _read(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(8):
        size = int.from_bytes(head, "little")
        data = file.read(size) if size < _LIMIT else b""
        yield data
        if len(data) < size:
            return
