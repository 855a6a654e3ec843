"""Endpoints that generate nothing: models, embeddings, files."""

from __future__ import annotations

import base64
import re
import struct
from typing import Any

from upstream_turn import Recorded, anthropic_error, openai_error

MODELS = ("claude-scripted", "gpt-scripted")
CREATED = 1_750_000_000
CREATED_TEXT = "2025-06-15T15:06:40Z"
DIMENSIONS = 8


def other(request: Recorded) -> tuple[int, Any]:
    """Status and body."""
    is_anthropic = "anthropic-version" in request.headers
    match (request.method, request.path.removeprefix("/v1/").split("/")):
        case ("GET", ["models"]):
            return 200, _models(is_anthropic)
        case ("GET", ["models", name]) if name in MODELS:
            return 200, _model(name, is_anthropic)
        case ("POST", ["embeddings"]):
            return 200, _embeddings(request.json)
        case ("POST", ["files"]):
            return 200, _file(request, is_anthropic)
    message = f"{request.method} {request.path} is not served here"
    return 404, (anthropic_error if is_anthropic else openai_error)(404, message)


def _models(is_anthropic: bool) -> dict[str, Any]:
    listed = [_model(name, is_anthropic) for name in MODELS]
    if is_anthropic:
        return {"data": listed, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return {"object": "list", "data": listed}


def _model(name: str, is_anthropic: bool) -> dict[str, Any]:
    if is_anthropic:
        return {"type": "model", "id": name, "display_name": name, "created_at": CREATED_TEXT, "lifecycle": "active"}
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "scripted"}


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    data = []
    for index, text in enumerate(texts):
        vector: Any = [float(len(str(text)) + place) for place in range(DIMENSIONS)]
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def _file(request: Recorded, is_anthropic: bool) -> dict[str, Any]:
    name, content = uploaded(request)
    if is_anthropic:
        told = {"type": "file", "filename": name, "mime_type": "text/plain", "size_bytes": len(content)}
        return {"id": "file_scripted", **told, "created_at": CREATED_TEXT, "downloadable": False}
    told = {"object": "file", "filename": name, "bytes": len(content), "purpose": "user_data", "status": "processed"}
    return {"id": "file-scripted", **told, "created_at": CREATED}


def uploaded(request: Recorded) -> tuple[str, bytes]:
    """Name and content of the file in a multipart body."""
    boundary = re.search(r'boundary="?([^";]+)"?', request.headers.get("content-type", ""))
    for part in request.body.split(b"--" + boundary[1].encode()) if boundary else ():
        head, _, content = part.partition(b"\r\n\r\n")
        if named := re.search(rb'filename="([^"]*)"', head):
            return named[1].decode(), content.removesuffix(b"\r\n")
    return "", b""
