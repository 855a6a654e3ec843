"""Requests for tests of ledgers: small chains of one-letter messages."""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

from standfast.ledger import Ledger
from standfast.prompt.model import Head, Item, Key, Kind, Link, Meaning, Part, Sent, Tier, Tip

MB = 1 << 20


def parse(dialect: str, tier: Tier, wire: bytes) -> Item:
    """A stand-in for a dialect's parser: an item is a function of these three."""
    name = blake3(dialect.encode() + tier.encode() + wire).digest()
    part = Part(".content", Kind.TEXT, Meaning(name), Key(name), len(wire), plain=wire[:4])
    return Item(wire, tier, dialect, Meaning(name), (part,), Key(name), False, len(wire))


def sent(chain: Sequence[bytes], salt: bytes = b"") -> tuple[Sent, ...]:
    """A history of these messages: links are a chain over them."""
    units, link = [], b""
    for wire in chain:
        link = blake3(link + wire + salt).digest()
        units.append(Sent((parse("openai_chat", Tier.MESSAGES, wire),), (Link(link),)))
    return tuple(units)


def links_of(units: Sequence[Sent]) -> list[Link]:
    return [link for unit in units for link in unit.links]


def head_of(text: bytes = b"be brief") -> Head:
    tools = tuple(parse("openai_chat", Tier.TOOLS, b'{"name":"%d"}' % i) for i in range(3))
    system = (parse("openai_chat", Tier.SYSTEM, text),)
    return Head("small", tools, system, {"temperature": b"0"}, {"prompt_cache_key": b'"k"'})


def tip_of(
    id: int, chain: Sequence[bytes], *, lineage: bytes = b"L", at: float | None = None, produced: int = 0
) -> Tip:
    units = sent(chain)
    cut = len(units) - produced
    return Tip(
        id=b"%016d" % id,
        lineage=lineage.ljust(16),
        at=float(id) if at is None else at,
        dialect="openai_chat",
        head=head_of(),
        sent=units[:cut],
        produced=units[cut:],
        fingerprint=b"fp%d" % id,
    )


HEAD = b"h" * 32


def put(ledger: Ledger, tip: Tip, head: bytes = HEAD, kin: bytes = b"") -> Tip:
    ledger.record(tip, links_of(tip.sent + tip.produced), head, kin)
    return tip


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]
