"""Tools: all that drifted in them, and what the options allow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.prompt.agents import Agent, allowed, callable_tools, found, names
from unit.prompt.talking import PROSE, Session, answer, anthropic, causes, chat, sent, user

from standfast.policy import Option, Policy
from standfast.turn import Plan

KINDS = ["chat", "responses", "anthropic"]
Q, MORE = user("question"), [user("question"), answer(), user("more")]


def tool(name: str, text: str = "does it", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": text, "input_schema": {"type": "object"}, **fields}


def backwards(value: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(value.items()))


# What is named, and what goes out

A, B, C = tool("a"), tool("b"), tool("c")
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
TOOLS: list[tuple[Any, Any, list[str], Any]] = [
    ([A, B], [A, B], [], [A, B]),
    ([A, B], [B, A], ["T1"], [A, B]),
    ([A, B], [A, backwards(B)], ["T2"], [A, B]),
    ([A, B], [backwards(B), A], ["T1", "T2"], [A, B]),
    ([A, B], [A, B, C], ["T4"], [A, B, C]),
    ([A, B], [A, C, B], ["T4"], [A, B, C]),
    ([A, B], [C, B, A], ["T1", "T4"], [A, B, C]),
    ([A, B, C], [C, A], ["T1", "T4"], [A, C]),
    ([A, B], [A], ["T4"], [A]),
    ([A, B], [], ["T4"], []),
    ([], [A], ["T4"], [A]),
    ([A, B], [backwards(B), tool("a", "see /tmp/x")], ["T1", "T2", "C1"], [tool("a", "see /tmp/x"), B]),
    ([tool("a", "at 09:14")], [tool("a", "at 09:15")], ["T3"], [tool("a", "at 09:15")]),
    ([tool("a", x="id 0b6f6a9e1d5c")], [tool("a", x="id 0b6f6a9e1d5d")], ["T3"], [tool("a", x="id 0b6f6a9e1d5d")]),
    ([tool("a", x="red")], [tool("a", x="blue")], ["C1"], [tool("a", x="blue")]),
    ([tool("a", x=1)], [tool("a", x=2)], ["C1"], [tool("a", x=2)]),
    ([tool("a", x=1)], [tool("a", x=1.0)], ["T2"], [tool("a", x=1)]),
    ([tool("a", 1)], [tool("a", 2)], ["C1"], [tool("a", 2)]),  # type: ignore[arg-type]
    ([A, A], [A, A], [], [A, A]),
    ([A, A, B], [A, B], ["T4"], [A, B]),
    ([A, B], [A, B, B], ["T4"], [A, B, B]),
    ([A, tool("b", **MARK)], [A, tool("b", "see /tmp/x1")], ["C1"], [A, tool("b", "see /tmp/x1")]),
]


@pytest.mark.parametrize(("before", "after", "named", "out"), TOOLS, ids=str)
def test_tools(before: Any, after: Any, named: list[str], out: Any) -> None:
    session = Session("anthropic")
    session.send(anthropic(MORE, PROSE, tools=before))
    plan = session.send(anthropic([*MORE, answer(), Q], PROSE, tools=after))
    assert session.failures == []
    assert sorted(causes(plan)) == sorted(named)
    assert json.dumps(sent(plan)["tools"]) == json.dumps(out)


ODD_TOOLS = [([7, A], [A, 7]), (["x", A], [A, "x"]), ([7, A, "x"], [A, "x", 7])]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(("before", "after"), ODD_TOOLS)
def test_no_tool_is_lost_whatever_it_is(dialect: str, before: Any, after: Any) -> None:
    session = Session(dialect)
    session.send(chat([{"role": "user", "content": "q"}], tools=before))
    more = [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]
    plan = session.send(chat([{"role": "user", "content": "q"}, *more], tools=after))
    assert sorted(map(json.dumps, sent(plan)["tools"])) == sorted(map(json.dumps, after))
    assert plan.diagnosis.repaired == (sent(plan)["tools"] == before)


def test_tools_that_come_where_none_were_are_sent_in_the_order_first_known() -> None:
    session = Session("anthropic")
    session.send(anthropic([user("other agent")], "x", tools=[A, B]))
    plan = session.send(anthropic([Q], PROSE, tools=[backwards(B), A]))
    assert causes(plan) == ["T1", "T2"]
    assert plan.diagnosis.repaired
    assert json.dumps(sent(plan)["tools"]) == json.dumps([A, B])


def grown(before: list[Any], after: list[Any], *options: Option, kind: str = "anthropic", **more: Any) -> Plan:
    """A session whose tools are others in its second request."""
    agent = Agent(kind, *options, **more)
    agent.turn(before)
    plan = agent.turn(after)
    assert agent.failures == []
    return plan


def test_all_drifts_are_told_each_at_its_place_in_the_order_of_the_tools() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}
    before = [A, B, C, tool("d", input_schema=schema), tool("e", "Listens on port 24117."), tool("f")]
    wider = {**schema, "properties": {**schema["properties"], "q": {"type": "integer"}}}
    after = [
        B,
        A,
        backwards(C),
        tool("d", input_schema=wider),
        tool("e", "Listens on port 30250."),
        tool("g"),
        tool("f"),
    ]
    assert found(grown(before, after)) == [
        ("T1", "tools[0].name", True),
        ("T2", "tools[2]", True),
        ("C1", "tools[3].input_schema.properties", False),
        ("T3", "tools[4].description", False),
        ("T4", "tools[5]", False),
    ]


def test_each_schema_that_was_written_anew_is_told() -> None:
    schema = {"type": "object", "properties": {"p": {"type": "string"}}}
    before = [tool(name, input_schema=schema) for name in "abc"]
    after = [tool("a", input_schema=backwards(schema)), before[1], tool("c", input_schema=backwards(schema))]
    assert found(grown(before, after)) == [("T2", "tools[0].input_schema", True), ("T2", "tools[2].input_schema", True)]


def test_both_causes_in_one_definition_are_told() -> None:
    after = tool("a", "see /tmp/run-9b22", input_schema={"type": "string"})
    plan = grown([tool("a", "see /tmp/run-0f6c")], [after], Option.PIN)
    assert found(plan) == [("T3", "tools[0].description", False), ("C1", "tools[0].input_schema.type", False)]
    assert sent(plan)["tools"] == [after]


def test_a_definition_that_names_a_key_twice_is_never_taken_for_another() -> None:
    agent = Agent("anthropic", Option.PIN)
    bodies = [
        agent.body([A]) | {"messages": [Q, answer(), user("n")]},
        agent.body([A]) | {"messages": [Q, answer(), user("n"), answer(), user("m")]},
    ]
    session = Session("anthropic", Policy.LOSSLESS, Option.PIN)
    plans = []
    for body, twice in zip(bodies, (b'"name": "x", "name": "a"', b'"name": "y", "name": "a"'), strict=True):
        plans.append(session.send(json.dumps(body).encode().replace(b'"name": "a"', twice)))
    assert session.failures == []
    assert found(plans[1]) == [("C1", "tools[0]", False)]
    assert b'"name": "y"' in plans[1].body


CUSTOM = [{"type": "custom", "custom": {"name": name, "description": name}} for name in "abc"]
MCP = [{"type": "mcp", "server_label": name, "server_url": f"https://{name}"} for name in "abc"]


@pytest.mark.parametrize(("kind", "tools"), [("chat", CUSTOM), ("responses", MCP)])
def test_tools_of_every_type_have_a_name(kind: str, tools: list[Any]) -> None:
    plan = grown(tools, [tools[0], tools[2]], kind=kind)
    assert found(plan) == [("T4", "tools[1]", False)]
    assert sent(plan)["tools"] == [tools[0], tools[2]]


# Option pin

VOLATILE = [
    ("see /tmp/run-0f6c", "see /tmp/run-9b22", True),
    ("Session endpoint: https://x.example/s/AAA", "Session endpoint: https://x.example/s/BBB", True),
    ("Cache buster: GmQgSguqxq", "Cache buster: LdbTgcjG3o", True),
    ("As of 2026-10-02.", "As of 2026-10-03.", True),
    ("Read only.", "Write only.", False),
    ("Runs read-only.", "Runs read-write.", False),
    ("Takes a path.", "Takes a path and a mode.", False),
]


@pytest.mark.parametrize(("before", "after", "volatile"), VOLATILE)
@pytest.mark.parametrize("options", [(), (Option.PIN,)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_id_in_a_description_is_pinned_where_that_is_allowed(
    kind: str, options: tuple[Option, ...], before: str, after: str, volatile: bool
) -> None:
    agent = Agent(kind, *options)
    tools = [[agent.tool("a", says), agent.tool("b")] for says in (before, after)]
    plan = grown(tools[0], tools[1], *options, kind=kind)
    pinned = volatile and bool(options)
    path = "tools[0].function.description" if kind == "chat" else "tools[0].description"
    assert found(plan) == [("T3" if volatile else "C1", path, pinned)]
    assert sent(plan)["tools"] == tools[not pinned]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"enum": ["/tmp/0f6c"]}, {"enum": ["/tmp/9b22"]}),
        ({"default": "/tmp/0f6c"}, {"default": "/tmp/9b22"}),
        ({"type": "string"}, {"type": "integer"}),
        ({"x_description": "id 0b6f6a9e1d5c"}, {"x_description": "id 0b6f6a9e1d5d"}),
    ],
)
def test_nothing_but_a_description_is_pinned(before: Any, after: Any) -> None:
    tools = [[tool("a", input_schema={"type": "object", "properties": {"p": p}})] for p in (before, after)]
    plan = grown(tools[0], tools[1], Option.PIN)
    assert not plan.diagnosis.repaired
    assert sent(plan)["tools"] == tools[1]


def test_an_argument_may_be_described_too() -> None:
    tools = [
        [tool("a", input_schema={"type": "object", "properties": {"p": {"description": f"under /tmp/{name}"}}})]
        for name in ("0f6c", "9b22")
    ]
    plan = grown(tools[0], tools[1], Option.PIN)
    assert found(plan) == [("T3", "tools[0].input_schema.properties.p.description", True)]
    assert sent(plan)["tools"] == tools[0]


# Option tools, where tool_choice can restrict


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_tool_that_was_declared_stays_and_may_not_be_called(kind: str) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b", "c")
    plan = agent.send("a", "c")
    assert names(plan) == ["a", "b", "c"]
    assert allowed(plan) == ["a", "c"]
    assert found(plan) == [("T4", "tools[1]", True)]
    assert plan.diagnosis.tokens.after == plan.diagnosis.tokens.reference
    plan = agent.send("c", "b", "a", "d")
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], None)
    assert ("T4", "tools[3]", False) in found(plan)
    plan = agent.send("d")
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], ["d"])
    assert agent.failures == []


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_where_no_tool_is_left_none_may_be_called(kind: str) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b")
    plan = agent.send()
    assert (names(plan), json.loads(plan.body)["tool_choice"]) == (["a", "b"], "none")
    agent.say()
    body = agent.body([])
    del body["tools"]
    plan = agent.plan(body)
    assert (names(plan), json.loads(plan.body)["tool_choice"]) == (["a", "b"], "none")
    assert agent.failures == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_or_the_means_the_clients_list_goes_out(kind: str) -> None:
    for options in ((), (Option.TOOLS,)):
        if options and kind != "anthropic":
            continue
        agent = Agent(kind, *options)
        agent.send("a", "b", "c")
        plan = agent.send("a", "c")
        assert (names(plan), allowed(plan)) == (["a", "c"], None)
        assert found(plan) == [("T4", "tools[1]", False)]


def narrow(kind: str, name: str) -> Any:
    return {"type": "function", **({"function": {"name": name}} if kind == "chat" else {"name": name})}


CHOICES: list[tuple[str, Any, list[str] | None]] = [
    *((kind, choice, ["a", "c"]) for kind in ("chat", "responses") for choice in ("required", "auto", None)),
    *((kind, choice, None) for kind in ("chat", "responses") for choice in ("none", narrow(kind, "a"))),
    ("chat", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [narrow("chat", "a")]}}, ["a"]),
    ("responses", {"type": "allowed_tools", "mode": "required", "tools": [narrow("responses", "c")]}, ["c"]),
]


@pytest.mark.parametrize(("kind", "choice", "kept"), CHOICES)
def test_the_clients_own_choice_counts(kind: str, choice: Any, kept: list[str] | None) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b", "c", tool_choice=choice)
    plan = agent.send("a", "c", tool_choice=choice)
    assert names(plan) == ["a", "b", "c"]
    assert allowed(plan) == kept
    told = json.loads(plan.body)["tool_choice"]
    if isinstance(choice, dict) or kept is None:
        assert told == choice
    else:
        assert (told.get("allowed_tools") or told)["mode"] == (choice or "auto")


def test_the_form_of_the_choice_is_each_apis_own() -> None:
    for kind, form in (
        ("chat", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [narrow("chat", "a")]}}),
        ("responses", {"type": "allowed_tools", "mode": "auto", "tools": [narrow("responses", "a")]}),
    ):
        agent = Agent(kind, Option.TOOLS)
        agent.send("a", "b")
        assert json.loads(agent.send("a").body)["tool_choice"] == form


def test_what_cannot_be_named_apart_is_left_alone() -> None:
    plan = grown(CUSTOM, CUSTOM[:2], Option.TOOLS, kind="chat")
    assert (sent(plan)["tools"], found(plan)) == (CUSTOM[:2], [("T4", "tools[2]", False)])
    plan = grown(CUSTOM, CUSTOM[:2], Option.TOOLS, kind="responses")  # of this API a tool like these has no name
    assert sent(plan)["tools"] == CUSTOM[:2]
    twice = [{"type": "web_search", "filters": {"n": n}} for n in (1, 2)]
    plan = grown(twice, twice[:1], Option.TOOLS, kind="responses")
    assert sent(plan)["tools"] == twice[:1]


def test_servers_are_named_by_their_label() -> None:
    plan = grown(MCP, [MCP[0], MCP[2]], Option.TOOLS, kind="responses")
    assert sent(plan)["tools"] == MCP
    assert sent(plan)["tool_choice"]["tools"] == [{"type": "mcp", "server_label": name} for name in "ac"]


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_run_with_fewer_tools_shares_the_prefix_of_the_whole_set(kind: str) -> None:
    agent = Agent(kind, Option.TOOLS)
    agent.send("a", "b", "c", "d")
    plan = agent.send("a", "c", "d", new_session=True)
    assert found(plan) == [("T5", "tools[1]", True)]
    assert (names(plan), allowed(plan)) == (["a", "b", "c", "d"], ["a", "c", "d"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("run", "place", "out"), [("abd", 2, "abd"), ("abcde", 4, "abcde"), ("ebcd", 0, "bcde"), ("cdba", 0, "abcd")]
)
def test_a_run_with_other_tools_is_named_and_known_tools_go_first(kind: str, run: str, place: int, out: str) -> None:
    agent = Agent(kind)
    agent.send("a", "b", "c", "d")
    plan = agent.send(*run, new_session=True)
    name = ".function.name" if kind == "chat" else ".name"
    same = set(run) == set("abcd")
    assert found(plan) == [("T1", f"tools[0]{name}", True) if same else ("T5", f"tools[{place}]", False)]
    assert names(plan) == list(out)


# Properties


@given(
    st.lists(st.tuples(st.permutations("abcdef"), st.integers(0, 6), st.booleans()), min_size=2, max_size=6),
    st.sampled_from([("chat", False), ("responses", False), ("anthropic", True)]),
)
def test_in_a_session_they_only_grow_and_only_the_clients_may_be_called(
    runs: list[tuple[list[str], int, bool]], way: tuple[str, bool]
) -> None:
    kind, changes = way
    agent, before = Agent(kind, Option.TOOLS, changes=changes), list[str]()
    for some, count, new_session in runs:
        wanted = [*some[:count], *"uvwxyz"]  # so many in common that it is one agent
        plan = agent.send(*wanted, new_session=new_session)
        out = names(plan)
        assert agent.failures == []
        assert new_session or out[: len(before)] == before
        assert len(out) == len(set(out))
        assert changes or set(out) >= set(wanted)
        assert callable_tools(plan).keys() == set(wanted)
        before = out


@given(st.lists(st.permutations("abcd"), min_size=2, max_size=4), st.sampled_from(KINDS))
def test_nothing_but_the_order_is_changed_without_an_option(orders: list[list[str]], kind: str) -> None:
    agent = Agent(kind)
    for order in orders:
        plan = agent.send(*order)
        assert names(plan) == list(orders[0])
        assert "tool_choice" not in json.loads(plan.body)
        assert plan.changed == (order != orders[0])
        assert agent.failures == []
