"""How many threads are worth starting: cores that really compute, not hyper-threads, within the container's quota."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AT_MOST = 8
"""A small model gains nothing from more threads; it loses to their barriers."""


def threads(setting: int) -> int:
    """The engine's thread count for the setting engine_threads (0: chosen here)."""
    return setting or max(1, min(AT_MOST, physical_cores()))


def physical_cores(cpus: Path = Path("/sys/devices/system/cpu"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Physical cores that this process may use, at least 1."""
    if sys.platform == "darwin":
        return _mac_cores()
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    siblings = {_siblings(cpus, cpu) for cpu in allowed}
    return max(1, min(len(siblings), _quota(cgroup)))


def _siblings(cpus: Path, cpu: int) -> str:
    try:
        return (cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota(cgroup: Path) -> int:
    """Whole cores of the container's CPU quota; a great number where there is none."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 16


def _mac_cores() -> int:
    # Performance cores where the chip has two kinds; else all physical ones.
    for name in ("hw.perflevel0.physicalcpu", "hw.physicalcpu"):
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip().isdigit():
            return int(done.stdout)
    return os.cpu_count() or 1
