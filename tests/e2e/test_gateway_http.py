"""The gateway on real sockets, in front of the scripted upstream or of one that misbehaves on the wire."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from gateway_running import (
    BODIES,
    PATHS,
    Running,
    answering,
    client,
    gateway,
    http_response,
    message,
    post,
    raw_exchange,
    raw_upstream,
)
from upstream import Recorded, Served, Turn, serve

from standfast.config import Upstream
from standfast.events import FailedOpen, Finished, Planned

DIALECTS = tuple(PATHS)
EVENTS = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
SSE = b"content-type: text/event-stream"


@pytest.mark.parametrize("dialect", DIALECTS)
class TestEachDialect:
    def test_bytes_and_headers_come_through(self, dialect: str) -> None:
        with serve([Turn(text="Hi"), Turn(text="Hi")]) as upstream, gateway(upstream.url) as running:
            body = json.dumps(BODIES[dialect], indent=1).encode()
            response = post(running, dialect, body, authorization="Bearer secret", anthropic_beta="x-1")
            seen = upstream.requests[0]
            assert (response.status_code, seen.body) == (200, body)
            assert (seen.headers["authorization"], seen.headers["anthropic-beta"]) == ("Bearer secret", "x-1")
            assert seen.headers["content-length"] == str(len(body))
            assert seen.headers["host"] == upstream.url.removeprefix("http://")
            assert response.headers["x-standfast-cause"] == "none"
            assert response.headers["x-standfast-repaired"] == "0"
            cached, prompt = response.headers["x-standfast-hit"].split("/")
            assert int(cached) == 0
            assert int(prompt) > 0
            again = post(running, dialect, body, authorization="Bearer secret")
            assert int(again.headers["x-standfast-hit"].split("/")[0]) > 0
            first, second = running.of(Finished)
            assert first.request_id == response.headers["x-standfast-request-id"] != second.request_id
            assert (first.dialect, first.model, first.status, first.cached_tokens) == (dialect, "m", 200, 0)

    def test_streams(self, dialect: str) -> None:
        with serve([Turn(text="Hello there, caller")]) as upstream, gateway(upstream.url) as running:
            body = json.dumps({**BODIES[dialect], "stream": True}).encode()
            with client(running) as caller, caller.stream("POST", PATHS[dialect], content=body) as response:
                assert response.headers["x-standfast-hit"].startswith("~")
                text = response.read()
            assert b"Hello" in text
            told = running.wait_for(Finished)
            # Chat streams tell usage only when they are asked to.
            assert (told.output_tokens is None) == (dialect == "openai_chat")
            assert (told.status, told.disconnected) == (200, False)

    def test_errors_of_the_upstream_are_untouched(self, dialect: str) -> None:
        with serve([Turn(status=429, retry_after=7)]) as upstream, gateway(upstream.url) as running:
            response = post(running, dialect)
            assert (response.status_code, response.headers["retry-after"]) == (429, "7")
            assert "rate limit" in response.text
            assert running.of(Finished)[0].status == 429

    def test_broken_body(self, dialect: str) -> None:
        with serve() as upstream, gateway(upstream.url) as running:
            response = post(running, dialect, b'{"model": "m", oops}')
            assert response.status_code == 400
            assert "15" in message(response, dialect)
            assert upstream.requests == []

    def test_body_over_the_limit(self, dialect: str) -> None:
        with serve() as upstream, gateway(upstream.url, max_body_mb=1) as running:
            big = b'{"model":"' + b"m" * (1 << 20) + b'"}'
            response = post(running, dialect, big)
            assert response.status_code == 413
            assert "1 MB" in message(response, dialect)
            with client(running) as caller:
                chunked = caller.post(PATHS[dialect], content=iter([big[:600_000], big[600_000:]]))
            assert chunked.status_code == 413
            assert upstream.requests == []

    def test_gateway_key(self, dialect: str) -> None:
        with serve([Turn(text="Hi")]) as upstream, gateway(upstream.url, gateway_key="sesame") as running:
            assert post(running, dialect).status_code == 401
            refused = post(running, dialect, x_standfast_key="wrong")
            assert refused.status_code == 401
            assert "x-standfast-key" in message(refused, dialect)
            assert post(running, dialect, x_standfast_key="sesame").status_code == 200
            assert not [name for name in upstream.requests[0].headers if name.startswith("x-standfast")]

    def test_upstream_that_cannot_be_reached(self, dialect: str) -> None:
        with gateway("http://127.0.0.1:1") as running:
            response = post(running, dialect)
            assert response.status_code == 502
            assert "'up0'" in message(response, dialect)

    def test_upstream_that_does_not_answer(self, dialect: str) -> None:
        with serve([Turn(never=True)]) as upstream, gateway(upstream.url, read_timeout=0.3) as running:
            response = post(running, dialect)
            assert response.status_code == 504
            assert "0.3 s" in message(response, dialect)
            assert upstream.wait_for(1, done=True).disconnected

    def test_upstream_that_breaks_off(self, dialect: str) -> None:
        turns = [Turn(text="Hello there", disconnect_after=2), Turn(text="Hello", disconnect_after=2)]
        with serve(turns) as upstream, gateway(upstream.url) as running:
            body = json.dumps({**BODIES[dialect], "stream": True}).encode()
            with client(running) as caller, caller.stream("POST", PATHS[dialect], content=body) as response:
                assert response.status_code == 200
                with pytest.raises(httpx.RemoteProtocolError):
                    response.read()
            # Not streamed: nothing has gone out yet, so there is room for an error.
            assert post(running, dialect).status_code == 502
            assert len(upstream.requests) == 2

    def test_caller_that_leaves(self, dialect: str) -> None:
        turns = [Turn(never=True), Turn(text="many words " * 200, event_delay=0.05)]
        with serve(turns) as upstream, gateway(upstream.url) as running:
            body = json.dumps({**BODIES[dialect], "stream": True}).encode()
            with client(running) as caller, pytest.raises(httpx.ReadTimeout):
                caller.post(PATHS[dialect], content=body, timeout=0.3)
            assert upstream.wait_for(1, done=True).disconnected
            with client(running) as caller, caller.stream("POST", PATHS[dialect], content=body) as response:
                next(response.iter_raw())
            assert upstream.wait_for(2, done=True).disconnected
            assert running.wait_for(Finished, 1).status == 499
            assert running.wait_for(Finished, 2).disconnected


def chat_with_tools(*names: str) -> bytes:
    tools = [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in names]
    return json.dumps({**BODIES["openai_chat"], "tools": tools}).encode()


class TestPlan:
    def test_shuffled_tools_are_sent_as_before(self) -> None:
        with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url) as running:
            post(running, "openai_chat", chat_with_tools("a", "b", "c"))
            response = post(running, "openai_chat", chat_with_tools("c", "a", "b"))
            assert response.headers["x-standfast-cause"] == "T1"
            assert response.headers["x-standfast-repaired"] == "1"
            assert upstream.requests[1].body == upstream.requests[0].body

    def test_tenants_do_not_meet(self) -> None:
        with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url) as running:
            post(running, "openai_chat", chat_with_tools("a", "b"), authorization="Bearer one")
            response = post(running, "openai_chat", chat_with_tools("b", "a"), authorization="Bearer two")
            assert response.headers["x-standfast-cause"] == "none"
            assert upstream.requests[1].body == chat_with_tools("b", "a")

    def test_policy_header(self) -> None:
        with serve(lambda request: Turn(text="Hi")) as upstream, gateway(upstream.url) as running:
            post(running, "openai_chat", chat_with_tools("a", "b"))
            observed = post(running, "openai_chat", chat_with_tools("b", "a"), x_standfast_policy="observe")
            assert (observed.headers["x-standfast-cause"], observed.headers["x-standfast-repaired"]) == ("T1", "0")
            off = post(running, "openai_chat", chat_with_tools("b", "a"), x_standfast_policy="off")
            assert off.headers["x-standfast-cause"] == "none"
            assert len(running.of(Planned)) == 2
            assert [request.body for request in upstream.requests[1:]] == [chat_with_tools("b", "a")] * 2
            refused = post(running, "openai_chat", x_standfast_policy="yes")
            assert refused.status_code == 400
            assert "lossless" in message(refused, "openai_chat")

    def test_fails_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*given: Any) -> None:
            raise RuntimeError("quotes the prompt")

        with serve([Turn(text="Hi"), Turn(text="Hi")]) as upstream, gateway(upstream.url) as running:
            monkeypatch.setattr(running.turns, "learn", broken)
            assert post(running, "openai_chat").status_code == 200
            monkeypatch.setattr(running.turns, "plan", broken)
            assert post(running, "openai_chat").status_code == 200
            assert upstream.requests[0].body == upstream.requests[1].body == json.dumps(BODIES["openai_chat"]).encode()
            running.wait_for(Finished, 2)
            assert [event.stage for event in running.of(FailedOpen)] == ["learn", "plan"]
            assert "quotes" not in repr(running.events)

    def test_refusal_of_what_was_mended(self) -> None:
        sent, came = chat_with_tools("a", "b"), chat_with_tools("b", "a")

        def fussy(request: Recorded) -> Turn:
            return Turn(text="Hi") if len(upstream.requests) == 1 or request.body == came else Turn(status=400)

        with serve(fussy) as upstream, gateway(upstream.url) as running:
            post(running, "openai_chat", sent)
            response = post(running, "openai_chat", came)
            assert [request.body for request in upstream.requests] == [sent, sent, came]
            assert (response.status_code, response.headers["x-standfast-repaired"]) == (200, "0")
            assert [event.stage for event in running.of(FailedOpen)] == ["sent"]
            post(running, "openai_chat", came)
            assert upstream.requests[3].body == came
            assert len(upstream.requests) == 4
            assert len(running.of(Planned)) == 3

    def test_refusal_of_what_came_too(self) -> None:
        sent, came = chat_with_tools("a", "b"), chat_with_tools("b", "a")
        script = [Turn(text="Hi"), Turn(status=400, message="ours"), Turn(status=400, message="theirs")]
        with serve(script) as upstream, gateway(upstream.url) as running:
            post(running, "openai_chat", sent)
            response = post(running, "openai_chat", came)
            assert (response.status_code, message(response, "openai_chat")) == (400, "theirs")
            assert upstream.requests[-1].body == came
            assert running.of(FailedOpen) == []

    def test_compressed_request_goes_through_untouched(self) -> None:
        with raw_upstream(answering(http_response(b"{}"))) as upstream, gateway(upstream.url) as running:
            body = gzip.compress(json.dumps(BODIES["openai_chat"]).encode())
            assert post(running, "openai_chat", body, content_encoding="gzip").status_code == 200
            assert upstream.bodies == [body]
            assert running.of(Planned) == []

    def test_compressed_response_goes_through_unread(self) -> None:
        packed = gzip.compress(b'{"usage":{"prompt_tokens":5}}')
        response = http_response(packed, b"content-encoding: gzip")
        with raw_upstream(answering(response)) as upstream, gateway(upstream.url) as running:
            got = post(running, "openai_chat")
            assert got.json() == {"usage": {"prompt_tokens": 5}}
            assert got.headers["x-standfast-hit"].startswith("~")


class TestHeaders:
    def test_request(self) -> None:
        with raw_upstream(answering(http_response(b"{}"))) as upstream, gateway(upstream.url) as running:
            body = b'{"model":"m","messages":[]}'
            lines = (
                b"POST /v1/chat/completions?a=%2F&b HTTP/1.1", b"Host: gateway", b"X-Second: 2", b"x-first: 1",
                b"Accept-Encoding: gzip", b"Connection: keep-alive, X-Hop", b"X-Hop: 1", b"TE: trailers",
                b"x-standfast-policy: observe", b"x-standfast-anything: 1", b"Proxy-Authorization: Basic x",
                b"X-Twice: a", b"X-Twice: b", "X-Name: Zoë".encode(), b"Content-Length: %d" % len(body), b"", body,
            )  # fmt: skip
            raw_exchange(running.url, b"\r\n".join(lines), until=b"{}")
            first, *rest = upstream.heads[0].split(b"\r\n")
            assert first == b"POST /v1/chat/completions?a=%2F&b HTTP/1.1"
            assert [line.lower() for line in rest] == [
                b"host: " + upstream.url.removeprefix("http://").encode(), b"x-second: 2", b"x-first: 1",
                b"accept-encoding: identity", b"x-twice: a", b"x-twice: b", "x-name: zoë".encode(),
                b"content-length: %d" % len(body),
            ]  # fmt: skip

    def test_response(self) -> None:
        told = http_response(
            b"{}", b"Content-Type: application/json", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"X-Standfast-Hit: 9/9",
            b"Connection: X-Gone", b"X-Gone: 1", b"Keep-Alive: timeout=5", b"Server: theirs", status=b"201 Created",
        )  # fmt: skip
        with raw_upstream(answering(told)) as upstream, gateway(upstream.url) as running:
            response = post(running, "openai_chat")
            assert (response.status_code, response.content) == (201, b"{}")
            names = [name for name, _ in response.headers.multi_items()]
            assert names[:5] == ["content-type", "set-cookie", "set-cookie", "server", "content-length"]
            assert set(names[5:]) == {f"x-standfast-{n}" for n in ("request-id", "hit", "cause", "repaired")}
            assert response.headers["x-standfast-hit"] != "9/9"

    def test_stream_is_relayed_byte_for_byte(self) -> None:
        events = EVENTS * 50 + b": comment\r\n\r\ndata: [DONE]\n\n"
        with raw_upstream(answering(http_response(events, SSE))) as upstream, gateway(upstream.url) as running:
            response = post(running, "openai_chat")
            assert response.content == events
            assert response.headers["content-length"] == str(len(events))


class TestRoutes:
    def test_by_prefix_and_by_model(self) -> None:
        def said(name: str) -> AbstractContextManager[Served]:
            return serve(lambda request: Turn(text=name))

        with said("default") as default, said("claude") as claude, said("local") as local:
            places = (
                Upstream("default", default.url),
                Upstream("claude", claude.url, models=("claude-*",)),
                Upstream("local", local.url, path="/local"),
            )
            with gateway(*places) as running, client(running) as caller:

                def ask(path: str, model: str) -> Served:
                    before = [len(u.requests) for u in (default, claude, local)]
                    assert caller.post(path, json={**BODIES["anthropic"], "model": model}).status_code == 200
                    after = [len(u.requests) for u in (default, claude, local)]
                    return (default, claude, local)[[b != a for a, b in zip(before, after, strict=True)].index(True)]

                assert ask("/v1/messages", "other") is default
                assert ask("/v1/messages", "claude-9") is claude
                assert ask("/v1/messages/count_tokens", "claude-9") is claude
                assert ask("/local/v1/messages", "claude-9") is local
                assert local.requests[0].path == "/v1/messages"


def ask_in_vain(running: Running) -> None:
    with contextlib.suppress(httpx.TransportError):
        post(running, "openai_chat")


class TestPages:
    def test_health_ready_metrics(self) -> None:
        with serve([Turn(text="Hi")]) as upstream, gateway(upstream.url) as running, client(running) as caller:
            assert caller.get("/healthz").text == "alive\n"
            assert caller.get("/readyz").text == "ready\n"
            post(running, "openai_chat", authorization="Bearer s3cret")
            page = caller.get("/metrics").text
            assert 'standfast_requests_total{dialect="openai_chat",status="2xx",upstream="up0"} 1.0' in page
            assert "standfast_in_flight 0.0" in page
            assert "s3cret" not in page
            assert [r.path for r in upstream.requests] == ["/v1/chat/completions"]

    def test_not_ready(self) -> None:
        def broken() -> None:
            raise OSError("disk")

        with serve() as upstream, gateway(upstream.url, probe=broken) as running, client(running) as caller:
            response = caller.get("/readyz")
            assert response.status_code == 503
            assert "ledger" in response.text
            assert caller.get("/healthz").status_code == 200

    def test_the_ledger_is_closed_after_the_last_request_was_told(self) -> None:
        order: list[str] = []
        with serve([Turn(never=True)]) as upstream:
            with gateway(upstream.url, close=lambda: order.append(f"{len(running.of(Finished))} finished")) as running:
                threading.Thread(target=ask_in_vain, args=(running,), daemon=True).start()
                upstream.wait_for(1)
            assert order == ["1 finished"]

    def test_metrics_want_the_gateway_key(self) -> None:
        with serve() as upstream, gateway(upstream.url, gateway_key="k") as running, client(running) as caller:
            assert caller.get("/metrics").status_code == 401
            assert caller.get("/metrics", headers={"x-standfast-key": "k"}).status_code == 200
            assert caller.get("/metrics", headers={"authorization": "Bearer k"}).status_code == 200
            assert caller.get("/healthz").status_code == 200

    def test_log_has_a_line_a_request_and_no_secrets(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG", logger="standfast")
        with serve([Turn(text="Hi")]) as upstream, gateway(upstream.url) as running, client(running) as caller:
            body = {"model": "m", "messages": [{"role": "user", "content": "my prompt"}]}
            url = "/v1/chat/completions?key=q-secret"
            response = caller.post(url, json=body, headers={"authorization": "Bearer h-secret"})
            running.wait_for(Finished)
        lines = [record.getMessage() for record in caplog.records if record.name == "standfast.requests"]
        assert len(lines) == 1
        assert response.headers["x-standfast-request-id"] in lines[0]
        assert "dialect=openai_chat status=200 policy=lossless cause=none" in lines[0]
        assert not any(word in caplog.text for word in ("secret", "my prompt"))
