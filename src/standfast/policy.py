"""How far a repair may go."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """How far a repair may go."""

    OFF = "off"
    """Forward untouched, look at nothing."""
    OBSERVE = "observe"
    """Diagnose, change nothing."""
    LOSSLESS = "lossless"
    """Send again the bytes that were sent before, where the meaning is the same."""
    ISOLATE = "isolate"
    """Also freeze volatile text in the system prompt and tell its new value at the tail."""
