"""The token types of the GGUF specification (``tokenizer.ggml.token_type``)."""

from enum import IntEnum


class TokenType(IntEnum):
    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4  # ordinary text that is always one token: runs of newlines or spaces, HTML tags
    UNUSED = 5
    BYTE = 6  # <0x00> to <0xFF>
