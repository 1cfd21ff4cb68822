"""Chat: conversations become prompts, and what the model writes becomes answer, reasoning and tool calls.

The way there: ``messages`` and ``tools`` check what the caller gives; ``template`` renders it (``sandbox``,
``compiler``, ``operations`` and ``limits`` keep a template from the file in its place); ``request`` makes token ids
of it. The way back: ``protocol`` finds the reader for the model's way of writing (``muse``, ``tags``, ``llama3``),
``generation`` runs it token by token, ``thinking`` cuts reasoning short, ``parts`` is what comes out. ``front`` is
what ``Model`` shows of all this.
"""

from .parts import ChatChunk, ChatCompletion, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart

__all__ = ["ChatChunk", "ChatCompletion", "Part", "ReasoningPart", "TextPart", "ToolCall", "ToolCallPart"]
