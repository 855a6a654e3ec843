"""Tool changes told within the conversation, where an API has them: the list of tools goes out as it first did.

A message of ours behind the newest turn says which tools are withdrawn from there on, and which are new. It stays
where it was put when that turn becomes history: the ledger replays it. What the model is offered is read off what goes
out, so that forks, retries and a changed mind need no other memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from standfast.errors import Ambiguous
from standfast.policy import Leave, Option
from standfast.prompt import canonical
from standfast.prompt.canonical import Json
from standfast.prompt.dialects.base import without_markers
from standfast.prompt.drift import Drift, meaning
from standfast.prompt.items import Items
from standfast.prompt.mended import Mended
from standfast.prompt.model import Item, Sent, Tier
from standfast.prompt.request import Request

_HINTS = (b'"tool_addition"', b'"tool_removal"')
_FREE = (None, "auto", "any", "none")
"""Types of a tool_choice that names no tool."""


def may_tell(
    request: Request,
    before: Sequence[Item],
    sent: Sequence[Item],
    drifts: Sequence[Drift],
    leave: Leave,
    result: Mended,
) -> bool:
    """Whether the tools of the session may go out as they were sent, and ``tell`` what is another now.

    ``before`` are those, ``sent`` what the client declares. Not where there is no leave, where the client does the same
    by itself, or where it forces a call. What would change with each request (T3) is not told: the conversation would
    grow by it.
    """
    if Option.TOOLS not in leave.options or leave.tool_changes is None or not leave.policy.repairs:
        return False
    if not before or not all(map(_is_plain, (*before, *sent))) or not _is_open(request):
        return False
    if any(len({tool.role for tool in tools}) < len(tools) for tools in (before, sent)):
        return False
    if any(d.cause == "T3" and not d.repaired for d in drifts):
        return False
    result.offers = tuple(sent)
    return True


def _is_plain(tool: Item) -> bool:
    """Whether a tool is the client's own, offered from the start: others have ways of their own."""
    value = canonical.decode(tool.wire)
    return isinstance(value, dict) and "input_schema" in value and not value.get("defer_loading")


def _is_open(request: Request) -> bool:
    """Whether the newest turn is the user's, any tool may be called, and no tool changes are told as yet."""
    choice = request.field("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    last = request.items[-1] if request.items else None
    return kind in _FREE and last is not None and last.role == "user" and not any(map(is_change, request.items))


def is_change(item: Item) -> bool:
    """Whether a message tells tool changes."""
    return item.role == "system" and any(hint in item.wire for hint in _HINTS)


def tells(sent: Sent) -> bool:
    """Whether a unit as sent holds a message of ours about tools."""
    return sent.ours and any(map(is_change, sent.items))


def without_changes(sent: Sequence[Sent]) -> list[Sent]:
    """What was sent, our messages about tools left out: a client knows nothing of them."""
    return [
        Sent(tuple(i for i in unit.items if not is_change(i)), unit.links, unit.ours) if tells(unit) else unit
        for unit in sent
    ]


def tell(request: Request, leave: Leave, items: Items, result: Mended) -> None:
    """Say behind the newest turn what is offered from here on, if that is not what was offered last.

    What was said earlier is taken back where the tools go out as the client has them, and where no answer followed it.
    """
    for n, (unit, sent) in enumerate(zip(request.units, result.sent, strict=True)):
        if tells(sent) and (result.offers is None or not _is_answered(result.sent, n)):
            kept = tuple(item for item in sent.items if not is_change(item))
            result.sent[n] = Sent(kept, unit.links, [i.key for i in kept] != [i.key for i in unit.items])
            result.shared = min(result.shared, n)
    if result.offers is None or leave.tool_changes is None:
        return
    if blocks := _blocks(request, items, result):
        _append(request, items, result, blocks)
    if any(map(tells, result.sent)):
        result.headers.append(leave.tool_changes)


def _is_answered(sent: Sequence[Sent], n: int) -> bool:
    """Whether what stands behind a unit may stand behind a tool change: the model's answer, or nothing."""
    following = next((later.items[0] for later in sent[n + 1 :] if later.items), None)
    return following is None or following.role == "assistant"


def _blocks(request: Request, items: Items, result: Mended) -> list[Json]:
    """What leads from the tools offered last to those that the client declares."""
    wanted = {tool.role: tool for tool in result.offers or ()}
    declared = {tool.role: meaning(tool) for tool in result.tools}
    offered = _offered(request, items, declared, result.sent)
    gone = [{"type": "tool_removal", "tool": _reference(name)} for name in offered if name not in wanted]
    came = [
        {
            "type": "tool_addition",
            "tool": _reference(name) if declared.get(name) == meaning(tool) else _definition(tool),
        }
        for name, tool in wanted.items()
        if offered.get(name) != meaning(tool)
    ]
    return gone + came


def _offered(request: Request, items: Items, declared: Mapping[str, bytes], sent: Sequence[Sent]) -> dict[str, bytes]:
    """The tools that the model is offered at the end of what goes out, each with its meaning."""
    offered = dict(declared)
    for item in (item for unit in sent if unit.ours for item in unit.items if is_change(item)):
        for block in canonical.decode(item.wire)["content"]:
            tool = block["tool"]
            if block["type"] == "tool_removal":
                offered.pop(tool["name"], None)
            elif tool["type"] == "tool_reference":
                offered[tool["name"]] = declared[tool["name"]]
            else:
                form = canonical.key_form(tool["definition"])
                offered[tool["definition"]["name"]] = meaning(items.get(request.dialect, Tier.TOOLS, form))
    return offered


def _reference(name: str) -> Json:
    return {"type": "tool_reference", "name": name}


def _definition(tool: Item) -> Json:
    return {"type": "tool_definition", "definition": without_markers(canonical.decode(tool.wire))}


def _append(request: Request, items: Items, result: Mended, blocks: Sequence[Json]) -> None:
    """One message more behind the last, which is the user's. Raises Ambiguous if it was merged into another's."""
    last = next(n for n in reversed(range(len(result.sent))) if result.sent[n].items)
    unit = result.sent[last]
    if unit.items[-1].role == "assistant":
        raise Ambiguous("the newest turn goes out as part of an answer, so no tool change can stand behind it")
    message = canonical.key_form({"role": "system", "content": blocks})
    item = items.get(request.dialect, Tier.MESSAGES, message)
    result.sent[last] = Sent((*unit.items, item), unit.links, ours=True)
