"""The states of a llama-server, as the settings ask for them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from standfast.config import Settings
from standfast.engines import model, weights
from standfast.engines.embedded import slot_folder
from standfast.engines.llama_server import LlamaServer
from standfast.errors import StandfastError, reason

if TYPE_CHECKING:
    from standfast.engines.states import States

logger = logging.getLogger("standfast.engine")


def states_of(settings: Settings, url: str, folder: Path | None = None) -> States | None:
    """What keeps the states of the embedded engine, or of a llama-server that saves slots in a folder; None if that is
    not wanted, or cannot be had: the log says why."""
    if not settings.kv:
        return None
    try:
        from standfast.engines.states import States
        from standfast.store.opening import open_store

        if folder is not None:
            return States(LlamaServer(url, folder), open_store(settings))
        digest = weights.known_digest(model.find(settings), settings.state_dir / "weights.json")
        return States(LlamaServer(url, slot_folder(settings)), open_store(settings), bytes.fromhex(digest))
    except ImportError as error:
        logger.warning("no KV state is kept: %s; pip install 'standfast[kv]'", error)
    except StandfastError as error:
        logger.warning("no KV state is kept: %s", reason(error))
    return None
