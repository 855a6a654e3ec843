"""How the KV state of a run of tokens lies in memory, so that codecs and cutting need not know the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from standfast.errors import LayoutUnknown

DTYPES = {"f16": "<f2", "f32": "<f4", "bf16": "<u2", "u8": "u1"}
"""Names of dtypes; numpy has no bf16, so that one is seen as its bits."""


@dataclass(frozen=True, slots=True)
class Plane:
    """One array ``[layers][tokens][heads][head]``."""

    role: str
    """``k`` (keys, after RoPE), ``v`` (values), or ``x``: bytes of which nothing is known but their number."""
    dtype: str
    layers: int
    heads: int
    head: int
    """Values a head."""

    @property
    def row(self) -> int:
        """Bytes a token and layer."""
        return self.heads * self.head * np.dtype(DTYPES[self.dtype]).itemsize

    @property
    def token_bytes(self) -> int:
        return self.layers * self.row


@dataclass(frozen=True, slots=True)
class Layout:
    """The planes of a block, in their order, and the engine's name for the format they come from."""

    engine: str
    planes: tuple[Plane, ...]
    block: int = 64
    """Tokens a block."""

    @property
    def id(self) -> bytes:
        """16 bytes; another layout has another."""
        shape = [f"{p.role} {p.dtype} {p.layers} {p.heads} {p.head}" for p in self.planes]
        return blake3("\n".join([self.engine, str(self.block), *shape]).encode()).digest(16)

    @property
    def token_bytes(self) -> int:
        """Bytes a token."""
        return sum(plane.token_bytes for plane in self.planes)

    def arrays(self, body: memoryview, tokens: int) -> list[npt.NDArray[np.generic]]:
        """Views of the planes of a decoded body, each ``[layers, tokens, heads, head]``. Nothing is copied.

        Raises LayoutUnknown if the body has another length.
        """
        if body.nbytes != tokens * self.token_bytes:
            raise LayoutUnknown(f"{body.nbytes} bytes are no state of {tokens} tokens of {self.token_bytes} bytes each")
        out, start = [], 0
        for plane in self.planes:
            size = tokens * plane.token_bytes
            flat = np.frombuffer(body[start : start + size], DTYPES[plane.dtype])
            out.append(flat.reshape(plane.layers, tokens, plane.heads, plane.head))
            start += size
        return out

    def cut(self, body: memoryview, tokens: int, first: int) -> Sequence[memoryview]:
        """The state of the first ``first`` tokens of a decoded body of ``tokens``, in pieces, nothing copied."""
        if first == tokens:
            return [body]
        pieces, start = [], 0
        for plane in self.planes:
            for _ in range(plane.layers):
                pieces.append(body[start : start + first * plane.row])
                start += tokens * plane.row
        return pieces
