"""The history of a request: held against the one it continues, step by step, and sent as it was sent.

Where nothing drifted, links are equal from the front to the end of what is known, and nothing else is looked at. Where
they part, the rests are aligned (``parted``), judged (``story``) and sent (``rewritten``).
"""

from __future__ import annotations

from standfast.policy import Leave, Option, Policy
from standfast.prompt import canonical, isolate, offered, window
from standfast.prompt.drift import meaning
from standfast.prompt.items import Items
from standfast.prompt.mended import Carried, Mended
from standfast.prompt.model import Item, Sent, Tier, Tip
from standfast.prompt.parted import Parted, answers, pieces
from standfast.prompt.replay import Replay, says_same
from standfast.prompt.request import Request
from standfast.prompt.restore import Means
from standfast.prompt.rewritten import Rewritten
from standfast.prompt.story import Story


def history_to_send(
    request: Request,
    reference: Tip,
    leave: Leave,
    items: Items,
    result: Mended,
    carried: Carried | None,
    *,
    continues: bool = True,
) -> None:
    """Fill ``result.sent``, unit by unit, and name what is not what it was. Raises Ambiguous.

    ``continues`` is false for a reference that merely has the same tools and system: then the histories are one only if
    they show it.
    """
    if leave.cold and Option.WINDOW in leave.options:
        carried = None  # what was held back is let go
    told = list(result.drifts)
    replay = Replay(request, leave, items, result, holds=window.is_open(leave))
    _walk(replay, reference, carried, continues=continues)
    if not window.fits(replay.held, request.sizes[-1]):
        result.sent, result.drifts, result.ids, result.shared = [], told, {}, 0
        _walk(Replay(request, leave, items, result, holds=False), reference, None, continues=continues)
    if leave.policy is Policy.ISOLATE:
        isolate.tell(request, items, result)


def goes_on(request: Request, reference: Tip) -> bool:
    """Whether any of a history was sent before, so that both are of one session."""
    known = {meaning(item) for sent in (*reference.sent, *reference.produced) for item in sent.items}
    return any(meaning(item) in known for unit in request.units for item in unit.items)


def _walk(replay: Replay, reference: Tip, carried: Carried | None, *, continues: bool) -> None:
    units, result, known = replay.request.units, replay.result, reference.sent
    at = 0
    if carried and carried.units <= len(known):
        at = result.shared = carried.units
        result.sent, result.ids = list(carried.sent[:at]), dict(carried.ids)
        result.drifts.extend(carried.drifts)
        if replay.holds:
            replay.held = window.held(result.sent, units)
    end = min(len(units), len(known))
    while at < end and units[at].link == known[at].link:
        split = at + 1 < len(known) and not known[at + 1].items
        replay.send(replay.again(units[at], known[at], split=split))
        at += 1
    if at < len(known):
        _part(replay, reference, at, continues=continues)
    elif at < len(units):
        _go_on(replay, reference, at)


def _go_on(replay: Replay, reference: Tip, at: int) -> None:
    """What the model answered, which the client may send without its reasoning, and what is new."""
    units, chained = replay.request.units, True
    for sent in reference.produced:
        if at == len(units):
            break
        answer: Sent | None = sent
        if not chained or units[at].link != sent.link:
            chained, answer = False, _without_thinking(replay, sent)
        if answer is None:  # reasoning that was an item of its own
            continue
        if not chained and not says_same(units[at].items, answer.items):
            break
        replay.send(replay.again(units[at], answer))
        at += 1
    replay.whole = False
    for unit in units[at:]:
        replay.send(replay.as_came(unit))


def _part(replay: Replay, reference: Tip, at: int, *, continues: bool) -> None:
    """From where the histories part on."""
    request, units = replay.request, replay.request.units[at:]

    def bare(item: Item) -> Item | None:
        return isolate.bare(request.dialect, item, replay.items)

    old, went = pieces(offered.without_changes(reference.sent[at:]), bare)
    produced = answers(reference.produced, units, [_without_thinking(replay, sent) for sent in reference.produced])
    parted = Parted([*old, *produced], units, len(old), reference.sent[:at], request.units[:at])
    is_one = continues or parted.is_kin()
    if not is_one:
        replay.whole = False
        for unit in units:
            replay.send(replay.as_came(unit))
        return
    story = Story(parted, request.head.system, tells=not request.anchored)
    means = Means(replay.leave, replay.holds, _thinks_alike(request, reference, replay.result), request.dialect.seals)
    Rewritten(story, [*went, *produced], replay, means).send()


def _thinks_alike(request: Request, reference: Tip, result: Mended) -> bool:
    model = canonical.decode(result.fields["model"]) if "model" in result.fields else request.head.model
    names = ("thinking", "reasoning.effort")
    now, then = ([head.params.get(name) for name in names] for head in (request.head, reference.head))
    return model == reference.head.model and now == then


def _without_thinking(replay: Replay, sent: Sent) -> Sent | None:
    """What the model answered without its reasoning, which clients may leave out; None if nothing else was in it."""
    dialect = replay.request.dialect
    value = dialect.without_thinking(canonical.decode(sent.items[0].wire))
    if value is None:
        return None
    return Sent((replay.items.get(dialect, Tier.MESSAGES, canonical.key_form(value)),), sent.links)
