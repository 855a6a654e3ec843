from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from standfast.config import Settings
from standfast.engines import model
from standfast.engines.fetch import SMOLLM2
from standfast.engines.weights import file_digest, seal
from standfast.errors import EngineFailed, ModelBroken, ModelMissing, NoSpace

FAST = "SmolLM2-135M-Instruct.Q8_0.gguf"
HEAD = b"GGUF\x03\x00\x00\x00"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "models").mkdir()
    return Settings(state_dir=tmp_path)


def put(settings: Settings, name: str, content: bytes, *, sealed: bool = True) -> Path:
    path = settings.models_dir / name
    path.write_bytes(content)
    if sealed:
        seal(path, file_digest(path))
    return path


def test_nothing_installed(settings: Settings) -> None:
    with pytest.raises(ModelMissing, match="standfast setup"):
        model.find(settings)


def test_a_given_file_is_used_as_it_is(settings: Settings, tmp_path: Path) -> None:
    mine = tmp_path / "Mine.gguf"
    mine.write_bytes(HEAD)
    settings = replace(settings, engine_model=mine)
    assert model.find(settings) == model.ensure(settings) == mine
    assert model.model_name(settings) == "Mine"
    mine.write_bytes(b"junk")
    with pytest.raises(ModelBroken, match="not a GGUF file"):
        model.ensure(settings)


def test_the_fast_copy_goes_first(settings: Settings) -> None:
    fast = put(settings, FAST, HEAD)
    assert model.find(settings) == model.ensure(settings) == fast
    assert model.model_name(settings) == "smollm2-135m-instruct"


def test_a_broken_fast_copy_is_told(settings: Settings) -> None:
    fast = put(settings, FAST, HEAD + b"1")
    fast.write_bytes(HEAD + b"22")
    for look in (model.find, model.ensure):
        with pytest.raises(ModelBroken, match=r"Q8_0\.gguf.*delete the file") as caught:
            look(settings)
        assert "\n" not in str(caught.value)


def test_the_original_must_have_the_pinned_digest(settings: Settings) -> None:
    put(settings, SMOLLM2.file_name, HEAD)  # a seal of its own does not help it
    for look in (model.find, model.ensure):
        with pytest.raises(ModelBroken, match="digest is not b179c9523d0e"):
            look(replace(settings, engine_requantise=False))


def test_no_space(settings: Settings) -> None:
    for home in (settings.state_dir, settings.state_dir / "not" / "yet"):
        with pytest.raises(NoSpace, match="400 MB of free disk space are needed and 10 MB are there"):
            model.ensure(replace(settings, state_dir=home), free=lambda _: 10_000_000)
    assert not (settings.state_dir / "not").exists()


@pytest.mark.engine
def test_from_the_original_to_the_fast_copy(settings: Settings, model_file: Path) -> None:
    """The real weights: re-quantised, loaded once, and found in no time afterwards."""
    original = model_file.with_name(SMOLLM2.file_name)
    shutil.copy(original, settings.models_dir)
    steps: list[str] = []
    path = model.ensure(settings, lambda step, _: steps.append(step))
    assert path == model.find(settings) == settings.models_dir / FAST
    assert steps[-1] == "loading the model once"
    assert path.stat().st_size > 140_000_000
    started = time.perf_counter()
    assert model.ensure(settings, lambda step, _: steps.append(step)) == path
    assert time.perf_counter() - started < 0.1
    assert steps[-1] == "loading the model once"


@pytest.mark.engine
def test_a_file_that_llama_cpp_refuses_is_not_kept(tmp_path: Path, model_file: Path) -> None:
    path = tmp_path / "cut.gguf"
    with model_file.open("rb") as file:
        path.write_bytes(file.read(3_000_000))
    with pytest.raises(EngineFailed, match="corrupted or incomplete") as caught:
        model._try_load(path)
    assert "\n" not in str(caught.value)
    assert not path.exists()


def run_module(state: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "STANDFAST_STATE_DIR": str(state)}
    command = [sys.executable, "-m", "standfast.engines.model"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)


def test_the_command(settings: Settings) -> None:
    path = put(settings, FAST, HEAD)
    done = run_module(settings.state_dir)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"model: {path}\n", "")
    path.write_bytes(b"junk")
    done = run_module(settings.state_dir)
    assert done.returncode == 1
    assert done.stderr.startswith("standfast: ")
    assert done.stderr.count("\n") == 1


def test_the_progress_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = model._Line()
    line("a", None)
    line("a", 0.5)
    line("b", 1.0)
    line.close()
    assert capsys.readouterr().err == "a…\nb…\n"


def test_the_progress_line_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = model._Line()
    line("a", 0.0)
    line("a", 0.5)  # too soon after the last
    line._drawn = 0.0
    line("a", 0.5)
    line("b", None)
    line.close()
    assert capsys.readouterr().err == "a…   0%\ra…  50%\nb…\n"
