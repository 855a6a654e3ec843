"""Can this server's slots be cut into blocks? Tried at start with a few tokens; if not, whole slots are kept."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from standfast.engines.llama_server import LlamaServer
from standfast.engines.slot_file import Shape, SlotState, read_slot, write_slot
from standfast.errors import EngineError, SlotFileUnknown
from standfast.store.layout import Layout
from standfast.store.names import Run

logger = logging.getLogger("standfast.engine")

WHOLE = Layout("llama.cpp slot", (), 1 << 30)
"""A slot's file as it is."""
_PROMPT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all, for it is a warm day. " * 3
_BLOCK, _CUT = 8, 21


@dataclass(frozen=True, slots=True)
class Probed:
    """What a server's slots are."""

    layout: Layout
    shape: Shape | None
    """None: slots are kept whole."""
    model: bytes
    """Digest of what the server computes with: the weights where they are at hand, else their path and format and what
    the model says to a prompt; and the server's build."""
    template: bytes
    slots: int
    why: str = ""
    """Why slots are kept whole."""


async def probe(server: LlamaServer, weights: bytes = b"") -> Probed:
    """Save a small state, cut it, put it together again and see that the server goes on from it.

    ``weights``: digest of the model's weights where they are at hand.
    Raises EngineError if the server cannot be asked or saves no slots at all.
    """
    props = await server.ask("GET", "/props", None)
    said = await _say(server, 0)
    template = blake3(str(props.get("chat_template")).encode()).digest()
    model = blake3(weights or repr([props.get("model_path"), props.get("model_ftype"), said["content"]]).encode())
    model.update(str(props.get("build_info")).encode())
    saved, cut = server.folder / "probe.slot", server.folder / "probe-cut.slot"
    try:
        await server.save(0, saved.name)
        whole = Probed(WHOLE, None, model.digest(), template, int(props.get("total_slots", 1)))
        return await _tried(server, saved, cut, said, whole)
    finally:
        saved.unlink(missing_ok=True)
        cut.unlink(missing_ok=True)
        await server.erase(0)


async def _tried(server: LlamaServer, saved: Path, cut: Path, said: Any, whole: Probed) -> Probed:
    try:
        layout, shape, count = await asyncio.to_thread(_cut, saved, cut)
        if await server.restore(0, cut.name) != count:
            raise SlotFileUnknown("the server did not take all tokens of a cut state")
        again = await _say(server, 0)
        if again["cached"] < count - 1:
            raise SlotFileUnknown(f"the server went on from {again['cached']} of {count} tokens of a cut state")
        if again["content"] != said["content"] or not np.allclose(again["logprobs"], said["logprobs"], atol=0.25):
            raise SlotFileUnknown("a cut state does not compute what the whole one does")
    except EngineError as error:
        logger.warning("KV state is kept slot by slot, not in blocks: %s", error)
        return replace(whole, why=str(error))
    return replace(whole, layout=layout, shape=shape)


def _cut(saved: Path, cut: Path) -> tuple[Layout, Shape, int]:
    """Write a part of a saved state again, from small blocks, the last of them cut."""
    with read_slot(saved) as state:
        parts = [_part(state, start) for start in range(0, _CUT, _BLOCK)]
        write_slot(cut, state.layout, state.shape, parts)
        return state.layout, state.shape, _CUT


def _part(state: SlotState, start: int) -> tuple[Run, memoryview, int]:
    end = min(start + _BLOCK, len(state.tokens))
    run = Run(b"", b"", start, state.tokens[start:end])
    return run, memoryview(state.body(start, end)), min(_BLOCK, _CUT - start)


async def _say(server: LlamaServer, slot: int) -> dict[str, Any]:
    """What the model goes on with, greedily, and how likely it finds that."""
    body = {"prompt": _PROMPT, "n_predict": 4, "temperature": 0, "n_probs": 1, "id_slot": slot, "cache_prompt": True}
    answer = await server.ask("POST", "/completion", body)
    tops = [t["logprob"] for t in answer.get("completion_probabilities", [])]
    return {"content": answer["content"], "logprobs": tops, "cached": answer["timings"]["cache_n"]}
