"""The scripted upstream: a provider for tests that says what it is told to, in each provider's own wire format.

    with serve([Turn(text="Hello"), Turn(calls=(("find", '{"q": 1}'),))]) as upstream:
        client = openai.OpenAI(base_url=upstream.url + "/v1", api_key="any")
        ...
        assert upstream.requests[0].body == b"..."

Its prompt cache is simulated, see ``upstream_cache``: usage shows honestly which prefix of a request had been sent
before, byte by byte of the rendered prompt.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn
from upstream_app import Script, ScriptedUpstream
from upstream_cache import BYTES_PER_TOKEN, PrefixCache
from upstream_turn import Recorded, Turn

__all__ = ["BYTES_PER_TOKEN", "PrefixCache", "Recorded", "Script", "ScriptedUpstream", "Served", "Turn", "serve"]

PATIENCE = 10.0


class Served(ScriptedUpstream):
    """A scripted upstream that listens at ``url``."""

    url = ""

    def wait_for(self, count: int, *, done: bool = False) -> Recorded:
        """The last request once that many came in (and, if asked, were answered or given up)."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if len(self.requests) >= count and (self.requests[count - 1].done or not done):
                return self.requests[count - 1]
            time.sleep(0.01)
        raise TimeoutError(f"{len(self.requests)} of {count} requests came in")


@contextlib.contextmanager
def serve(script: Script = ()) -> Iterator[Served]:
    """Serve a script on a free loopback port, from a thread of its own."""
    app = Served(script)
    listener = socket.create_server(("127.0.0.1", 0))
    app.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=2)
    server = _Quiet(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted-upstream", daemon=True)
    thread.start()
    try:
        _await_start(server)
        yield app
    finally:
        app.closing = True
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()


class _Quiet(uvicorn.Server):
    """A server in a thread leaves the process's signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _await_start(server: uvicorn.Server) -> None:
    end = time.monotonic() + PATIENCE
    while not server.started:
        if time.monotonic() > end:
            raise TimeoutError("the scripted upstream did not start")
        time.sleep(0.005)
