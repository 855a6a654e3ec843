"""What goes when there is no room, one policy a file. docs/store-policies.md says how they compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.store.policies.arc import ARC
from standfast.store.policies.density import Density
from standfast.store.policies.gdsf import GDSF
from standfast.store.policies.lru import LRU
from standfast.store.policies.prefix import PrefixLRU
from standfast.store.policies.s3fifo import S3FIFO
from standfast.store.policies.sieve import Sieve
from standfast.store.policies.wtinylfu import WTinyLFU
from standfast.store.policy import Policy

POLICIES: dict[str, Callable[[], Policy[Any]]] = {
    "lru": LRU,
    "prefix-lru": PrefixLRU,
    "sieve": Sieve,
    "arc": ARC,
    "s3-fifo": S3FIFO,
    "w-tinylfu": WTinyLFU,
    "gdsf": GDSF,
    "density": Density,
}
"""All that can run online."""
