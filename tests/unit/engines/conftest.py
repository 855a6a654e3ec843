"""The real engine for these tests: the installed model, a state folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from standfast import config
from standfast.config import Settings
from standfast.engines import model
from standfast.engines.embedded import EmbeddedEngine, running
from standfast.errors import EngineError


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The installed model; without it the test is skipped, or fails where nothing may be skipped."""
    try:
        return model.find(config.load())
    except EngineError as error:
        if os.environ.get("STANDFAST_CI") == "1":
            pytest.fail(f"STANDFAST_CI=1 and no model: {error}")
        pytest.skip(str(error))


def _with_models(state_dir: Path, model_file: Path) -> Path:
    """A state folder with the installed models in it, so that the engine is set up as it is for a user."""
    (state_dir / "models").symlink_to(model_file.parent)
    return state_dir


@pytest.fixture(scope="session")
def engine_settings(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two small slots and one thread."""
    return Settings(
        state_dir=_with_models(tmp_path_factory.mktemp("state"), model_file),
        engine_slots=2,
        engine_context=1024,
        engine_threads=1,
    )


@pytest.fixture
def own_settings(engine_settings: Settings, model_file: Path, tmp_path: Path) -> Settings:
    """The same with a state folder that no other test sees."""
    return replace(engine_settings, state_dir=_with_models(tmp_path, model_file))


@pytest.fixture(scope="session")
def engine(engine_settings: Settings) -> Iterator[EmbeddedEngine]:
    """One engine for all tests that only ask it things."""
    with running(engine_settings) as started:
        yield started


@pytest.fixture
def client(engine: EmbeddedEngine) -> Iterator[httpx.Client]:
    """A client that opens a new connection for each request: the server ends them after a stream."""
    with httpx.Client(base_url=engine.base_url, timeout=60, headers={"connection": "close"}) as made:
        yield made


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": (
        "/v1/chat/completions",
        {"max_tokens": 3, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
    ),
    "anthropic": (
        "/v1/messages",
        {"max_tokens": 3, "system": "Be kind and brief.", "messages": [{"role": "user", "content": "Hi"}]},
    ),
    "openai_responses": ("/v1/responses", {"max_output_tokens": 3, "instructions": "Be quick.", "input": "Hi there"}),
}


@pytest.fixture(params=sorted(BODIES))
def asked(request: pytest.FixtureRequest) -> tuple[str, str, dict[str, Any]]:
    """Dialect, path and body of a small request, for each dialect."""
    return (request.param, *BODIES[request.param])
