"""Which headers cross the gateway, in both directions. Order is kept, and so is everything not listed here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Pair = tuple[bytes, bytes]

OURS = b"x-standfast-"
"""Prefix of the headers that are ours: taken from the caller, never sent on, never believed from an upstream."""

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_LISTS = frozenset({b"anthropic-beta"})
# The client library writes Host and, for a body of unknown length, the framing. Expect was answered by our server.
_WRITTEN_BY_US = frozenset({b"host", b"expect"})


def value_of(headers: Iterable[Pair], name: bytes) -> bytes | None:
    """The first value of a header; names are lower case."""
    return next((value for key, value in headers if key == name), None)


def with_ours(headers: Sequence[Pair], ours: Sequence[tuple[str, str]]) -> list[Pair]:
    """The caller's headers and those of ours that it does not send; what is a list gets ours behind its own."""
    out = list(headers)
    for name, value in ours:
        key, text = name.lower().encode("latin-1"), value.encode("latin-1")
        i = next((i for i, (known, _) in enumerate(out) if known == key), None)
        if i is None:
            out.append((key, text))
        elif key in _LISTS and text not in [word.strip() for word in out[i][1].split(b",")]:
            out[i] = (key, out[i][1] + b"," + text)
    return out


def to_upstream(headers: Sequence[Pair], *, length: int | None, identity: bool) -> list[tuple[str, str]]:
    """A request's headers as they go out.

    ``length`` replaces Content-Length; None keeps the caller's. ``identity`` asks for an uncompressed response.
    """
    dropped = _named_in_connection(headers) | _HOP_BY_HOP | _WRITTEN_BY_US
    if length is None and any(name == b"transfer-encoding" for name, _ in headers):
        dropped |= {b"content-length"}  # chunks count; our server refuses both together, and so must whoever comes next
    out: list[tuple[str, str]] = []
    seen: set[bytes] = set()
    for name, value in headers:
        if name in dropped or name.startswith(OURS):
            continue
        if name == b"content-length" and length is not None:
            value = b"%d" % length
        elif name == b"accept-encoding" and identity:
            if name in seen:
                continue
            value = b"identity"
        seen.add(name)
        out.append((name.decode("ascii"), _text(value)))
    if length is not None and b"content-length" not in seen:
        out.append(("content-length", str(length)))
    if identity and b"accept-encoding" not in seen:
        out.append(("accept-encoding", "identity"))
    return out


def to_caller(headers: Iterable[Pair], *, framed: bool = True) -> list[Pair]:
    """A response's headers as they go back; ``framed`` False drops Content-Length (the body will be another one)."""
    pairs = [(name.lower(), value) for name, value in headers]
    dropped = _named_in_connection(pairs) | _HOP_BY_HOP
    if not framed:
        dropped |= {b"content-length"}
    return [(name, value) for name, value in pairs if name not in dropped and not name.startswith(OURS)]


def _named_in_connection(headers: Iterable[Pair]) -> frozenset[bytes]:
    named = {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
    # Naming the length would strip the framing from a body that is still sent: a smuggling trick.
    return frozenset(named - {b"content-length"})


def _text(value: bytes) -> str:
    """The client library writes UTF-8, so a value that is UTF-8 arrives as the same bytes."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
