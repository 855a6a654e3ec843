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
    new = request.head
    if not result.shared:
        return
    for name, value in old.routes.items():
        if name not in new.routes or new.routes[name] == value:
            continue
        is_salt = name in request.dialect.salts
        found = Drift("I2" if is_salt else "I1", name, Tier.ROUTE, value, new.routes[name])
        settle(result.drifts, [found], repaired=not is_salt)
        if not is_salt:
            result.fields[name] = value
