"""Recorded data beside the repository (never committed).

Absent on a user's machine: the test is skipped. With STANDFAST_CI=1 it fails instead: there nothing may be skipped.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("STANDFAST_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def path(name: str) -> Path:
    """A file or folder of the recorded data; skips the test if it is not there, or fails it in CI."""
    found = FOLDER / name
    if not found.exists():
        (pytest.fail if os.environ.get("STANDFAST_CI") == "1" else pytest.skip)(
            f"no recorded data at {found}; set STANDFAST_SHARED"
        )
    return found


def lines(name: str) -> Iterator[Any]:
    """The objects of a gzipped JSON lines file."""
    with gzip.open(path(f"data/{name}.jsonl.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def airline() -> tuple[list[Any], list[list[Any]]]:
    """Tool schemas, and the messages of every conversation, some turned into parallel calls.

    The recordings call one tool at a time. In every third conversation two calls that follow each other are made one
    parallel pair, so that the order of results is tested too.
    """
    first, *rest = lines("airline-agent")
    conversations = [row["messages"] for row in rest]
    return first["tools"], [_paired(m) if i % 3 == 0 else m for i, m in enumerate(conversations)]


def _paired(messages: list[Any]) -> list[Any]:
    out: list[Any] = []
    i = 0
    while i < len(messages):
        pair = messages[i : i + 4]
        roles = [m["role"] for m in pair]
        if roles == ["assistant", "tool"] * 2 and not pair[2]["content"] and _ids(pair[0]) != _ids(pair[2]):
            out.append({**pair[0], "tool_calls": pair[0]["tool_calls"] + pair[2]["tool_calls"]})
            out += [pair[1], pair[3]]
            i += 4
        else:
            out.append(messages[i])
            i += 1
    return out


def _ids(message: Any) -> list[str]:
    return [call["id"] for call in message["tool_calls"]]
