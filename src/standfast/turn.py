"""The life of a request, on one page: plan before it goes out, learn when its response has come.

    bytes ─read→ Request ─reference→ Tip ─mend→ Mended ─render→ bytes ─measure→ Plan   … send, relay …   ─learn→ Tip

Nothing here does I/O of its own: the ledger and the clock are handed in. Whatever fails inside a plan, the client's own
bytes go out and an event says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from standfast.caching import Asked, Caching, Outlook, bill_of, misplaced, place_of
from standfast.errors import OverBudget, RequestError, reason
from standfast.events import Event, FailedOpen, Judged, Observer, Planned, nobody
from standfast.ledger import Ledger
from standfast.ledger.firsts import FirstForms
from standfast.policy import NO_OPTIONS, Breakpoints, Leave, Option, Options, Policy
from standfast.prompt import canonical, lineage
from standfast.prompt.bookmarks import Bookmarks, Place
from standfast.prompt.diagnosis import Diagnosis
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.fingerprint import Chain, link, record
from standfast.prompt.history import goes_on
from standfast.prompt.items import Items
from standfast.prompt.measure import apportion, measure
from standfast.prompt.mended import Carried, Mended
from standfast.prompt.model import Item, Sent, Tier, Tip
from standfast.prompt.render import head_sent, render
from standfast.prompt.repair import mend
from standfast.prompt.replies import Reply
from standfast.prompt.request import Request, bookmark, read, scope
from standfast.providers.rules import Rules
from standfast.verdict import Evidence, Verdict, attainable, judge

logger = logging.getLogger("standfast.turn")

_BUDGET_BYTES = 100_000
_SHORT_BODY = 1_000_000  # a shorter body gets the budget of one this long: a busy core's hiccups are no shorter for it


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came in."""

    body: bytes
    dialect: str
    upstream: str
    tenant: bytes
    """32-byte key of the caller."""
    policy: Policy
    now: float
    """Unix seconds."""
    request_id: str
    options: Options = NO_OPTIONS
    provider: str = ""
    """Whose rules the upstream's cache follows; empty if that is not known."""
    breakpoints: Breakpoints = Breakpoints.PLAN
    """Who sets cache breakpoints."""
    asks: bool = False
    """Whether the provider may be asked for its own diagnosis."""
    pin_billing: bool = True
    """Whether a per-request billing block may be sent as it was first sent."""
    reference: Tip | None = None
    """Compare with this request if the ledger knows none that this one continues (``explain``)."""


@dataclass(slots=True)
class Plan:
    """What to send, and what it was made of."""

    arrival: Arrival
    body: bytes
    model: str
    stream: bool
    diagnosis: Diagnosis
    tip: Tip | None = None
    outlook: Outlook | None = None
    """What the upstream's cache should do with it; None where its provider is not known."""
    follows: bytes = b""
    """Id of the request whose prefix it shares; empty if there is none."""
    headers: tuple[tuple[str, str], ...] = ()
    """To be sent unless the client sends its own."""
    waited: bool | None = None
    """Whether it was held until its leader had written their prefix; None where nobody was writing it."""
    verdict: Verdict | None = None
    """Given once the response has ended."""
    _request: Request | None = None
    _mended: Mended | None = None
    _heads: tuple[bytes, ...] = ()

    @property
    def changed(self) -> bool:
        return self.body is not self.arrival.body

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Names of the segments that go out, in render order: two prompts share a prefix as far as these agree."""
        return tuple(item.key for item in self._items())

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rendered bytes of each of them."""
        return tuple(item.size for item in self._items())

    def path_of(self, block: int) -> str:
        """Path in the body of a block of the outlook."""
        if self._request is None or self.outlook is None:
            return ""
        return place_of(self._request, self.outlook.layout, block)[1]

    def _items(self) -> list[Item]:
        if self._mended is None:
            return []
        sent = (item for unit in self._mended.sent for item in unit.items)
        return [*self._mended.tools, *self._mended.system, *sent]


