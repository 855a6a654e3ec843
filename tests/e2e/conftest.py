"""The gateway with the embedded model, one process for all tests of a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from serving import Program, serving

from standfast import config
from standfast.engines import model
from standfast.errors import EngineError

SMALL = ("--engine-threads", "1", "--engine-context", "1024", "--engine-slots", "2")
"""Enough for the tests' prompts, and as gentle to a small machine as can be."""


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the installed model; without it the test is skipped, or fails where nothing may be skipped."""
    settings = config.load()
    try:
        model.find(settings)
    except EngineError as error:
        if os.environ.get("STANDFAST_CI") == "1":
            pytest.fail(f"STANDFAST_CI=1 and no model: {error}")
        pytest.skip(str(error))
    return settings.models_dir


Start = Callable[..., AbstractContextManager[Program]]


@pytest.fixture(scope="session")
def start_embedded(models: Path) -> Start:
    """Starts ``standfast serve`` with the installed model, in a home folder that is given."""

    def start(home: Path, *arguments: str) -> AbstractContextManager[Program]:
        (home / "state").mkdir(parents=True, exist_ok=True)
        link = home / "state" / "models"
        if not link.exists():
            link.symlink_to(models, target_is_directory=True)
        return serving(home, *SMALL, *arguments)

    return start


@pytest.fixture(scope="module")
def embedded(start_embedded: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A gateway with the embedded model."""
    with start_embedded(tmp_path_factory.mktemp("home")) as program:
        yield program
