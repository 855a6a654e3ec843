"""Who is calling: the tenant, from the caller's own credential, and the gateway's key if it has one.

Credentials pass through this module and leave it only as a digest.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from blake3 import blake3

from standfast.errors import Unauthorized

Headers = Iterable[tuple[bytes, bytes]]

_CONTEXT = "standfast 2026-01 tenant key from caller credentials"
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Every header by which a provider may know its customer."""
_KEY = b"x-standfast-key"


def tenant(headers: Headers) -> bytes:
    """The 32-byte key under which a caller's requests are remembered.

    All credentials together make the tenant: if one alone did, a caller could send a provider his own in one header
    and be remembered under somebody else's in another. Callers without any share the anonymous tenant.
    """
    found = sorted((name, value.strip()) for name, value in headers if name in _CREDENTIALS)
    # Lengths in front keep two credentials from running into each other.
    material = b"".join(b"%d:%b%d:%b" % (len(name), name, len(value), value) for name, value in found)
    return blake3(material, derive_key_context=_CONTEXT).digest()


def admit(headers: Headers, gateway_key: str, *, bearer: bool = False) -> None:
    """Raise Unauthorized unless no key is configured or the caller knows it.

    ``bearer`` also takes it as ``Authorization: Bearer``, for the gateway's own pages: a metrics scraper has no
    other credential to send there, and may not be able to send a header of its own.
    """
    if not gateway_key:
        return
    wanted = gateway_key.encode()
    given = [value for name, value in headers if name == _KEY]
    if bearer:
        given += [value[7:].strip() for name, value in headers if name == b"authorization" and _is_bearer(value)]
    # In constant time, so that the answer's delay tells nothing of the key.
    if not any(hmac.compare_digest(value, wanted) for value in given):
        raise Unauthorized("This gateway wants its key in the header x-standfast-key, and got none or another.")


def _is_bearer(value: bytes) -> bool:
    return value[:7].lower() == b"bearer "
