"""The child process in which llama.cpp's own server runs.

llama.cpp aborts the whole process on an internal assertion, so it never shares one with the gateway. The protocol with
the parent is one line each way: a JSON object of ``ChildConfig`` comes in on stdin, and once the model is loaded
``{"url": …}`` goes out on stdout. After that stdin only has to stay open: its end means that the parent is gone, and
the child leaves too, whatever way the parent died. Everything that llama.cpp prints goes to stderr, which the parent
points at the log file.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from standfast.errors import EngineFailed

COMMAND = (sys.executable, "-P", "-m", "standfast.engines.child")
"""-P: a file in the current folder must not be imported in place of a package."""

_LOG_LIMIT = 4 << 20
_LOG_CHECK_SECONDS = 60.0
_WARNINGS = 2  # llama.cpp's verbosity: 1 errors, 2 warnings, 3 information (several lines a request)
_HTTP_THREADS = 64  # each waiting request holds one


@dataclass(frozen=True, slots=True)
class ChildConfig:
    """What the child is told."""

    model: str
    name: str
    port: int = 0
    slots: int = 1
    context: int = 512
    """Tokens per slot."""
    threads: int = 1
    own_template: bool = False
    """Use the chat template inside the model file; false for ours, which knows tools."""
    cache_ram_mib: int = 0
    """llama.cpp's own prompt cache in memory."""
    slot_folder: str = ""
    """Where slots may be saved; without one the server refuses to empty them too."""

    def line(self) -> bytes:
        """The line that goes to the child's stdin."""
        return json.dumps(asdict(self)).encode() + b"\n"


def chat_template() -> str:
    """The chat template of the embedded model (Jinja)."""
    return resources.files("standfast").joinpath("data/chat.jinja").read_text(encoding="utf-8")


def try_load(path: Path, seconds: float = 120.0) -> None:
    """Load a model once in a child and let it go. Raises EngineFailed with the reason if llama.cpp cannot."""
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process:
            timer = threading.Timer(seconds, process.kill)
            timer.start()
            try:
                answer, _ = _say(process, ChildConfig(str(path), "trial").line())
            finally:
                timer.cancel()
        if not answer:
            log.seek(0)
            raise EngineFailed(f"{path}: llama.cpp cannot load it: {reason(log.read().decode(errors='replace'))}")


def _say(process: subprocess.Popen[bytes], line: bytes) -> tuple[bytes, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline()
        process.stdin.close()
    except BrokenPipeError:
        answer = b""
    return answer, process.wait()


def reason(log: str) -> str:
    """The line of a log that tells most: the first error of llama.cpp's, else the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if " E " in line or "Error" in line]
    return (errors or lines or ["it wrote no log"])[0 if errors else -1][-300:]


def main() -> None:
    """Serve until stdin ends."""
    # Ctrl-C reaches the whole process group; the parent first finishes its responses, then closes stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)
    settings = ChildConfig(**json.loads(_first_line()))
    watcher = threading.Thread(target=_until_parent_leaves, daemon=True)
    watcher.start()
    try:
        server = _serve(settings)
    except ImportError as error:
        sys.exit(f"Error: xllamacpp cannot be imported ({error}): pip install 'standfast[embedded]'")
    except RuntimeError as error:
        sys.exit(f"Error: {error}")
    os.write(answers, json.dumps({"url": server.listening_address}).encode() + b"\n")
    os.close(answers)
    watcher.join()


def _serve(settings: ChildConfig) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.model_alias = {settings.name}
    params.hostnames = ["127.0.0.1"]
    params.port = settings.port
    # The parent holds the port with a socket of its own, so that it stays ours while the child is being restarted.
    params.reuse_port = settings.port != 0
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.n_threads_http = _HTTP_THREADS
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_ram_mib = settings.cache_ram_mib
    # For requests without a usable id_slot (see slots.OBEYED_BY): a slot is taken by likeness only if it saves half of
    # the prompt. With llama.cpp's own tenth, sessions that share a system prompt overwrite each other turn by turn.
    params.slot_prompt_similarity = 0.5
    params.use_jinja = True
    if not settings.own_template:
        params.chat_template = chat_template()
    params.endpoint_slots = True
    if settings.slot_folder:
        params.slot_save_path = settings.slot_folder + "/"
    params.endpoint_metrics = True
    params.fit_params = False  # which would load the model twice to measure it
    # No web page may read from the engine; the gateway is its only client.
    params.cors_origins = "null"
    params.ui = False
    params.verbosity = _WARNINGS
    return xllamacpp.Server(params)


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        line += byte
    return line


def _until_parent_leaves() -> None:
    """Wait for the end of stdin, then leave at once; meanwhile keep the log file small."""
    while True:
        readable, _, _ = select.select([0], [], [], _LOG_CHECK_SECONDS)
        if readable and not os.read(0, 4096):
            os._exit(0)
        # The file is open for appending, so cutting it here lets the next line begin at its start.
        if os.fstat(2).st_size > _LOG_LIMIT:
            os.ftruncate(2, 0)


if __name__ == "__main__":
    main()
