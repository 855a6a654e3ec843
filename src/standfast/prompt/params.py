"""What steers a request beside its text: model, parameters (P) and routes (I)."""

from __future__ import annotations

from standfast.policy import Leave
from standfast.prompt.drift import Drift
from standfast.prompt.mended import Mended, settle
from standfast.prompt.model import Head, Tier
from standfast.prompt.request import Request


def compare_params(request: Request, old: Head, leave: Leave, result: Mended) -> None:
    """Note another model, or another prompt-affecting parameter."""
    new, drifts = request.head, result.drifts
    if new.model != old.model:
        drifts.append(Drift("P2", "model", Tier.MODEL, old.model.encode(), new.model.encode()))
    for param in request.dialect.params:
        before, after = old.params.get(param.path, b""), new.params.get(param.path, b"")
        if before != after:
            drifts.append(Drift("P1", param.path, param.tier, before, after))


def keep_routes(new: Head, old: Head, result: Mended) -> None:
    if not result.shared:
        return
    for name, value in old.routes.items():
        if name in new.routes and new.routes[name] != value:
            settle(result.drifts, [Drift("I1", name, Tier.ROUTE, value, new.routes[name])], repaired=True)
            result.fields[name] = value
