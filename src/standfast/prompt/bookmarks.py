"""Where reading may go on: the bookmarks of live sessions, found by the first bytes of a body."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from standfast.policy import Options, Policy
from standfast.prompt.drift import Drift
from standfast.prompt.request import Bookmark

_DEPTHS = (65_536, 8_192, 512)
"""A bookmark is filed under its longest head of one of these lengths; sessions with one system prompt part there."""
_WINDOW = 256  # bytes in front of that depth that name the head; the rest is compared anyway
_PER_HEAD = 16
_Name = tuple[bytes, str, int, bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """A bookmark, and what was decided about the units in front of it."""

    bookmark: Bookmark
    tip: bytes
    """Id of the request it was set in."""
    policy: Policy
    options: Options
    ids: dict[str, str]
    drifts: tuple[Drift, ...]


class Bookmarks:
    """Bounded memory of bookmarks; the least recently used head goes first."""

    def __init__(self, max_bytes: int) -> None:
        self._limit = max_bytes
        self._bytes = 0
        self._heads: OrderedDict[_Name, list[Place]] = OrderedDict()

    def find(self, key: bytes, dialect: str, body: bytes) -> Place | None:
        """The bookmark with the longest prefix that the body begins with."""
        best: Place | None = None
        for depth in _DEPTHS:
            if len(body) < depth:
                continue
            name = (key, dialect, depth, body[depth - _WINDOW : depth])
            for place in self._heads.get(name, ()):
                prefix = place.bookmark.prefix
                if (best is None or len(prefix) > len(best.bookmark.prefix)) and body.startswith(prefix):
                    best = place
            if best is not None:
                self._heads.move_to_end(name)
                return best
        return None

    def keep(self, key: bytes, dialect: str, place: Place) -> None:
        """File a bookmark; it takes the place of those that it goes on from."""
        prefix = place.bookmark.prefix
        for depth in _DEPTHS:
            if len(prefix) < depth:
                continue
            name = (key, dialect, depth, prefix[depth - _WINDOW : depth])
            places = self._heads.setdefault(name, [])
            self._heads.move_to_end(name)
            for old in [p for p in places if prefix.startswith(p.bookmark.prefix)] + places[_PER_HEAD - 1 :]:
                if old in places:
                    places.remove(old)
                    self._bytes -= _size(old)
            places.insert(0, place)
            self._bytes += _size(place)
            break
        while self._bytes > self._limit and (head := next(iter(self._heads))):
            places = self._heads[head]
            if len(places) == 1 and len(self._heads) == 1:
                break  # the newest is kept whatever its size
            self._bytes -= _size(places.pop())
            if not places:
                del self._heads[head]


def _size(place: Place) -> int:
    return len(place.bookmark.prefix) + 200 * place.bookmark.items + 1000
