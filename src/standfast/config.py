"""Settings: the only module that reads the environment and configuration files.

A value comes from the first of: a command-line flag, an environment variable ``STANDFAST_<NAME>``, the configuration
file, the default. ``SETTINGS`` is the one table of them; ``docs/settings.md`` is checked against it.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from standfast.errors import ConfigError
from standfast.policy import FORM, LOSSLESS, Breakpoints, Leave, parse


def _state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "standfast"


@dataclass(frozen=True, slots=True)
class Upstream:
    """One place to send requests to."""

    name: str
    url: str
    """Scheme, host and an optional path in front of the API's own (``https://openrouter.ai/api``)."""
    models: tuple[str, ...] = ()
    """Shell patterns of model names that go here; none: every model."""
    path: str = ""
    """Path prefix of the gateway that selects it and is taken off, as ``/anthropic``."""
    policy: Leave | None = None
    """Overrides the gateway's policy."""
    billing_block: str = "pin"
    """What to do with a client's per-request billing block in the system prompt: pin or leave."""
    provider: str = ""
    """Whose rules its cache follows (``standfast providers``); empty: known by the host of the URL, or none."""
    breakpoints: Breakpoints = Breakpoints.PLAN
    """Who sets cache breakpoints."""
    slots: Path = Path()
    """Folder in which a llama-server there saves slots, if this program can read and write it; empty: no such thing."""

    def takes_model(self, model: str) -> bool:
        """Whether a request for this model may go here."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)


def _setting(default: Any, text: str, *, secret: bool = False) -> Any:
    metadata = {"help": text, "secret": secret}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, resolved."""

    host: str = _setting("127.0.0.1", "Address to listen on. Anything but loopback needs a gateway_key.")
    port: int = _setting(8790, "Port to listen on.")
    workers: int = _setting(1, "Worker processes; they share one ledger.")
    policy: Leave = _setting(LOSSLESS, "off, observe, lossless or isolate, and options behind it (docs/policies.md).")
    gateway_key: str = _setting("", "If set, callers must send it as x-standfast-key.", secret=True)
    max_body_mb: int = _setting(64, "Larger request bodies are answered 413.")
    connect_timeout: float = _setting(10.0, "Seconds to reach an upstream.")
    read_timeout: float = _setting(600.0, "Seconds without a byte from the upstream.")
    shutdown_timeout: float = _setting(30.0, "Seconds that running responses get at shutdown.")
    budget_ms: float = _setting(
        5.0, "Milliseconds of planning per 100 KB of body (of 1 MB at least); over it the original goes out."
    )
    providers_file: Path = _setting(Path, "Facts of your own about providers (docs/providers.md).")
    price_profile: str = _setting("", "Prices to count with, instead of each provider's own (standfast providers).")
    provider_diagnostics: bool = _setting(
        False, "Ask providers that can for their own diagnosis of a miss; adds a field to the request."
    )
    fan_out_wait: float = _setting(
        5.0, "Seconds that a request waits for the response of a sibling with the same new prefix to begin; 0: none."
    )
    state_dir: Path = _setting(_state_dir, "Folder of the ledger and the models.")
    ledger: str = _setting("sqlite", "sqlite (survives restarts, shared by workers) or memory.")
    ledger_disk_mb: int = _setting(1024, "Size of the ledger on disk; the oldest requests go first.")
    ledger_memory_mb: int = _setting(256, "Size of the ledger's cache in memory, per worker.")
    engine_model: Path = _setting(Path, "GGUF file for the embedded engine; empty: the one installed by setup.")
    engine_threads: int = _setting(0, "Threads of the embedded engine; 0: the physical cores, at most 8.")
    engine_slots: int = _setting(2, "Contexts that the embedded engine keeps side by side.")
    engine_context: int = _setting(8192, "Tokens per slot of the embedded engine.")
    engine_requantise: bool = _setting(True, "Turn the embedded model's weights into Q8_0 once, for speed.")
    kv: bool = _setting(True, "Keep the embedded engine's KV state in tiers (docs/kv.md).")
    kv_contexts: int = _setting(100, "Complete contexts kept ready in memory.")
    kv_memory_mb: int = _setting(2048, "Memory for them; blocks that they share count once.")
    kv_archive: str = _setting("disk", "Where states go that leave memory: disk (in state_dir) or none.")
    kv_archive_mb: int = _setting(8192, "Size of the archive; what its policy values least goes first.")
    kv_codec: str = _setting("int4", "How they are written there: int4, int8, lossless or raw.")
    log_level: str = _setting("info", "debug, info, warning or error.")
    upstreams: tuple[Upstream, ...] = ()
    """Empty: the embedded engine."""

    @property
    def database(self) -> Path:
        return self.state_dir / "ledger.sqlite"

    @property
    def bills(self) -> Path:
        return self.state_dir / "bills.sqlite"

    @property
    def archive(self) -> Path:
        return self.state_dir / "kv"

    @property
    def models_dir(self) -> Path:
        return self.state_dir / "models"


SETTINGS = tuple(f for f in fields(Settings) if f.name != "upstreams")


