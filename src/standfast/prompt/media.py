"""Whether two pictures are the same though their bytes differ: the same pixels, encoded anew.

Needs Pillow (the extra ``media``); without it no two encodings are taken for one picture.
"""

from __future__ import annotations

import binascii
import io
import re
from base64 import b64decode
from typing import Any

from standfast.prompt.canonical import Json

MOST_BYTES = 20 << 20
MOST_PIXELS = 40_000_000
_URL = re.compile(r"data:image/[\w.+-]+;base64,(.*)", re.DOTALL)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


def same_picture(before: Json, after: Json) -> bool:
    """Whether two media blocks (or parts) show the same, and say the same otherwise."""
    left, right = _data(before), _data(after)
    if left is None or right is None or _without(before) != _without(after):
        return False
    first = _pixels(left)
    return first is not None and first == _pixels(right)


def _data(block: Json) -> bytes | None:
    """The bytes of a picture that stands in a block itself."""
    text = _text(block)
    if text is None or len(text) > MOST_BYTES * 4 // 3:
        return None
    match = _URL.fullmatch(text)
    try:
        return b64decode(match[1] if match else text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _text(block: Json) -> str | None:
    if not isinstance(block, dict):
        return None
    source, url = block.get("source"), block.get("image_url")
    if isinstance(source, dict) and source.get("type") == "base64":
        found = source.get("data")
    else:
        found = url.get("url") if isinstance(url, dict) else url
    return found if isinstance(found, str) else None


def _without(block: dict[str, Any]) -> dict[str, Any]:
    """What a block says beside its picture; the detail that it is to be looked at with, for instance."""
    rest = {k: v for k, v in block.items() if k not in ("source", "image_url", "cache_control")}
    url = block.get("image_url")
    return {**rest, "detail": url.get("detail") if isinstance(url, dict) else block.get("detail")}


def _pixels(data: bytes) -> tuple[tuple[int, int], bytes] | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > MOST_PIXELS or getattr(image, "n_frames", 1) > 1:
                return None
            return image.size, image.convert("RGBA").tobytes()
    except Exception:  # whatever a decoder makes of such bytes: it is no picture that we know
        return None