class Turns:
    """Plans requests and learns from their responses. One per process; not thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.perf_counter,
        budget_ms: float = 5.0,
        observe: Observer = nobody,
        rules_of: Callable[[str, str], Rules] | None = None,
        memory_bytes: int = 128 << 20,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._budget = budget_ms / 1000
        self._observe = observe
        self._rules_of = rules_of
        self._caching = Caching()
        self._items = Items(memory_bytes // 2)
        self._places = Bookmarks(memory_bytes // 2)

    def plan(self, arrival: Arrival) -> Plan:
        """Decide what goes out. Raises BrokenBody for a body that is not JSON; fails open on anything else."""
        try:
            started = self._clock()
            plan = self._plan(arrival, started)
            self._tell(plan, self._clock() - started)
        except RequestError:
            raise
        except Exception as error:  # fail open: whatever it is, the client's request goes out
            self._failed(arrival, "plan", error)
            return _as_it_came(arrival)
        return plan

    def refused(self, plan: Plan) -> Plan:
        """The request as its client wrote it, for an upstream that refused what was made of it. Never raises."""
        came = replace(plan.arrival, policy=Policy.OBSERVE, breakpoints=Breakpoints.CLIENT, asks=False)
        try:
            return self._plan(came, self._clock())
        except Exception as error:  # fail open
            self._failed(came, "plan", error)
            return _as_it_came(came)

    def _plan(self, arrival: Arrival, started: float) -> Plan:
        if arrival.policy is Policy.OFF:
            return _as_it_came(arrival)
        deadline = started + self._budget * max(len(arrival.body), _SHORT_BODY) / _BUDGET_BYTES
        dialect, key = DIALECTS[arrival.dialect], scope(arrival.tenant, arrival.upstream)
        place = self._places.find(key, dialect.name, arrival.body)
        request = read(arrival.body, dialect, key, self._items, place.bookmark if place else None)
        self._check(deadline, "reading")
        heads = lineage.head_names(key, request)
        looked_up = self._clock()
        reference, continues = self._reference(request, heads)
        if arrival.reference and not continues:
            reference, continues = arrival.reference, goes_on(request, arrival.reference)
        deadline += self._clock() - looked_up  # reading a session back from disk is no work that grows with the body
        carried = _carried(request, place, reference, arrival)
        rules = self._rules(arrival, request)
        leave = _leave(arrival, rules, reference if continues else None)
        identity = link(key, b"tip\0", f"{arrival.request_id}\0{arrival.now}".encode())[:16]
        mended = mend(
            request,
            reference,
            leave,
            self._items,
            FirstForms(self._ledger, self._items, key, dialect),
            carried,
            continues=continues,
        )
        self._check(deadline, "repairing")
        session = reference.lineage if reference and mended.shared else identity
        asked = Asked(request, mended, reference, leave, arrival.now, continues, arrival.asks)
        if rules and rules.date_argument and Option.TEMPLATE in arrival.options:
            asked.began = self._since(key, session, arrival.now)
        outlook = self._look_ahead(asked, rules, arrival.breakpoints, heads[0]) if rules else None
        body = render(request, asked.mended)
        tokens = measure(request, mended, reference)
        self._check(deadline, "rendering")
        tip = self._remember(arrival, request, mended, (identity, session), key, heads, outlook)
        drifts = [*apportion(request, mended.drifts, tokens)]
        for drift in misplaced(asked, outlook, arrival.breakpoints):
            tokens = tokens.cut_short(drift.lost, repaired=drift.repaired)
            drifts.append(replace(drift, lost=tokens.lost))
        diagnosis = Diagnosis(tuple(drifts), tokens, request.resumed > 0)
        follows = reference.id if reference else b""
        plan = Plan(
            arrival, body, request.head.model, request.field("stream") is True, diagnosis, tip, outlook, follows
        )
        plan.headers = (*asked.headers, *mended.headers)
        plan._request, plan._mended, plan._heads = request, mended, heads
        return plan

    def _rules(self, arrival: Arrival, request: Request) -> Rules | None:
        if self._rules_of is None or not arrival.provider:
            return None
        return self._rules_of(arrival.provider, request.head.model)

    def _look_ahead(self, asked: Asked, rules: Rules, who: Breakpoints, head: bytes) -> Outlook:
        """What the upstream's cache will do; sets marks, key and question where there is leave."""
        outlook = self._caching.look_ahead(asked, rules, who)
        self._caching.affinity(asked, rules, head)
        self._caching.question(asked, rules)
        return outlook

    def _reference(self, request: Request, heads: Sequence[bytes]) -> tuple[Tip | None, bool]:
        """The request that this one continues (True), else one with the same tools or system prompt (False)."""
        depth, tips = self._ledger.tips_at(request.links)
        if depth and (tip := lineage.choose(request, depth, tips)):
            return tip, True
        for head in heads:
            if tip := lineage.choose(request, 0, self._ledger.tips_of_head(head)):
                return tip, False
        return None, False

    def _remember(
        self,
        arrival: Arrival,
        request: Request,
        mended: Mended,
        ids: tuple[bytes, bytes],
        key: bytes,
        heads: tuple[bytes, ...],
        outlook: Outlook | None,
    ) -> Tip:
        tip = Tip(
            *ids,
            arrival.now,
            request.dialect.name,
            head_sent(request, mended),
            tuple(mended.sent),
            fingerprint=record(key, request.dialect.name, request.head, request.end, len(request.links)),
            entries=outlook.expected.entries if outlook else (),
        )
        self._ledger.record(tip, request.links, *heads)
        if mark := bookmark(request):
            drifts = tuple(d for d in mended.drifts if d.tier is Tier.MESSAGES and d.repaired)
            place = Place(mark, tip.id, arrival.policy, arrival.options, mended.ids, drifts)
            self._places.keep(key, request.dialect.name, place)
        return tip

    def learn(self, plan: Plan, reply: Reply) -> None:
        """Remember what the model wrote, in its own bytes, and judge the request by its usage. Never raises."""
        if plan._request is None or plan.tip is None:
            return
        try:
            if reply.complete:
                plan.verdict = self._judge(plan, reply)
                produced = self._produced(plan._request, plan, reply)
                plan.tip = replace(plan.tip, produced=produced, response_id=reply.response_id or "")
            else:
                plan.tip = replace(plan.tip, entries=())  # nobody knows what of it the provider kept
            self._ledger.record(plan.tip, plan._request.links, *plan._heads)
        except Exception as error:  # fail open: the response is the client's, whatever we can learn from it
            self._failed(plan.arrival, "learn", error)

    def _produced(self, request: Request, plan: Plan, reply: Reply) -> tuple[Sent, ...]:
        chain = Chain(
            scope(plan.arrival.tenant, plan.arrival.upstream), request.end, request.calls.copy(), request.token
        )
        items = [self._items.get(request.dialect, Tier.MESSAGES, wire) for wire in reply.produced]
        return tuple(Sent((item,), chain.fold((item,), 0).links) for item in items)

    def _judge(self, plan: Plan, reply: Reply) -> Verdict:
        outlook, usage = plan.outlook, reply.usage
        gap = self._caching.compare(outlook, usage) if outlook and usage else None
        seen = Evidence(plan.diagnosis, outlook, usage, reply.finding, gap, plan.waited)
        bill = bill_of(outlook, usage, attainable(seen)) if outlook and usage else None
        verdict = judge(seen, bill)
        if plan.tip is not None and verdict.cause is not None and not verdict.hit:
            key, what = scope(plan.arrival.tenant, plan.arrival.upstream), plan.tip.lineage + verdict.cause.encode()
            verdict = replace(verdict, since=self._since(key, what, plan.arrival.now))
        self._notify(_judged(plan, verdict))
        return verdict

    def _since(self, key: bytes, what: bytes, now: float) -> float:
        """When a session, or a cause in one, was first met."""
        return float(self._ledger.keep_first(link(key, b"since\0", what), repr(now).encode()))

    def _check(self, deadline: float, stage: str) -> None:
        if self._clock() > deadline:
            raise OverBudget(f"{stage} ran over the work budget; raise budget_ms if this is frequent")

    def _failed(self, arrival: Arrival, stage: str, error: Exception) -> None:
        self._notify(FailedOpen(arrival.request_id, arrival.upstream, stage, reason(error)))

    def _notify(self, event: Event) -> None:
        try:
            self._observe(event)
        except Exception as error:  # an observer must not take a request with it, and there is nobody else to tell
            logger.error("an observer failed: %s", reason(error))

    def _tell(self, plan: Plan, seconds: float) -> None:
        a, d = plan.arrival, plan.diagnosis
        self._notify(
            Planned(
                a.request_id, a.upstream, a.dialect, a.policy, d.cause, d.path, d.repaired,
                d.attainable_tokens, d.lost_tokens, d.resumed, seconds,
            )
        )  # fmt: skip