def config_path(given: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The configuration file in use: the one given, $STANDFAST_CONFIG, ./standfast.toml, or the user's own."""
    if given is not None:
        return given
    if environ.get("STANDFAST_CONFIG"):
        return Path(environ["STANDFAST_CONFIG"])
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    for candidate in (Path("standfast.toml"), home / "standfast" / "config.toml"):
        if candidate.is_file():
            return candidate
    return None


def load(
    flags: Mapping[str, Any] | None = None, config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """Resolve all settings. Raises ConfigError naming the setting and where its value came from."""
    path = config_path(config, environ)
    stored = _read(path) if path else {}
    known = {f.name for f in SETTINGS}
    if unknown := sorted(set(stored) - known - {"upstream"}):
        raise ConfigError(f"{path}: unknown setting {unknown[0]!r}; docs/settings.md lists them all")
    values: dict[str, Any] = {}
    for f in SETTINGS:
        variable = f"STANDFAST_{f.name.upper()}"
        if flags and flags.get(f.name) is not None:
            values[f.name] = _convert(f.name, f.type, flags[f.name], f"--{f.name.replace('_', '-')}")
        elif variable in environ:
            values[f.name] = _convert(f.name, f.type, environ[variable], variable)
        elif f.name in stored:
            values[f.name] = _convert(f.name, f.type, stored[f.name], str(path))
    upstreams = flags.get("upstreams") if flags else None
    if not upstreams:
        rows = stored.get("upstream", [])
        if not isinstance(rows, list):
            raise ConfigError(f"{path}: an upstream is a table [[upstream]]; docs/settings.md shows one")
        upstreams = tuple(_upstream(row, i, path) for i, row in enumerate(rows))
    return Settings(**values, upstreams=tuple(upstreams))


def require_key_if_exposed(settings: Settings) -> None:
    """Raises ConfigError if the gateway would listen beyond this machine without a gateway key."""
    host = settings.host
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback and not settings.gateway_key:
        raise ConfigError(
            f"host {host} can be reached from other machines: set STANDFAST_GATEWAY_KEY, which callers then send as "
            "x-standfast-key, or listen on 127.0.0.1"
        )


def upstream_from_url(url: str, name: str = "") -> Upstream:
    """An Upstream from a bare URL. Raises ConfigError if it has no scheme or host."""
    shown = re.sub(r"//[^/]*@", "//…@", url)  # a password in it is for nobody's eyes
    wrong = ConfigError(f"upstream {shown!r}: give a URL with http:// or https:// and a host, and no user or query")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        raise wrong
    path = parts.path.rstrip("/").removesuffix("/v1")
    leave = parts.hostname == "api.anthropic.com"
    base = f"{parts.scheme}://{parts.netloc}{path}"
    return Upstream(name or parts.hostname, base, billing_block="leave" if leave else "pin")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def _upstream(row: Any, index: int, path: Path | None) -> Upstream:
    where = f"{path}: upstream {index + 1}"
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise ConfigError(f"{where}: needs a url")
    if unknown := sorted(set(row) - _UPSTREAM_KEYS):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}")
    base = upstream_from_url(row["url"], str(row.get("name", "")))
    prefix = str(row.get("path", "")).rstrip("/")
    if prefix and not prefix.startswith("/"):
        raise ConfigError(f"{where}: path {prefix!r} must begin with /")
    policy = _convert("policy", "Leave", row["policy"], where) if "policy" in row else None
    block = row.get("billing_block", base.billing_block)
    if block not in ("pin", "leave"):
        raise ConfigError(f"{where}: billing_block is pin or leave, not {block!r}")
    try:
        breakpoints = Breakpoints(row.get("breakpoints", "plan"))
    except ValueError:
        raise ConfigError(f"{where}: breakpoints is {', '.join(Breakpoints)}, not {row['breakpoints']!r}") from None
    models = row.get("models", ())
    if not isinstance(models, list | tuple) or not all(isinstance(m, str) for m in models):
        raise ConfigError(f"{where}: models is a list of patterns")
    provider = str(row.get("provider", ""))
    slots = _convert("slots", "Path", row.get("slots", Path()), where)
    return Upstream(base.name, base.url, tuple(models), prefix, policy, block, provider, breakpoints, slots)


_UPSTREAM_KEYS = {f.name for f in fields(Upstream)}
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

_CHOICES = {
    "policy": (FORM,),
    "ledger": ("sqlite", "memory"),
    "kv_archive": ("disk", "none"),
    "kv_codec": ("int4", "int8", "lossless", "raw"),
    "log_level": ("debug", "info", "warning", "error"),
}
_TOP = {"port": 1 << 16}


def _convert(name: str, kind: Any, value: Any, source: str) -> Any:
    try:
        match kind:
            case "bool":
                return value if isinstance(value, bool) else _TRUTH[str(value).lower()]
            case "int" | "float":
                number = {"int": int, "float": float}[kind](value)
                whole = not isinstance(value, float) or kind == "float" or value.is_integer()
                if isinstance(value, bool) or not whole or not 0 <= number < _TOP.get(name, math.inf):
                    raise ValueError
                return number
            case "Path":
                return Path(value).expanduser()
            case "Leave":
                return value if isinstance(value, Leave) else parse(str(value))
            case _:
                if not isinstance(value, str) or (name in _CHOICES and value not in _CHOICES[name]):
                    raise ValueError
                return value
    except (ValueError, KeyError, TypeError, OverflowError, RuntimeError):  # the last: no home folder of that user
        wanted = {"bool": "true or false", "int": "a whole number ≥ 0", "float": "a number ≥ 0", "Path": "a path"}
        hint = wanted.get(kind, ", ".join(_CHOICES.get(name, ())) or "text")
        if name in _TOP:
            hint += f" and under {_TOP[name]}"
        raise ConfigError(f"{source}: {name} is {hint}, not {value!r}") from None
