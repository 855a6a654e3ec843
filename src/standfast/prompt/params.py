"""What steers a request beside its text: model, parameters (P) and routes (I)."""

from __future__ import annotations

from standfast.policy import Leave, Option
from standfast.prompt import canonical
from standfast.prompt.drift import Drift
from standfast.prompt.mended import Mended, settle
from standfast.prompt.model import Head, Tier
from standfast.prompt.request import Request


def compare_params(request: Request, old: Head, leave: Leave, result: Mended, *, continues: bool) -> None:
    """Note another model, or another prompt-affecting parameter.

    A new session may have a model of its own, and what only its history hangs on.
    """
    new = request.head
    if continues and new.model != old.model:
        kept = Option.MODEL in leave.options and leave.policy.repairs and bool(old.model)
        found = Drift("P2", "model", Tier.MODEL, old.model.encode(), new.model.encode())
        settle(result.drifts, [found], repaired=kept)
        if kept:
            result.fields["model"] = canonical.key_form(old.model)
    for param in request.dialect.params:
        before, after = old.params.get(param.path, b""), new.params.get(param.path, b"")
        if before != after and (continues or param.tier is not Tier.PARAMS):
            result.drifts.append(Drift("P1", param.path, param.tier, before, after))


def keep_routes(request: Request, old: Head, result: Mended) -> None:
    """Keep the session on the key it was first sent with (I1); note that its salt is another one (I2)."""
    if not result.shared:
        return
    for name in request.dialect.routes:
        before, after = old.routes.get(name, b""), request.head.routes.get(name, b"")
        if before == after:
            continue
        if name in request.dialect.salts:
            result.drifts.append(Drift("I2", name, Tier.ROUTE, before, after))
        elif before and after:
            result.drifts.append(Drift("I1", name, Tier.ROUTE, before, after, repaired=True))
            result.fields[name] = before
