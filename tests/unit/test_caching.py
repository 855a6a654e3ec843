"""Forecast and verdict against a simulated provider, which shares no matching code with either."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from simulated import CATALOGUE, MODELS, Line

from standfast.lab.simulated import Faults, Provider
from standfast.policy import Breakpoints, Leave, Option, Policy
from standfast.prompt.replies import Reply
from standfast.turn import Plan

PROSE = "You are the release assistant of the Larch project; cite ticket numbers and never invent a version. " * 60
TOOLS = [{"name": n, "description": f"{n} things. " * 40, "input_schema": {"type": "object"}} for n in ("find", "open")]
MARK = {"type": "ephemeral"}
Body = dict[str, Any]


def talk(turns: int, *, text: str = "Which tickets are open? " * 20, parts: int = 1) -> list[Body]:
    messages: list[Body] = []
    for n in range(turns):
        said = [{"type": "text", "text": f"{n}.{i} {text}"} for i in range(parts)]
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Answer {n}. " * 30}]})
    return messages[:-1]


def anthropic(turns: int, **more: Any) -> Body:
    return {
        "model": MODELS["anthropic"],
        "max_tokens": 100,
        "tools": TOOLS,
        "system": [{"type": "text", "text": PROSE}],
        "messages": talk(turns, **more),
    }


def verdict(plan: Plan) -> Any:
    assert plan.verdict is not None
    return plan.verdict


def agree(plan: Plan, cached: int) -> None:
    """What was foreseen is what was served, to the error of the token count."""
    assert plan.outlook is not None
    expected = plan.outlook.expected.cached
    assert abs(expected - cached) <= 0.05 * max(expected, cached) + 64, (expected, cached)


class TestAnthropic:
    def test_a_client_that_sets_no_marks_hits_all_it_sent_before(self) -> None:
        line = Line("anthropic", "anthropic")
        for turns in range(1, 8):
            plan, exchange = line.send(anthropic(turns))
            agree(plan, exchange.served.cached)
            assert verdict(plan).hit
            if turns > 1:
                before = anthropic(turns - 1)
                assert exchange.served.cached >= 0.99 * line.simulated_tokens(before)
                assert verdict(plan).cause == "B1"
                assert verdict(plan).repaired

    def test_under_observe_the_same_client_hits_nothing_and_is_told_why(self) -> None:
        line = Line("anthropic", "anthropic", Leave(Policy.OBSERVE))
        for turns in (1, 2, 3):
            plan, exchange = line.send(anthropic(turns))
            assert exchange.served.cached == 0
        assert (verdict(plan).hit, verdict(plan).cause) == (False, "B1")
        assert verdict(plan).lost_tokens > 1000
        assert "breakpoint" in verdict(plan).fix
        assert verdict(plan).since == 1_000_002.0

    def test_a_turn_of_thirty_blocks_does_not_outrun_the_look_back(self) -> None:
        for who, cause in ((Breakpoints.PLAN, True), (Breakpoints.CLIENT, False)):
            line = Line("anthropic", "anthropic", breakpoints=who)
            for turns in (1, 2):
                body = anthropic(turns, parts=30)
                body["messages"][-1]["content"][-1]["cache_control"] = MARK
                plan, exchange = line.send(body)
            assert (exchange.served.cached > 0) is cause
            agree(plan, exchange.served.cached)
            assert verdict(plan).cause == "B2"
            assert verdict(plan).repaired is cause

    def test_after_five_minutes_it_is_the_clocks_fault(self) -> None:
        line = Line("anthropic", "anthropic")
        line.send(anthropic(1))
        plan, exchange = line.send(anthropic(2), after=301)
        assert exchange.served.cached == 0
        assert (verdict(plan).cause, verdict(plan).hit) == ("B4", False)
        assert "ttl" in verdict(plan).fix

    def test_the_option_ttl_asks_for_an_hour_once_gaps_need_it(self) -> None:
        line = Line("anthropic", "anthropic", Leave(Policy.LOSSLESS, frozenset({Option.TTL})))
        lost = []
        for turns in range(1, 24):
            _, exchange = line.send(anthropic(turns), after=600 if turns % 3 == 0 else 10)
            lost.append(exchange.served.cached == 0)
        assert lost[2]
        assert not any(lost[9:])

    def test_what_is_too_short_is_not_marked(self) -> None:
        line = Line("anthropic", "anthropic")
        said = [{"role": "user", "content": "Hi"}]
        body: Body = {"model": MODELS["anthropic"], "system": "Brief.", "messages": said}
        plan, _ = line.send(body)
        assert b"cache_control" not in plan.body
        body["messages"] += [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Go"}]
        plan, _ = line.send(body)
        assert (verdict(plan).cause, verdict(plan).hit) == ("B3", False)

    def test_eviction_is_no_fault_of_the_bytes(self) -> None:
        line = Line("anthropic", "anthropic")
        for turns in (1, 2, 3):
            line.send(anthropic(turns))
        assert line.simulated is not None
        for cache in line.simulated._caches.values():
            cache.forget(1 << 30)
        plan, exchange = line.send(anthropic(4))
        assert exchange.served.cached == 0
        assert (verdict(plan).cause, verdict(plan).hit) == ("I3", False)

    def test_the_providers_own_finding_is_asked_for_and_agrees(self) -> None:
        line = Line("anthropic", "anthropic", asks=True)
        line.send(anthropic(1))
        changed = anthropic(2)
        changed["system"][0]["text"] = "Speak French. " + PROSE
        plan, _ = line.send(changed)
        assert json.loads(plan.body)["diagnostics"] == {"previous_message_id": "msg_sim000000000000000000001"}
        assert (verdict(plan).finding, verdict(plan).agrees, verdict(plan).cause) == ("system_changed", True, "C1")

    def test_a_clients_own_marks_that_do_the_work_go_out_as_they_came(self) -> None:
        line = Line("anthropic", "anthropic")
        bodies = [anthropic(turns) for turns in (1, 2, 3)]
        for body in bodies:
            body["system"][0]["cache_control"] = MARK
            body["messages"][-1]["content"][-1]["cache_control"] = MARK
            if len(body["messages"]) > 2:
                body["messages"][-3]["content"][-1]["cache_control"] = MARK
            plan, exchange = line.send(body)
            assert plan.body is plan.arrival.body
            agree(plan, exchange.served.cached)
        assert verdict(plan).cause is None

    def test_nothing_is_marked_behind_a_clock_that_ticks(self) -> None:
        line = Line("anthropic", "anthropic")
        for turns in (1, 2, 3):
            body = anthropic(turns)
            body["system"].insert(1, {"type": "text", "text": f"It is 09:14:{turns:02d}."})
            body["system"].append({"type": "text", "text": PROSE})
            plan, exchange = line.send(body)
        assert plan.outlook is not None
        assert plan.outlook.marks is not None
        assert sorted(plan.outlook.marks.places) == [2]
        assert exchange.served.cached > 1000
        assert (verdict(plan).cause, verdict(plan).hit) == ("S1", False)

    def test_money(self) -> None:
        line = Line("anthropic", "anthropic")
        for turns in (1, 2):
            plan, exchange = line.send(anthropic(turns))
        usage, bill = exchange.body["usage"], verdict(plan).bill
        paid = usage["input_tokens"] * 5 + usage["cache_creation_input_tokens"] * 6.25
        paid += usage["cache_read_input_tokens"] * 0.5 + usage["output_tokens"] * 25
        assert bill.paid == pytest.approx(paid / 1e6)
        assert bill.currency == "USD"
        assert bill.perfect <= bill.paid < bill.without_cache


class TestOpenAI:
    def chat(self, question: str, turns: int = 1, model: str = "gpt-5.6-sol") -> Body:
        system = {"role": "system", "content": PROSE}
        history = [{"role": m["role"], "content": m["content"][0]["text"]} for m in talk(turns)]
        history[-1]["content"] = question
        return {"model": model, "messages": [system, *history]}

    def test_another_question_finds_the_stable_end(self) -> None:
        line = Line("openai", "openai_chat")
        line.send(self.chat("What is open? " * 10))
        _, missed = line.send(self.chat("Who is on call? " * 10))
        plan, exchange = line.send(self.chat("When is the next release? " * 10))
        assert missed.served.cached > 1024  # the system prompt was marked from the start
        assert exchange.served.cached > 1024
        raw = Line("openai", "openai_chat", Leave(Policy.OBSERVE))
        for question in ("a", "b", "c"):
            plan, exchange = raw.send(self.chat(question))
        assert exchange.served.cached == 0
        assert verdict(plan).cause == "B6"

    def test_older_models_are_asked_for_nothing_but_a_key(self) -> None:
        line = Line("openai", "openai_chat")
        for turns in (1, 2, 3):
            plan, exchange = line.send(self.chat("Go on. " * 20, turns, "gpt-5.5"))
            agree(plan, exchange.served.cached)
            assert verdict(plan).hit
        sent, came = json.loads(plan.body), json.loads(plan.arrival.body)
        assert sent.pop("prompt_cache_key") == line.keys[0]
        assert sent == came
        assert len(set(line.keys)) == 1

    def test_a_format_stands_behind_the_tools(self) -> None:
        line = Line("openai", "openai_chat")
        tool = {"type": "function", "function": {"name": "find", "description": PROSE, "parameters": {}}}
        for kind in ("text", "json_object"):
            plan, exchange = line.send(
                {**self.chat("Go", model="gpt-5.5"), "tools": [tool], "response_format": {"type": kind}}
            )
        assert exchange.served.cached > 1024
        agree(plan, exchange.served.cached)

    def test_a_clients_own_key_is_kept(self) -> None:
        line = Line("openai", "openai_chat")
        first = line.send({**self.chat("a"), "prompt_cache_key": "mine"})[0]
        second = line.send({**self.chat("b", 2), "prompt_cache_key": "mine"})[0]
        assert [json.loads(p.body)["prompt_cache_key"] for p in (first, second)] == ["mine", "mine"]


class TestEngine:
    """What a chat template writes, and what an engine keeps of its own answers."""

    LLAMA, QWEN = "meta-llama/Llama-3.2-3B-Instruct", "Qwen/Qwen3.6-27B"
    NOON, DAY = 1_790_942_400.0, 86_400.0  # 2026-10-02
    PIN = Leave(Policy.LOSSLESS, frozenset({Option.TEMPLATE}))

    def line(self, leave: Leave = PIN, dialect: str = "openai_chat") -> Line:
        return Line("vllm", dialect, leave, now=self.NOON)

    def chat(self, turns: int = 1, model: str = LLAMA, **more: Any) -> Body:
        history = [{"role": m["role"], "content": m["content"][0]["text"]} for m in talk(turns)]
        return {"model": model, "messages": [{"role": "system", "content": PROSE}, *history], **more}

    def arguments(self, plan: Plan) -> Any:
        return json.loads(plan.body).get("chat_template_kwargs")

    def test_the_date_of_a_sessions_first_request_goes_out_with_each(self) -> None:
        line = self.line()
        for turns in (1, 2, 3):
            plan, exchange = line.send(self.chat(turns), after=self.DAY)
            assert self.arguments(plan) == {"date_string": "03 Oct 2026"}
        assert exchange.served.cached > 1000
        assert (verdict(plan).hit, verdict(plan).cause, verdict(plan).repaired) == (True, "E2", True)
        assert verdict(plan).path == "chat_template_kwargs"
        other, _ = line.send(self.chat(1, tools=[]) | {"messages": [{"role": "user", "content": "Hello"}]})
        assert self.arguments(other) == {"date_string": "05 Oct 2026"}

    def test_the_clients_own_value_wins(self) -> None:
        line = self.line()
        for given, sent in (
            ({"date_string": "today"}, {"date_string": "today"}),
            ({"custom_tools": [{}]}, {"custom_tools": [{}], "date_string": "03 Oct 2026"}),
            (None, {"date_string": "03 Oct 2026"}),
            ([1], [1]),
        ):
            plan, _ = line.send(self.chat(chat_template_kwargs=given), after=0.5 * self.DAY)
            assert self.arguments(plan) == sent
        told = {"date_string": "today"}
        plan, _ = self.line().send(self.chat(model="Llama-3.2-Qwen3.6", chat_template_kwargs=told))
        assert self.arguments(plan) == {"date_string": "today", "preserve_thinking": True}

    def test_thinking_is_kept_where_the_template_can(self) -> None:
        for model, sent in (
            (self.QWEN, {"preserve_thinking": True}),
            ("zai-org/GLM-4.7", {"clear_thinking": False}),
            ("Qwen/Qwen3-8B", None),
        ):
            plan, _ = self.line().send(self.chat(model=model))
            assert self.arguments(plan) == sent
        told = {"preserve_thinking": False}
        plan, _ = self.line().send(self.chat(model=self.QWEN, chat_template_kwargs=told))
        assert self.arguments(plan) == told

    def test_thinking_goes_once_there_is_a_newer_question(self) -> None:
        thought = {"role": "assistant", "reasoning_content": "Hm. " * 90, "content": "Wait."}
        for following, block in (([], None), ([{"role": "user", "content": "And?"}], 2)):
            line, body = self.line(Leave(Policy.LOSSLESS)), self.chat(model=self.QWEN)
            plan, _ = line.send(body)
            line.turns.learn(plan, Reply(None, (json.dumps(thought).encode(),), None, complete=True))
            body["messages"] += [thought, {"role": "assistant", "content": "Done."}, *following]
            plan, _ = line.send(body)
            assert plan.outlook is not None
            assert plan.outlook.signs.thinking == block

    @pytest.mark.parametrize(
        "leave", [Leave(Policy.LOSSLESS), Leave(Policy.OBSERVE, frozenset({Option.TEMPLATE}))], ids=str
    )
    def test_nothing_is_sent_without_leave(self, leave: Leave) -> None:
        plan, _ = self.line(leave).send(self.chat())
        assert self.arguments(plan) is None

    def test_nothing_is_sent_where_the_dialect_has_no_place_for_it(self) -> None:
        plan, _ = self.line(dialect="anthropic").send({**anthropic(1), "model": self.LLAMA})
        assert self.arguments(plan) is None

    @pytest.mark.parametrize(
        ("model", "leave", "offered"),
        [(LLAMA, Leave(Policy.LOSSLESS), True), ("ibm-granite/granite-3.3", Leave(Policy.LOSSLESS), False)],
    )
    def test_the_option_is_named_only_where_it_would_help(self, model: str, leave: Leave, offered: bool) -> None:
        line = self.line(leave)
        line.send(self.chat(1, model))
        assert line.simulated is not None
        for cache in line.simulated._caches.values():  # another date in front, which no body shows
            cache.forget()
        plan, _ = line.send(self.chat(2, model), after=self.DAY)
        assert (verdict(plan).cause, verdict(plan).hit) == ("E2", False)
        assert ("option template" in verdict(plan).fix) is offered

    def test_a_pinned_date_is_no_ones_fault(self) -> None:
        line = self.line()
        line.send(self.chat(1))
        assert line.simulated is not None
        for cache in line.simulated._caches.values():
            cache.forget()
        plan, _ = line.send(self.chat(2), after=self.DAY)
        assert (verdict(plan).cause, verdict(plan).hit) == ("I3", False)

    def talked(self, line: Line, turns: int, text: str = PROSE) -> tuple[Plan, Any, list[int]]:
        """A session in which the model writes a call with that text each time; tokens of its answers."""
        body = self.chat()
        tool = {"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}
        body["tools"] = [tool]
        answers: list[int] = []
        for n in range(turns):
            body["messages"].append({"role": "user", "content": f'[sim:call note {{"text": "{n} {text}"}}]'})
            plan, exchange = line.send(body)
            answer = exchange.body["choices"][0]["message"]
            answers.append(exchange.body["usage"]["completion_tokens"])
            done = {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "noted"}
            body["messages"] += [answer, done]
        return plan, exchange, answers[:-1]

    def test_what_was_generated_is_foreseen(self) -> None:
        plan, exchange, answers = self.talked(self.line(), 4)
        agree(plan, exchange.served.cached)
        assert verdict(plan).hit
        assert verdict(plan).attainable_tokens == pytest.approx(exchange.served.cached, rel=0.05)
        assert answers[-1] > 1000

    def retokenised(self) -> Line:
        line = self.line()
        line.simulated = Provider(
            lambda model: CATALOGUE.rules("vllm", model), now=lambda: line.now, faults=Faults(retokenised=1.0)
        )
        return line

    def test_an_answer_that_is_tokenised_otherwise_is_computed_again(self) -> None:
        plan, _, answers = self.talked(self.retokenised(), 4)
        assert (verdict(plan).cause, verdict(plan).hit) == ("E3", False)
        assert verdict(plan).lost_tokens == pytest.approx(answers[-1], rel=0.1)

    def test_a_short_answer_is_no_loss(self) -> None:
        plan, exchange, _ = self.talked(self.retokenised(), 4, "Open.")
        assert plan.outlook is not None
        assert exchange.served.cached < plan.outlook.expected.cached - 32
        assert (verdict(plan).cause, verdict(plan).hit) == (None, True)


def test_without_leave_nothing_is_added() -> None:
    for provider, dialect, body in (
        ("anthropic", "anthropic", anthropic(2)),
        ("openai", "openai_chat", TestOpenAI().chat("x")),
    ):
        line = Line(provider, dialect, Leave(Policy.OBSERVE), asks=False)
        for _ in range(2):
            plan, _ = line.send(copy.deepcopy(body))
            assert plan.body is plan.arrival.body
            assert plan.headers == ()
