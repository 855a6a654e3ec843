"""What a state holds for, and the names of runs of tokens (docs/format/block-record.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from blake3 import blake3

Tokens = npt.NDArray[np.uint32]
"""Token ids, one dimension, little endian, contiguous."""

BLOCK = 64
"""Tokens a block, unless the layout says otherwise."""


@dataclass(frozen=True, slots=True)
class Scope:
    """All that a state depends on besides its tokens. States of two scopes never meet."""

    model: bytes
    """Digest of the weights, and of the settings that change a state (RoPE scaling, quantised KV)."""
    layout: bytes
    """Id of the layout, see ``Layout.id``."""
    template: bytes = b""
    """Digest of tokenizer and chat template."""
    adapter: bytes = b""
    salt: bytes = b""
    """The tenant's secret."""

    def namespace(self) -> bytes:
        """32 bytes, secret: key of all digests in this scope."""
        hasher = blake3(derive_key_context="standfast kv namespace 1")
        for name in ("model", "adapter", "layout", "template", "salt"):
            part: bytes = getattr(self, name)
            hasher.update(len(part).to_bytes(4, "little") + part)
        return hasher.digest()


class Run(NamedTuple):
    """A run of tokens within a chain."""

    key: bytes
    parent: bytes
    start: int
    """Position of its first token."""
    tokens: Tokens


@lru_cache(4096)
def space_id(namespace: bytes) -> bytes:
    """What a record tells of its namespace, which is a secret: 32 bytes."""
    return blake3(namespace, derive_key_context="standfast kv namespace id 1").digest()


def token_ids(tokens: npt.ArrayLike) -> Tokens:
    """Any sequence of token ids as an array. Raises OverflowError or ValueError for what is none."""
    return np.ascontiguousarray(tokens, dtype="<u4")


def key_of(namespace: bytes, parent: bytes, tokens: Tokens) -> bytes:
    """Name of the run of tokens behind ``parent``."""
    return blake3(parent + tokens.tobytes(), key=namespace).digest()


def runs(namespace: bytes, tokens: Tokens, block: int = BLOCK) -> Iterator[Run]:
    """A chain, cut into blocks; the last may be shorter. Lazily: who stops early hashes no more than was asked for."""
    parent, data = space_id(namespace), tokens.data.cast("B")
    for start in range(0, len(tokens), block):
        key = blake3(parent + data[4 * start : 4 * (start + block)], key=namespace).digest()
        yield Run(key, parent, start, tokens[start : start + block])
        parent = key


def shared_length(a: Tokens, b: Tokens) -> int:
    """How many tokens two runs have in common from their first on."""
    n = min(len(a), len(b))
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if len(differs) else n
