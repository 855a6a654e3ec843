from __future__ import annotations

from standfast.gateway.headers import to_caller, to_upstream


def test_connection_cannot_strip_the_length() -> None:
    headers = [(b"connection", b"content-length, x-a"), (b"content-length", b"3"), (b"x-a", b"1")]
    assert to_upstream(headers, length=None, identity=False) == [("content-length", "3")]


def test_length_is_replaced_where_it_stood_or_added() -> None:
    headers = [(b"content-length", b"3"), (b"x-a", b"1")]
    assert to_upstream(headers, length=5, identity=False) == [("content-length", "5"), ("x-a", "1")]
    assert to_upstream(headers[1:], length=5, identity=False) == [("x-a", "1"), ("content-length", "5")]


def test_chunked_becomes_a_length() -> None:
    headers = [(b"transfer-encoding", b"chunked")]
    assert to_upstream(headers, length=5, identity=False) == [("content-length", "5")]


def test_a_length_beside_chunks_is_not_believed() -> None:
    headers = [(b"transfer-encoding", b"chunked"), (b"content-length", b"3")]
    assert to_upstream(headers, length=None, identity=False) == []


def test_identity_replaces_every_accept_encoding() -> None:
    headers = [(b"accept-encoding", b"gzip"), (b"x-a", b"1"), (b"accept-encoding", b"br")]
    assert to_upstream(headers, length=None, identity=True) == [("accept-encoding", "identity"), ("x-a", "1")]
    assert to_upstream([], length=None, identity=True) == [("accept-encoding", "identity")]
    assert to_upstream(headers[:1], length=None, identity=False) == [("accept-encoding", "gzip")]


def test_expect_was_answered_already() -> None:
    assert to_upstream([(b"expect", b"100-continue")], length=None, identity=False) == []


def test_values_that_are_no_text() -> None:
    assert to_upstream([(b"x-a", b"\xff")], length=None, identity=False) == [("x-a", "\xff")]


def test_back_to_the_caller() -> None:
    headers = [
        (b"Content-Length", b"3"), (b"X-Standfast-Hit", b"1"), (b"Connection", b"close, X-Hop"), (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"), (b"Trailer", b"x"), (b"X-Kept", b"1"),
    ]  # fmt: skip
    assert to_caller(headers) == [(b"content-length", b"3"), (b"x-kept", b"1")]
    assert to_caller(headers, framed=False) == [(b"x-kept", b"1")]
