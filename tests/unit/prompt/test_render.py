"""Exchange in place: what is not exchanged keeps its bytes, white space and unknown fields included."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items
from standfast.prompt.mended import Mended, untouched
from standfast.prompt.model import Item, Sent, Tier
from standfast.prompt.render import render
from standfast.prompt.request import Request, read

CHAT = DIALECTS["openai_chat"]
RAW = (
    b'\n{ "tools" : [ {"name":"a"} ,\t{"name":"b"} ], "x": 1.50,"messages":\r\n[{"role":"system","content":"s"} , '
    b'{"role":"user","content":"\\u0041"},{"role":"tool","tool_call_id":"i","content":"1"}, '
    b'{"role":"tool","tool_call_id":"k","content":"2"}],"prompt_cache_key" :"k1", "stream":true } '
)


def reading(raw: bytes = RAW) -> Request:
    return read(raw, CHAT, bytes(32), Items())


def item(wire: bytes, tier: Tier = Tier.MESSAGES) -> Item:
    return Items().get(CHAT, tier, wire)


def put(mended: Mended, place: int, *items: Item) -> None:
    mended.sent[place] = replace_items(mended.sent[place], *items)


def replace_items(sent: Sent, *items: Item) -> Sent:
    return Sent(items, sent.links)


def test_nothing_to_exchange_is_the_very_object() -> None:
    request = reading()
    assert render(request, untouched(request)) is request.body
    mended = untouched(request)
    put(mended, 0, item(b'{"role":"user","content":"\\u0041"}'))
    mended.tools = (*mended.tools,)
    assert render(request, mended) == request.body


def test_each_kind_of_piece_is_exchanged_where_it_stands() -> None:
    request = reading()
    mended = untouched(request)
    mended.tools = mended.tools[::-1]
    mended.system = (item(b'{"role":"system","content":"S"}'),)
    mended.fields["prompt_cache_key"] = b'"k0"'
    put(mended, 0, item(b'"hi"'))
    put(mended, 1, *request.units[1].items[::-1])
    assert render(request, mended) == (
        b'\n{ "tools" : [ {"name":"b"} ,\t{"name":"a"} ], "x": 1.50,"messages":\r\n[{"role":"system","content":"S"} , '
        b'"hi",{"role":"tool","tool_call_id":"k","content":"2"}, '
        b'{"role":"tool","tool_call_id":"i","content":"1"}],"prompt_cache_key" :"k0", "stream":true } '
    )


@pytest.mark.parametrize("place", [0, 1])
def test_a_unit_may_grow_behind_its_last_item(place: int) -> None:
    request = reading()
    mended = untouched(request)
    put(mended, place, *request.units[place].items, item(b'{"role":"system","content":"T"}'))
    messages = json.loads(RAW)["messages"]
    at = 2 if place == 0 else 4
    assert json.loads(render(request, mended))["messages"] == [
        *messages[:at],
        {"role": "system", "content": "T"},
        *messages[at:],
    ]


@pytest.mark.parametrize(
    ("raw", "out"),
    [
        (b'{"messages":[]}', b'{"messages":[],"k":1,"l":"x"}'),
        (b' {"k":0, "messages" : [] }\n', b' {"k":1, "messages" : [] ,"l":"x"}\n'),
    ],
)
def test_fields_are_exchanged_or_put_behind_the_others(raw: bytes, out: bytes) -> None:
    request = read(raw, DIALECTS["openai_chat"], bytes(32), Items())
    mended = untouched(request)
    mended.fields = {"k": b"1", "l": b'"x"'}
    assert render(request, mended) == out


def test_a_list_of_tools_may_grow_or_begin() -> None:
    for raw, out in (
        (b'{"messages":[], "tools": [ {"name":"a"} ]}', b'{"messages":[], "tools": [ {"name":"a"},{"name":"b"} ]}'),
        (b'{"messages":[]}', b'{"messages":[],"tools":[{"name":"a"},{"name":"b"}]}'),
    ):
        request = read(raw, DIALECTS["anthropic"], bytes(32), Items())
        mended = untouched(request)
        mended.tools = (item(b'{"name":"a"}'), item(b'{"name":"b"}'))
        assert render(request, mended) == out


def test_items_that_stood_apart_may_go_out_as_one() -> None:
    raw = b'{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}, {"role":"assistant"}]}'
    request = read(raw, DIALECTS["anthropic"], bytes(32), Items())
    mended = untouched(request)
    put(mended, 0, item(b'{"role":"user","content":"ab"}'))
    put(mended, 1)
    assert json.loads(render(request, mended))["messages"] == [
        {"role": "user", "content": "ab"},
        {"role": "assistant"},
    ]


def test_a_system_string_and_a_system_list_of_anthropic() -> None:
    known = DIALECTS["anthropic"]
    for system, out in ((b'"s"', b'"S"'), (b'[ "s" , {"text":"t"}]', b'[ "S" , {"text":"t"}]')):
        raw = b'{"system":%s,"messages":[]}' % system
        request = read(raw, known, bytes(32), Items())
        mended = untouched(request)
        mended.system = (Items().get(known, Tier.SYSTEM, b'"S"'), *mended.system[1:])
        assert render(request, mended) == b'{"system":%s,"messages":[]}' % out


def test_a_mended_request_must_have_as_many_places() -> None:
    request = reading()
    with pytest.raises(ValueError, match="zip"):
        render(request, replace(untouched(request), sent=[]))
