"""Which ASGI server and HTTP client carry the gateway? A plain pass-through of one body, each stack in turn.

    python bench/stacks.py [--kb 100] [--rounds 5] [--requests 300]

Every stack is one process that reads the whole request body, sends it to the same dummy upstream and relays the
answer. The client is a blocking socket, so that the time measured is the stack's and not the client's. Stacks are
interleaved round by round; the table shows the median of the rounds, and ratios to the first stack. Stacks whose
packages are missing are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import platform
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

ANSWER = b'{"usage":{"prompt_tokens":25000,"completion_tokens":20},"text":"' + b"x" * 2000 + b'"}'
STACKS = {
    "uvicorn+aiohttp": ("uvicorn", "aiohttp"),
    "granian+aiohttp": ("granian", "aiohttp"),
    "uvicorn+httpx": ("uvicorn", "httpx"),
}
UPSTREAM = os.environ.get("STACKS_UPSTREAM", "")
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Dummy(asyncio.Protocol):
    """The upstream: counts the body's bytes, then answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.head = b""
        self.left = -1

    def data_received(self, data: bytes) -> None:
        if self.left < 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.head[:end].lower().split(b"\r\n")
            length = next((int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:")), 0)
            self.left = length - (len(self.head) - end - 4)
            self.head = b""
        else:
            self.left -= len(data)
        if self.left <= 0:
            self.left = -1
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
            self.transport.write(head + ANSWER)  # type: ignore[attr-defined]


async def read_body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def outgoing(scope: dict[str, Any]) -> list[tuple[str, str]]:
    return [(k.decode(), v.decode()) for k, v in scope["headers"] if k not in (b"host", b"content-length")]


async def through_aiohttp(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    import aiohttp

    state = through_aiohttp.__dict__
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    if "session" not in state:
        state["session"] = aiohttp.ClientSession(
            auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=0)
        )
    body = await read_body(receive)
    async with state["session"].request("POST", UPSTREAM + scope["path"], data=body, headers=outgoing(scope)) as r:
        await send({"type": "http.response.start", "status": r.status, "headers": list(r.raw_headers)})
        async for chunk in r.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def through_httpx(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    import httpx

    state = through_httpx.__dict__
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    if "client" not in state:
        state["client"] = httpx.AsyncClient(trust_env=False, timeout=None)
    body = await read_body(receive)
    async with state["client"].stream("POST", UPSTREAM + scope["path"], content=body, headers=outgoing(scope)) as r:
        await send({"type": "http.response.start", "status": r.status_code, "headers": r.headers.raw})
        async for chunk in r.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


def serve(stack: str, port: int) -> None:
    server, client = STACKS[stack]
    if server == "uvicorn":
        import uvicorn

        app = {"aiohttp": through_aiohttp, "httpx": through_httpx}[client]
        uvicorn.run(app, port=port, loop="uvloop", http="httptools", log_level="warning", access_log=False)
    else:
        from granian import Granian
        from granian.constants import Interfaces, Loops

        target = f"stacks:through_{client}"
        Granian(target, port=port, interface=Interfaces.ASGI, loop=Loops.uvloop, log_enabled=False).serve()


def serve_dummy(port: int) -> None:
    import uvloop

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Dummy, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(main())


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def process(role: str, upstream: str = "") -> Iterator[int]:
    port = free_port()
    here = os.path.dirname(os.path.abspath(__file__))
    environment = os.environ | {"STACKS_UPSTREAM": upstream, "PYTHONPATH": here}
    child = subprocess.Popen([sys.executable, __file__, "--serve", role, "--port", str(port)], env=environment)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        child.terminate()
        child.wait()


def exchange(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    got = b""
    while not got.endswith(ANSWER) and not got.endswith(ANSWER + b"\r\n0\r\n\r\n"):
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError("closed before the answer")
        got += piece


def one_by_one(port: int, request: bytes, count: int) -> list[float]:
    times = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.perf_counter()
            exchange(connection, request)
            times.append(time.perf_counter() - begun)
    return times


def together(port: int, request: bytes, count: int, clients: int = 8) -> float:
    threads = [threading.Thread(target=one_by_one, args=(port, request, count // clients)) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count // clients * clients / (time.perf_counter() - begun)


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def measure(ports: dict[str, int], kb: int, rounds: int, requests: int) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"a" * (kb * 1000) + b'"}]}'
    lines = b"POST /v1/chat/completions HTTP/1.1", b"host: x", b"content-length: %d" % len(body), b"", body
    request = b"\r\n".join(lines)
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ports}
    for port in ports.values():
        one_by_one(port, request, 100)
    for turn in range(rounds):
        order = list(ports.items())
        for name, port in order if turn % 2 == 0 else reversed(order):
            times = one_by_one(port, request, requests)
            figures[name].append((percentile(times, 0.5), percentile(times, 0.99), together(port, request, requests)))
    python = f"Python {platform.python_version()}"
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, {platform.system()}, {python}")
    print(f"body {kb} KB, {rounds} rounds of {requests} requests; medians; 'added' is p50 over no proxy\n")
    print(f"{'stack':18} {'p50 ms':>8} {'p99 ms':>8} {'added':>8} {'×':>6} {'req/s':>8} {'×':>6}")
    table = {n: [statistics.median(column) for column in zip(*rows, strict=True)] for n, rows in figures.items()}
    base = table["no proxy"][0]
    first = next(row for name, row in table.items() if name != "no proxy")
    for name, (p50, p99, rate) in table.items():
        ratio = (p50 - base) / (first[0] - base)
        print(
            f"{name:18} {p50 * 1e3:8.3f} {p99 * 1e3:8.3f} {(p50 - base) * 1e3:8.3f} {ratio:6.2f}"
            f" {rate:8.0f} {rate / first[2]:6.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "dummy":
        return serve_dummy(options.port)
    if options.serve:
        return serve(options.serve, options.port)
    from contextlib import ExitStack

    with ExitStack() as stack:
        dummy = stack.enter_context(process("dummy"))
        ports = {"no proxy": dummy}
        for name, packages in STACKS.items():
            if all(importlib.util.find_spec(package) for package in packages):
                ports[name] = stack.enter_context(process(name, f"http://127.0.0.1:{dummy}"))
        measure(ports, options.kb, options.rounds, options.requests)


if __name__ == "__main__":
    main()
