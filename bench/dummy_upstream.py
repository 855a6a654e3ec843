"""An upstream that answers at once: the three dialects, non-streaming, one small fixed answer with usage.

    python bench/dummy_upstream.py --port 9001

It reads every byte of a request, keeps the last body and parses none of it, so that what a bench measures is the
proxy in front of it. ``GET /last`` returns the last body as it arrived: that is how a bench checks that a proxy
forwarded all of it. ``GET /count`` returns how many requests were answered.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
from typing import Any, cast

import httptools

TEXT = "Done: the order is changed and the customer gets a message with the new date. Anything else?"
"""What the model of this upstream always says; clients put it into their next request."""

_CHAT = {
    "id": "chatcmpl-bench",
    "object": "chat.completion",
    "created": 1_764_547_200,
    "model": "bench-model",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 25_000,
        "completion_tokens": 20,
        "total_tokens": 25_020,
        "prompt_tokens_details": {"cached_tokens": 24_000},
    },
}
_ANTHROPIC = {
    "id": "msg_bench",
    "type": "message",
    "role": "assistant",
    "model": "bench-model",
    "content": [{"type": "text", "text": TEXT}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1_000,
        "cache_read_input_tokens": 24_000,
        "cache_creation_input_tokens": 0,
        "output_tokens": 20,
    },
}
RESPONSES_ITEM = {
    "id": "msg_bench",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}
_RESPONSES = {
    "id": "resp_bench",
    "object": "response",
    "created_at": 1_764_547_200,
    "status": "completed",
    "model": "bench-model",
    "output": [RESPONSES_ITEM],
    "usage": {
        "input_tokens": 25_000,
        "input_tokens_details": {"cached_tokens": 24_000},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 25_020,
    },
}


def _http(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


ANSWERS = {
    "openai_chat": json.dumps(_CHAT).encode(),
    "anthropic": json.dumps(_ANTHROPIC).encode(),
    "openai_responses": json.dumps(_RESPONSES).encode(),
}
"""The bodies of the answers, by dialect."""
_BY_PATH = {
    b"/chat/completions": _http(ANSWERS["openai_chat"]),
    b"/messages": _http(ANSWERS["anthropic"]),
    b"/responses": _http(ANSWERS["openai_responses"]),
    b"/models": _http(b'{"object":"list","data":[{"id":"bench-model","object":"model"}]}'),
}
_UNKNOWN = _http(b'{"error":{"message":"the dummy upstream does not know this path"}}', "404 Not Found")


class Upstream(asyncio.Protocol):
    """One connection; requests on it are answered in turn."""

    last: bytes = b""
    count: int = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the parser lives as long as the connection."""
        self.transport = cast(asyncio.Transport, transport)
        self.parser: Any = httptools.HttpRequestParser(self)
        self.path = b""
        self.parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Feed the parser, which calls the on_ methods below."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.write(_http(b'{"error":{"message":"not HTTP"}}', "400 Bad Request"))
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self.path = b""
        self.parts = []

    def on_url(self, url: bytes) -> None:
        """The target may come in several pieces."""
        self.path += url

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        self.parts.append(body)

    def on_message_complete(self) -> None:
        """The whole request is here: answer."""
        path = self.path.partition(b"?")[0]
        if path == b"/last":
            self.transport.write(_http(Upstream.last, kind="application/octet-stream"))
        elif path == b"/count":
            self.transport.write(_http(str(Upstream.count).encode()))
        else:
            Upstream.last = b"".join(self.parts)
            Upstream.count += 1
            answer = next((a for end, a in _BY_PATH.items() if path.endswith(end)), _UNKNOWN)
            self.transport.write(answer)


async def serve(host: str, port: int) -> None:
    """Answer until cancelled."""
    server = await asyncio.get_running_loop().create_server(Upstream, host, port, backlog=512)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9001)
    args = parser.parse_args()
    factory = None
    if importlib.util.find_spec("uvloop"):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(args.host, args.port))


if __name__ == "__main__":
    main()
