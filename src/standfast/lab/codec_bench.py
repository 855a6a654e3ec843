"""What a codec costs, on the real engine: the state of a prompt is written and read back by it, and the engine goes on
from that through text that it has not seen. Compared are the probabilities of the next token at each place."""

from __future__ import annotations

import argparse
import asyncio
import collections
import email.message
import logging
import math
import pydoc
import socket
import tarfile
import threading
import time
import typing
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standfast.engines.llama_server import LlamaServer
from standfast.engines.slot_file import Shape, read_slot, write_slot
from standfast.errors import StandfastError
from standfast.store.codec import Codec
from standfast.store.layout import Layout
from standfast.store.names import Run, token_ids
from standfast.store.record import body_at

Probabilities = dict[int, float]
"""Token → log-probability, of the most likely ones."""
_TOP = 200
_SINKS = 4
_BLOCK = 64
FLOOR = "computed in other batches"
"""The name of the engine's own noise among the rows."""


@dataclass(slots=True)
class Row:
    """Figures of one codec, or of the engine's own noise."""

    name: str
    raw: int = 0
    """Bytes of the states."""
    stored: int = 0
    """Bytes of their records, heads included."""
    divergences: list[float] = field(default_factory=list)
    same: int = 0
    """Places at which the most likely token is the same."""
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0

    def figures(self) -> dict[str, float]:
        """What is shown: ratio, KL divergence (nats), share of equal first choices, GB/s of decoded bytes."""
        places = len(self.divergences) or 1
        return {
            "ratio": self.raw / self.stored if self.stored else 1.0,
            "kl": sum(self.divergences) / places,
            "top1": self.same / places,
            "encode_gb_s": self.raw / self.encode_seconds / 1e9 if self.encode_seconds else 0.0,
            "decode_gb_s": self.raw / self.decode_seconds / 1e9 if self.decode_seconds else 0.0,
        }


def held_out() -> list[str]:
    """English and code that is at hand everywhere: what Python says of some of its own modules."""
    modules: tuple[Any, ...] = (
        argparse, collections, tarfile, socket, threading, logging, zipfile, email.message, typing, asyncio.base_events,
    )  # fmt: skip
    return [pydoc.plain(pydoc.render_doc(module))[3000:13000] for module in modules]


@dataclass(frozen=True, slots=True)
class _Sample:
    tokens: list[int]
    blocks: list[tuple[Run, bytes]]
    layout: Layout
    shape: Shape
    reference: list[Probabilities]


