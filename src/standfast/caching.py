"""What the upstream's cache will do with one request, and what to ask of it.

    Mended ─lay out→ Blocks ─plan→ marks, key, question ─expect→ Expected

Between the core, which knows no provider, and the rules of providers, which know no request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate

from standfast.policy import Breakpoints, Leave, Option
from standfast.prompt import canonical, isolate
from standfast.prompt.canonical import Json
from standfast.prompt.causes import OF_MARKS
from standfast.prompt.drift import Drift
from standfast.prompt.layout import Layout, lay_out, markable, marks_on, remark, shared_blocks
from standfast.prompt.mended import Mended
from standfast.prompt.model import Entry, Kind, Tier, Tip
from standfast.prompt.replay import item_path
from standfast.prompt.replies import Usage
from standfast.prompt.request import Request
from standfast.prompt.system import system_path
from standfast.providers.affinity import Lateness, Rates, cache_key
from standfast.providers.calibrate import Calibration
from standfast.providers.expect import Expected, Gap, Signs, expect, gap
from standfast.providers.money import Bill, bill
from standfast.providers.planner import Marks, plan
from standfast.providers.rules import Blocks, Regime, Rules

_MARKS: dict[str, dict[str, Json]] = {
    "cache_control": {"type": "ephemeral"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
}
"""How a mark is written, by its field; a life other than the default goes behind it as ``ttl``."""
_SOON = 120.0  # seconds: what changes once an hour may well be marked
_LEAST_GAP = 64.0  # tokens
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Template:
    """What the chat template is told, as the causes (E1, E2) that its arguments rule out."""

    ours: frozenset[str] = frozenset()
    """By what we send."""
    theirs: frozenset[str] = frozenset()
    """By what the client sends."""
    offered: frozenset[str] = frozenset()
    """By what we would send under option ``template``."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a cache should do with one request as it goes out."""

    rules: Rules
    layout: Layout
    blocks: Blocks
    shared: int
    """Leading blocks that the reference has too."""
    raw: Expected
    """With the marks that the client set."""
    expected: Expected
    """As it goes out."""
    left: tuple[Entry, ...] = ()
    """What the client's own marks on the request before had left behind."""
    marks: Marks | None = None
    """Where marks go out; None where they are left as they came."""
    signs: Signs = Signs()
    """What in it may stop an engine's cache."""
    answer: float = 0.0
    """Tokens of it that the model wrote as the answer before, where the cache holds what was generated."""
    template: Template = Template()


