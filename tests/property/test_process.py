"""Invariant 4: the same inputs give the same fingerprint in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from hypothesis import given
from property.drive import KEY, fewer, reading, rngs
from property.talk import DIALECTS, Habit, body, talk, wire

from standfast.prompt.fingerprint import record

_TESTS = Path(__file__).resolve().parents[1]
_SCRIPT = """
import sys
from property.test_process import fingerprints
print("\\n".join(fingerprints(int(sys.argv[1]))))
"""


def fingerprints(count: int) -> list[str]:
    """Of that many made-up bodies, always the same ones."""
    out = []
    for seed in range(count):
        rng = Random(seed)
        t = talk(rng, dialect=DIALECTS[seed % 3])
        request = reading(wire(body(t, Habit(rng)), rng), t.dialect)
        fingerprint = record(KEY, t.dialect, request.head, request.end, len(request.links))
        out.append(fingerprint.hex() + b"".join(request.links).hex())
    return out


def test_another_process_with_another_hash_seed_finds_the_same() -> None:
    count = 10_000 if os.environ.get("STANDFAST_CI") == "1" else 500
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(count)],
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join([str(_TESTS), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    assert done.stdout.split() == fingerprints(count)


@given(rngs)
@fewer(4)
def test_form_and_tenant_matter_as_they_should(rng: Random) -> None:
    t = talk(rng)
    one, other = (reading(wire(body(t, Habit(rng, p)), rng), t.dialect) for p in "xy")
    assert one.links == other.links
    assert one.head.tool_set == other.head.tool_set
    assert record(KEY, t.dialect, one.head, one.end, len(one.links)) != record(
        bytes(32), t.dialect, one.head, one.end, len(one.links)
    )
