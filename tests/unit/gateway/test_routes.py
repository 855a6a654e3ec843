from __future__ import annotations

import pytest

from standfast.config import Upstream
from standfast.errors import RequestError
from standfast.gateway.routes import OTHER, Routes, checked, dialect_of, model_of

FIRST = Upstream("first", "https://first/base/")
CLAUDE = Upstream("claude", "https://claude", models=("claude-*",))
GPT = Upstream("gpt", "https://gpt", models=("gpt-*",))
LOCAL = Upstream("local", "http://local", path="/local")
DEEP = Upstream("deep", "http://deep", path="/local/deep")


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages", "anthropic"),
        ("/messages", "anthropic"),
        ("/anything/v1/messages", "anthropic"),
        ("/v1/chat/completions", "openai_chat"),
        ("/chat/completions", "openai_chat"),
        ("/v1/responses", "openai_responses"),
        ("/responses", "openai_responses"),
        ("/v1/messages/count_tokens", OTHER),
        ("/v1/messages/batches", OTHER),
        ("/v1/threads/t1/messages", OTHER),
        ("/v1/responses/r1/cancel", OTHER),
        ("/v1/completions", OTHER),
        ("/v1/embeddings", OTHER),
        ("/", OTHER),
    ],
)
def test_dialect(path: str, dialect: str) -> None:
    assert dialect_of("POST", path) == dialect
    assert dialect_of("GET", path) == OTHER


@pytest.mark.parametrize(
    ("path", "model", "upstream", "url"),
    [
        ("/v1/models", "", FIRST, "https://first/base/v1/models"),
        ("/v1/messages", "claude-9", CLAUDE, "https://claude/v1/messages"),
        ("/v1/messages", "other", FIRST, "https://first/base/v1/messages"),
        ("/local/v1/messages", "claude-9", LOCAL, "http://local/v1/messages"),
        ("/local/deep/v1/x", "", DEEP, "http://deep/v1/x"),
        ("/local", "", LOCAL, "http://local/"),
        ("/locally", "", FIRST, "https://first/base/locally"),
    ],
)
def test_choice(path: str, model: str, upstream: Upstream, url: str) -> None:
    route = Routes([FIRST, CLAUDE, LOCAL, DEEP]).choose("POST", path, b"", model)
    assert (route.upstream, route.url) == (upstream, url)


def test_first_where_no_pattern_takes_the_model() -> None:
    assert Routes([GPT, CLAUDE]).choose("POST", "/v1/messages", b"", "other").upstream is GPT


def test_one_without_patterns_before_the_first_with_some() -> None:
    assert Routes([GPT, FIRST]).choose("POST", "/v1/messages", b"", "other").upstream is FIRST
    assert Routes([GPT, LOCAL]).choose("POST", "/v1/messages", b"", "other").upstream is GPT


def test_query_is_kept_as_it_came() -> None:
    assert Routes([GPT]).choose("GET", "/v1/x", b"a=%2F&b", "").url == "https://gpt/v1/x?a=%2F&b"


def test_model_is_needed_only_where_it_decides() -> None:
    assert not Routes([GPT]).needs_model("/v1/messages")
    assert not Routes([FIRST, LOCAL]).needs_model("/v1/messages")
    assert Routes([FIRST, GPT]).needs_model("/v1/messages")
    assert not Routes([FIRST, GPT, LOCAL]).needs_model("/local/v1/messages")


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"messages":[{"model":"no"}],"model":"yes"}', "yes"),
        (b'{"model":7}', ""),
        (b"[]", ""),
        (b"{", ""),
        (b"", ""),
        (b'{"model":"\xff"}', ""),
    ],
)
def test_model_of(body: bytes, model: str) -> None:
    assert model_of(body) == model


@pytest.mark.parametrize("path", [b"/", b"/v1/models/a%2Fb", b"//evil", b"/v1/...", b"/a..b/.c", b"/%2e%2e%2e"])
def test_good_paths(path: bytes) -> None:
    assert checked(path) == path.decode()


@pytest.mark.parametrize(
    "path",
    [b"", b"v1", b"http://x/", b"*", b"/..", b"/a/./b", b"/%2e", b"/a/%2E./b", b"/a%2f..%2fb", b"/%252e%252e",
     b"/a\\..\\b", b"/a b", b"/a\x00", "/é".encode()],
)  # fmt: skip
def test_bad_paths(path: bytes) -> None:
    with pytest.raises(RequestError):
        checked(path)
