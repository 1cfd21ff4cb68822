"""A vocabulary of a given size: the toy one of the family, which spells any text, then pieces that no text
reaches. muser loads it, and text goes in and out; what a random model says means nothing anyway."""

from __future__ import annotations

from toy_vocab import NORMAL, Vocab, bpe_vocab, sentencepiece_vocab

from tools.shapes.shape import Shape


def vocabulary(shape: Shape) -> Vocab:
    is_sentencepiece = shape.toy.tokenizer == "spm"
    vocab = (sentencepiece_vocab if is_sentencepiece else bpe_vocab)(shape.toy.arch)
    space = "\u2581" if is_sentencepiece else "\u0120"
    extra = range(len(vocab.tokens), shape.vocab)
    vocab.tokens += [f"{space}zz{token}" for token in extra]  # by id: none is there already
    vocab.types += [NORMAL] * len(extra)
    vocab.scores += [-float(token) for token in extra]
    return vocab
