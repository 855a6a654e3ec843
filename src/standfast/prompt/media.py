"""Whether two pictures are the same though their bytes differ: the same pixels, encoded anew.

Needs Pillow (the extra ``media``); without it no two encodings are taken for one picture.
"""

from __future__ import annotations

import binascii
import io
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import MARKERS

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 5_000_000
"""Of one picture as it travels: what the APIs take at most."""
MOST_PIXELS = 5_000_000
"""Of all pictures of one request: two of the largest that models see undiminished (1568 × 1568). Decoding them takes
tens of milliseconds, which is what a plan may cost."""
_URL = re.compile(r"data:image/[\w.+-]+;base64,")
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_DEEP = frozenset({"I", "F", "I;16", "I;16L", "I;16B", "I;16N"})
_ORIENTATION = 0x0112


class Pictures:
    """Compares the pictures of one request, as long as its allowance of pixels lasts."""

    def __init__(self, allowance: int = MOST_PIXELS) -> None:
        self._left = allowance

    def same(self, before: Json, after: Json) -> bool:
        """Whether two media blocks (or parts) show the same, and say the same otherwise."""
        left, right = _data(before), _data(after)
        if left is None or right is None or _beside(before) != _beside(after):
            return False
        try:
            from PIL import Image
        except ImportError:
            return False
        try:
            with (
                Image.open(io.BytesIO(left), formats=_FORMATS) as one,
                Image.open(io.BytesIO(right), formats=_FORMATS) as other,
            ):
                return self._alike(one, other)
        except Exception:  # whatever a decoder makes of such bytes: it is no picture that we know
            return False

    def _alike(self, one: Image, other: Image) -> bool:
        """Sizes are read from the headers; only pictures that may be the same are decoded."""
        if one.size != other.size or any(getattr(image, "n_frames", 1) > 1 for image in (one, other)):
            return False
        self._left -= 2 * one.width * one.height
        if self._left < 0 or one.getexif().get(_ORIENTATION, 1) != other.getexif().get(_ORIENTATION, 1):
            return False
        if one.mode == other.mode and "P" not in one.mode and "transparency" not in one.info | other.info:
            return one.tobytes() == other.tobytes()
        if {one.mode, other.mode} & _DEEP:
            return False
        return one.convert("RGBA").tobytes() == other.convert("RGBA").tobytes()


def _data(block: Json) -> bytes | None:
    """The bytes of a picture that stands in a block itself."""
    text = _text(block)
    if text is None or len(text) > MOST_BYTES * 4 // 3:
        return None
    match = _URL.match(text)
    try:
        return b64decode(text[match.end() :] if match else text, validate=True)
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


def _beside(block: dict[str, Any]) -> dict[str, Any]:
    """What a block says beside its picture; the detail in which it is to be looked at, for instance."""
    rest = {k: v for k, v in block.items() if k not in ("source", "image_url", *MARKERS)}
    url = block.get("image_url")
    return {**rest, "detail": url.get("detail") if isinstance(url, dict) else block.get("detail")}
