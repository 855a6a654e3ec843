"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

PACKAGES = ("standfast", "uvicorn", "httptools", "uvloop", "aiohttp", "msgspec", "blake3", "lz4")


def machine(litellm: Path | None = None) -> dict[str, str]:
    """CPU, cores, system, Python and the packages that matter; LiteLLM's version from its own environment."""
    facts = {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": " ".join(f"{x:.2f}" for x in os.getloadavg()),
    }
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if litellm is not None:
        facts["litellm"] = _versions_in(litellm)
    return facts


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions_in(venv: Path) -> str:
    code = """
import importlib.metadata as m, importlib.util as u, platform
found = [f"{p} {m.version(p)}" if u.find_spec(p) else f"no {p}" for p in ("uvicorn", "uvloop", "httptools")]
print(f"{m.version('litellm')} (Python {platform.python_version()}, {', '.join(found)})")
"""
    done = subprocess.run([str(venv / "bin" / "python"), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def lines(facts: dict[str, str]) -> str:
    """The facts as two lines of text."""
    hardware = f"{facts['cpu']}, {facts['cores']} cores; {facts['system']}; {facts['python']}; load {facts['load']}"
    software = ", ".join(f"{name} {facts[name]}" for name in (*PACKAGES, "litellm") if name in facts)
    return f"{hardware}\n{software}"
