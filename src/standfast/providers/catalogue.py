"""All providers that are known: which one stands behind a URL, and what its rules are for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from standfast.errors import ConfigError
from standfast.providers.facts import Profile, Provider, own, profiles, shipped
from standfast.providers.rules import Rules

_MODELS = 1_000


class Catalogue:
    """Providers by id. ``profile``: the named prices to count with, if not each provider's own."""

    def __init__(self, providers: Sequence[Provider], profile: Profile | None = None) -> None:
        self._providers = {provider.id: provider for provider in providers}
        self._profile = profile
        self.rules = lru_cache(_MODELS)(self._rules)

    @classmethod
    def load(cls, user: Path = Path(), profile: str = "") -> Catalogue:
        """Ours, and behind them the facts of a user's own file, if one is named. Raises ConfigError."""
        known = {provider.id: provider for provider in shipped()}
        for id, mine in own(user).items() if user.name else ():
            ours = known.get(id)
            known[id] = replace(ours, hosts=ours.hosts + mine.hosts, facts=ours.facts + mine.facts) if ours else mine
        named = profiles()
        if profile and profile not in named:
            raise ConfigError(f"price_profile {profile!r}: there are {', '.join(named)}")
        return cls(list(known.values()), named.get(profile))

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._providers.values())

    def knows(self, id: str) -> bool:
        """Whether there is such a provider."""
        return id in self._providers

    def provider(self, id: str) -> Provider:
        """One provider. Raises ConfigError, naming those that there are."""
        if id not in self._providers:
            raise ConfigError(f"provider {id!r}: there are {', '.join(sorted(self._providers))}")
        return self._providers[id]

    def provider_of(self, url: str) -> str:
        """Id of the provider at a URL; empty if none is known there."""
        host = urlsplit(url).hostname or ""
        found = (p.id for p in self._providers.values() if any(fnmatchcase(host, pattern) for pattern in p.hosts))
        return next(found, "")

    def default_for(self, dialect: str) -> str:
        """The provider that a dialect is named after."""
        return "anthropic" if dialect == "anthropic" else "openai"

    def _rules(self, provider: str, model: str) -> Rules:
        rules = self.provider(provider).rules(model)
        if self._profile is None:
            return rules
        p = self._profile
        return replace(
            rules,
            input_price=p.input,
            output_price=p.output,
            read_price=p.read / p.input,
            write_price={},
            currency=p.currency,
        )
