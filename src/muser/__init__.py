"""muser: one GGUF language model, one to four generations side by side, the same bits in company as alone.

    model = muser.Model.tiny()
    print(model.generate("Once upon a time", max_tokens=64).text)
"""

import importlib
from typing import TYPE_CHECKING

from muser import errors
from muser._queue import QueueStats
from muser.chat import ChatChunk, ChatCompletion, ReasoningPart, TextPart, ToolCall, ToolCallPart
from muser.chat.stream import ChatStream
from muser.errors import (
    BusyError,
    CancelledError,
    ClosedError,
    ContextFullError,
    DeviceError,
    FetchError,
    FileAccessError,
    FileMissingError,
    ForkedError,
    GrammarDeadEndError,
    GrammarEngineError,
    GrammarError,
    GrammarLimitError,
    InternalError,
    LogitsError,
    ModelFormatError,
    MuserError,
    OutOfMemoryError,
    OverloadedError,
    ParameterError,
    SessionFileError,
    TemplateError,
    UnhealthyError,
    UnsupportedDeviceError,
    UnsupportedModelError,
    WaitTimeoutError,
)
from muser.grammar import Grammar
from muser.model import Model
from muser.params import SamplingParams
from muser.planning import memory_plan
from muser.pool import SlotPool
from muser.quantizing import Quantized, quantize
from muser.results import Chunk, Completion, Health, Timings, TokenLogprob, Usage
from muser.sampler import Sampler
from muser.session import Permit, Session, decode_group
from muser.stream import Stream
from muser.system import system_info

if TYPE_CHECKING:
    from muser.aio import AsyncStream
    from muser.chat.astream import AsyncChatStream
    from muser.chat.request import ChatPrompt

__version__ = "0.1.0"

__all__ = [
    "AsyncChatStream",
    "AsyncStream",
    "BusyError",
    "CancelledError",
    "ChatChunk",
    "ChatCompletion",
    "ChatPrompt",
    "ChatStream",
    "Chunk",
    "ClosedError",
    "Completion",
    "ContextFullError",
    "DeviceError",
    "FetchError",
    "FileAccessError",
    "FileMissingError",
    "ForkedError",
    "Grammar",
    "GrammarDeadEndError",
    "GrammarEngineError",
    "GrammarError",
    "GrammarLimitError",
    "Health",
    "InternalError",
    "LogitsError",
    "Model",
    "ModelFormatError",
    "MuserError",
    "OutOfMemoryError",
    "OverloadedError",
    "ParameterError",
    "Permit",
    "Quantized",
    "QueueStats",
    "ReasoningPart",
    "Sampler",
    "SamplingParams",
    "Session",
    "SessionFileError",
    "SlotPool",
    "Stream",
    "TemplateError",
    "TextPart",
    "Timings",
    "TokenLogprob",
    "ToolCall",
    "ToolCallPart",
    "UnhealthyError",
    "UnsupportedDeviceError",
    "UnsupportedModelError",
    "Usage",
    "WaitTimeoutError",
    "__version__",
    "decode_group",
    "errors",
    "memory_plan",
    "quantize",
    "system_info",
]


_LATER = {  # what needs modules that are not loaded at import, such as asyncio
    "AsyncChatStream": "muser.chat.astream",
    "AsyncStream": "muser.aio",
    "ChatPrompt": "muser.chat.request",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'muser' has no attribute {name!r}")
