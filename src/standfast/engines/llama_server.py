"""A llama-server's slots over HTTP: the embedded one, or any whose slot folder (``--slot-save-path``) both can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from standfast.errors import EngineError, SlotRefused

_SECONDS = 30.0


class LlamaServer:
    """Saves and restores slots. Open it in the loop that uses it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url.rstrip("/"), folder
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make ready."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_SECONDS))

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()

    async def save(self, slot: int, name: str) -> int:
        """Write a slot's state to a file in the folder, once it is idle; returns its tokens."""
        return int((await self.ask("POST", f"/slots/{slot}?action=save", {"filename": name}))["n_saved"])

    async def restore(self, slot: int, name: str) -> int:
        """Read a slot's state from a file in the folder, once it is idle; returns its tokens."""
        return int((await self.ask("POST", f"/slots/{slot}?action=restore", {"filename": name}))["n_restored"])

    async def erase(self, slot: int) -> None:
        """Empty a slot."""
        await self.ask("POST", f"/slots/{slot}?action=erase", {})

    async def last_with(self, least: int, most: int) -> int | None:
        """The idle slot that holds ``least`` to ``most`` tokens, the latest used; None if there is none."""
        slots = await self.ask("GET", "/slots", None)
        ran = [s for s in slots if not s["is_processing"] and least <= s.get("n_prompt_tokens", 0) <= most]
        return max(ran, key=lambda s: s.get("id_task", -1))["id"] if ran else None

    async def ask(self, method: str, path: str, body: Any) -> Any:
        """One call. Raises SlotRefused with what the server said, EngineError if it could not be reached."""
        if self._session is None:
            raise EngineError("the connection to the llama-server is not open")
        try:
            async with self._session.request(method, self.url + path, json=body) as response:
                if response.status != 200:
                    raise SlotRefused(f"llama-server answered {response.status} to {method} {path}")
                return await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EngineError(f"llama-server did not answer {method} {path}: {type(error).__name__}") from error
