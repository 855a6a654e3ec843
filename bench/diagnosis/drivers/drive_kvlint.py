"""kvlint: a log of both requests as chats of plain strings, linted and fixed.

It wants a tokenizer and a chat template from a hub: here runs of up to six letters, and a plain template. Its rules
look at texts around the token where two prompts part.
"""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from pathlib import Path
from typing import Any

from diagnosis.drivers.talking import Body, Case, Found, as_chat, pieces, place, serve
from kvlint.fix.rewriter import fix_requests  # type: ignore[import-not-found]
from kvlint.ingest.openai_jsonl import load  # type: ignore[import-not-found]
from kvlint.lint import engine  # type: ignore[import-not-found]
from kvlint.lint.attribution import attribute  # type: ignore[import-not-found]
from kvlint.models import TokenizedRequest  # type: ignore[import-not-found]

_LOG = Path(tempfile.mkdtemp()) / "log.jsonl"
_TOKEN = re.compile(r"\w{1,6}|\s+|.", re.DOTALL)


def _rendered(request: Any) -> str:
    tools = [json.dumps(tool) for tool in request.tools or ()]
    return "\n".join([*tools, *(m.content for m in request.messages)])


def _tokens(request: Any) -> Any:
    text = _rendered(request)
    found = list(_TOKEN.finditer(text))
    return TokenizedRequest(
        request_id=request.request_id,
        rendered_text=text,
        token_ids=[zlib.crc32(match[0].encode()) for match in found],
        char_offsets=[match.span() for match in found],
    )


def diagnose(case: Case) -> Found:
    chats = [as_chat(body, case.dialect) for body in case.both]
    _LOG.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    requests = load(_LOG)
    tokenized = [_tokens(request) for request in requests]
    fixed = fix_requests(requests).requests
    bodies = [{**_body(request), "model": chat["model"]} for request, chat in zip(fixed, chats, strict=True)]
    sent = {"sent": bodies, "read": [*chats, as_chat(case.clean, case.dialect)]}
    parted = attribute(tokenized)[1].divergence_token_idx
    if parted is None or parted >= len(tokenized[0].token_ids):
        return sent
    findings = [f.rule_id for f in engine.run(requests, tokenized) if requests[1].request_id in f.affected_request_ids]
    offset = tokenized[1].char_offsets[min(parted, len(tokenized[1].char_offsets) - 1)][0]
    return {"noticed": True, "codes": findings, "path": _path(case.after, case.dialect, requests[1], offset), **sent}


def _path(after: Body, dialect: str, request: Any, offset: int) -> str:
    tools = [json.dumps(tool) for tool in request.tools or ()]
    head = [p for p, _ in pieces(after, dialect) if not p.startswith(("tools", "messages", "input"))][:1]
    rest = [p for p, _ in pieces(after, dialect) if p.startswith(("messages", "input"))]
    paths = [*(f"tools[{i}]" for i in range(len(tools))), *head, *rest]
    texts = [*tools, *(m.content for m in request.messages)]
    return place(list(zip(paths, texts, strict=True)), offset)


def _body(request: Any) -> Body:
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    return {"tools": request.tools or [], "messages": messages}


serve(diagnose)
