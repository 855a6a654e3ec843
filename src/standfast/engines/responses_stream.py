"""Completes the events of llama.cpp's Responses stream, so that OpenAI's own clients can assemble them.

llama.cpp (build b11549) tells which item an event belongs to by ``item_id`` only, which no client of OpenAI's reads:
they go by ``output_index`` and ``content_index``, and fail without them. Items of function calls have no ``id`` there;
their ``call_id`` serves as the item id.
"""

from __future__ import annotations

from typing import Any

_RESPONSE: dict[str, Any] = {
    "error": None,
    "incomplete_details": None,
    "metadata": {},
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
"""Members of a response object that the API always has."""

_OF_A_PART = ("response.content_part.", "response.output_text.", "response.reasoning_text.")


def complete_response(response: dict[str, Any]) -> dict[str, Any]:
    """A response object with every member that the API promises."""
    return {**_RESPONSE, **response}


class ResponsesEvents:
    """Numbers the events of one stream and tells their items' places."""

    def __init__(self) -> None:
        self._sequence = 0
        self._places: dict[str, int] = {}

    def complete(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with the members it lacks; those it has are kept."""
        added: dict[str, Any] = {"sequence_number": self._sequence}
        self._sequence += 1
        kind = str(event.get("type", ""))
        if isinstance(event.get("response"), dict):
            event = {**event, "response": complete_response(event["response"])}
        if (item_id := self._item_id(event)) is not None:
            added["output_index"] = self._places.setdefault(item_id, len(self._places))
        if kind.startswith(_OF_A_PART):
            added["content_index"] = 0
        if kind.startswith("response.output_text."):
            added["logprobs"] = []
        return {**added, **event}

    @staticmethod
    def _item_id(event: dict[str, Any]) -> str | None:
        item = event.get("item")
        name = (item.get("id") or item.get("call_id")) if isinstance(item, dict) else event.get("item_id")
        return name if isinstance(name, str) else None
