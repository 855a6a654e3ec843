"""What happens on the wire: bodies in pieces, connections kept and lost, odd targets, slow readers."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import httpx
import pytest
from gateway_running import (
    BODIES,
    RawUpstream,
    answering,
    client,
    gateway,
    http_response,
    post,
    raw_exchange,
    raw_upstream,
)
from upstream import serve

from standfast.events import Finished

EVENTS = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
SSE = b"content-type: text/event-stream"


class TestPassThrough:
    def test_other_paths(self) -> None:
        with serve() as upstream, gateway(upstream.url) as running, client(running) as caller:
            assert caller.get("/v1/models").status_code == 200
            counted = caller.post("/v1/messages/count_tokens", json=BODIES["anthropic"])
            assert counted.json()["input_tokens"] > 0
            assert caller.post("/v1/embeddings", json={"model": "m", "input": "x"}).status_code == 200
            assert caller.get("/nowhere?q=1").status_code == 404
            assert [r.query for r in upstream.requests] == ["", "", "", "q=1"]
            assert {event.dialect for event in running.of(Finished)} == {"other"}
            assert "content-length" not in upstream.requests[0].headers
            assert upstream.requests[0].headers["accept-encoding"] == caller.headers["accept-encoding"]

    def test_uploads_are_not_held_back(self) -> None:
        arrived = threading.Event()

        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            got = b""
            while b"first" not in got:
                got += peer.recv(65536)
            arrived.set()
            while not got.endswith(b"0\r\n\r\n"):
                got += peer.recv(65536)
            upstream.bodies.append(got.partition(b"\r\n\r\n")[2])
            peer.sendall(http_response(b"{}"))

        def pieces() -> Any:
            yield b"first"
            assert arrived.wait(5)
            yield b"second"

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running, client(running) as caller:
            assert caller.post("/v1/files", content=pieces()).status_code == 200
            assert upstream.bodies == [b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"]

    def test_caller_that_leaves_in_the_middle_of_an_upload(self) -> None:
        ended = threading.Event()

        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            while peer.recv(65536):
                pass
            ended.set()

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running:
            head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\npart"
            host, port = running.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as peer:
                peer.sendall(head)
                time.sleep(0.2)
            assert ended.wait(5)
            assert running.wait_for(Finished).status == 499

    def test_head_and_no_content(self) -> None:
        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            while upstream.read(peer):
                method = upstream.heads[-1].split()[0]
                plain = b"HTTP/1.1 204 No Content\r\n\r\n"
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" if method == b"HEAD" else plain)

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running, client(running) as caller:
            assert caller.head("/v1/x").headers["content-length"] == "5"
            assert caller.delete("/v1/x").status_code == 204


class TestRefusals:
    @pytest.mark.parametrize(
        "target", ["/v1/../admin", "/v1/%2e%2E/admin", "/v1/..%2fadmin", "/a/.%5c..%5cb", "/%252e%252e/x"]
    )
    def test_dot_segments(self, target: str) -> None:
        with serve() as upstream, gateway(upstream.url + "/base") as running:
            got = raw_exchange(running.url, f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), until=b"}")
            assert got.startswith(b"HTTP/1.1 400 ")
            assert upstream.requests == []

    def test_absolute_url(self) -> None:
        with serve() as upstream, gateway(upstream.url) as running:
            got = raw_exchange(running.url, b"GET http://evil/v1/models HTTP/1.1\r\nhost: x\r\n\r\n", until=b"}")
            assert got.startswith(b"HTTP/1.1 400 ")
            assert upstream.requests == []

    def test_websocket(self) -> None:
        with serve() as upstream, gateway(upstream.url) as running, client(running) as caller:
            headers = {"connection": "upgrade", "upgrade": "websocket"}
            assert caller.get("/v1/realtime", headers=headers).status_code == 501
            assert upstream.requests == []

    def test_encoded_slash_stays_encoded_and_two_lengths_are_refused(self) -> None:
        with raw_upstream(answering(http_response(b"{}"))) as upstream, gateway(upstream.url + "/base") as running:
            raw_exchange(running.url, b"GET //evil/a%2Fb;c@d?x=%2E%2E HTTP/1.1\r\nhost: x\r\n\r\n", until=b"{}")
            assert upstream.heads[0].startswith(b"GET /base//evil/a%2Fb;c@d?x=%2E%2E HTTP/1.1\r\n")
            two = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"
            assert raw_exchange(running.url, two).startswith(b"HTTP/1.1 400 ")
            both = two.replace(b"content-length: 2", b"transfer-encoding: chunked")
            assert raw_exchange(running.url, both).startswith(b"HTTP/1.1 400 ")
            assert len(upstream.heads) == 1


class TestConnections:
    def test_are_used_again(self) -> None:
        with raw_upstream(answering(http_response(b"{}"))) as upstream, gateway(upstream.url) as running:
            for _ in range(5):
                assert post(running, "openai_chat").status_code == 200
            assert upstream.connections == 1

    def test_a_kept_one_that_was_closed_is_replaced(self) -> None:
        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            upstream.read(peer)
            peer.sendall(http_response(b"{}"))
            if number == 1:
                upstream.read(peer)  # and then close it without a word
            else:
                upstream.read(peer)

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running:
            assert post(running, "openai_chat").status_code == 200
            assert post(running, "openai_chat").status_code == 200
            assert upstream.connections == 2
            assert len(upstream.heads) == 3

    def test_a_new_one_that_is_closed_is_not(self) -> None:
        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            upstream.read(peer)

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running:
            assert post(running, "openai_chat").status_code == 502
            assert upstream.connections == 1

    def test_one_that_had_begun_to_answer_is_not(self) -> None:
        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            upstream.read(peer)
            peer.sendall(http_response(b"{}"))
            upstream.read(peer)
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-")

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running:
            assert post(running, "openai_chat").status_code == 200
            assert post(running, "openai_chat").status_code == 502
            assert upstream.connections == 1

    def test_not_http(self) -> None:
        with (
            raw_upstream(answering(b"SSH-2.0 hello\r\n\r\n", close=True)) as upstream,
            gateway(upstream.url) as running,
        ):
            assert post(running, "openai_chat").status_code == 502

    def test_connect_timeout(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            port = full.getsockname()[1]
            waiting = [socket.socket() for _ in range(4)]
            for peer in waiting:
                peer.setblocking(False)
                peer.connect_ex(("127.0.0.1", port))
            with gateway(f"http://127.0.0.1:{port}", connect_timeout=0.3) as running:
                assert post(running, "openai_chat").status_code == 504
            for peer in waiting:
                peer.close()

    def test_silence_in_the_middle_of_a_stream(self) -> None:
        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            upstream.read(peer)
            peer.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n" + SSE + b"\r\n\r\n")
            peer.sendall(b"%x\r\n%b\r\n" % (len(EVENTS), EVENTS))
            peer.recv(1)

        with (
            raw_upstream(serve_one) as upstream,
            gateway(upstream.url, read_timeout=0.3) as running,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            post(running, "openai_chat")


class TestBackpressure:
    def test_a_slow_reader_slows_the_upstream(self) -> None:
        piece = b": " + b"x" * 65_000 + b"\n\n"
        total = 2000  # 130 MB

        def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
            upstream.read(peer)
            peer.sendall(b"HTTP/1.1 200 OK\r\n" + SSE + b"\r\ncontent-length: %d\r\n\r\n" % (len(piece) * total))
            for _ in range(total):
                peer.sendall(piece)
                upstream.sent += len(piece)

        with raw_upstream(serve_one) as upstream, gateway(upstream.url) as running, client(running) as caller:
            with caller.stream("POST", "/v1/chat/completions", content=b"{}") as response:
                pieces = response.iter_raw()
                got = len(next(pieces))
                level = _settled(upstream)
                # Socket buffers on the way, and ours: far from all of it.
                assert level < 30_000_000
                for chunk in pieces:
                    got += len(chunk)
            assert got == len(piece) * total


def _settled(upstream: RawUpstream) -> int:
    level = -1
    while level != upstream.sent:
        level = upstream.sent
        time.sleep(0.4)
    return level
