"""The one verdict on a request: a full hit, or why not, since when, what it cost, and what to do.

Three witnesses are heard: our own comparison with what was sent before, the usage that came back, and the provider's
own diagnosis where it was asked. The first that explains what was lost is believed, in this order: a drift that went
out unmended, what the rules of the cache foresaw, what usage shows beyond both.
"""

from __future__ import annotations

from dataclasses import dataclass

from standfast.caching import Outlook
from standfast.policy import Option, Policy
from standfast.prompt.causes import CAUSES
from standfast.prompt.diagnosis import Diagnosis
from standfast.prompt.drift import Drift
from standfast.prompt.model import Tier
from standfast.prompt.replies import Finding, Usage
from standfast.providers.expect import Gap
from standfast.providers.money import Bill

SLACK = 0.01
"""Share of what was attainable that may be missing from a full hit: the newest turn's frame is nobody's fault."""

_TIERS: dict[str, frozenset[Tier]] = {
    "model_changed": frozenset({Tier.MODEL}),
    "service_tier_changed": frozenset({Tier.MODEL}),
    "tools_changed": frozenset({Tier.TOOLS}),
    "text_format_changed": frozenset({Tier.TOOLS, Tier.PARAMS}),
    "reasoning_effort_changed": frozenset({Tier.TOOLS, Tier.PARAMS}),
    "verbosity_changed": frozenset({Tier.TOOLS, Tier.PARAMS}),
    "system_changed": frozenset({Tier.SYSTEM}),
    "messages_changed": frozenset({Tier.MESSAGES}),
    "input_changed": frozenset({Tier.SYSTEM, Tier.MESSAGES}),
    "context_compacted": frozenset({Tier.MESSAGES}),
    "prompt_cache_key_changed": frozenset({Tier.ROUTE}),
    "cache_hit": frozenset(),
}
"""Where a provider's finding says that the prefix broke. One that is not here says nothing about that."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """See the module."""

    hit: bool
    """All that could be shared with what was sent before was served, or nothing could."""
    cause: str | None
    """What was lost to, or what was mended; None: nothing drifted."""
    path: str | None
    repaired: bool
    lost_tokens: int
    attainable_tokens: int
    fix: str
    """What Standfast did, what policy would do it, or what to change at the source, in one sentence."""
    since: float | None = None
    """Unix seconds at which this session first lost to this cause."""
    expected_tokens: int | None = None
    """Cached tokens that the rules of the cache foresaw; None where the provider is not known."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Both as the upstream told them."""
    finding: str | None = None
    """The provider's own diagnosis, where it was asked."""
    agrees: bool | None = None
    """Whether that names the same place as we do."""
    bill: Bill | None = None
    lost_money: float = 0.0
    """In the currency of the bill."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one request when its response has ended."""

    diagnosis: Diagnosis
    outlook: Outlook | None = None
    usage: Usage | None = None
    finding: Finding | None = None
    gap: Gap | None = None
    """What usage shows beyond what was expected."""
    waited: bool | None = None
    """Whether it waited for a sibling that was just writing their prefix; None where there was none."""
    answered: bool = True
    """Whether a response came that should have told its usage."""


def judge(seen: Evidence, bill: Bill | None = None) -> Verdict:
    """The verdict; see the module for whom it believes."""
    cached = seen.usage.cached_tokens if seen.usage and seen.usage.tells_cache else None
    expected = round(seen.outlook.expected.cached) if seen.outlook else None
    could = attainable(seen)
    served = next(n for n in (cached, expected, round(seen.diagnosis.tokens.after * _scale(seen))) if n is not None)
    step = seen.outlook.rules.step if seen.outlook else 1  # a hit is rounded down, and the end of a prefix estimated
    shared = could if _open(seen.diagnosis) is None else max(could, round(_shareable(seen) * _scale(seen)))
    lost = max(0, shared - served)
    excused = 0 if seen.gap else _answer(seen)  # an answer's tokens are estimated: only a gap shows that they were lost
    hit = lost - excused < max(SLACK * shared, 2 * step)
    cause, path, repaired = _mended(seen) if hit else _missed(seen)
    return Verdict(
        hit=hit,
        cause=cause,
        path=path,
        repaired=repaired,
        lost_tokens=0 if hit else lost,
        attainable_tokens=could,
        fix=_fix(cause, seen.outlook, None if hit else _open(seen.diagnosis), repaired=repaired),
        expected_tokens=expected,
        prompt_tokens=seen.usage.prompt_tokens if seen.usage else None,
        cached_tokens=cached,
        finding=seen.finding.reason if seen.finding else None,
        agrees=_agrees(seen.finding, _open(seen.diagnosis)),
        bill=bill,
        lost_money=max(0.0, bill.paid - bill.perfect) if bill and not hit else 0.0,
    )


