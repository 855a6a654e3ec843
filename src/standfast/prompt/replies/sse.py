"""Server-sent events: the data of each event, out of any split of the byte stream.

Works on bytes throughout: a line ends at an ASCII byte, so a split inside a UTF-8 character never shows.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"
_STUB = 4  # bytes kept of a line that is dropped: enough to tell that it was not blank


class Events:
    """Splits a stream into events. Holds at most one event, and no more than ``limit`` bytes of it."""

    def __init__(self, limit: int) -> None:
        self.overflowed = False
        """An event was longer than the limit and was dropped."""
        self._limit = limit
        self._line = bytearray()  # a line whose end has not come yet
        self._data: list[bytes] = []  # data lines of an event whose end has not come yet
        self._held = 0
        self._dropping = False
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that ends within the chunk."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._line_feeds(chunk)
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._extend(head)
            return []
        if self._line:
            self._extend(head)
            head = bytes(self._line)
            self._line.clear()
        lines = rest.split(b"\n")
        tail = lines.pop()
        events: list[bytes] = []
        self._take(head, events)
        for line in lines:
            self._take(line, events)
        if tail:
            self._extend(tail)
        return events

    def finish(self) -> list[bytes]:
        """The last event, if the stream ended without the blank line that should have closed it."""
        events: list[bytes] = []
        if self._line:
            self._take(bytes(self._line), events)
        self._take(b"", events)
        return events

    def _line_feeds(self, chunk: bytes) -> bytes:
        """The chunk with every line end as LF; a CR at its end may turn out to be half of a CRLF."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _extend(self, piece: bytes) -> None:
        if not piece:
            return  # the LF of a CRLF that was split
        if self._dropping or self._held + len(self._line) + len(piece) > self._limit:
            self._drop()
            self._line += piece[: _STUB - len(self._line)]
        else:
            self._line += piece

    def _drop(self) -> None:
        """Forget the event under way, and what is still to come of it."""
        self.overflowed = self._dropping = True
        self._data.clear()
        self._held = 0
        del self._line[_STUB:]

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
                self._held = 0
            self._dropping = False
        elif self._dropping:
            pass
        elif self._held + len(line) > self._limit:
            self._drop()
        elif line.startswith(b"data:") or line == b"data":
            self._held += len(line) + 64  # what an object costs, so that empty lines count too
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
