"""The life of a request, on one page: plan before it goes out, learn when its response has come.

    bytes ─read→ Request ─reference→ Tip ─mend→ Mended ─render→ bytes ─measure→ Plan   … send, relay …   ─learn→ Tip

Nothing here does I/O of its own: the ledger and the clock are handed in. Whatever fails inside a plan, the client's own
bytes go out and an event says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from standfast.errors import OverBudget, RequestError, StandfastError, place
from standfast.events import Event, FailedOpen, Observer, Planned, nobody
from standfast.ledger import Ledger
from standfast.ledger.firsts import FirstForms
from standfast.policy import NO_OPTIONS, Leave, Options, Policy
from standfast.prompt import canonical, lineage
from standfast.prompt.bookmarks import Bookmarks, Place
from standfast.prompt.causes import Repair
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.drift import Drift
from standfast.prompt.fingerprint import Chain, link, record
from standfast.prompt.items import Items
from standfast.prompt.measure import Tokens, apportion, measure
from standfast.prompt.mended import Carried, Mended
from standfast.prompt.model import Head, Item, Sent, Tier, Tip
from standfast.prompt.render import render
from standfast.prompt.repair import mend
from standfast.prompt.replies import Reply
from standfast.prompt.request import Request, bookmark, read, scope

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
    pin_billing: bool = True
    """Whether a per-request billing block may be sent as it was first sent."""
    reference: Tip | None = None
    """Compare with this request if the ledger knows none that this one continues (``explain``)."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a request shares with what was sent before, and what kept it from sharing more."""

    drifts: tuple[Drift, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    resumed: bool = False

    @property
    def primary(self) -> Drift | None:
        """The first drift in render order: the one that ends the shared prefix."""
        return self.drifts[0] if self.drifts else None

    @property
    def cause(self) -> str | None:
        return self.primary.cause if self.primary else None

    @property
    def path(self) -> str | None:
        return self.primary.path if self.primary else None

    @property
    def repair(self) -> Repair:
        return self.primary.repair if self.primary else Repair.NONE

    @property
    def repaired(self) -> bool:
        return bool(self.drifts) and all(d.repaired for d in self.drifts)

    @property
    def attainable_tokens(self) -> int:
        return self.tokens.attainable

    @property
    def lost_tokens(self) -> int:
        return self.tokens.lost if self.drifts else 0


@dataclass(slots=True)
class Plan:
    """What to send, and what it was made of."""

    arrival: Arrival
    body: bytes
    model: str
    stream: bool
    diagnosis: Diagnosis
    tip: Tip | None = None
    _request: Request | None = None
    _mended: Mended | None = None
    _head: bytes = b""

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
        memory_bytes: int = 128 << 20,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._budget = budget_ms / 1000
        self._observe = observe
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

    def _plan(self, arrival: Arrival, started: float) -> Plan:
        if arrival.policy is Policy.OFF:
            return _as_it_came(arrival)
        deadline = started + self._budget * max(len(arrival.body), _SHORT_BODY) / _BUDGET_BYTES
        dialect, key = DIALECTS[arrival.dialect], scope(arrival.tenant, arrival.upstream)
        place = self._places.find(key, dialect.name, arrival.body)
        request = read(arrival.body, dialect, key, self._items, place.bookmark if place else None)
        self._check(deadline, "reading")
        head = link(key, f"head\0{dialect.name}\0{len(request.head.system)}\0".encode(), request.head.tool_set)
        looked_up = self._clock()
        reference, continues = self._reference(request, head)
        if arrival.reference and not continues:
            reference, continues = arrival.reference, True
        deadline += self._clock() - looked_up  # reading a session back from disk is no work that grows with the body
        carried = _carried(request, place, reference, arrival.policy)
        leave = Leave(arrival.policy, arrival.options, arrival.pin_billing)
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
        body = render(request, mended)
        tokens = measure(request, mended, reference)
        self._check(deadline, "rendering")
        tip = self._remember(arrival, request, mended, reference, key, head)
        diagnosis = Diagnosis(apportion(request, mended.drifts, tokens), tokens, request.resumed > 0)
        return Plan(arrival, body, request.head.model, _streams(request), diagnosis, tip, request, mended, head)

    def _reference(self, request: Request, head: bytes) -> tuple[Tip | None, bool]:
        """The request that this one continues (True), else one that begins with the same tools and system (False)."""
        depth, tips = self._ledger.tips_at(request.links)
        if depth and (tip := lineage.choose(request, depth, tips)):
            return tip, True
        return lineage.choose(request, 0, self._ledger.tips_of_head(head)), False

    def _remember(
        self, arrival: Arrival, request: Request, mended: Mended, reference: Tip | None, key: bytes, head: bytes
    ) -> Tip:
        identity = link(key, b"tip\0", f"{arrival.request_id}\0{arrival.now}".encode())[:16]
        tip = Tip(
            identity,
            reference.lineage if reference and mended.shared else identity,
            arrival.now,
            request.dialect.name,
            _as_sent(request.head, mended),
            tuple(mended.sent),
            fingerprint=record(key, request.dialect.name, request.head, request.end, len(request.links)),
        )
        self._ledger.record(tip, request.links, head)
        if mark := bookmark(request):
            drifts = tuple(d for d in mended.drifts if d.tier is Tier.MESSAGES and d.repaired)
            self._places.keep(key, request.dialect.name, Place(mark, tip.id, arrival.policy, mended.ids, drifts))
        return tip

    def learn(self, plan: Plan, reply: Reply) -> None:
        """Remember what the model wrote, in its own bytes. Never raises."""
        request, tip = plan._request, plan.tip
        if request is None or tip is None or not reply.complete or not reply.produced:
            return
        try:
            key = scope(plan.arrival.tenant, plan.arrival.upstream)
            chain = Chain(key, request.end, request.calls.copy(), request.token)
            produced = []
            for wire in reply.produced:
                item = self._items.get(request.dialect, Tier.MESSAGES, wire)
                produced.append(Sent((item,), chain.fold((item,), 0).links))
            plan.tip = replace(tip, produced=tuple(produced))
            self._ledger.record(plan.tip, request.links, plan._head)
        except Exception as error:  # fail open: the response is the client's, whatever we can learn from it
            self._failed(plan.arrival, "learn", error)

    def _check(self, deadline: float, stage: str) -> None:
        if self._clock() > deadline:
            raise OverBudget(f"{stage} ran over the work budget; raise budget_ms if this is frequent")

    def _failed(self, arrival: Arrival, stage: str, error: Exception) -> None:
        self._notify(FailedOpen(arrival.request_id, arrival.upstream, stage, _reason(error)))

    def _notify(self, event: Event) -> None:
        try:
            self._observe(event)
        except Exception as error:  # an observer must not take a request with it, and there is nobody else to tell
            logger.error("an observer failed: %s", _reason(error))

    def _tell(self, plan: Plan, seconds: float) -> None:
        a, d = plan.arrival, plan.diagnosis
        self._notify(
            Planned(
                a.request_id, a.upstream, a.dialect, a.policy, d.cause, d.path, d.repaired,
                d.attainable_tokens, d.lost_tokens, d.resumed, seconds,
            )
        )  # fmt: skip


def _as_sent(head: Head, mended: Mended) -> Head:
    """The head as it goes out; the client's own if nothing in it was changed, so that sessions share it."""
    routes = {name: mended.fields.get(name, value) for name, value in head.routes.items()}
    if mended.tools is head.tools and mended.system is head.system and routes == head.routes:
        return head
    return replace(head, tools=mended.tools, system=mended.system, routes=routes)


def _reason(error: Exception) -> str:
    """What an event may tell of an error: our own message, of a foreign one only where it arose."""
    return f"{type(error).__name__}: {error}" if isinstance(error, StandfastError) else place(error)


def _carried(request: Request, place: Place | None, reference: Tip | None, policy: Policy) -> Carried | None:
    """What the last plan decided about the units that were not read again, if it holds for this one too."""
    if place is None or reference is None or reference.id != place.tip or policy is not place.policy:
        return None
    if not request.resumed or policy is Policy.OBSERVE:
        return None
    return Carried(request.resumed, reference.sent, place.ids, place.drifts)


def _streams(request: Request) -> bool:
    where = request.fields.get("stream")
    return where is not None and request.body[where[0] : where[1]] == b"true"


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
