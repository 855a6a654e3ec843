"""promptcachelint: both requests recorded in one explicit session, then analysed."""

from __future__ import annotations

import promptcachelint as tool  # type: ignore[import-not-found]
from diagnosis.drivers.talking import Case, Found, serve

_SUSPICIONS = ("CL010", "CL011", "CL012", "CL013")


def diagnose(case: Case) -> Found:
    recorder = tool.Recorder()
    name = {"openai_chat": "openai", "openai_responses": "openai"}.get(case.dialect, case.dialect)
    for at, body in ((1000.0, case.before), (1000.0 + case.gap, case.after)):
        recorder.record(name, body, session_id="s", at=at)
    (session,) = tool.analyze(recorder.records).sessions
    both = [[f for f in request.findings if f.severity != "info"] for request in session.requests]
    found = [f for f in both[1] if f.code not in _SUSPICIONS]
    codes = [f"{f.code} {f.data.get('key', '')}".strip() for f in found]
    if any("window slid" in f.message for f in found):
        codes.append("window slid")
    path = next((f.path or f.data.get("key") for f in found if f.path or f.data.get("key")), "")
    suspected = {f.path for findings in both for f in findings if f.code == "CL012"}
    if path and path in suspected:
        codes.append("CL012")
    if any(f.code == "CL010" for f in both[1]) and not any(f.code == "CL010" for f in both[0]):
        codes.append("CL010")
    return {"noticed": bool(codes), "codes": codes, "path": path}


serve(diagnose)
