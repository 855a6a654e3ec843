"""Which earlier request does this one continue?"""

from __future__ import annotations

from collections.abc import Sequence

from standfast.prompt.drift import text_of
from standfast.prompt.fingerprint import link, system_text, tool_set
from standfast.prompt.model import SYSTEM_ROLES, Head, Tip
from standfast.prompt.request import Request
from standfast.prompt.volatile import changed_span

_ALIKE = 0.5
_SAID_TO_IT = frozenset((*SYSTEM_ROLES, "user", ""))
_KIN = 2  # likeness that makes two heads kin


def head_names(key: bytes, request: Request) -> tuple[bytes, ...]:
    """Names under which a request is found by its tools, and by its system prompt."""
    head = request.head
    of = f"\0{request.dialect.name}\0{len(head.system)}\0".encode()
    names = [link(key, b"head" + of, head.tool_set)]
    if head.system:
        names.append(link(key, b"system" + of, head.system_text))
    return tuple(names)


def choose(request: Request, depth: int, tips: Sequence[Tip]) -> Tip | None:
    """The best of several requests that share ``depth`` parts of the history, newest first; None if none is kin.

    A shared answer of the model proves kinship. Where only the user's words are shared ("hi"), the heads must be
    alike too, else two agents of one tenant would be taken for one.
    """
    best, best_score = None, -1 if _shares_answer(request, depth) else _KIN - 1
    for tip in tips:
        score = likeness(request.head, tip.head)
        if score > best_score:
            best, best_score = tip, score
    return best


def _shares_answer(request: Request, depth: int) -> bool:
    for unit in request.units:
        depth -= len(unit.links)
        if depth < 0:
            return False
        if unit.items[0].role not in _SAID_TO_IT:
            return True
    return False


def likeness(new: Head, old: Head) -> int:
    """0: two agents. Higher: more of tools and system is the same."""
    same_tools = new.tool_set == (old.tool_set or tool_set(old.tools))
    same_system = new.system_text == (old.system_text or system_text(old.system))
    if same_tools and same_system:
        return 4
    if same_system and new.system and (_names_alike(new, old) or _is_part(new, old)):
        return 3
    if not _names_alike(new, old):
        return 0
    if not _systems_alike(new, old):
        return 1 if same_tools and new.tools else 0
    return 2


def _names_alike(new: Head, old: Head) -> bool:
    names, known = _names(new), _names(old)
    return len(names & known) >= _ALIKE * max(len(names), len(known))


def _is_part(new: Head, old: Head) -> bool:
    """Whether one declares some of the other's tools, however few, and no others: another kind of run (T5)."""
    names, known = _names(new), _names(old)
    return not names.isdisjoint(known) and (names <= known or known <= names)


def _names(head: Head) -> set[str]:
    return {tool.role for tool in head.tools}


def _systems_alike(new: Head, old: Head) -> bool:
    if not new.system and not old.system:
        return True
    before, after = ("\n".join(map(text_of, head.system)) for head in (old, new))
    start, end_before, _ = changed_span(before, after)
    return start + len(before) - end_before >= _ALIKE * max(len(before), len(after))