def _leave(arrival: Arrival, rules: Rules | None, before: Tip | None) -> Leave:
    """All that may be done to one request. ``before``: the one that it continues."""
    return Leave(
        arrival.policy,
        arrival.options,
        arrival.pin_billing,
        allowed_tools=rules is not None and rules.allowed_tools,
        tool_changes=rules.tool_changes if rules else None,
        cold=rules is not None and before is not None and arrival.now - before.at > rules.life,
    )


def _carried(request: Request, place: Place | None, reference: Tip | None, arrival: Arrival) -> Carried | None:
    """What the last plan decided about the units that were not read again, if it holds for this one too."""
    if place is None or reference is None or reference.id != place.tip:
        return None
    if (arrival.policy, arrival.options) != (place.policy, place.options):
        return None
    if not request.resumed or arrival.policy is Policy.OBSERVE:
        return None
    return Carried(request.resumed, reference.sent, place.ids, place.drifts)


def _judged(plan: Plan, verdict: Verdict) -> Judged:
    arrival, bill = plan.arrival, verdict.bill
    return Judged(
        arrival.request_id,
        upstream=arrival.upstream,
        dialect=arrival.dialect,
        model=plan.model,
        tenant=arrival.tenant[:8].hex(),
        session=plan.tip.lineage[:8].hex() if plan.tip else "",
        hit=verdict.hit,
        cause=verdict.cause,
        path=verdict.path,
        repaired=verdict.repaired,
        attainable_tokens=verdict.attainable_tokens,
        expected_tokens=verdict.expected_tokens,
        prompt_tokens=verdict.prompt_tokens,
        cached_tokens=verdict.cached_tokens,
        lost_tokens=verdict.lost_tokens,
        since=verdict.since,
        finding=verdict.finding,
        agrees=verdict.agrees,
        currency=bill.currency if bill else "",
        paid=bill.paid if bill else 0.0,
        without_cache=bill.without_cache if bill else 0.0,
        perfect=bill.perfect if bill else 0.0,
        lost_money=verdict.lost_money,
    )


class _Peek(msgspec.Struct):
    model: object = ""
    stream: object = False


_peek = msgspec.json.Decoder(_Peek)


def _as_it_came(arrival: Arrival) -> Plan:
    """The plan that changes nothing. Raises BrokenBody if the body is not JSON at all."""
    try:
        seen = _peek.decode(arrival.body)
    except (msgspec.DecodeError, RecursionError):
        if broken := canonical.broken(arrival.body):
            raise broken from None
        seen = _Peek()
    model = seen.model if isinstance(seen.model, str) else ""
    return Plan(arrival, arrival.body, model, seen.stream is True, Diagnosis())


__all__ = ["Arrival", "Diagnosis", "Plan", "Turns"]
