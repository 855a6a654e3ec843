"""The store that the settings ask for."""

from __future__ import annotations

from standfast.config import Settings
from standfast.store.codecs import CODECS
from standfast.store.codecs.quantised import warm
from standfast.store.media.disk import DiskMedium
from standfast.store.media.ram import RamMedium
from standfast.store.policies.density import Density
from standfast.store.shelf import Shelf
from standfast.store.tier import Tier
from standfast.store.tiers import Store


def open_store(settings: Settings) -> Store:
    """Open memory and archive. Raises MediumFailed if the archive cannot be used."""
    memory = settings.kv_memory_mb << 20
    if settings.kv_codec in ("int8", "int4"):
        warm()
    # What left the contexts is in memory until it is archived.
    ram = Shelf(RamMedium(memory + memory // 4))
    return Store(ram, archive(settings), contexts=max(1, settings.kv_contexts), capacity=memory)


def archive(settings: Settings) -> list[Tier]:
    """The tiers below memory. Raises MediumFailed."""
    if settings.kv_archive == "none":
        return []
    size = settings.kv_archive_mb << 20
    return [Tier("l3", Shelf(DiskMedium(settings.archive, size)), Density, CODECS[settings.kv_codec], size)]
