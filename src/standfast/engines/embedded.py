"""The embedded engine as the gateway sees it: one address that stays the same while the child behind it is restarted.

One process owns the engine (the command that was started); any number of gateway workers only know its ``base_url``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3

from standfast.config import Settings
from standfast.engines import cores, model
from standfast.engines.child import COMMAND, ChildConfig, reason
from standfast.engines.weights import room_errors
from standfast.errors import EngineError, EngineFailed
from standfast.events import EngineRestarted, Observer, nobody

START_SECONDS = 120.0
STOP_SECONDS = 5.0
MAX_DEATHS = 5
DEATHS_WITHIN = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_SHARED_MEMORY = Path("/dev/shm")


class EmbeddedEngine:
    """llama.cpp's server in a child process, restarted when it dies.

    It is given up after MAX_DEATHS deaths within DEATHS_WITHIN seconds: ``ready`` and ``wait`` then raise EngineFailed.
    """

    def __init__(self, settings: Settings, observe: Observer = nobody, *, start_seconds: float = START_SECONDS) -> None:
        self._settings = settings
        self._observe = observe
        self._start_seconds = start_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._port: socket.socket | None = None
        self._watch: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # up, or given up
        self._failure: EngineFailed | None = None
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self.restarts = 0

    @property
    def base_url(self) -> str:
        """Scheme, host and port; the same from ``start`` to ``stop``."""
        if self._port is None:
            raise EngineFailed("the embedded engine is not started")
        return f"http://127.0.0.1:{self._port.getsockname()[1]}"

    @property
    def context(self) -> int:
        """Tokens that one request may use, prompt and answer together."""
        return self._settings.engine_context

    @property
    def slots(self) -> int:
        """Contexts kept side by side."""
        return max(1, self._settings.engine_slots)

    @property
    def model_name(self) -> str:
        """The model's name in answers."""
        return model.model_name(self._settings)

    @property
    def log_path(self) -> Path:
        """llama.cpp's warnings since the child was started; those of the child before are in ``engine.log.1``."""
        return self._settings.state_dir / "engine.log"

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Load the model and serve. Raises ModelMissing, ModelBroken, or EngineFailed with the engine's own words."""
        path = await asyncio.to_thread(model.find, self._settings)
        self._port = _hold_port()
        try:
            await self._spawn(path)
        except BaseException:
            await self.stop()
            raise
        self._settled.set()
        self._watch = asyncio.create_task(self._keep_alive(path), name="embedded-engine")

    async def ready(self) -> None:
        """Return once requests can be sent; during a restart that takes a moment. Raises EngineFailed if given up."""
        await self._settled.wait()
        if self._failure:
            raise self._failure

    async def wait(self) -> None:
        """Return when the engine was stopped; raise EngineFailed as soon as it is given up."""
        if self._watch:
            await asyncio.wait([self._watch])
        if self._failure:
            raise self._failure

    async def stop(self) -> None:
        """End the child and free the port. May be called twice."""
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        if self._process:
            await _end(self._process)
        if self._port:
            self._port.close()
            self._port = None

    async def _spawn(self, path: Path) -> None:
        settings = self._settings
        told = ChildConfig(
            model=str(path),
            name=self.model_name,
            port=int(self.base_url.rsplit(":", 1)[1]),
            slots=self.slots,
            context=settings.engine_context,
            threads=cores.threads(settings.engine_threads),
            own_template=model.is_given(settings),
            slot_folder=str(slot_folder(settings)),
        )
        log = _open_log(self.log_path)
        try:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe, stderr=log)
        finally:
            os.close(log)
        try:
            async with asyncio.timeout(self._start_seconds):
                answer = await _ask(self._process, told.line())
        except TimeoutError:
            await _end(self._process)
            raise EngineFailed(f"the embedded engine was not up after {self._start_seconds:.0f} s") from None
        except BaseException:
            await _end(self._process)
            raise
        if not answer:
            code = await self._process.wait()
            raise EngineFailed(f"the embedded engine did not start (exit status {code}): {self._last_words()}")
        json.loads(answer)

    async def _keep_alive(self, path: Path) -> None:
        while self._process:
            code = await self._process.wait()
            self._settled.clear()
            now = asyncio.get_running_loop().time()
            self._deaths.append(now)
            recent = sum(now - death <= DEATHS_WITHIN for death in self._deaths)
            if recent >= MAX_DEATHS:
                self._give_up(recent, code)
                return
            await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (recent - 1)))
            try:
                await self._spawn(path)
            except (EngineError, OSError):
                continue  # counted as the next death, with the log telling why
            self.restarts += 1
            self._settled.set()
            with contextlib.suppress(Exception):  # an observer's fault must not end the supervision
                self._observe(EngineRestarted("", code, self.restarts))

    def _give_up(self, deaths: int, code: int) -> None:
        self._failure = EngineFailed(
            f"the embedded engine died {deaths} times within {DEATHS_WITHIN:.0f} s (exit status {code}) and is given "
            f"up: {self._last_words()}"
        )
        self._settled.set()

    def _last_words(self) -> str:
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"no log: {error}"
        return f"{reason(text)} (more in {self.log_path})"


@contextlib.contextmanager
def running(settings: Settings, observe: Observer = nobody) -> Iterator[EmbeddedEngine]:
    """The engine for callers that have no event loop: it is started, and kept alive by a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded-engine", daemon=True)
    thread.start()
    engine = EmbeddedEngine(settings, observe)
    try:
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result()
        try:
            yield engine
        finally:
            asyncio.run_coroutine_threadsafe(engine.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _hold_port() -> socket.socket:
    """A free loopback port, kept by a socket that never listens.

    While it is bound nobody but a process of this user that also asks for SO_REUSEPORT gets the port, so no stranger
    can take our requests between two children.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
    except BaseException:
        held.close()
        raise
    return held


def slot_folder(settings: Settings) -> Path:
    """Where the engine saves slots: memory where that can be had as a folder of this user's alone, else state_dir."""
    name = blake3(str(settings.state_dir.absolute()).encode()).hexdigest(8)
    folder = _SHARED_MEMORY / f"standfast-{os.getuid()}-{name}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        stat = folder.lstat()
        if stat.st_uid == os.getuid() and stat.st_mode & 0o777 == 0o700 and folder.is_dir():
            return folder
    except OSError:
        pass  # no such memory here, or somebody else has the name
    folder = settings.state_dir / "slots"
    with room_errors(settings.state_dir):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _open_log(path: Path) -> int:
    with room_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_name(path.name + ".1"))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)


async def _ask(process: asyncio.subprocess.Process, line: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):
        process.stdin.write(line)
        await process.stdin.drain()
    return await process.stdout.readline()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Closing stdin is the signal to leave; what does not is killed."""
    if process.stdin:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
