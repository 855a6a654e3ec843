from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class RequestFingerprint(_message.Message):
    __slots__ = ("version", "dialect", "model", "tool_set", "tool_order", "system", "parameters", "history", "segments")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_SET_FIELD_NUMBER: _ClassVar[int]
    TOOL_ORDER_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    dialect: str
    model: str
    tool_set: bytes
    tool_order: bytes
    system: bytes
    parameters: bytes
    history: bytes
    segments: int
    def __init__(self, version: _Optional[int] = ..., dialect: _Optional[str] = ..., model: _Optional[str] = ..., tool_set: _Optional[bytes] = ..., tool_order: _Optional[bytes] = ..., system: _Optional[bytes] = ..., parameters: _Optional[bytes] = ..., history: _Optional[bytes] = ..., segments: _Optional[int] = ...) -> None: ...
