"""Elements read once: by their bytes, within bounds, whatever the bytes are."""

from __future__ import annotations

import msgspec
import pytest

from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items, build, item
from standfast.prompt.model import Kind, Tier

CHAT = DIALECTS["openai_chat"]


def message(text: str) -> bytes:
    return b'{"role":"user","content":"%s"}' % text.encode()


def test_the_same_bytes_are_read_once() -> None:
    items = Items()
    first = items.get(CHAT, Tier.MESSAGES, message("a"))
    assert items.get(CHAT, Tier.MESSAGES, message("a")) is first
    assert items.get(DIALECTS["anthropic"], Tier.MESSAGES, message("a")) is not first
    assert items.get(CHAT, Tier.TOOLS, message("a")) is not first


def test_what_was_not_used_for_a_generation_is_forgotten() -> None:
    items = Items(2 * 650 * 10)
    used, unused = (items.get(CHAT, Tier.MESSAGES, message(name)) for name in ("used", "unused"))
    for i in range(40):
        items.get(CHAT, Tier.MESSAGES, message(f"filler {i}"))
        assert items.get(CHAT, Tier.MESSAGES, message("used")) is used
    assert items.get(CHAT, Tier.MESSAGES, message("unused")) is not unused
    assert items.get(CHAT, Tier.MESSAGES, message("unused")) == unused


def test_an_element_larger_than_the_bound_is_read_all_the_same() -> None:
    items = Items(10)
    wire = message("x" * 1000)
    assert items.get(CHAT, Tier.MESSAGES, wire).wire == wire
    assert items.get(CHAT, Tier.MESSAGES, wire) is items.get(CHAT, Tier.MESSAGES, wire)


@pytest.mark.parametrize(
    "wire", [b'{"role":"user","role":"user","content":"a"}', b'{"role":"user","content":[{"a":1,"a":2}]}']
)
def test_a_name_that_comes_twice_makes_an_element_equal_to_its_bytes_alone(wire: bytes) -> None:
    one, spaced = build(CHAT, Tier.MESSAGES, wire), build(CHAT, Tier.MESSAGES, wire.replace(b":", b": "))
    assert [part.kind for part in one.parts] == [Kind.OTHER]
    assert one == build(CHAT, Tier.MESSAGES, wire)
    assert {one.key, one.frame}.isdisjoint({spaced.key, spaced.frame})
    assert (one.role, one.marked, one.is_result, one.size) == ("", False, False, len(wire))


@pytest.mark.parametrize("wire", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_opaque_to_a_ledger_and_an_error_to_a_reader(wire: bytes) -> None:
    made = item("openai_chat", Tier.MESSAGES, wire)
    assert (made.wire, made.size) == (wire, len(wire))
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        build(CHAT, Tier.MESSAGES, wire)


def test_an_item_by_the_name_of_its_dialect_is_the_same() -> None:
    assert item("openai_chat", Tier.MESSAGES, message("a")) == build(CHAT, Tier.MESSAGES, message("a"))
    with pytest.raises(KeyError):
        item("klingon", Tier.MESSAGES, message("a"))


def test_numbers_are_equal_by_value_and_apart_to_the_cache() -> None:
    wires = (b'{"name":"t","n":%s}' % n for n in (b"1.0", b"1", b"10e-1", b"1.01"))
    one, same, too, other = (build(CHAT, Tier.TOOLS, wire) for wire in wires)
    assert one.parts[0].meaning == same.parts[0].meaning == too.parts[0].meaning != other.parts[0].meaning
    assert len({one.key, same.key, too.key, other.key}) == 4


def test_a_token_is_masked_in_results_and_kept_aside_in_texts() -> None:
    def result(token: str) -> bytes:
        return b'{"role":"tool","tool_call_id":"i","content":"cch=%s"}' % token.encode()

    one, other = (build(CHAT, Tier.MESSAGES, result(t)) for t in ("aa", "bb"))
    assert one.parts[0].meaning == other.parts[0].meaning
    assert one.parts[0].plain is None
    assert one.key != other.key
    texts = [build(CHAT, Tier.MESSAGES, message(f"cch={t}")).parts[0] for t in ("aa", "bb")]
    assert texts[0].meaning != texts[1].meaning
    assert [b"cch=aa" in (p.plain or b"") for p in texts] == [True, False]
