"""What goes out: shapes, markers, ids, billing tokens, parallel results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.prompt.talking import (
    MARK,
    PROSE,
    Session,
    answer,
    anthropic,
    call,
    calling,
    causes,
    chat,
    result,
    returned,
    sent,
    use,
    user,
)

from standfast.policy import Policy

Q, MORE = user("question"), (answer(), user("more"))


def block(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def tool(name: str, description: str = "does it", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": {"type": "object"}, **fields}


def marker(on: bool) -> dict[str, Any]:
    return dict(MARK) if on else {}


# Shapes: what goes out must stay a body that the API accepts


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PROSE, [block(PROSE.strip())]),
        ([block(PROSE.strip())], PROSE),
        (PROSE, [block(PROSE.strip(), **MARK)]),
        ([block(PROSE), block("b")], [block(PROSE.strip()), block("b")]),
    ],
)
def test_system_text_in_another_shape_stays_a_string_or_a_list_of_blocks(first: Any, second: Any) -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], first))
    plan = session.send(anthropic([Q, *MORE], second))
    system = sent(plan)["system"]
    assert isinstance(system, str) or all(isinstance(b, dict) for b in system)
    assert causes(plan) == ["H2"]
    texts = [system] if isinstance(system, str) else [b["text"] for b in system]
    assert texts[0] == (first if isinstance(first, str) else first[0]["text"]) or not plan.diagnosis.repaired


@pytest.mark.parametrize("content", ["hello", [{"type": "input_text", "text": "hello"}]])
def test_an_input_string_that_becomes_a_list_stays_a_list_of_items(content: Any) -> None:
    session = Session("openai_responses")
    session.send({"model": "m", "input": "hello\n"})
    item = {"role": "user", "content": content}
    plan = session.send({"model": "m", "input": [item, {"role": "assistant", "content": "hi"}, item]})
    assert all(isinstance(i, dict) for i in sent(plan)["input"])


def test_an_input_list_that_becomes_a_string_stays_a_list_or_string() -> None:
    session = Session("openai_responses")
    session.send({"model": "m", "input": [{"role": "user", "content": "hello\n"}]})
    assert isinstance(sent(session.send({"model": "m", "input": "hello"}))["input"], str | list)


# Markers: the client's, where it sets them now


def _markers(body: Any) -> list[str]:
    found = [f"tools[{i}]" for i, t in enumerate(body.get("tools", ())) if "cache_control" in t]
    system = body.get("system", ())
    found += [f"system[{i}]" for i, b in enumerate(system) if isinstance(b, dict) and "cache_control" in b]
    for i, message in enumerate(body["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        found += [f"messages[{i}].content[{k}]" for k, b in enumerate(blocks) if "cache_control" in b]
    return found


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_markers_on_reordered_tools_are_those_that_the_client_sets_now(old: bool, new: bool) -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], PROSE, tools=[tool("a"), tool("b", **marker(old))]))
    marked = [user(f"q{i}", mark=True) if i % 2 == 0 else answer() for i in range(5)]
    body = anthropic([Q, answer(), *marked], PROSE, tools=[tool("b"), tool("a", **marker(new))])
    plan = session.send(body)
    assert causes(plan)[0] == "T1"
    assert _markers(sent(plan)) == _markers(body)


def test_markers_on_system_blocks_are_those_that_the_client_sets_now() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], [block(PROSE, **MARK), block("tail")]))
    body = anthropic([Q, *MORE], [block(PROSE.strip()), block("tail\n", **MARK)])
    plan = session.send(body)
    assert _markers(sent(plan)) == ["system[1]"]
    assert [b["text"] for b in sent(plan)["system"]] == [PROSE, "tail"]


def test_a_marker_that_moves_on_is_no_drift_and_is_not_put_back() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("q", mark=True)]))
    body = anthropic([user("q"), answer(), user("r", mark=True)])
    plan = session.send(body)
    assert causes(plan) == []
    assert not plan.changed


def test_a_repaired_message_keeps_the_marker_of_now() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("q\n", mark=True), answer(), user("r")]))
    body = anthropic([user("q"), answer("ok\n"), user("r", mark=True), *MORE])
    plan = session.send(body)
    assert causes(plan) == ["H2", "H2"]
    assert _markers(sent(plan)) == _markers(body)
    assert sent(plan)["messages"][0]["content"][0]["text"] == "q\n"


def test_a_property_named_like_a_marker_is_meaning() -> None:
    session = Session("anthropic")
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    session.send(anthropic([Q], PROSE, tools=[{"name": "t", "input_schema": schema}]))
    plan = session.send(
        anthropic([Q, *MORE], PROSE, tools=[{"name": "t", "input_schema": {"type": "object", "properties": {}}}])
    )
    assert causes(plan) == ["C1"]
    assert sent(plan)["tools"][0]["input_schema"]["properties"] == {}


# Tools


@pytest.mark.parametrize("name", ["user.name", "a[0]", "", "x.y[z].description", "[", "..", "ключ"])
def test_a_property_of_any_name_can_be_pointed_at(name: str) -> None:
    def with_text(text: str) -> Any:
        schema = {"type": "object", "properties": {name: {"type": "string", "description": text}}}
        return anthropic([Q], PROSE, tools=[{"name": "t", "input_schema": schema}])

    session = Session("anthropic")
    session.send(with_text("first one"))
    plan = session.send(with_text("other two"))
    assert session.failures == []
    assert causes(plan) == ["C1"]


def test_new_tools_go_last_and_known_ones_keep_order_and_bytes() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], PROSE, tools=[tool("a"), tool("b")]))
    shuffled = {"input_schema": {"type": "object"}, "description": "does it", "name": "b"}
    plan = session.send(anthropic([Q, *MORE], PROSE, tools=[tool("c"), shuffled, tool("a")]))
    assert [t["name"] for t in sent(plan)["tools"]] == ["a", "b", "c"]
    found = {d.cause: (d.path, d.repaired) for d in plan.diagnosis.drifts}
    assert found["T4"] == ("tools[0]", False)
    assert found["T1"] == ("tools[1].name", True)


# Ids


def _conversation(a: str, b: str, *late: Any) -> Any:
    messages = [{"role": "user", "content": "q"}, calling(call(a, '{"n":1}')), returned(a, "r1")]
    return chat([*messages, calling(call(b, '{"n":2}')), returned(b, "r2"), *late])


def _answered(body: Any) -> list[tuple[int, str]]:
    """For each result the ordinal of its call, read independently."""
    seen: list[str] = []
    found = []
    for message in body["messages"]:
        seen += [c["id"] for c in message.get("tool_calls", ())]
        if message["role"] == "tool":
            found.append((len(seen) - 1 - seen[::-1].index(message["tool_call_id"]), message["content"]))
    return found


@pytest.mark.parametrize(("first", "second"), [("xy", "ab"), ("xy", "yx"), ("xx", "ab"), ("xy", "aa"), ("xy", "xx")])
@pytest.mark.parametrize("late", ["a", "b", "new"])
def test_results_answer_the_calls_that_they_answered_whatever_the_ids(first: str, second: str, late: str) -> None:
    session = Session("openai_chat")
    session.send(_conversation(*first))
    name = {"a": second[0], "b": second[1], "new": first[0]}[late]
    tail = [{"role": "assistant", "content": "k"}]
    tail += [calling(call(name, '{"n":3}'))] if late == "new" else []
    body = _conversation(*second, *tail, returned(name, "r3"), {"role": "user", "content": "n"})
    plan = session.send(body)
    assert _answered(sent(plan)) == _answered(body)


def test_a_new_call_by_an_id_that_was_sent_for_an_old_one_is_left_alone() -> None:
    session = Session("openai_chat")
    session.send(chat([{"role": "user", "content": "q"}, calling(call("x")), returned("x", "r")]))
    body = chat(
        [
            {"role": "user", "content": "q"},
            calling(call("a")),
            returned("a", "r"),
            calling(call("x")),
            returned("x", "s"),
        ]
    )
    plan = session.send(body)
    assert not plan.changed
    assert [("Ambiguous" in reason) for reason in session.failures] == [True]


# Parallel results


def test_parallel_results_go_out_in_the_order_first_sent() -> None:
    session = Session("openai_chat")
    calls = [{"role": "user", "content": "q"}, calling(call("x", '{"n":1}'), call("y", '{"n":2}'))]
    session.send(chat([*calls, returned("y", "same"), returned("x", "other")]))
    plan = session.send(chat([*calls, returned("x", "other"), returned("y", "same"), {"role": "user", "content": "n"}]))
    assert causes(plan) == ["H5"]
    assert [m.get("tool_call_id") for m in sent(plan)["messages"]][2:4] == ["y", "x"]


def test_results_that_change_places_are_a_real_change_and_go_out() -> None:
    session = Session("anthropic", Policy.ISOLATE)
    first = {"role": "user", "content": [block("plan"), block("<reminder>x</reminder>")]}
    calls = {"role": "assistant", "content": [use("x", n=1), use("y", n=2)]}
    results = {"role": "user", "content": [result("x", "A"), result("y", "B")]}
    session.send(anthropic([first, calls, results], PROSE))
    swapped = {"role": "user", "content": [result("x", "B"), result("y", "A")]}
    plan = session.send(anthropic([{**first, "content": first["content"][:1]}, calls, swapped, *MORE], PROSE))
    told = {b["tool_use_id"]: b["content"] for b in sent(plan)["messages"][2]["content"]}
    assert told == {"x": "B", "y": "A"}


# The billing block and its token

BILLING = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={};"


def billed(token: str, *messages: Any) -> Any:
    return anthropic(messages, [block(BILLING.format(token)), block(PROSE)])


@pytest.mark.parametrize(
    "text", ["cch={};", "head\ncch={}; tail", "x\tcch={}", '{{"k": "a cch={} b"}}', "cch={} cch={}"]
)
def test_h9_a_token_replaced_inside_a_result_is_put_back(text: str) -> None:
    def history(token: str) -> list[Any]:
        return [
            Q,
            {"role": "assistant", "content": [use("i", n=1)]},
            {"role": "user", "content": [result("i", text.format(token, token))]},
        ]

    session = Session("anthropic")
    first = session.send(billed("4e0d1", *history("4e0d1")))
    plan = session.send(billed("b7731", *history("b7731"), *MORE))
    assert causes(plan) == ["S2", "H9"]
    assert plan.diagnosis.repaired
    assert sent(plan)["messages"][:3] == sent(first)["messages"]


def test_a_text_about_tokens_is_never_touched() -> None:
    session = Session("anthropic")
    session.send(billed("4e0d1", user("cch=1"), answer()))
    body = billed("b7731", user("cch=2"), answer(), user("see cch=b7731"))
    plan = session.send(body)
    assert sent(plan)["messages"] == body["messages"]
    assert causes(plan)[0] == "S2"
    assert "H9" not in causes(plan)


def test_a_new_result_keeps_its_token() -> None:
    calls = {"role": "assistant", "content": [use("i")]}
    session = Session("anthropic")
    session.send(anthropic([Q], PROSE))
    plan = session.send(anthropic([Q, calls, {"role": "user", "content": [result("i", "cch=1")]}], PROSE))
    assert not plan.changed
    other = session.send(
        anthropic([user("another"), calls, {"role": "user", "content": [result("i", "cch=2")]}], PROSE)
    )
    assert not other.changed


def test_only_the_token_of_the_block_itself_is_no_meaning() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], BILLING.format("1") + f"\n{PROSE}Always say cch=abc."))
    plan = session.send(anthropic([Q, *MORE], BILLING.format("2") + f"\n{PROSE}Always say cch=def."))
    assert sent(plan)["system"].endswith("cch=def.")


@pytest.mark.parametrize("pin", [True, False])
def test_the_block_is_pinned_unless_the_upstream_reads_it(pin: bool) -> None:
    session = Session("anthropic")
    session.send(billed("1aaaa", Q), pin_billing=pin)
    plan = session.send(billed("2bbbb", Q, *MORE), pin_billing=pin)
    assert f"cch={'1aaaa' if pin else '2bbbb'};" in sent(plan)["system"][0]["text"]
    assert plan.diagnosis.repaired == pin


@pytest.mark.parametrize("shape", ["text", "list"])
def test_s2_in_a_system_message_of_chat(shape: str) -> None:
    def body(token: str, *more: Any) -> Any:
        text = BILLING.format(token)
        content = text if shape == "text" else [block(text), block(PROSE)]
        return chat([{"role": "system", "content": content}, {"role": "user", "content": "q"}, *more])

    session = Session("openai_chat")
    session.send(body("4e0d1"))
    plan = session.send(body("b7731", {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}))
    assert causes(plan) == ["S2"]
    assert plan.diagnosis.repaired


# Routes, models, anchors


def test_i1_the_first_key_stays_and_a_key_that_appears_later_is_the_clients() -> None:
    session = Session("openai_chat")
    first = [{"role": "user", "content": "q"}]
    more = [*first, {"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    session.send(chat(first, prompt_cache_key="one"))
    plan = session.send(chat(more, prompt_cache_key="two"))
    assert (plan.diagnosis.cause, plan.diagnosis.path) == ("I1", "prompt_cache_key")
    assert sent(plan)["prompt_cache_key"] == "one"
    third = session.send(chat([*more, {"role": "assistant", "content": "k"}, {"role": "user", "content": "o"}]))
    assert "prompt_cache_key" not in sent(third)
    assert causes(third) == []


def test_a_new_session_of_the_same_agent_keeps_its_own_key() -> None:
    session = Session("openai_chat")
    system = {"role": "system", "content": PROSE}
    session.send(chat([system, {"role": "user", "content": "one"}], prompt_cache_key="one"))
    plan = session.send(chat([system, {"role": "user", "content": "two"}], prompt_cache_key="two"))
    assert not plan.changed
    assert causes(plan) == []


def test_p2_is_reported_and_the_model_is_the_clients() -> None:
    session = Session("anthropic")
    session.send(anthropic([Q], PROSE))
    plan = session.send({**anthropic([Q, *MORE], PROSE), "model": "other"})
    assert (plan.diagnosis.cause, plan.diagnosis.path, plan.diagnosis.repaired) == ("P2", "model", False)
    assert not plan.changed
    assert plan.diagnosis.attainable_tokens == 0


def test_another_stored_conversation_is_no_drift() -> None:
    session = Session("openai_responses")
    item = {"role": "user", "content": "say it"}
    session.send({"model": "m", "conversation": "c1", "instructions": PROSE, "input": [item]})
    more = [item, {"role": "assistant", "content": "it"}, item]
    plan = session.send({"model": "m", "instructions": PROSE, "input": more})
    assert causes(plan) == []


def test_dialects_of_one_upstream_do_not_meet() -> None:
    one = Session("anthropic")
    one.send(anthropic([Q]))
    other = Session("openai_responses", turns=one.turns)
    items = [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "k"},
        {"role": "user", "content": "n"},
    ]
    plan = other.send({"model": "other", "input": items})
    assert causes(plan) == []
    assert plan.diagnosis.tokens.reference == 0


def test_broken_off_json_like_bytes_behind_a_bookmark_do_not_change_what_is_read() -> None:
    session = Session("anthropic")
    raw = json.dumps(anthropic([user(PROSE * 4), answer()], PROSE)).encode()
    session.send(raw)
    plan = session.send(raw[:-2] + b', {"role": "user", "content": "go"}]}')
    assert plan.diagnosis.resumed
    assert not plan.changed


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_two_system_texts_that_differ_at_their_edges_alone_both_go_out_as_they_came(dialect: str) -> None:
    session = Session(dialect)
    texts = [f"{PROSE}\n", PROSE.strip()]
    if dialect == "anthropic":
        body = anthropic([Q], [block(text) for text in texts])
    else:
        body = chat([*({"role": "system", "content": text} for text in texts), {"role": "user", "content": "q"}])
    for _ in range(2):
        plan = session.send(body)
        assert not plan.changed
        assert causes(plan) == []


def test_a_new_session_whose_system_text_is_put_back_is_told_so() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("one")], [block(PROSE)]))
    plan = session.send(anthropic([user("two"), answer(), user("three")], [block(PROSE.strip())]))
    assert plan.changed == (causes(plan) == ["H2"])
