"""prefixguard: both requests observed as turns of one session."""

from __future__ import annotations

import prefixguard as tool  # type: ignore[import-not-found]
from diagnosis.drivers.talking import Case, Found, history, serve


def diagnose(case: Case) -> Found:
    guard = tool.PrefixGuard()
    reports = [
        guard.observe(
            history(body), system=body.get("system", body.get("instructions")), tools=body.get("tools"), session="s"
        )
        for body in case.both
    ]
    if not reports[1].broken:
        return {}
    path = reports[1].divergence_block or ""
    codes = [finding.cause for finding in reports[1].findings]
    if any(finding.cause == "VOLATILE_CONTENT" and finding.block_id == path for finding in reports[0].findings):
        codes.append("VOLATILE_CONTENT")
    name = {"openai_responses": "input", "anthropic": "messages"}.get(case.dialect, "messages")
    path = path.replace("messages", name)
    return {"noticed": True, "codes": codes, "path": "instructions" if path == "system" and name == "input" else path}


serve(diagnose)
