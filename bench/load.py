"""The client of the benches: blocking or multiplexed sockets and requests that are built before the clock starts.

It writes bytes that are ready, and looks at no more of an answer than it needs to know where the answer ends, so that
its own cost is small and the same for every target.
"""

from __future__ import annotations

import gc
import math
import secrets
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

KEY = f"sk-{secrets.token_hex(32)}"
"""Credential of every request; new for each run. LiteLLM does not start without a strong one."""


class BadAnswer(Exception):
    """A target answered something else than 200, or broke off."""


def post(path: str, body: bytes, host: str) -> bytes:
    """A whole HTTP/1.1 request, ready to send."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {KEY}\r\nuser-agent: standfast-bench\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get(path: str, host: str) -> bytes:
    """A GET request, ready to send."""
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\n\r\n".encode()


@dataclass(slots=True)
class Answer:
    """An answer as far as it has come."""

    data: bytearray
    end: int = -1
    """Length of the whole answer, once its head told it; -1 before, -2 for a chunked one."""
    body_at: int = 0

    def feed(self, chunk: bytes) -> bool:
        """Whether it is complete. Raises BadAnswer if the status is not 200."""
        self.data += chunk
        if self.end == -1:
            at = self.data.find(b"\r\n\r\n")
            if at < 0:
                return False
            head = bytes(self.data[:at]).lower()
            if not head.startswith(b"http/1.1 200"):
                raise BadAnswer(bytes(self.data[:400]).decode("utf-8", "replace"))
            self.body_at = at + 4
            length = head.find(b"\r\ncontent-length:")
            self.end = -2 if length < 0 else self.body_at + int(head[length + 17 :].partition(b"\r\n")[0])
        if self.end == -2:
            return self.data.endswith(b"0\r\n\r\n")
        return len(self.data) >= self.end

    @property
    def body(self) -> bytes:
        """What follows the head (of a chunked answer, with the chunk marks)."""
        return bytes(self.data[self.body_at :])


class Connection:
    """One kept-alive connection to a target; one request at a time."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.host = f"{host}:{port}"
        self.socket = socket.create_connection((host, port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> Answer:
        """Send and wait for the whole answer."""
        self.socket.sendall(request)
        answer = Answer(bytearray())
        while True:
            chunk = self.socket.recv(262_144)
            if not chunk:
                raise BadAnswer(f"{self.host} closed the connection")
            if answer.feed(chunk):
                return answer

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def one_by_one(connection: Connection, requests: Sequence[bytes]) -> list[float]:
    """Seconds of each request, in a closed loop on one connection."""
    seconds = []
    with _no_collection():
        for request in requests:
            begin = time.perf_counter()
            connection.exchange(request)
            seconds.append(time.perf_counter() - begin)
    return seconds


class _Lane:
    """One of several connections that run side by side."""

    def __init__(self, connection: Connection, requests: Sequence[bytes]) -> None:
        self.socket = connection.socket
        self.requests = iter(requests)
        self.begin()

    def begin(self) -> bool:
        """Take the next request; False if none is left."""
        request = next(self.requests, None)
        self.left = memoryview(request or b"")
        self.answer = Answer(bytearray())
        return request is not None

    def write(self) -> bool:
        """Whether all of the request is out."""
        self.left = self.left[self.socket.send(self.left) :]
        return not self.left

    def read(self) -> bool:
        """Whether all of the answer is in."""
        chunk = self.socket.recv(262_144)
        if not chunk:
            raise BadAnswer("the target closed the connection")
        return self.answer.feed(chunk)


def side_by_side(connections: Sequence[Connection], requests: Sequence[Sequence[bytes]]) -> float:
    """Seconds until every connection has sent its own requests, each in a closed loop, all at once."""
    selector = selectors.DefaultSelector()
    for connection in connections:
        connection.socket.setblocking(False)
    with _no_collection():
        begin = time.perf_counter()
        for connection, own in zip(connections, requests, strict=True):
            selector.register(connection.socket, selectors.EVENT_WRITE, _Lane(connection, own))
        while selector.get_map():
            for key, mask in selector.select():
                _step(selector, key.data, mask)
        seconds = time.perf_counter() - begin
    for connection in connections:
        connection.socket.setblocking(True)
        connection.socket.settimeout(60)
    return seconds


def _step(selector: selectors.BaseSelector, lane: _Lane, mask: int) -> None:
    if mask & selectors.EVENT_WRITE:
        if lane.write():
            selector.modify(lane.socket, selectors.EVENT_READ, lane)
    elif lane.read():
        if lane.begin():
            selector.modify(lane.socket, selectors.EVENT_WRITE, lane)
        else:
            selector.unregister(lane.socket)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
