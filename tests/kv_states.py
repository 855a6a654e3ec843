"""States that depend on all tokens in front of them, as a model's do: a state of other tokens is seen at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from standfast.store.layout import Layout, Plane
from standfast.store.names import Scope, Tokens, runs, token_ids
from standfast.store.record import Kind, Record
from standfast.store.tiers import Loaded

LAYOUT = Layout("test 1", (Plane("k", "f16", 3, 2, 4), Plane("v", "f16", 3, 2, 4)), 16)
NAMESPACE = Scope(b"model", LAYOUT.id).namespace()
States = npt.NDArray[np.uint16]
"""[tokens, planes, layers, values]"""


def tokens_of(*parts: Sequence[int]) -> Tokens:
    return token_ids([token for part in parts for token in part])


def states(tokens: Tokens) -> States:
    """What a model computes."""
    out, digest = np.empty((len(tokens), 2, 3, 8), np.uint16), 1
    for n, token in enumerate(tokens.tolist()):
        digest = (digest * 6364136223846793005 + token + 1) % (1 << 64)
        out[n] = (digest >> np.arange(48, dtype=np.uint64).reshape(2, 3, 8) % np.uint64(48)) & np.uint64(0xFFFF)
    return out


def body_of(state: States) -> Callable[[int, int], bytes]:
    """Bodies of blocks, as a store asks for them."""
    return lambda a, b: np.ascontiguousarray(state[a:b].transpose(1, 2, 0, 3)).tobytes()


def joined(loaded: Loaded, layout: Layout = LAYOUT) -> States:
    """The states that were loaded, in order."""
    out = [np.zeros((0, 2, 3, 8), np.uint16)]
    for run, body, used in loaded.parts:
        pieces = b"".join(bytes(piece) for piece in layout.cut(body, len(run.tokens), used))
        out.append(np.frombuffer(pieces, np.uint16).reshape(2, 3, used, 8).transpose(2, 0, 1, 3))
    return np.concatenate(out)


def record(*tokens: int) -> Record:
    """A block of these tokens."""
    run = next(runs(NAMESPACE, tokens_of(tokens)))
    body = body_of(states(run.tokens))(0, len(run.tokens))
    return Record(Kind.BLOCK, 0, NAMESPACE, run, len(body), memoryview(body))
