"""llama.cpp's slot files as tokens and blocks, and back (build b11549, docs/engine.md).

A file is little endian: ``u32 magic, u32 version, u32 n, n × i32`` (-1, 1, cells, token ids, 0), then the state of one
sequence: per stream the cells with their positions, and for each layer the rows of K, then of V. Nothing in it says of
which model it is, and nothing is checked by the server, so all that can be checked is checked here.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, error

import numpy as np
import numpy.typing as npt

from standfast.errors import SlotFileUnknown
from standfast.store.layout import Layout, Plane
from standfast.store.names import Run, Tokens
from standfast.store.record import Buffer

MAGIC, VERSION = 0x67677371, 4
BUILD = "llama.cpp slot 4"
"""The engine's part of a layout's id."""
_GGML = {0: "f32", 1: "f16", 30: "bf16"}
_TYPES = {name: number for number, name in _GGML.items()}
_HEAD, _COUNT, _STATE, _LAYER = Struct("<III"), Struct("<I"), Struct("<IIII"), Struct("<iQ")
_CELL = np.dtype([("position", "<i4"), ("sequences", "<u4"), ("sequence", "<i4")])
_LARGEST_HEAD = 128
_FRAME = 4
"""Numbers around the token ids: -1, 1, how many, and 0 at the end."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file says besides tokens and states; the same in all files of one server."""

    streams: int
    stream: int
    """The one that is not empty."""
    rotations: tuple[int, int]
    frame: tuple[int, ...]
    """The numbers around the tokens, their count left out."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot file, read where it lies."""

    tokens: Tokens
    layout: Layout
    shape: Shape
    rows: tuple[memoryview, ...]
    """The rows of each layer, K of all layers, then V."""

    def body(self, start: int, end: int) -> bytes:
        """The state of tokens start to end, plane after plane."""
        sizes = [plane.row for plane in self.layout.planes for _ in range(plane.layers)]
        return b"".join(rows[start * size : end * size] for rows, size in zip(self.rows, sizes, strict=True))