@dataclass(slots=True)
class Asked:
    """One request on its way to a cache."""

    request: Request
    mended: Mended
    reference: Tip | None
    leave: Leave
    now: float
    continues: bool
    """Whether the reference is of the same session."""
    asks: bool = False
    """Whether the provider may be asked for its own diagnosis."""
    began: float | None = None
    """When its session began, where a chat template may be told the date; None: now."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """To be sent unless the client sends its own."""


class Caching:
    """Looks ahead, and remembers how many tokens a byte is and how often a prefix is sent. One per process."""

    def __init__(self) -> None:
        self.calibration = Calibration()
        self._rates = Rates()
        self._late = Lateness()

    def look_ahead(self, asked: Asked, rules: Rules, who: Breakpoints) -> Outlook:
        """Lay out, plan marks, and expect. Marks go into ``asked.mended`` where there is leave."""
        mended, reference = asked.mended, asked.reference
        layout = lay_out(mended.tools, mended.system, mended.sent)
        old = lay_out(reference.head.tools, reference.head.system, reference.sent) if reference else None
        held = _with_answer(old, reference, rules) if old and reference else None
        shared = min(shared_blocks(held, layout), _reach(layout, mended, rules)) if held else 0
        if reference and asked.continues:
            self._late.learn(rules, asked.now - reference.at)
        came = marks_on(layout, rules.marker) if rules.marker else {}
        blocks = self._blocks(asked.request, layout, rules, came, _volatile(asked, layout))
        left = _entries(old, reference, rules) if old and reference else ()
        entries = reference.entries or left if reference else ()
        if held is not old and reference and held:
            entries = (*entries, Entry(held.blocks, rules.default_ttl, reference.at + rules.life))

        def expected(places: Mapping[int, str], entries: tuple[Entry, ...]) -> Expected:
            return expect(rules, blocks, places, shared=shared, entries=entries, now=asked.now)

        raw = expected(blocks.marks, left)
        outlook = Outlook(
            rules,
            layout,
            blocks,
            shared,
            raw,
            expected(blocks.marks, entries),
            left,
            signs=_signs(asked, layout, old, shared),
            answer=max(0.0, blocks.tokens(shared) - blocks.tokens(min(old.blocks, shared))) if old else 0.0,
            template=_template(asked, rules),
        )
        mends = who is Breakpoints.PLAN or (who is Breakpoints.MEND and _is_misplaced(raw, blocks, left))
        if not (mends and rules.marker and asked.leave.policy.repairs):
            return outlook
        marks = plan(
            rules,
            blocks,
            shared=shared,
            entries=entries,
            now=asked.now,
            late=self._late.share(rules) if Option.TTL in asked.leave.options else 0.0,
        )
        if dict(marks.places) != dict(blocks.marks):
            wanted = {
                block: came[block] if blocks.marks.get(block) == life else _mark(rules, life)
                for block, life in marks.places.items()
            }
            asked.mended = remark(mended, layout, asked.request.dialect, rules.marker, wanted)
        return replace(outlook, expected=expected(marks.places, entries), marks=marks)

    def _blocks(
        self, request: Request, layout: Layout, rules: Rules, came: Mapping[int, Json], volatile: frozenset[int]
    ) -> Blocks:
        ratio = self.calibration.ratio(f"{rules.provider}/{rules.model}")
        top = request.field(rules.marker) if rules.automatic else None
        return Blocks(
            ends=tuple(accumulate(size * ratio for size in layout.sizes())),
            tools=layout.firsts[layout.tools],
            system=layout.firsts[layout.system],
            markable=markable(layout, request.dialect) if rules.marker else frozenset(),
            marks={block: _life(mark) for block, mark in came.items()},
            volatile=volatile,
            automatic=_life(top) if top else None,
        )

    def compare(self, outlook: Outlook, usage: Usage) -> Gap | None:
        """What usage shows beyond what was expected; learns the tokens of a byte from it."""
        model, sizes = f"{outlook.rules.provider}/{outlook.rules.model}", outlook.layout.sizes()
        tolerance = _LEAST_GAP + self.calibration.spread(model) * outlook.expected.cached
        self.calibration.learn(model, sum(sizes), usage.prompt_tokens)
        if not usage.tells_cache:
            return None
        ruled_out = outlook.template.ours | outlook.template.theirs
        signs = outlook.signs
        signs = replace(
            signs,
            thinking=None if "E1" in ruled_out else signs.thinking,
            new_day=signs.new_day and "E2" not in ruled_out,
        )
        return gap(outlook.rules, outlook.expected, outlook.blocks, usage.cached_tokens, signs, tolerance)

    def affinity(self, asked: Asked, rules: Rules, head: bytes) -> None:
        """Keep a session, and the sessions that begin alike, on one machine (I1)."""
        if not asked.leave.policy.repairs or not (rules.key_field or rules.key_header):
            return
        known = asked.reference.head.routes.get(rules.key_field) if asked.reference and asked.continues else None
        lineage = asked.reference.lineage if asked.reference and asked.continues else asked.request.end
        key = cache_key(head, lineage, self._rates.per_minute(head, asked.now), rules)
        if rules.key_header:
            asked.headers.append((rules.key_header, key))
        elif rules.key_field not in asked.request.fields:
            asked.mended.fields.setdefault(rules.key_field, known or canonical.key_form(key))

    def question(self, asked: Asked, rules: Rules) -> None:
        """Ask the provider to compare this request with the one that it continues.

        Where only requests that ask are remembered, the first asks too, and names none.
        """
        known = asked.reference.response_id if asked.reference else None
        if not (asked.asks and rules.diagnostics and (known or rules.diagnostics_first)):
            return
        name, _, inner = rules.diagnostics.partition(".")
        given = asked.request.field(name) if name in asked.request.fields else {}
        if isinstance(given, dict) and inner not in given:
            asked.mended.fields[name] = canonical.key_form({**given, inner: known or None})
            if rules.diagnostics_header:
                asked.headers.append(rules.diagnostics_header)


def _volatile(asked: Asked, layout: Layout) -> frozenset[int]:
    """Blocks of the system prompt that went out changed soon after they had last been sent: they will change again."""
    reference = asked.reference
    if reference is None or asked.now - reference.at > _SOON:
        return frozenset()
    found = {d.path for d in asked.mended.drifts if d.cause in isolate.MOVABLE and not d.repaired}
    system = range(layout.tools, layout.system)
    return frozenset(layout.firsts[i] for i in system if system_path(asked.request, i - layout.tools) in found)


def _with_answer(old: Layout, reference: Tip, rules: Rules) -> Layout:
    """What a cache holds of a request: the prompt, and the answer behind it where that is kept."""
    if "output" not in rules.writes_at or not reference.produced:
        return old
    return lay_out(reference.head.tools, reference.head.system, (*reference.sent, *reference.produced))


def _signs(asked: Asked, layout: Layout, old: Layout | None, shared: int) -> Signs:
    if old is None or asked.reference is None:
        return Signs()
    # Templates keep what was thought behind the newest words of the user: once there are newer ones, what was thought
    # behind those that were the newest before goes.
    said = [i for i, item in enumerate(layout.items) if item.role == "user" and not item.is_result]
    before = max((i for i in said if i < len(old.items)), default=old.system)
    goes = range(layout.firsts[before], shared if said and said[-1] >= len(old.items) else 0)
    return Signs(
        thinking=next((n for n in goes if layout.part(n).kind is Kind.THINKING), None),
        answer=old.blocks if old.blocks < shared else None,
        new_day=asked.now // _DAY != asked.reference.at // _DAY,
    )


def _template(asked: Asked, rules: Rules) -> Template:
    """Send the arguments that keep a chat template's text as it was, where there is leave; the client's own win."""
    request, name = asked.request, rules.template_field
    if name not in {param.path for param in request.dialect.params}:
        return Template()
    given = {} if (value := request.field(name)) is None else value
    if not isinstance(given, dict):
        return Template()
    date = datetime.fromtimestamp(asked.now if asked.began is None else asked.began, UTC)
    wanted: dict[str, dict[str, Json]] = {
        "E1": dict(rules.thinking_argument),
        "E2": {argument: date.strftime(form) for argument, form in rules.date_argument.items()},
    }
    untold = {cause for cause, told in wanted.items() if told and given.keys().isdisjoint(told)}
    theirs = {cause for cause, told in wanted.items() if told and cause not in untold}
    if any(given.get(argument) != value for argument, value in wanted["E1"].items()):  # told to drop it
        theirs.discard("E1")
    if Option.TEMPLATE not in asked.leave.options or not asked.leave.policy.repairs:
        return Template(theirs=frozenset(theirs), offered=frozenset(untold))
    if untold:
        ours = {argument: value for cause in sorted(untold) for argument, value in wanted[cause].items()}
        asked.mended.fields[name] = canonical.key_form({**given, **ours})
    return Template(ours=frozenset(untold), theirs=frozenset(theirs))


_TIERS = {Tier.MODEL: "tools", Tier.TOOLS: "tools", Tier.SYSTEM: "system", Tier.PARAMS: "messages"}


def _reach(layout: Layout, mended: Mended, rules: Rules) -> int:
    """Blocks in front of the first parameter that changed what the model reads."""
    reach = {"tools": 0, "system": layout.tools, "messages": layout.system}
    changed = [d for d in mended.drifts if not d.repaired and d.cause in ("P1", "P2")]
    places = [reach[rules.invalidates.get(d.path.partition(".")[0], _TIERS[d.tier])] for d in changed]
    return layout.firsts[min(places)] if places else layout.blocks


def _entries(layout: Layout, tip: Tip, rules: Rules) -> tuple[Entry, ...]:
    """What a request left behind by the marks that its client had set."""
    if rules.regime is not Regime.MARKS:
        return (Entry(layout.blocks, rules.default_ttl, tip.at + rules.life),)
    lives = {block: _life(mark) or rules.default_ttl for block, mark in marks_on(layout, rules.marker).items()}
    return tuple(Entry(block + 1, ttl, tip.at + rules.ttls.get(ttl, rules.life)) for block, ttl in lives.items())


def _life(mark: Json) -> str:
    """The name of the life that a mark asks for; empty for the default."""
    ttl = mark.get("ttl") if isinstance(mark, dict) else None
    return ttl if isinstance(ttl, str) else ""


def _mark(rules: Rules, life: str) -> dict[str, Json]:
    form = _MARKS.get(rules.marker, {})
    return {**form, "ttl": life} if life and life != rules.default_ttl else dict(form)


def _is_misplaced(raw: Expected, blocks: Blocks, entries: Sequence[Entry]) -> bool:
    """Whether a client that does set marks has set them wrong: none of them is of any use."""
    sets_marks = bool(blocks.marks or blocks.automatic is not None or entries)
    return sets_marks and (raw.cause in ("B2", "B6") or (raw.cause == "B1" and not raw.cached))


def misplaced(asked: Asked, outlook: Outlook | None, who: Breakpoints) -> list[Drift]:
    """The drift of breakpoints (B1, B2, B6), if the client's own would have missed what is shared."""
    if outlook is None or asked.reference is None or outlook.raw.cause not in OF_MARKS or outlook.raw.at is None:
        return []
    if any(not d.repaired for d in asked.mended.drifts):
        return []  # what goes out is another prompt: no mark can help it
    if who is not Breakpoints.PLAN and not _is_misplaced(outlook.raw, outlook.blocks, outlook.left):
        return []  # a client that sets none, where it is left to do so
    tier, path = place_of(asked.request, outlook.layout, outlook.raw.at)
    lost = round(outlook.blocks.tokens(outlook.shared) - outlook.raw.cached)
    places = outlook.marks.places if outlook.marks else {}
    mended = bool(places) and (outlook.expected.cause not in OF_MARKS or outlook.shared - 1 in places)
    return [Drift(outlook.raw.cause, path, tier, b"", b"", mended, lost=lost)]


def place_of(request: Request, layout: Layout, block: int) -> tuple[Tier, str]:
    """Tier and path of a block in the body."""
    block = min(block, layout.blocks - 1)
    i = layout.item_of(block)
    suffix = layout.part(block).suffix
    if i < layout.tools:
        return Tier.TOOLS, f"{request.dialect.tools}[{i}]{suffix}"
    if i < layout.system:
        return Tier.SYSTEM, system_path(request, i - layout.tools)
    return Tier.MESSAGES, item_path(request, i - layout.system) + suffix


def bill_of(outlook: Outlook, usage: Usage, attainable: int) -> Bill:
    """What a request cost by its usage."""
    rules = outlook.rules
    longest = max(rules.ttls, key=lambda name: rules.ttls[name], default="")
    written = {rules.default_ttl: float(usage.written_tokens - usage.long_tokens), longest: float(usage.long_tokens)}
    written = {life: tokens for life, tokens in written.items() if tokens > 0}
    return bill(rules, usage.prompt_tokens, usage.cached_tokens, written, usage.output_tokens, attainable)
