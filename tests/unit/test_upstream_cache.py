"""The simulated cache of the scripted upstream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from upstream_cache import PrefixCache, anthropic_pieces, chat_pieces, common_prefix, render, responses_pieces

TOOL = {"name": "find", "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}}}


@given(st.binary(max_size=30), st.binary(max_size=10), st.binary(max_size=10))
def test_the_common_prefix(head: bytes, left: bytes, right: bytes) -> None:
    size = common_prefix(head + left, head + right)
    assert size >= len(head)
    assert (head + left)[:size] == (head + right)[:size]
    assert size == min(len(head + left), len(head + right)) or (head + left)[size] != (head + right)[size]


def test_the_cache_keeps_models_apart_and_finds_the_longest() -> None:
    cache = PrefixCache()
    assert [cache.look("a", text) for text in (b"abcdef", b"abx", b"abcdeg")] == [0, 2, 5]
    assert cache.look("b", b"abcdef") == 0


def test_rendering_ignores_markers_at_protocol_positions_only() -> None:
    marker = {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": "x"}
    plain = {"messages": [{"role": "user", "content": [text]}], "system": "s", "tools": [TOOL]}
    marked = {
        "tools": [{**TOOL, **marker}],
        "system": [{"type": "text", "text": "s", **marker}],
        "messages": [{"role": "user", "content": [{**text, **marker}]}],
    }
    assert render(anthropic_pieces(marked)) == render(anthropic_pieces(plain))
    assert b'"cache_control":{"type":"string"}' in render(anthropic_pieces(plain))
    assert render(chat_pieces({"messages": [{"b": 1.0, "a": "é"}]})) == '{"b":1.0,"a":"é"}\n'.encode()
    assert len(responses_pieces({"input": "x", "instructions": "y", "tools": [1]}, [2])) == 4
