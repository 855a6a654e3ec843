"""What the gateway does for an engine of its own, with the scripted upstream in the engine's place."""

from __future__ import annotations

import json
import socket
import threading

from gateway_running import RawUpstream, answering, client, gateway, http_response, post, raw_upstream
from upstream import Turn, serve

from standfast.engines.slots import Slots
from standfast.events import EngineRestarted, FailedOpen
from standfast.gateway.engine import EngineSide

USAGE = b'{"usage":{"prompt_tokens":7,"completion_tokens":2},"choices":[]}'
STARTED = b'{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}'


def chat(text: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


def test_a_conversation_keeps_its_slot() -> None:
    side = EngineSide("up0", Slots(2))
    with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url, engine=side) as running:
        for text in ("one", "two", "one", "two"):
            assert post(running, "openai_chat", chat(text * 50)).status_code == 200
        slots = [request.json["id_slot"] for request in upstream.requests]
        assert slots == [0, 1, 0, 1]
        assert upstream.requests[0].body == b'{"id_slot":0,' + chat("one" * 50)[1:]


def test_restart_forgets_the_slots() -> None:
    slots = Slots(2)
    side = EngineSide("up0", slots)
    with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url, engine=side) as running:
        post(running, "openai_chat", chat("one" * 50))
        side.observe(EngineRestarted("", -6, 1))
        post(running, "openai_chat", chat("two" * 50))
        assert upstream.requests[1].json["id_slot"] in (0, 1)
        assert slots.busy == 0


def test_several_workers_leave_the_slot_to_the_engine() -> None:
    side = EngineSide("up0", None)
    with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url, engine=side) as running:
        post(running, "openai_chat", chat("one"))
        assert upstream.requests[0].body == chat("one")


def test_a_failure_of_the_choice_is_not_the_callers() -> None:
    class Broken(Slots):
        def choose(self, *given: object) -> int:
            raise RuntimeError

    side = EngineSide("up0", Broken(1))
    with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url, engine=side) as running:
        assert post(running, "openai_chat", chat("one")).status_code == 200
        assert upstream.requests[0].body == chat("one")
        assert [event.stage for event in running.of(FailedOpen)] == ["slot"]


def test_usage_is_filled_in() -> None:
    side = EngineSide("up0", Slots(1))
    with raw_upstream(answering(http_response(USAGE))) as upstream, gateway(upstream.url, engine=side) as running:
        response = post(running, "openai_chat")
        assert response.json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
        assert response.headers["x-standfast-hit"] == "0/7"
    events = b"event: message_start\ndata: " + STARTED + b"\n\n"
    sse = http_response(events, b"content-type: text/event-stream")
    with raw_upstream(answering(sse)) as upstream, gateway(upstream.url, engine=side) as running:
        response = post(running, "anthropic")
        assert b'"cache_read_input_tokens":0' in response.content
        assert "content-length" not in response.headers


def test_an_engine_that_is_being_restarted_is_waited_for() -> None:
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    port = holder.getsockname()[1]

    def come_up() -> None:
        holder.listen()
        peer, _ = holder.accept()
        with peer:
            RawUpstream("").read(peer)
            peer.sendall(http_response(USAGE))

    with holder, gateway(f"http://127.0.0.1:{port}", engine=EngineSide("up0", Slots(1))) as running:
        timer = threading.Timer(0.5, come_up)
        timer.start()
        assert post(running, "openai_chat").status_code == 200
        timer.join()


def test_ready_asks_the_engine() -> None:
    def serve_one(upstream: RawUpstream, peer: socket.socket, number: int) -> None:
        upstream.read(peer)
        assert upstream.heads[-1].startswith(b"GET /health HTTP/1.1")
        status = b"503 Service Unavailable" if number == 1 else b"200 OK"
        peer.sendall(http_response(b"{}", b"connection: close", status=status))

    side = EngineSide("up0", None)
    with raw_upstream(serve_one) as upstream, gateway(upstream.url, engine=side) as running, client(running) as caller:
        assert caller.get("/readyz").text == "not ready: the engine answers 503\n"
        assert caller.get("/readyz").text == "ready\n"
    with gateway("http://127.0.0.1:1", engine=side) as running, client(running) as caller:
        assert caller.get("/readyz").status_code == 503
