"""What a reader hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from standfast.prompt.replies.finding import Finding


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the upstream counted them."""

    prompt_tokens: int
    """The whole prompt, cached or not."""
    cached_tokens: int
    """Of these, read from the cache."""
    written_tokens: int
    """Of these, written to the cache; 0 where the upstream does not tell."""
    output_tokens: int
    long_tokens: int = 0
    """Of those written: with the long life, where the provider has two."""
    tells_cache: bool = True
    """Whether the upstream told anything of its cache; if not, the counts above are 0 for want of better."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, read."""

    usage: Usage | None
    """None where the upstream told none."""
    produced: tuple[bytes, ...]
    """Wire JSON of what the model produced, one bytes per array element, in the form in which a request carries it.
    Empty where nothing was produced, or where it cannot be known exactly. Of a broken response: what was whole."""
    response_id: str | None
    complete: bool
    """It ended properly and was a success. One that ran into a length limit did; a cut stream and an error did not."""
    finding: Finding | None = None
    """What the provider says of its cache, where it was asked."""


NOTHING = Reply(usage=None, produced=(), response_id=None, complete=False)


class ReplyReader(Protocol):
    """Reads one response from its bytes. Neither method ever raises, whatever the bytes."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, split anywhere."""

    def finish(self) -> Reply:
        """The bytes are at their end; what they said. Call it once."""