def attainable(seen: Evidence) -> int:
    """Tokens that a perfect cache would have served, by the usage told."""
    return round(seen.diagnosis.tokens.attainable * _scale(seen)) + _answer(seen)


def _answer(seen: Evidence) -> int:
    """Tokens of the answer before, where the cache holds what was generated."""
    return round(seen.outlook.answer) if seen.outlook else 0


def _shareable(seen: Evidence) -> int:
    """Tokens that would have been shared had nothing drifted, whether or not that could be mended."""
    tokens = seen.diagnosis.tokens
    return tokens.before + tokens.lost


def _scale(seen: Evidence) -> float:
    """True tokens for each that we estimated."""
    estimate = seen.diagnosis.tokens.prompt
    return seen.usage.prompt_tokens / estimate if seen.usage and estimate else 1.0


def _mended(seen: Evidence) -> tuple[str | None, str | None, bool]:
    """(cause, path, repaired) of a hit: what was mended for it; without usage it is only believed to be one."""
    drift = next((d for d in seen.diagnosis.drifts if d.repaired), None)
    if drift is not None:
        return drift.cause, drift.path, True
    if seen.waited:
        return "B5", None, True
    if seen.outlook is not None and (cause := _kept_by_template(seen.outlook)):
        return cause, seen.outlook.rules.template_field, True
    told = seen.usage is not None and seen.usage.tells_cache
    return (None if told or not seen.answered else "I4"), None, False


def _kept_by_template(outlook: Outlook) -> str | None:
    """The cause that an argument of ours for the chat template ruled out."""
    met = {"E2": outlook.signs.new_day, "E1": outlook.signs.thinking is not None}
    return next((cause for cause, is_met in met.items() if is_met and cause in outlook.template.ours), None)


def _missed(seen: Evidence) -> tuple[str | None, str | None, bool]:
    """(cause, path, repaired) of a miss."""
    if (drift := _open(seen.diagnosis)) is not None:
        return drift.cause, drift.path, False
    if seen.waited is not None:
        return "B5", None, False
    if seen.outlook is not None and seen.outlook.expected.cause is not None:
        return seen.outlook.expected.cause, None, False
    if seen.gap is not None:
        return seen.gap.cause, None, False
    return ("I3" if seen.usage and seen.usage.tells_cache else "I4"), None, False


def _open(diagnosis: Diagnosis) -> Drift | None:
    """The first drift that went out as it came."""
    return next((d for d in diagnosis.drifts if not d.repaired), None)


def _agrees(finding: Finding | None, found: Drift | None) -> bool | None:
    tiers = _TIERS.get(finding.reason) if finding else None
    if tiers is None:
        return None
    return found.tier in tiers if found else not tiers


def _fix(cause: str | None, outlook: Outlook | None, drift: Drift | None, *, repaired: bool) -> str:
    if cause is None:
        return ""
    if drift is not None and drift.why:
        return drift.remedy
    row = CAUSES[cause]
    kind = "policy" if isinstance(row.by, Policy) else "option"
    if repaired or row.by is None or f"{kind} {row.by}" in row.remedy.lower():
        return row.remedy
    if row.by is Option.TEMPLATE and (outlook is None or cause not in outlook.template.offered):
        return row.remedy
    return f"{row.remedy[:-1]}; {kind} {row.by} would mend it here."
