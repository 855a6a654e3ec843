from __future__ import annotations

import logging
from threading import Event

import pytest

from standfast.store.mover import Mover


def test_jobs_are_done_in_order_and_the_rest_at_the_end() -> None:
    mover, done = Mover(), list[int]()
    for n in range(50):
        assert mover.submit(lambda n=n: done.append(n))  # type: ignore[misc]
    mover.close()
    assert done == list(range(50))


def test_what_does_not_fit_is_counted() -> None:
    mover, go = Mover(limit=1), Event()
    mover.submit(go.wait)
    while not mover._jobs.empty():
        pass
    assert [mover.submit(int) for _ in range(3)] == [True, False, False]
    assert mover.dropped == 2
    go.set()
    mover.close()


def test_a_job_that_fails_takes_nothing_with_it(caplog: pytest.LogCaptureFixture) -> None:
    mover, done = Mover(), Event()

    def fails() -> None:
        raise RuntimeError("SECRET")

    with caplog.at_level(logging.WARNING, "standfast.store"):
        mover.submit(fails)
        mover.submit(done.set)
        mover.close()
    assert done.is_set()
    assert mover.failed == 1
    assert "RuntimeError" in caplog.text
    assert "SECRET" not in caplog.text
