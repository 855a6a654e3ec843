"""cachelint: ``compare_requests`` over the two bodies."""

from __future__ import annotations

import cachelint as tool  # type: ignore[import-not-found]
from diagnosis.drivers.talking import Case, Found, serve


def diagnose(case: Case) -> Found:
    provider = {"anthropic": "anthropic", "openai_chat": "openai"}.get(case.dialect)
    if provider is None:
        return {"supported": False}
    first, second = (tool.canonicalize_request(body, provider=provider) for body in case.both)
    try:
        result = tool.compare_requests([first, second])
    except tool.IncomparableRequestsError as error:
        return {"noticed": True, "codes": [str(error)], "path": "model"}
    codes = [difference.category for difference in result.context_differences]
    grown = result.common_prefix_segments >= len(first.segments)  # it calls a turn more "inserted"
    if result.first_divergence is None or grown:
        return {"noticed": bool(codes), "codes": codes, "path": codes[0] if codes else ""}
    kind = result.first_divergence.kind
    return {"noticed": True, "codes": [kind, *codes], "path": result.first_divergence.path}


serve(diagnose)
