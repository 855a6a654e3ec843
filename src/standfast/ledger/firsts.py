"""First forms out of a ledger, for one request."""

from __future__ import annotations

from standfast.ledger import Ledger
from standfast.prompt import canonical
from standfast.prompt.dialects.base import Dialect
from standfast.prompt.drift import meaning
from standfast.prompt.fingerprint import link, tool_set
from standfast.prompt.items import Items
from standfast.prompt.model import Item


class FirstForms:
    """The forms and the order in which things were first sent under one key; see ``prompt.mended.Firsts``."""

    def __init__(self, ledger: Ledger, items: Items, key: bytes, dialect: Dialect) -> None:
        self._ledger, self._items, self._key, self._dialect = ledger, items, key, dialect

    def item(self, item: Item) -> Item:
        name = link(self._key, f"first\0{self._dialect.name}\0{item.tier}\0".encode(), meaning(item))
        wire = self._ledger.keep_first(name, item.wire)
        if wire == item.wire or item.marked:
            return item
        first = self._items.get(self._dialect, item.tier, wire)
        return item if first.key == item.key or first.marked or first.wire[:1] != item.wire[:1] else first

    def varied(self, around: bytes, lines: bytes) -> bool:
        return self._ledger.keep_first(link(self._key, b"varied\0", around), lines) != lines

    def order(self, tools: tuple[Item, ...]) -> tuple[Item, ...]:
        if len(tools) < 2:
            return tools
        names = [canonical.digest(meaning(tool)) for tool in tools]
        known = self._ledger.keep_first(link(self._key, b"order\0", tool_set(tools)), b"".join(names))
        return tuple(tool for _, tool in sorted(zip(names, tools, strict=True), key=lambda pair: known.find(pair[0])))