class Bench:
    """Measures on one engine of at least two slots."""

    def __init__(self, server: LlamaServer, prompt: int, places: int) -> None:
        """``prompt``: tokens whose state is coded; ``places``: tokens of the text behind it that are compared."""
        self._server, self._prompt, self._places = server, prompt, places

    async def measure(
        self, texts: Sequence[str], codecs: Sequence[Codec], progress: Callable[[float], object]
    ) -> list[Row]:
        """One row for the engine's own noise, one for each codec. Raises EngineError."""
        rows = [Row(FLOOR), *(Row(codec.name) for codec in codecs)]
        for n, text in enumerate(texts):
            answer = await self._server.ask("POST", "/tokenize", {"content": text})
            tokens = answer["tokens"][: self._prompt + self._places]
            if len(tokens) < self._prompt + self._places:
                raise StandfastError(f"text {n + 1} has {len(tokens)} tokens; {self._prompt + self._places} are wanted")
            sample = await self._sample(tokens)
            _compare(rows[0], sample.reference, await self._in_other_batches(tokens))
            for row, codec in zip(rows[1:], codecs, strict=True):
                await self._through(row, codec, sample)
                progress((n + rows.index(row) / len(codecs)) / len(texts))
        return rows

    async def _sample(self, tokens: list[int]) -> _Sample:
        path = self._server.folder / "sample.slot"
        await self._compute(tokens[: self._prompt])
        await self._server.save(0, path.name)
        with read_slot(path) as state:
            layout, shape, blocks = state.layout, state.shape, []
            for start in range(0, self._prompt, _BLOCK):
                end = min(start + _BLOCK, self._prompt)
                blocks.append((Run(b"", b"", start, token_ids(tokens[start:end])), state.body(start, end)))
        parts = [(run, memoryview(body)) for run, body in blocks]
        return _Sample(tokens, blocks, layout, shape, await self._continued(tokens, layout, shape, parts))

    async def _through(self, row: Row, codec: Codec, sample: _Sample) -> None:
        parts = []
        for run, body in sample.blocks:
            started = time.perf_counter()
            coded = codec.encode(memoryview(body), sample.layout, len(run.tokens), max(0, _SINKS - run.start))
            done = time.perf_counter()
            out = memoryview(bytearray(len(body)))
            copied = time.perf_counter()
            codec.decode(memoryview(coded), sample.layout, len(run.tokens), out)
            row.decode_seconds += time.perf_counter() - copied
            row.encode_seconds += done - started
            row.raw += len(body)
            row.stored += body_at(len(run.tokens)) + memoryview(coded).nbytes
            parts.append((run, out))
        _compare(row, sample.reference, await self._continued(sample.tokens, sample.layout, sample.shape, parts))

    async def _continued(
        self, tokens: list[int], layout: Layout, shape: Shape, parts: Sequence[tuple[Run, memoryview]]
    ) -> list[Probabilities]:
        """What the engine finds likely, place by place, when it goes on from these states."""
        path = self._server.folder / "coded.slot"
        write_slot(path, layout, shape, [(run, body, len(run.tokens)) for run, body in parts])
        await self._server.erase(1)
        await self._server.restore(1, path.name)
        return await self._places_from(tokens, 1)

    async def _in_other_batches(self, tokens: list[int]) -> list[Probabilities]:
        for share in (0.03, 0.3, 0.5, 0.76):
            await self._compute(tokens[: int(share * self._prompt)], fresh=share == 0.03)
        return await self._places_from(tokens, 0)

    async def _compute(self, tokens: list[int], *, fresh: bool = True) -> None:
        if fresh:
            await self._server.erase(0)
        body = {"prompt": tokens, "n_predict": 0, "id_slot": 0, "cache_prompt": True}
        await self._server.ask("POST", "/completion", body)

    async def _places_from(self, tokens: list[int], slot: int) -> list[Probabilities]:
        found = []
        for n in range(self._prompt, self._prompt + self._places):
            body = {"prompt": tokens[:n], "n_predict": 1, "temperature": 0, "n_probs": _TOP, "id_slot": slot,
                    "cache_prompt": True}  # fmt: skip
            answer = await self._server.ask("POST", "/completion", body)
            top = answer["completion_probabilities"][0]["top_logprobs"]
            found.append({each["id"]: each["logprob"] for each in top})
        return found


def _compare(row: Row, reference: Sequence[Probabilities], found: Sequence[Probabilities]) -> None:
    for a, b in zip(reference, found, strict=True):
        row.divergences.append(divergence(a, b))
        row.same += max(a, key=a.__getitem__) == max(b, key=b.__getitem__)


def divergence(a: Probabilities, b: Probabilities) -> float:
    """KL(a ‖ b) in nats; what is not among the most likely counts as one token."""
    least = min(b.values())
    total, rest_a, rest_b = 0.0, 1.0, 1.0
    for token, log in a.items():
        other = b.get(token, least)
        total += math.exp(log) * (log - other)
        rest_a -= math.exp(log)
        rest_b -= math.exp(other)
    rest_a, rest_b = max(rest_a, 1e-9), max(rest_b, 1e-9)
    return total + rest_a * math.log(rest_a / rest_b)


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Texts of one's own. Raises StandfastError."""
    try:
        return [path.read_text(encoding="utf-8") for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise StandfastError(f"a text cannot be read: {error}") from error
