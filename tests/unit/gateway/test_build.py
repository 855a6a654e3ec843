"""How the gateway is put together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from standfast.config import Settings, Upstream
from standfast.errors import LedgerError
from standfast.events import EngineRestarted, Event
from standfast.gateway import build
from standfast.ledger.memory import MemoryLedger
from standfast.ledger.sqlite import SqliteLedger
from standfast.observe.metrics import Metrics


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The rest of the tests shall not run with the gateway's garbage collection."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", upstreams=(Upstream("up", "http://127.0.0.1:1"),))


class TestLedger:
    def test_on_disk(self, settings: Settings) -> None:
        ledger = build.open_ledger(settings)
        assert isinstance(ledger, SqliteLedger)
        assert ledger.keep_first(b"name", b"value") == b"value"
        ledger.close()
        again = build.open_ledger(settings)
        assert again.first(b"name") == b"value"
        again.close()
        assert settings.database.stat().st_mode & 0o077 == 0  # prompts are nobody else's business

    def test_in_memory(self, settings: Settings) -> None:
        assert isinstance(build.open_ledger(replace(settings, ledger="memory")), MemoryLedger)
        assert not settings.state_dir.exists()

    def test_where_no_folder_can_be(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(LedgerError, match="is the folder writable"):
            build.open_ledger(replace(settings, state_dir=tmp_path / "file" / "state"))


class TestListeners:
    def test_tell_all_in_order(self) -> None:
        heard: list[tuple[int, Event]] = []
        listeners = build.Listeners(lambda event: heard.append((1, event)))
        listeners.add(lambda event: heard.append((2, event)))
        event = EngineRestarted("", -9, 1)
        listeners(event)
        assert heard == [(1, event), (2, event)]

    def test_one_that_fails_silences_nobody(self) -> None:
        heard: list[Event] = []

        def fails(event: Event) -> None:
            raise RuntimeError

        listeners = build.Listeners(fails, heard.append)
        listeners(EngineRestarted("", -9, 1))
        assert len(heard) == 1


class TestApp:
    def test_for_upstreams(self, settings: Settings) -> None:
        app: Any = build.make_app(settings, Metrics())
        assert app._parts.engine is None
        assert app._parts.engine_at(settings.upstreams[0]) is None
        app._close()

    @pytest.mark.parametrize("workers", [1, 2])
    def test_for_the_engine(self, settings: Settings, workers: int) -> None:
        """It knows what is in the engine's slots only if nobody else sends there."""
        listeners = build.Listeners()
        alone = workers == 1
        app: Any = build.make_app(
            replace(settings, workers=workers, upstreams=()),
            Metrics(),
            "http://127.0.0.1:1",
            listeners if alone else None,
        )
        engine = app._parts.engine_at(Upstream(build.EMBEDDED, "http://127.0.0.1:1"))
        assert engine is app._parts.engine
        assert (engine._slots is not None) is alone
        assert bool(listeners._all) is alone
        app._close()