class _Reader:
    """Walks through a file; whatever is not there makes it unknown."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def numbers(self, form: Struct) -> tuple[int, ...]:
        try:
            found = form.unpack_from(self._data, self._at)
        except error:
            raise SlotFileUnknown("it ends too early") from None
        self._at += form.size
        return found

    def bytes(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise SlotFileUnknown("it ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def end(self) -> None:
        if self._at != len(self._data):
            raise SlotFileUnknown(f"{len(self._data) - self._at} bytes follow its state")


def parse(data: Buffer) -> SlotState:
    """A slot file's contents. It does not tell the size of a head: the largest power of two that may be one is taken.

    Raises SlotFileUnknown for anything that is not a plain state of one sequence, all of whose tokens are there.
    """
    reader = _Reader(memoryview(data).cast("B"))
    frame, tokens = _tokens(reader)
    (streams,) = reader.numbers(_COUNT)
    filled, rows, planes, rotations = -1, list[memoryview](), list[Plane](), (0, 0)
    for stream in range(streams):
        (cells,) = reader.numbers(_COUNT)
        if cells == 0:
            continue
        if filled >= 0 or cells != len(tokens):
            raise SlotFileUnknown(f"stream {stream} has {cells} cells for {len(tokens)} tokens")
        filled = stream
        _check_cells(reader.bytes(cells * _CELL.itemsize))
        rotations, rows, planes = _layers(reader, cells)
    reader.end()
    if len(tokens) and filled < 0:
        raise SlotFileUnknown("it has no state")
    shape = Shape(streams, max(filled, 0), rotations, frame)
    return SlotState(tokens.astype("<u4"), Layout(BUILD, tuple(planes)), shape, tuple(rows))


def _tokens(reader: _Reader) -> tuple[tuple[int, ...], npt.NDArray[np.int32]]:
    """The numbers around the tokens, and these."""
    magic, version, count = reader.numbers(_HEAD)
    if (magic, version) != (MAGIC, VERSION):
        raise SlotFileUnknown(f"its magic and version are {magic:#x} {version}")
    numbers = np.frombuffer(reader.bytes(4 * count), "<i4")
    if count < _FRAME or numbers[2] != count - _FRAME:
        raise SlotFileUnknown("its list of tokens is not of the known form")
    tokens = numbers[3:-1]
    if len(tokens) and tokens.min() < 0:
        raise SlotFileUnknown("it holds something that is no text")
    return (int(numbers[0]), int(numbers[1]), int(numbers[-1])), tokens


def _check_cells(data: memoryview) -> None:
    cells = np.frombuffer(data, _CELL)
    if (cells["sequences"] != 1).any():
        raise SlotFileUnknown("its cells belong to several sequences")
    if (cells["position"] != np.arange(len(cells))).any():
        raise SlotFileUnknown("its positions have gaps, as with a sliding window")


def _layers(reader: _Reader, cells: int) -> tuple[tuple[int, int], list[memoryview], list[Plane]]:
    transposed, layers, *rotations = reader.numbers(_STATE)
    if transposed:
        raise SlotFileUnknown("its values are transposed: start the server with flash attention")
    rows, planes = list[memoryview](), list[Plane]()
    for role in "kv":
        for _ in range(layers):
            kind, size = reader.numbers(_LAYER)
            if kind not in _GGML:
                raise SlotFileUnknown(f"its state is quantised (ggml type {kind}): keep the engine's KV at f16")
            rows.append(reader.bytes(cells * size))
            planes.append(_plane(role, _GGML[kind], size))
    merged = list[Plane]()
    for plane in planes:
        if merged and merged[-1] == Plane(plane.role, plane.dtype, merged[-1].layers, plane.heads, plane.head):
            merged[-1] = Plane(plane.role, plane.dtype, merged[-1].layers + 1, plane.heads, plane.head)
        else:
            merged.append(plane)
    return (rotations[0], rotations[1]), rows, merged


def _plane(role: str, dtype: str, size: int) -> Plane:
    values, rest = divmod(size, Plane(role, dtype, 1, 1, 1).row)
    if not values or rest:
        raise SlotFileUnknown(f"a row of {size} bytes is no row of {dtype}")
    head = min(values & -values, _LARGEST_HEAD)
    return Plane(role, dtype, 1, values // head, head)


@dataclass(frozen=True, slots=True)
class WholeState:
    """A slot file of which only the tokens are understood."""

    tokens: Tokens
    file: memoryview

    def body(self, start: int, end: int) -> memoryview:
        """The file as it is, whatever is asked for."""
        return self.file


@contextmanager
def read_slot(path: Path) -> Iterator[SlotState]:
    """A slot file, mapped: its views hold until the ``with`` block ends. Raises SlotFileUnknown."""
    with _mapped(path) as view:
        yield parse(view)


@contextmanager
def read_whole(path: Path) -> Iterator[WholeState]:
    """A slot file that is not taken apart. Raises SlotFileUnknown."""
    with _mapped(path) as view:
        yield WholeState(_tokens(_Reader(view))[1].astype("<u4"), view)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as failure:
        raise SlotFileUnknown(f"it cannot be read ({failure})") from failure
    yield memoryview(mapped)  # unmapped with the last view of it


def write_slot(path: Path, layout: Layout, shape: Shape, parts: Sequence[tuple[Run, memoryview, int]]) -> int:
    """Write a slot file from blocks in ascending order: each run, its state, and how many of its tokens are wanted.

    Returns its bytes. Raises SlotFileUnknown if it cannot be written.
    """
    cells = sum(used for _, _, used in parts)
    tokens = np.concatenate([run.tokens[:used] for run, _, used in parts])
    numbers = np.array([*shape.frame[:2], cells, *tokens.astype("<i4"), shape.frame[2]], "<i4")
    places = np.zeros(cells, _CELL)
    places["position"], places["sequences"] = np.arange(cells), 1
    pieces: list[Buffer] = [_HEAD.pack(MAGIC, VERSION, len(numbers)), numbers.tobytes(), _COUNT.pack(shape.streams)]
    for stream in range(shape.streams):
        if stream != shape.stream:
            pieces.append(bytes(4))
            continue
        pieces += [_COUNT.pack(cells), places.tobytes()]
        pieces.append(_STATE.pack(0, sum(p.layers for p in layout.planes) // 2, *shape.rotations))
        at = [0] * len(parts)
        for plane in layout.planes:
            for _ in range(plane.layers):
                pieces.append(_LAYER.pack(_TYPES[plane.dtype], plane.row))
                for n, (run, body, used) in enumerate(parts):
                    pieces.append(body[at[n] : at[n] + used * plane.row])
                    at[n] += len(run.tokens) * plane.row
    return _write(path, pieces)


def write_whole(path: Path, file: memoryview) -> int:
    """Write a slot file as it was read. Raises SlotFileUnknown if it cannot be written."""
    return _write(path, [file])


def _write(path: Path, pieces: Sequence[Buffer]) -> int:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            size = sum(_write_all(descriptor, pieces[n : n + 512]) for n in range(0, len(pieces), 512))
            os.ftruncate(descriptor, size)  # last: pages of an older file are written over, not made anew
            return size
        finally:
            os.close(descriptor)
    except OSError as failure:
        raise SlotFileUnknown(f"it cannot be written ({failure.strerror})") from failure


def _write_all(descriptor: int, pieces: Sequence[Buffer]) -> int:
    size, written = sum(memoryview(piece).nbytes for piece in pieces), os.writev(descriptor, pieces)
    if written < size:  # rare: a signal, or a disk that is full
        rest = memoryview(b"".join(pieces))[written:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    return size
