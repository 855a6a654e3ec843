"""Putting back what was sent: the pure change of a request that removes its drift.

``mend`` holds a request against the request that it continues (its *reference*) and decides, piece by piece, what
goes out: the client's bytes where they are the same to the cache, the bytes that were sent before where only the form
differs, and the client's bytes with a named drift where the meaning differs.
"""

from __future__ import annotations

from dataclasses import replace

from standfast.policy import Leave, Policy
from standfast.prompt import offered
from standfast.prompt.causes import Repair
from standfast.prompt.drift import Drift, keys, quotes, text_of
from standfast.prompt.fitting import fitted_all
from standfast.prompt.history import history_to_send
from standfast.prompt.items import Items
from standfast.prompt.lineage import likeness
from standfast.prompt.mended import Carried, Firsts, Mended, untouched
from standfast.prompt.model import SYSTEM_ROLES, Tier, Tip
from standfast.prompt.params import compare_params, keep_routes
from standfast.prompt.request import Request
from standfast.prompt.system import system_to_send
from standfast.prompt.tools import tools_to_send

_ORDER = {tier: i for i, tier in enumerate(Tier)}


def mend(
    request: Request,
    reference: Tip | None,
    leave: Leave,
    items: Items,
    firsts: Firsts,
    carried: Carried | None = None,
    *,
    continues: bool = True,
) -> Mended:
    """Compare, name, and repair as far as there is leave to. Raises Ambiguous where ids have two readings.

    ``continues`` is false for a reference that merely has the same tools and system: then the histories are two.
    """
    result = Mended((), (), [])
    tools = tools_to_send(request, reference.head if reference else None, leave, result, firsts, continues=continues)
    system = system_to_send(request, reference, leave, result, firsts, continues=continues)
    result.tools = fitted_all(request.dialect, tools, request.head.tools, items)
    result.system = fitted_all(request.dialect, system, request.head.system, items)
    for tier, wanted, got in ((Tier.TOOLS, tools, result.tools), (Tier.SYSTEM, system, result.system)):
        if keys(wanted) != keys(got):  # a shape that has no place for a marker
            result.drifts = [replace(d, repaired=d.repaired and d.tier is not tier) for d in result.drifts]
            result.news = result.news * (tier is not Tier.SYSTEM)
    if reference is not None:
        compare_params(request, reference.head, leave, result, continues=continues)
        history_to_send(request, reference, leave, items, result, carried, continues=continues)
        offered.tell(request, leave, items, result)
        keep_routes(request, reference.head, result)
        _hoisted(reference, result)
        _side_request(request, reference, result)
    else:
        result.sent = untouched(request).sent
    result.drifts.sort(key=lambda drift: _ORDER[drift.tier])
    if leave.policy is Policy.OBSERVE:
        return replace(
            untouched(request), drifts=[replace(d, repaired=False) for d in result.drifts], shared=result.shared
        )
    return result


def _side_request(request: Request, reference: Tip, result: Mended) -> None:
    """X1: the request tells the other's conversation again, behind tools and a system prompt of its own."""
    tiers = {d.tier for d in result.drifts if not d.repaired} & {Tier.TOOLS, Tier.SYSTEM}
    if not tiers or (result.shared and (len(tiers) < 2 or likeness(request.head, reference.head))):
        return
    history = [item for sent in reference.sent for item in sent.items]
    if quotes(history, request.items):
        first = next((d for d in result.drifts if d.tier in (Tier.TOOLS, Tier.SYSTEM)), None)
        if first is not None:
            result.drifts[:] = [Drift("X1", first.path, first.tier, first.before, first.after)]


def _hoisted(reference: Tip, result: Mended) -> None:
    """H11: what is new in the system prompt stood in the midst of the history before."""
    inside = [i for sent in reference.sent for i in sent.items if i.role in SYSTEM_ROLES]
    texts = [text.encode() for item in inside if (text := text_of(item).strip())]
    for n, d in enumerate(result.drifts):
        if d.tier is Tier.SYSTEM and not d.repaired and any(t in d.after and t not in d.before for t in texts):
            result.drifts[n] = replace(d, cause="H11", at_most=Repair.REPORT)
            gone = {item.wire for item in inside}
            result.drifts[:] = [x for x in result.drifts if x.tier is Tier.SYSTEM or x.before not in gone]
            return
