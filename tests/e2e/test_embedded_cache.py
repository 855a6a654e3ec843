"""What all of it is for, on the real model: what means the same hits the cache, whatever the client did to it.

Figures come from the engine's own usage. The same requests under policy ``off`` show what would have been without.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from serving import Program

pytestmark = pytest.mark.engine

Body = dict[str, Any]
MODEL = "smollm2-135m-instruct"
FOUND = "Found: The Hive and the Honey Bee, 1949, shelf nine; Bees of the World, 2000, shelf four."
QUESTION = "Where is the oldest?"
NAMES = ("find_book", "lend_book", "return_book")
ARGUMENTS = '{"title": "bees", "limit": 3}'
AGAIN = '{"limit":3,"title":"bees"}'
SCHEMA = {"type": "object"}


@dataclass(frozen=True)
class Seen:
    """What an answer said."""

    prompt: int
    cached: int
    cause: str
    repaired: bool
    said: Any
    """What the client appends to its history."""


@dataclass(frozen=True)
class Dialect:
    """One API: how its client asks, and where in a request the pieces stand."""

    ask: Callable[[Body, dict[str, str]], Seen]
    first: Callable[[str], Body]
    history: str
    shuffled: Callable[[Body], None]
    new_ids: Callable[[Body], None]
    reserialised: Callable[[Body], None]
    stripped: Callable[[Body], None]

    def next(self, body: Body, seen: Seen, *habits: str) -> Body:
        """The next turn, as a client with these habits sends it."""
        changed = copy.deepcopy(body)
        for habit in habits:
            getattr(self, habit)(changed)
        changed[self.history] += [*seen.said, {"role": "user", "content": QUESTION}]
        return changed


HABITS = ("shuffled", "new_ids", "reserialised", "stripped")


def system(session: str) -> str:
    return f"{session}: you serve the readers of a small library."


def asked(session: str) -> str:
    return f"I am {session}. Have you a book on bees?\n"


def shuffled(body: Body) -> None:
    body["tools"].reverse()


# Chat Completions


def chat_first(session: str) -> Body:
    call = {"id": "call_1", "type": "function", "function": {"name": "find_book", "arguments": ARGUMENTS}}
    return {
        "model": MODEL,
        "max_tokens": 4,
        "tools": [
            {
                "type": "function",
                "function": {"name": name, "description": f"To {name} for {session}.", "parameters": SCHEMA},
            }
            for name in NAMES
        ],
        "messages": [
            {"role": "system", "content": system(session)},
            {"role": "user", "content": asked(session)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": FOUND},
            {"role": "user", "content": "Fine."},
        ],
    }


def chat_ids(body: Body) -> None:
    body["messages"][2]["tool_calls"][0]["id"] = body["messages"][3]["tool_call_id"] = "call_again"


def chat_arguments(body: Body) -> None:
    body["messages"][2]["tool_calls"][0]["function"]["arguments"] = AGAIN


def chat_stripped(body: Body) -> None:
    body["messages"][1]["content"] = body["messages"][1]["content"].rstrip()


def chat_asker(client: openai.OpenAI) -> Callable[[Body, dict[str, str]], Seen]:
    def ask(body: Body, headers: dict[str, str]) -> Seen:
        raw: Any = client.chat.completions.with_raw_response.create(**body, extra_headers=headers)
        answer = raw.parse()
        return _seen(
            raw.headers,
            answer.usage.prompt_tokens,
            answer.usage.prompt_tokens_details.cached_tokens,
            [{"role": "assistant", "content": answer.choices[0].message.content}],
        )

    return ask


# Responses


def responses_first(session: str) -> Body:
    call = {"type": "function_call", "call_id": "call_1", "name": "find_book", "arguments": ARGUMENTS}
    return {
        "model": MODEL,
        "max_output_tokens": 4,
        "tools": [
            {
                "type": "function",
                "name": name,
                "description": f"To {name} for {session}.",
                "parameters": SCHEMA,
                "strict": False,
            }
            for name in NAMES
        ],
        "instructions": system(session),
        "input": [
            {"role": "user", "content": asked(session)},
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": FOUND},
            {"role": "user", "content": "Fine."},
        ],
    }


def responses_ids(body: Body) -> None:
    body["input"][1]["call_id"] = body["input"][2]["call_id"] = "call_again"


def responses_arguments(body: Body) -> None:
    body["input"][1]["arguments"] = AGAIN


def responses_stripped(body: Body) -> None:
    body["input"][0]["content"] = body["input"][0]["content"].rstrip()


def responses_asker(client: openai.OpenAI) -> Callable[[Body, dict[str, str]], Seen]:
    def ask(body: Body, headers: dict[str, str]) -> Seen:
        raw: Any = client.responses.with_raw_response.create(**body, extra_headers=headers)
        answer = raw.parse()
        return _seen(
            raw.headers,
            answer.usage.input_tokens,
            answer.usage.input_tokens_details.cached_tokens,
            [item.model_dump(exclude_none=True) for item in answer.output],
        )

    return ask


# Messages


def messages_first(session: str) -> Body:
    call = {"type": "tool_use", "id": "toolu_1", "name": "find_book", "input": json.loads(ARGUMENTS)}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": FOUND}
    return {
        "model": MODEL,
        "max_tokens": 4,
        "tools": [{"name": name, "description": f"To {name} for {session}.", "input_schema": SCHEMA} for name in NAMES],
        "system": system(session),
        "messages": [
            {"role": "user", "content": asked(session)},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, {"type": "text", "text": "Fine."}]},
        ],
    }


def messages_ids(body: Body) -> None:
    body["messages"][1]["content"][0]["id"] = body["messages"][2]["content"][0]["tool_use_id"] = "toolu_again"


def messages_arguments(body: Body) -> None:
    body["messages"][1]["content"][0]["input"] = json.loads(AGAIN)


def messages_stripped(body: Body) -> None:
    body["messages"][0]["content"] = body["messages"][0]["content"].rstrip()


def messages_asker(client: anthropic.Anthropic) -> Callable[[Body, dict[str, str]], Seen]:
    def ask(body: Body, headers: dict[str, str]) -> Seen:
        raw: Any = client.messages.with_raw_response.create(**body, extra_headers=headers)
        answer = raw.parse()
        usage = answer.usage
        assert usage.cache_creation_input_tokens == 0
        whole = usage.input_tokens + usage.cache_read_input_tokens
        said = [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}]
        return _seen(raw.headers, whole, usage.cache_read_input_tokens, said)

    return ask


def _seen(headers: Any, prompt: int, cached: int, said: Any) -> Seen:
    assert headers["x-standfast-hit"] == f"{cached}/{prompt}"
    return Seen(prompt, cached, headers["x-standfast-cause"], headers["x-standfast-repaired"] == "1", said)


@pytest.fixture(scope="module")
def dialects(embedded: Program) -> Iterator[dict[str, Dialect]]:
    with (
        openai.OpenAI(base_url=embedded.url + "/v1", api_key="any", max_retries=0, timeout=60) as chat,
        anthropic.Anthropic(base_url=embedded.url, api_key="any", max_retries=0, timeout=60) as claude,
    ):
        yield {
            "chat": Dialect(
                chat_asker(chat), chat_first, "messages", shuffled, chat_ids, chat_arguments, chat_stripped
            ),
            "responses": Dialect(
                responses_asker(chat),
                responses_first,
                "input",
                shuffled,
                responses_ids,
                responses_arguments,
                responses_stripped,
            ),
            "messages": Dialect(
                messages_asker(claude),
                messages_first,
                "messages",
                shuffled,
                messages_ids,
                messages_arguments,
                messages_stripped,
            ),
        }


def two_turns(dialect: Dialect, session: str, *habits: str, policy: str = "lossless") -> tuple[Seen, Seen]:
    """A first turn, and a second one by a client with these habits."""
    headers = {"x-standfast-policy": policy}
    body = dialect.first(session)
    one = dialect.ask(body, headers)
    return one, dialect.ask(dialect.next(body, one, *habits), headers)


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
class TestEachDialect:
    def test_an_appended_turn_hits(self, dialects: dict[str, Dialect], name: str) -> None:
        one, two = two_turns(dialects[name], f"Anna {name}")
        assert (two.cause, two.repaired) == ("none", False)
        assert one.cached < 0.2 * one.prompt
        assert two.cached >= 0.97 * one.prompt

    def test_all_habits_at_once_hit_as_well(self, dialects: dict[str, Dialect], name: str) -> None:
        one, two = two_turns(dialects[name], f"Berta {name}", *HABITS)
        assert (two.cause, two.repaired) == ("T1", True)
        assert two.cached >= 0.97 * one.prompt
        bare, missed = two_turns(dialects[name], f"Clara {name}", *HABITS, policy="off")
        assert (missed.cause, missed.repaired) == ("none", False)
        assert missed.cached < 0.5 * bare.prompt


@pytest.mark.parametrize(("habit", "cause"), [("shuffled", "T1"), ("reserialised", "H4"), ("stripped", "H2")])
def test_each_habit_alone(dialects: dict[str, Dialect], habit: str, cause: str) -> None:
    one, two = two_turns(dialects["chat"], f"Dora {habit}", habit)
    assert (two.cause, two.repaired) == (cause, True)
    assert two.cached >= 0.97 * one.prompt
    bare, missed = two_turns(dialects["chat"], f"Emma {habit}", habit, policy="observe")
    assert (missed.cause, missed.repaired) == (cause, False)
    assert missed.cached < 0.8 * bare.prompt


def test_new_ids_are_put_right(dialects: dict[str, Dialect]) -> None:
    """The embedded model's template does not show them to the model; a hosted one does."""
    one, two = two_turns(dialects["chat"], "Frieda", "new_ids")
    assert (two.cause, two.repaired) == ("H3", True)
    assert two.cached >= 0.97 * one.prompt


def test_two_interleaved_sessions_keep_their_slots(dialects: dict[str, Dialect]) -> None:
    chat = dialects["chat"]
    bodies = [chat.first(f"{name}, who comes every day") for name in ("Hanna", "Ida")]
    before: list[Seen] = []
    for body in bodies:
        before.append(chat.ask(body, {}))
    for _ in range(2):
        for i in range(2):
            bodies[i] = chat.next(bodies[i], before[i], "shuffled")
            now = chat.ask(bodies[i], {})
            assert now.cached >= 0.97 * before[i].prompt
            before[i] = now
