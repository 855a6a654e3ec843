"""A prompt as a row of blocks: counting, comparing, marking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import KEY

from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items
from standfast.prompt.layout import Layout, lay_out, markable, marks_on, remark, shared_blocks
from standfast.prompt.mended import Mended, untouched
from standfast.prompt.render import render
from standfast.prompt.request import Request, read

MARK = {"type": "ephemeral"}
CALL = {"type": "tool_use", "id": "t1", "name": "a", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "found"}]}
BODY: dict[str, Any] = {
    "model": "m",
    "tools": [{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}, "defer_loading": True}],
    "system": [{"type": "text", "text": "You help."}, {"type": "text", "text": "Briefly."}],
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "…", "signature": "s"}, CALL]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on"}]},
    ],
}


def reading(body: Any, dialect: str = "anthropic") -> tuple[Request, Mended, Layout]:
    request = read(json.dumps(body).encode(), DIALECTS[dialect], KEY, Items())
    mended = untouched(request)
    return request, mended, lay_out(mended.tools, mended.system, mended.sent)


def test_blocks_are_numbered_in_render_order() -> None:
    _, _, layout = reading(BODY)
    assert (layout.tools, layout.system, layout.blocks) == (2, 4, 9)
    assert [layout.item_of(n) for n in range(9)] == [0, 1, 2, 3, 4, 5, 5, 6, 6]
    assert [layout.part(n).kind.value for n in range(4, 9)] == ["text", "thinking", "call", "result", "text"]
    assert sum(layout.sizes()) == sum(item.size for item in layout.items)
    assert all(size > 0 for size in layout.sizes())


def test_where_marks_may_stand() -> None:
    _, _, layout = reading(BODY)
    anthropic = DIALECTS["anthropic"]
    assert markable(layout, anthropic) == {0, 2, 3, 4, 6, 7, 8}
    chat = {
        "tools": [{"type": "function", "function": {"name": "a"}}],
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
        ],
    }
    _, _, layout = reading(chat, "openai_chat")
    assert markable(layout, DIALECTS["openai_chat"]) == {1, 4}


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (lambda b: None, 9),
        (lambda b: b["messages"].append({"role": "assistant", "content": "Done."}), 9),
        (lambda b: b["messages"].pop(), 7),
        (lambda b: b["messages"][2]["content"][1].update(text="Stop"), 8),
        (lambda b: b["messages"][1]["content"].pop(), 6),
        (lambda b: b["system"][1].update(text="At length."), 3),
        (lambda b: b["system"].pop(), 3),
        (lambda b: b["tools"].reverse(), 0),
        (lambda b: b["tools"].pop(), 1),
    ],
)
def test_how_much_two_prompts_share(change: Any, shared: int) -> None:
    other = json.loads(json.dumps(BODY))
    change(other)
    _, _, old = reading(BODY)
    _, _, new = reading(other)
    assert shared_blocks(old, new) == shared
    assert shared_blocks(new, old) == shared


def test_marks_are_read_where_clients_put_them() -> None:
    body = json.loads(json.dumps(BODY))
    body["tools"][0]["cache_control"] = MARK
    body["system"][1]["cache_control"] = {**MARK, "ttl": "1h"}
    body["messages"][2]["content"][0]["content"][0]["cache_control"] = MARK
    body["messages"][2]["content"][1]["cache_control"] = MARK
    _, _, layout = reading(body)
    assert marks_on(layout, "cache_control") == {0: MARK, 3: {**MARK, "ttl": "1h"}, 7: MARK, 8: MARK}
    assert marks_on(layout, "prompt_cache_breakpoint") == {}


@pytest.mark.parametrize("marks", [{}, {0: MARK}, {3: MARK, 8: MARK}, {4: MARK, 6: MARK, 7: {**MARK, "ttl": "1h"}}])
def test_marks_go_out_where_they_were_planned_and_nothing_else_changes(marks: dict[int, Any]) -> None:
    body = json.loads(json.dumps(BODY))
    body["system"][0]["cache_control"] = MARK
    request, mended, layout = reading(body)
    out = remark(mended, layout, DIALECTS["anthropic"], "cache_control", marks)
    again_request, again, laid = reading(json.loads(render(request, out)))
    assert marks_on(laid, "cache_control") == marks
    assert shared_blocks(layout, laid) == 9
    assert [item.key for item in laid.items] == [item.key for item in layout.items]
    same = remark(again, laid, DIALECTS["anthropic"], "cache_control", marks)
    assert render(again_request, same) is again_request.body


@pytest.mark.parametrize(
    ("system", "out"),
    [
        ("You help.", [{"type": "text", "text": "You help.", "cache_control": MARK}]),
        ([{"type": "text", "text": "A"}], [{"type": "text", "text": "A", "cache_control": MARK}]),
    ],
)
def test_a_system_prompt_that_is_a_text_becomes_a_list_to_bear_a_mark(system: Any, out: Any) -> None:
    request, mended, layout = reading({"system": system, "messages": []})
    marked = remark(mended, layout, DIALECTS["anthropic"], "cache_control", {0: MARK})
    assert json.loads(render(request, marked))["system"] == out


def test_a_chat_system_message_bears_a_breakpoint_in_a_list() -> None:
    body = {"messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hi"}]}
    request, mended, layout = reading(body, "openai_chat")
    mark = {"mode": "explicit"}
    out = remark(mended, layout, DIALECTS["openai_chat"], "prompt_cache_breakpoint", {0: mark})
    assert json.loads(render(request, out))["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "You help.", "prompt_cache_breakpoint": mark}]},
        {"role": "user", "content": "Hi"},
    ]
