"""Why a prompt cache misses: the table of causes.

``Repair`` says what a middle layer may do about one. LOSSLESS: the model sees the same meaning; POLICY: text is moved
or kept, if the operator allows it; SOURCE: only the client can mend it; REPORT: nothing to mend, something to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Repair(StrEnum):
    """What may be done about a cause."""

    LOSSLESS = "lossless"
    POLICY = "policy"
    SOURCE = "source"
    REPORT = "report"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Cause:
    """One class of drift."""

    id: str
    title: str
    repair: Repair
    remedy: str
    """What Standfast does, or what to change, in one sentence."""


_L, _P, _S, _R = Repair.LOSSLESS, Repair.POLICY, Repair.SOURCE, Repair.REPORT

CAUSES: dict[str, Cause] = {
    cause.id: cause
    for cause in (
        Cause("T1", "tools in another order", _L, "The order that was sent first is sent again."),
        Cause(
            "T2", "schema keys in another order", _L, "The definition is sent again in the bytes it was first sent in."
        ),
        Cause("T3", "volatile text in a tool definition", _S, "Take ids, paths and times out of tool descriptions."),
        Cause("T4", "tool added or removed", _P, "Declare all tools from the start and restrict them by tool_choice."),
        Cause(
            "S1",
            "clock or date in the system prompt",
            _P,
            "Policy isolate keeps the first value and tells the new one at the tail.",
        ),
        Cause("S2", "per-request id in the system prompt", _L, "The block that was sent first is sent again."),
        Cause(
            "S3",
            "workspace state in the system prompt",
            _P,
            "Policy isolate keeps the first value and tells the new one at the tail.",
        ),
        Cause(
            "S4",
            "retrieval or memory in the system prompt",
            _P,
            "Policy isolate keeps the first value and tells the new one at the tail.",
        ),
        Cause(
            "S6",
            "mode or channel in the system prompt",
            _S,
            "Tell the mode in the newest message, not in the system prompt.",
        ),
        Cause("H1", "decoration of an old turn removed", _P, "Policy isolate sends the turn again as it was sent."),
        Cause("H2", "shape or white space of an old message", _L, "The message is sent again in its first bytes."),
        Cause("H3", "call ids regenerated", _L, "Calls and results get the ids that were sent first."),
        Cause(
            "H4",
            "arguments or results serialised again",
            _L,
            "The string that was sent first, or that the model wrote, is sent again.",
        ),
        Cause("H5", "parallel results in another order", _L, "The order that was sent first is sent again."),
        Cause(
            "H6", "thinking dropped from the history", _R, "Keep the signed thinking blocks of turns that called tools."
        ),
        Cause("H7", "old turns pruned or rewritten", _R, "Prune seldom and in batches, when the cache is cold anyway."),
        Cause("H8", "media changed", _R, "Send an image again in the bytes it was first sent in."),
        Cause(
            "H9", "a per-request token replaced inside the history", _L, "The text is sent again as it was first sent."
        ),
        Cause("H10", "attachments dropped or moved", _R, "Keep what was attached where it was attached."),
        Cause(
            "P1",
            "prompt-affecting parameter changed",
            _R,
            "Keep thinking, tool choice, effort and format for a whole session.",
        ),
        Cause("P2", "model changed", _R, "Each model has a cache of its own; keep one for a session."),
        Cause("X1", "side request with a prefix of its own", _S, "Send the same prefix with one instruction appended."),
        Cause("I1", "unstable cache key", _L, "The session keeps the key that it was first sent with."),
        Cause("C1", "content changed", _R, "The text itself is another; nothing to repair."),
    )
}
"""By id. C1 is no class of the taxonomy: it is what remains when none of them explains a change."""
