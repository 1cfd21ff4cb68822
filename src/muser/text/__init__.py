"""Text in, token ids out, and back: tokenizers built from a GGUF's own vocabulary.

``metadata`` reads typed values, ``vocabulary`` checks them, ``bpe`` and ``spm`` are the two ways of encoding,
``detokenizer`` turns ids back into text piece by piece, ``tokenizer`` is the class that callers use.
"""

from .detokenizer import Detokenizer
from .tokenizer import Tokenizer

__all__ = ["Detokenizer", "Tokenizer"]
