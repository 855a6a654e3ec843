"""prefixcash: the rendered prompts of two calls of one session. It tells the word at which they part."""

from __future__ import annotations

from diagnosis.drivers.talking import Case, Found, pieces, place, serve
from prefixcash.core.metrics import CacheMetrics  # type: ignore[import-not-found]
from prefixcash.diagnose.calls import CallRecord  # type: ignore[import-not-found]
from prefixcash.diagnose.rules import analyze_session  # type: ignore[import-not-found]
from prefixcash.diagnose.tokens import tokenize  # type: ignore[import-not-found]


def diagnose(case: Case) -> Found:
    texts = [pieces(body, case.dialect) for body in case.both]
    calls = [
        CallRecord(CacheMetrics("openai", "m", 10, cache_read_tokens=1, session_id="s"), "\n".join(t for _, t in found))
        for found in texts
    ]
    findings = analyze_session("s", calls)
    if not findings:
        return {}
    path = place(texts[1], findings[0].shared_prefix_words, lambda text: len(tokenize(text)), 0)
    return {"noticed": True, "codes": [cause.kind for cause in findings[0].causes], "path": path}


serve(diagnose)
