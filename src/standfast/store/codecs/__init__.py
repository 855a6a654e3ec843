"""How the bodies of blocks are written (docs/format/kv-codecs.md)."""

from __future__ import annotations

from standfast.store.codec import Codec
from standfast.store.codecs.lossless import Lossless
from standfast.store.codecs.quantised import INT4, INT8
from standfast.store.codecs.raw import Raw

CODECS: dict[str, Codec] = {codec.name: codec for codec in (Raw(), Lossless(), INT8, INT4)}
"""All codecs, by name."""
