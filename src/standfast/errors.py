"""Every exception Standfast raises.

StandfastError
├── ConfigError            a setting, file or flag is wrong
├── RequestError           the caller's fault; carries the HTTP status
│   ├── BrokenBody         400, with the JSON position
│   ├── BodyTooLarge       413
│   └── Unauthorized       401
├── UpstreamError          502, the upstream failed
│   └── UpstreamTimeout    504
├── EngineError            the embedded engine or its model
│   ├── ModelMissing
│   ├── ModelBroken
│   ├── NoSpace
│   ├── PortTaken
│   └── EngineFailed
├── LedgerError            the ledger's store
└── Doubt                  inside the plan: send the original bytes (fail open)
    ├── OverBudget         the work budget ran out
    └── Ambiguous          two readings are possible
"""

from __future__ import annotations

import traceback


class StandfastError(Exception):
    """Base of all. The message says what was wrong, where, and what to do."""


class ConfigError(StandfastError):
    """A setting, a file or a flag is wrong."""


class RequestError(StandfastError):
    """The caller's request cannot be accepted."""

    status = 400


class BrokenBody(RequestError):
    """The body is not JSON, or not an object. ``position`` is the byte offset of the fault."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class BodyTooLarge(RequestError):
    """The body is over the configured limit."""

    status = 413


class Unauthorized(RequestError):
    """A gateway key is configured, and the request has none or another."""

    status = 401


class UpstreamError(StandfastError):
    """The upstream could not be reached or broke off before its response began."""

    status = 502


class UpstreamTimeout(UpstreamError):
    """The upstream did not answer in time."""

    status = 504


class EngineError(StandfastError):
    """The embedded engine or its model."""


class ModelMissing(EngineError):
    """The model file is not there and could not be fetched."""


class ModelBroken(EngineError):
    """The model file is there and is not a usable GGUF."""


class NoSpace(EngineError):
    """Too little room on disk."""


class PortTaken(EngineError):
    """The address is in use."""


class EngineFailed(EngineError):
    """The engine's process did not start, or died too often."""


class SlotRefused(EngineError):
    """The server did not save or restore a slot."""


class SlotFileUnknown(EngineError):
    """A slot file that cannot be taken apart: damaged, or of a form that is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the slot file cannot be used: {why}")


class LedgerError(StandfastError):
    """The ledger's store cannot be read or written."""


class StoreError(StandfastError):
    """The KV store. Never reaches a caller: what cannot be loaded is computed anew."""


class RecordBroken(StoreError):
    """A stored record is not what it should be: damaged, foreign, or of other tokens."""

    def __init__(self, check: str) -> None:
        super().__init__(f"a KV record failed its check of {check}; it is dropped and computed anew")
        self.check = check


class LayoutUnknown(StoreError):
    """Bytes that are no state of the layout they were given for."""


class MediumFailed(StoreError):
    """A medium could not be opened, read or written."""


class Doubt(StandfastError):
    """Raised and caught inside a plan: the client's own bytes go out."""


class OverBudget(Doubt):
    """Planning took longer than its budget."""


class Ambiguous(Doubt):
    """A repair has two possible readings."""


def place(error: BaseException) -> str:
    """Class of an error and where it was raised. Not its message: that may quote a prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + where


def reason(error: Exception) -> str:
    """What an event may tell of an error: our own message, of a foreign one only where it arose."""
    return f"{type(error).__name__}: {error}" if isinstance(error, StandfastError) else place(error)
