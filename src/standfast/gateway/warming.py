"""Sends prompts through a gateway so that their state is there before somebody needs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import aiohttp

_SECONDS = 600.0


def shortest(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Where a request goes, and the request for the shortest answer. KeyError: it is of none of the three APIs."""
    body = {**body, "stream": False}
    if "input" in body:
        return "/v1/responses", {**body, "max_output_tokens": 16}
    if "system" in body or ("max_tokens" in body and "tools" in body and "input_schema" in json.dumps(body["tools"])):
        return "/v1/messages", {**body, "max_tokens": 1}
    _ = body["messages"]
    body.pop("max_completion_tokens", None)
    return "/v1/chat/completions", {**body, "max_tokens": 1}


async def warm(url: str, key: str, bodies: Sequence[bytes]) -> list[str]:
    """Send each; returns what came of it, a line each."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    told = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_SECONDS), headers=headers) as session:
        for raw in bodies:
            try:
                path, body = shortest(json.loads(raw))
                async with session.post(url.rstrip("/") + path, json=body) as response:
                    await response.read()
                    kv = response.headers.get("x-standfast-kv", "no state is kept there")
                    told.append(kv if response.status == 200 else f"answered {response.status}")
            except (ValueError, KeyError, TypeError, AttributeError):
                told.append("not a request of a known API")
            except (aiohttp.ClientError, TimeoutError) as error:
                told.append(f"not sent: {type(error).__name__}")
    return told
