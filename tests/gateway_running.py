"""A gateway on a real socket, for tests; and an upstream of raw sockets, for what no proper server would do."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from standfast.config import Settings, Upstream
from standfast.events import Event
from standfast.gateway.app import Gateway
from standfast.gateway.engine import EngineSide
from standfast.gateway.server import Server, config_of, listen, url_of
from standfast.ledger.memory import MemoryLedger
from standfast.observe.log import RequestLog, all_of
from standfast.observe.metrics import Metrics
from standfast.providers.catalogue import Catalogue
from standfast.turn import Turns

PATIENCE = 10.0
Serve = Callable[[socket.socket, int], None]
"""Serves one connection, the n-th; it is closed when this returns."""


@dataclass
class Running:
    """A gateway that runs."""

    url: str
    turns: Turns
    metrics: Metrics
    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of a kind so far."""
        return [event for event in self.events if type(event) is kind]

    def wait_for(self, kind: type[Event], count: int = 1) -> Any:
        """The count-th event of a kind."""
        end = time.monotonic() + PATIENCE
        while len(self.of(kind)) < count:
            if time.monotonic() > end:
                raise TimeoutError(f"no {kind.__name__} number {count}: {self.events}")
            time.sleep(0.005)
        return self.of(kind)[count - 1]


class _Threaded(Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def gateway(
    *upstreams: Upstream | str,
    engine: EngineSide | None = None,
    probe: Callable[[], object] | None = None,
    close: Callable[[], object] | None = None,
    **rest: Any,
) -> Iterator[Running]:
    """Run a gateway in a thread, in front of upstreams given as such or by URL."""
    places = [Upstream(f"up{n}", u) if isinstance(u, str) else u for n, u in enumerate(upstreams)]
    settings = Settings(**{"connect_timeout": 2.0, "shutdown_timeout": 1.0, **rest})
    metrics, events = Metrics(), list[Event]()
    observe = all_of(metrics, RequestLog(), events.append)
    # A busy machine must not turn a test of something else into one of the budget.
    turns = Turns(MemoryLedger(64 << 20), budget_ms=5000, observe=observe, rules_of=Catalogue.load().rules)
    app = Gateway(settings, turns, places, metrics=metrics, observe=observe, engine=engine, probe=probe, close=close)
    listener = listen("127.0.0.1", 0)
    up = threading.Event()
    server = _Threaded(config_of(settings, app), up.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert up.wait(PATIENCE), "the gateway did not start"
        yield Running(url_of(listener) if listener.fileno() >= 0 else "", turns, metrics, events)
    finally:
        server.cut()
        thread.join(PATIENCE)
        listener.close()


@dataclass
class RawUpstream:
    """What a raw upstream saw."""

    url: str
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    sent: int = 0

    def read(self, peer: socket.socket) -> bool:
        """Read and keep one request with a Content-Length or chunked body; False at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        chunked = re.search(rb"\r\ntransfer-encoding: *chunked", head, re.I)
        while (length and len(body) < int(length[1])) or (chunked and not body.endswith(b"0\r\n\r\n")):
            body += peer.recv(65536)
        self.heads.append(head)
        self.bodies.append(body)
        return True


@contextlib.contextmanager
def raw_upstream(serve: Callable[[RawUpstream, socket.socket, int], None]) -> Iterator[RawUpstream]:
    """An upstream that serves each connection by a function, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        upstream = RawUpstream(f"http://127.0.0.1:{listener.getsockname()[1]}")
        threads: list[threading.Thread] = []

        def one(peer: socket.socket, number: int) -> None:
            with peer, contextlib.suppress(ConnectionError, TimeoutError):
                peer.settimeout(PATIENCE)
                serve(upstream, peer, number)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    upstream.connections += 1
                    threads.append(threading.Thread(target=one, args=(peer, upstream.connections), daemon=True))
                    threads[-1].start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield upstream
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE)
            for thread in threads:
                thread.join(PATIENCE)


def answering(response: bytes, *, close: bool = False) -> Callable[[RawUpstream, socket.socket, int], None]:
    """Answers every request of a connection with these bytes; ``close`` ends it after the first."""

    def serve(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
        while upstream.read(peer):
            peer.sendall(response)
            if close:
                return

    return serve


def http_response(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A response on the wire, with a Content-Length."""
    lines = b"HTTP/1.1 " + status, *headers, b"content-length: %d" % len(body), b"", body
    return b"\r\n".join(lines)


def client(running: Running, **headers: str) -> httpx.Client:
    """A client that adds nothing of its own but what HTTP needs."""
    return httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE, trust_env=False)


def raw_exchange(url: str, request: bytes, *, until: bytes = b"") -> bytes:
    """Send bytes, and return what comes until the connection ends or these bytes have come."""
    host, port = url.removeprefix("http://").split(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as peer:
        peer.sendall(request)
        while not (until and until in got):
            more = peer.recv(65536)
            if not more:
                break
            got += more
    return got


PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"model": "m", "input": "Hello"},
}


def post(running: Running, dialect: str, body: bytes | None = None, **headers: str) -> httpx.Response:
    """Send a request of a dialect; keywords are headers."""
    with client(running) as caller:
        content = json.dumps(BODIES[dialect]).encode() if body is None else body
        sent = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return caller.post(PATHS[dialect], content=content, headers=sent)


def message(response: httpx.Response, dialect: str) -> str:
    """The text of an error, if the whole has its dialect's form."""
    told = response.json()
    request_id = response.headers["x-standfast-request-id"]
    if dialect == "anthropic":
        assert (told["type"], told["request_id"]) == ("error", request_id)
        assert set(told["error"]) == {"type", "message"}
    else:
        assert set(told["error"]) == {"message", "type", "param", "code"}
    return str(told["error"]["message"])
