from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from standfast.engines import cores


def test_a_setting_is_taken_as_it_is() -> None:
    assert cores.threads(13) == 13


def test_the_choice_is_small_and_positive() -> None:
    assert 1 <= cores.threads(0) <= cores.AT_MOST


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")
def test_hyper_threads_count_once(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in allowed:
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu - cpu % 2}-{cpu - cpu % 2 + 1}\n")
    assert cores.physical_cores(tmp_path, tmp_path) == len({cpu // 2 for cpu in allowed})


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")
@pytest.mark.parametrize(
    ("text", "most"), [("150000 100000", 1), ("50000 100000", 1), ("max 100000", 1 << 16), ("", 1 << 16)]
)
def test_the_quota_limits(tmp_path: Path, text: str, most: int) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert 1 <= cores.physical_cores(tmp_path, tmp_path) <= most
