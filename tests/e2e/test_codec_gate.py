"""Cold against warm: an engine that goes on from a state that was kept predicts what one does that computed it anew.

As far as the engine is deterministic for states that come back bit for bit, within its bound for each lossy codec, and
against the engine's own noise for recomputation: float ties differ by a little, another state by far more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast.cli import app
from standfast.lab.codec_bench import FLOOR, held_out

pytestmark = pytest.mark.engine

BOUNDS = {FLOOR: 0.02, "raw": 0.0, "lossless": 0.0, "int8": 0.02, "int4": 0.08}
"""KL divergence in nats, mean of 24 places; a state of another text is at 1 and more."""


@pytest.fixture(scope="module")
def found(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("texts")
    words = ["codec", "bench", "--json", "--prompt", "160", "--places", "12"]
    for n, text in enumerate(held_out()[:2]):
        (folder / f"{n}.txt").write_text(text, encoding="utf-8")
        words += ["--text", str(folder / f"{n}.txt")]
    environment = {"STANDFAST_STATE_DIR": str(models.parent), "STANDFAST_ENGINE_THREADS": "1"}
    result = CliRunner().invoke(app, words, env=environment, catch_exceptions=False, standalone_mode=False)
    return json.loads(result.output)["codecs"]


@pytest.mark.parametrize("name", BOUNDS)
def test_what_was_kept_computes_what_was_computed(found: Any, name: str) -> None:
    assert found[name]["kl"] <= BOUNDS[name] + 1e-9
    assert found[name]["top1"] >= (1.0 if BOUNDS[name] == 0 else 0.75)


def test_smaller_is_smaller(found: Any) -> None:
    ratios = [found[name]["ratio"] for name in ("raw", "lossless", "int8", "int4")]
    assert ratios == sorted(ratios)
