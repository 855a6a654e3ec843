"""What a provider remembers of earlier responses: to go on from one, and to tell why its prefix was not found again.

Anthropic stores only requests that have a ``diagnostics`` object, and compares what was sent whether or not the cache
hit; OpenAI compares with any earlier response of the Responses API. Both name the first difference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from standfast.lab.caches import Served
from standfast.lab.reading import Block, Prompt, Refused
from standfast.providers.rules import Rules

_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class _Told:
    prompt: Prompt
    answer: Sequence[Block]
    tenant: str


class Past:
    """The latest responses, by id and tenant."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def remember(self, id: str, prompt: Prompt, answer: Sequence[Block], tenant: str) -> None:
        """Note a response."""
        self._told[id] = _Told(prompt, answer, tenant)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def recall(self, id: object, tenant: str) -> _Told | None:
        """A response of this tenant; None if there is none of that id."""
        told = self._told.get(id) if isinstance(id, str) else None
        return told if told and told.tenant == tenant else None

    def continued(self, prompt: Prompt, tenant: str) -> Prompt:
        """A prompt with the conversation of its ``previous_response_id`` in front. Raises Refused."""
        id = prompt.fields.get("previous_response_id")
        if id is None or prompt.dialect != "openai_responses":
            return prompt
        told = self.recall(id, tenant)
        if told is None:
            raise Refused(f"Previous response with id '{id}' not found.")
        own = [block for block in prompt.blocks if block.tier != "messages"]
        old = [block for block in told.prompt.blocks if block.tier == "messages"]
        return replace(prompt, blocks=(*own, *old, *told.answer, *prompt.blocks[len(own) :]))

    def compare(self, prompt: Prompt, served: Served, rules: Rules, tenant: str) -> dict[str, Any] | None:
        """The provider's finding in its own form; None where it is not asked, or has none to tell."""
        name, _, inner = rules.diagnostics.partition(".")
        compare = _COMPARE.get(prompt.dialect)
        asked = prompt.of(name).get(inner) if name else None
        if asked is None or compare is None:
            return None
        return compare(self.recall(asked, tenant), prompt, served, rules)


def _anthropic(told: _Told | None, prompt: Prompt, _served: Served, _rules: Rules) -> dict[str, Any] | None:
    if told is None or "diagnostics" not in told.prompt.fields:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    old = told.prompt
    if _set(old, "model", "speed") != _set(prompt, "model", "speed"):
        return _missed("model_changed", old, prompt)
    for tier in ("tools", "system"):
        if _keys(old, tier) != _keys(prompt, tier):
            return _missed(f"{tier}_changed", old, prompt)
    if old.settings != prompt.settings:
        return {"cache_miss_reason": {"type": "unavailable"}}
    messages = _keys(old, "messages")
    if _keys(prompt, "messages")[: len(messages)] != messages:
        return _missed("messages_changed", old, prompt)
    return None


def _missed(reason: str, old: Prompt, new: Prompt) -> dict[str, Any]:
    lost = 0 if _set(old, "model") != _set(new, "model") else _shared(old, new)
    return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": _total(old) - lost}}


_OPENAI: dict[str, Callable[[Prompt], object]] = {
    "model_changed": lambda p: _set(p, "model"),
    "prompt_cache_key_changed": lambda p: p.fields.get("prompt_cache_key"),
    "tools_changed": lambda p: _keys(p, "tools"),
    "text_format_changed": lambda p: _set(p, "text.format"),
    "reasoning_effort_changed": lambda p: _set(p, "reasoning.effort"),
    "verbosity_changed": lambda p: _set(p, "text.verbosity"),
    "input_changed": lambda p: _keys(p, "system"),
    "service_tier_changed": lambda p: p.fields.get("service_tier"),
}
"""What may differ, in the order in which it is told."""


def _openai(told: _Told | None, prompt: Prompt, served: Served, rules: Rules) -> dict[str, Any]:
    if told is None:
        return {"type": "comparison_response_not_found"}
    old = told.prompt
    messages = _keys(old, "messages")
    reason = next((name for name, of in _OPENAI.items() if of(old) != of(prompt)), None)
    if reason is None and _keys(prompt, "messages")[: len(messages)] != messages:
        reason = "input_changed"
    if reason:
        reusable = _shared(old, prompt)
        missed = served.total - reusable
        return {
            "type": "cache_miss",
            "reason": reason,
            "cache_missed_tokens": missed,
            "comparison_reusable_tokens": reusable,
        }
    lost = not served.cached and served.total >= rules.minimum
    return {"type": "unavailable" if lost else "cache_hit"}


_COMPARE: dict[str, Callable[[_Told | None, Prompt, Served, Rules], dict[str, Any] | None]] = {
    "anthropic": _anthropic,
    "openai_responses": _openai,
}


def _set(prompt: Prompt, *names: str) -> list[object]:
    return [prompt.settings.get(name) for name in names]


def _keys(prompt: Prompt, tier: str) -> list[bytes]:
    return [block.digest for block in prompt.blocks if block.tier == tier]


def _total(prompt: Prompt) -> int:
    return sum(block.tokens for block in prompt.blocks)


def _shared(old: Prompt, new: Prompt) -> int:
    pairs = takewhile(lambda pair: pair[0].digest == pair[1].digest, zip(old.blocks, new.blocks, strict=False))
    return sum(block.tokens for block, _ in pairs)
