from __future__ import annotations

import pytest

from standfast.errors import Unauthorized
from standfast.gateway.auth import admit, tenant

Headers = list[tuple[bytes, bytes]]
ONE: Headers = [(b"authorization", b"Bearer one")]


def test_tenant_is_pinned() -> None:
    # Ledgers on disk are keyed by it: another value would forget everything.
    assert tenant(ONE).hex() == "245eb2926000554cff3327ad8219fe21daf119db029e17f843119d82cdc51baf"
    assert tenant([]).hex() == "ca6f0058daa20cb9ceda7a169f2c1be91735878889c8fbf59d8b49591de67414"


def test_tenant_depends_on_credentials_only() -> None:
    assert tenant([(b"user-agent", b"x"), *ONE, (b"x-standfast-key", b"k")]) == tenant(ONE)


@pytest.mark.parametrize(
    "other",
    [
        [],
        [(b"authorization", b"Bearer two")],
        [(b"x-api-key", b"Bearer one")],
        [*ONE, (b"x-api-key", b"one")],
        [*ONE, *ONE],
    ],
)
def test_other_credentials_are_another_tenant(other: Headers) -> None:
    assert tenant(other) != tenant(ONE)


def test_order_of_headers_does_not_matter() -> None:
    both = [*ONE, (b"x-api-key", b"k")]
    assert tenant(both) == tenant(both[::-1])


def test_no_key_configured_admits_everybody() -> None:
    admit([], "")


@pytest.mark.parametrize("headers", [[], ONE, [(b"x-standfast-key", b"")], [(b"x-standfast-key", b"ke")]])
def test_wrong_key(headers: Headers) -> None:
    with pytest.raises(Unauthorized):
        admit(headers, "key")


def test_right_key() -> None:
    admit([(b"x-standfast-key", b"wrong"), (b"x-standfast-key", "ké".encode())], "ké")


def test_bearer_only_where_it_is_meant() -> None:
    headers = [(b"authorization", b"bearer key")]
    admit(headers, "key", bearer=True)
    with pytest.raises(Unauthorized):
        admit(headers, "key")
