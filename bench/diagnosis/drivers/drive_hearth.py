"""hearth-ai: its guard for the diagnosis, its wrapper in the modes safe and optimize for the repair."""

from __future__ import annotations

import tempfile
from typing import Any

from diagnosis.drivers.talking import Body, Case, Found, history, serve
from hearth.guard import PrefixGuard  # type: ignore[import-not-found]
from hearth.ledger import Ledger  # type: ignore[import-not-found]
from hearth.trace import TraceRecorder  # type: ignore[import-not-found]
from hearth.wrapper import WrappedMethod  # type: ignore[import-not-found]

_PARAMS = ("model", "tool_choice", "temperature", "parallel_tool_calls")
_FOLDER = tempfile.mkdtemp()
_KEPT = {"recorder": TraceRecorder(_FOLDER), "ledger": Ledger(f"{_FOLDER}/ledger.sqlite")}


def _sent(case: Case, mode: str) -> list[Body]:
    """Both requests as its wrapper would send them. Its step before the call: behind it stands a table of prices."""
    provider = "anthropic" if case.dialect == "anthropic" else "openai"
    wrapped = WrappedMethod(lambda **_: None, provider, "messages", mode, False, False, **_KEPT)
    try:
        return [wrapped._process_safe_request(body, "s")[0] for body in case.both]
    except Exception:  # its wrapper sends what it got, too, where its step fails
        return list(case.both)


def diagnose(case: Case) -> Found:
    guard = PrefixGuard(min_prefix_tokens=0)
    event = None
    for at, body in ((1000.0, case.before), (1000.0 + case.gap, case.after)):
        event = guard.evaluate_call(
            {name: body.get(name) for name in _PARAMS},
            body.get("tools") or [],
            str(body.get("system", body.get("instructions", ""))),
            history(body),
            10_000,
            at,
            provider_read_tokens=1,
        )
    sent = {name: _sent(case, mode) for name, mode in (("sent", "safe"), ("also", "optimize"))}
    if event is None:
        return sent
    return {"noticed": True, "codes": [event.cause], "path": _path(event, case.dialect, case.after), **sent}


def _path(event: Any, dialect: str, body: Body) -> str:
    """It tells the tier, and of a message the index."""
    if event.cause == "params_changed":
        return str(event.details.split("'")[1])
    if event.level == "messages":
        return f"{'input' if dialect == 'openai_responses' else 'messages'}[{event.message_index}]"
    if event.level == "tools":
        return "tools"
    return "system" if "system" in body else "instructions"


serve(diagnose)
