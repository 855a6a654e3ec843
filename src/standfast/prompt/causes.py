"""Why a prompt cache misses: the table of causes.

``Repair`` says what a middle layer may do about one. LOSSLESS: the model sees the same meaning; POLICY: text is moved
or kept, if the operator allows it; SOURCE: only the client can mend it; REPORT: nothing to mend, something to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from standfast.policy import Option, Policy


class Repair(StrEnum):
    """What may be done about a cause."""

    LOSSLESS = "lossless"
    POLICY = "policy"
    SOURCE = "source"
    REPORT = "report"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Cause:
    """One class of miss."""

    id: str
    title: str
    repair: Repair
    """The most that can be done; a drift may allow less (see ``Drift.repair``)."""
    remedy: str
    """What Standfast does, or what to change, in one sentence."""
    by: Policy | Option | None = None
    """The policy or option under which it is mended, where LOSSLESS is not enough."""


_L, _P, _S, _R = Repair.LOSSLESS, Repair.POLICY, Repair.SOURCE, Repair.REPORT
_FROZEN = "Policy isolate keeps the first value and tells the new one at the tail."

_ROWS = (
    ("T1", "tools in another order", _L, "The order that was sent first is sent again."),
    ("T2", "schema keys in another order", _L, "The definition is sent again in the bytes it was first sent in."),
    ("T3", "volatile text in a tool definition", _S, "Take ids, paths and times out of tool descriptions.", Option.PIN),
    ("T4", "tool added or removed", _P, "Declare all tools from the start and restrict them by tool_choice.", Option.TOOLS),
    ("T5", "tool set depends on the kind of run", _S, "Declare the same tools in every kind of run and restrict them by tool_choice.", Option.TOOLS),
    ("S1", "clock or date in the system prompt", _P, _FROZEN, Policy.ISOLATE),
    ("S2", "per-request id in the system prompt", _L, "The block that was sent first is sent again."),
    ("S3", "workspace state in the system prompt", _P, _FROZEN, Policy.ISOLATE),
    ("S4", "retrieval or memory in the system prompt", _P, _FROZEN, Policy.ISOLATE),
    ("S5", "sections of the system prompt in another order", _L, "The order that was sent first is sent again."),
    ("S6", "mode or channel in the system prompt", _S, "Tell the mode in the newest message, not in the system prompt."),
    ("S7", "text of one user in front of text of all", _S, "Put the shared text first and what belongs to one user behind it."),
    ("H1", "decoration of an old turn removed", _P, "Policy isolate sends the turn again as it was sent.", Policy.ISOLATE),
    ("H2", "shape or white space of an old message", _L, "The message is sent again in its first bytes."),
    ("H3", "call ids regenerated", _L, "Calls and results get the ids that were sent first."),
    ("H4", "arguments or results serialised again", _L, "The string that was sent first, or that the model wrote, is sent again."),
    ("H5", "parallel results in another order", _L, "The order that was sent first is sent again."),
    ("H6", "thinking dropped from the history", _L, "Keep the signed thinking blocks of turns that called tools."),
    ("H7", "old turns pruned or rewritten", _R, "Prune seldom and in batches, when the cache is cold anyway.", Option.WINDOW),
    ("H8", "media changed", _L, "Send an image again in the bytes it was first sent in."),
    ("H9", "a per-request token replaced inside the history", _L, "The text is sent again as it was first sent."),
    ("H10", "attachments dropped or moved", _L, "Keep what was attached where it was attached."),
    ("H11", "messages merged, split or hoisted", _L, "The messages are sent again in the pieces they were first sent in."),
    ("P1", "prompt-affecting parameter changed", _R, "Keep thinking, tool choice, effort and format for a whole session."),
    ("P2", "model changed", _R, "Each model has a cache of its own; keep one for a session.", Option.MODEL),
    ("X1", "side request with a prefix of its own", _S, "Send the same prefix with one instruction appended."),
    ("B1", "breakpoint missing, misplaced or dropped", _L, "A breakpoint is set at the end of what stays the same."),
    ("B2", "breakpoint out of reach of the last one", _L, "The previous tail is marked again, and one block in fifteen."),
    ("B3", "prefix below the provider's minimum", _R, "Short prefixes are not cached; put more of what stays the same in front."),
    ("B4", "time to live ran out", _P, "Option ttl asks for the long life where gaps need it.", Option.TTL),
    ("B5", "siblings sent before the first was written", _L, "Siblings wait until the first one's response begins."),
    ("B6", "boundary behind what changes", _L, "A breakpoint is set at the end of what stays the same."),
    ("I1", "no affinity, or an unstable cache key", _L, "The session keeps the key that it was first sent with."),
    ("I2", "another tenant, workspace or salt", _R, "Caches are not shared between tenants; send a session with one key."),
    ("I3", "evicted, or not kept by the provider", _R, "The bytes were the same; the provider no longer had them."),
    ("I4", "usage lost on the way", _R, "Ask for usage (stream_options.include_usage), and for cached tokens where a flag hides them."),
    ("E1", "template drops earlier thinking", _P, "Keep earlier thinking by the template's argument, or by another template.", Option.TEMPLATE),
    ("E2", "date written by the template", _P, "Pin the date by the template's argument, or serve a template without one.", Option.TEMPLATE),
    ("E3", "generated text tokenised otherwise", _R, "Only an engine that takes token ids can reuse what it wrote."),
    ("E4", "block size or recurrent state", _R, "The engine reuses whole blocks or whole states only."),
    ("C1", "content changed", _R, "The text itself is another; nothing to repair."),
)  # fmt: skip

OF_MARKS = ("B1", "B2", "B6")
"""Those that lie in where breakpoints stand."""

CAUSES: dict[str, Cause] = {row[0]: Cause(*row) for row in _ROWS}
"""By id. C1 is no class of the taxonomy: it is what remains when none of them explains a change."""
