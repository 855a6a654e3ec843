"""Work that no request waits for: one thread, a bounded queue; what does not fit is left undone and counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Full, Queue

from standfast.errors import reason

logger = logging.getLogger("standfast.store")


class Mover:
    """Runs jobs one after the other, in the order in which they came."""

    def __init__(self, limit: int = 256) -> None:
        self._jobs: Queue[Callable[[], object] | None] = Queue(limit)
        self._thread = threading.Thread(target=self._work, name="standfast-kv", daemon=True)
        self._thread.start()
        self.dropped = 0
        """Jobs for which there was no room."""
        self.failed = 0
        """Jobs that raised."""

    def submit(self, job: Callable[[], object]) -> bool:
        """Do it later. False: there is no room, and it will not be done."""
        try:
            self._jobs.put_nowait(job)
        except Full:
            self.dropped += 1
            return False
        return True

    def flush(self) -> None:
        """Return once all that was submitted so far is done."""
        self._jobs.join()

    def close(self, seconds: float = 30.0) -> None:
        """Do what is left, but no longer than that, and end."""
        self._jobs.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # a state that is not kept is computed anew
                self.failed += 1
                logger.warning("KV state was not moved: %s", reason(error))
            finally:
                self._jobs.task_done()
        self._jobs.task_done()
