"""A chat template that writes the date, in the real llama.cpp: what a new day costs, and option ``template`` saves.

The server gives each template the day's date as ``date_string`` unless the request does, so a request that carries
another date gets the prompt that it would have got on that day.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from simulated import CATALOGUE

from standfast.engines.child import ChildConfig
from standfast.ledger.memory import MemoryLedger
from standfast.policy import Option, Policy
from standfast.prompt.replies import reader
from standfast.turn import Arrival, Plan, Turns

pytestmark = pytest.mark.engine

TEMPLATE = (
    "<|im_start|>system\nToday Date: {{ date_string }}\n\n{{ messages[0].content }}<|im_end|>\n"
    "{% for m in messages[1:] %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
START = "import sys; from standfast.engines import child; child.chat_template = lambda: sys.argv[1]; child.main()"
PATH = "/v1/chat/completions"
DAY = 86_400.0
Body = dict[str, Any]


@pytest.fixture(scope="module")
def dated(model_file: Path) -> Iterator[httpx.Client]:
    """A server with that template."""
    command = (sys.executable, "-P", "-c", START, TEMPLATE)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(ChildConfig(str(model_file), "m", slots=1, context=1024).line())
        child.stdin.flush()
        url = json.loads(child.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=60, headers={"connection": "close"}) as client:
            yield client
        child.stdin.close()


def on(day: float, body: Body) -> Body:
    """What the server makes of a request on some day."""
    date = datetime.fromtimestamp(day, UTC).strftime("%d %b %Y")
    return {**body, "chat_template_kwargs": {"date_string": date, **body.get("chat_template_kwargs", {})}}


def two_days(client: httpx.Client, *options: Option) -> tuple[Plan, int]:
    """A session's second request, a day after its first, and the tokens it found."""
    turns = Turns(MemoryLedger(1 << 20), budget_ms=float("inf"), rules_of=CATALOGUE.rules)
    session = f"You serve the readers of a small library. {options}"
    body: Body = {"model": "Llama-3.2", "max_tokens": 8, "messages": [{"role": "system", "content": session * 9}]}
    for n in range(2):
        body["messages"].append({"role": "user", "content": "Have you a book on bees?"})
        now = 1_790_942_400 + n * DAY
        plan = turns.plan(
            Arrival(
                json.dumps(body).encode(), "openai_chat", "up", bytes(32), Policy.LOSSLESS, now, str(n),
                frozenset(options), "llama.cpp",
            )
        )  # fmt: skip
        answer = client.post(PATH, json=on(now, json.loads(plan.body))).raise_for_status()
        told = reader("openai_chat", streaming=False)
        told.feed(answer.content)
        turns.learn(plan, told.finish())
        body["messages"].append(answer.json()["choices"][0]["message"])
    return plan, answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_the_server_writes_the_date_and_the_request_may_say_another(dated: httpx.Client) -> None:
    asked: Body = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}
    before = datetime.now()
    prompt = dated.post("/apply-template", json=asked).json()["prompt"]
    assert any(f"Today Date: {moment:%d %b %Y}\n" in prompt for moment in (before, datetime.now()))
    assert "Today Date: 02 Oct 2026\n" in dated.post("/apply-template", json=on(1_790_942_400, asked)).json()["prompt"]


def test_a_new_day_costs_the_prompt(dated: httpx.Client) -> None:
    plan, cached = two_days(dated)
    assert plan.verdict
    assert cached < 20
    assert (plan.verdict.hit, plan.verdict.cause) == (False, "E2")
    assert "option template would mend it" in plan.verdict.fix


def test_with_the_date_pinned_it_costs_nothing(dated: httpx.Client) -> None:
    plan, cached = two_days(dated, Option.TEMPLATE)
    assert plan.verdict
    assert cached > 100
    assert (plan.verdict.hit, plan.verdict.cause, plan.verdict.repaired) == (True, "E2", True)
