"""What a generation has said: tokens go in, chunks of text come out. Between the two, in this order: the detokenizer,
which holds back unfinished characters, and the stop filter, which holds back what may become a stop string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muser.params import SamplingParams
from muser.results import Chunk, FinishReason, TokenLogprob
from muser.stops import StopFilter
from muser.text import Detokenizer, Tokenizer


class Transcript:
    """Of one generation, from its first token to its last chunk."""

    def __init__(self, tokenizer: Tokenizer, params: SamplingParams) -> None:
        self.tokens: list[int] = []  # of the completion
        self.prompt: tuple[int, ...] = ()  # if it is echoed
        self.logprobs: list[TokenLogprob] = []  # of the prompt if it is echoed, and of the completion
        self.delivered: list[str] = []
        self._detokenizer = Detokenizer(tokenizer, skip_special=True, continuation=not params.echo)
        self._stops = StopFilter(params.stop, include=params.include_stop) if params.stop else None
        self._unsearched = params.min_tokens
        self._with_logprobs = params.logprobs
        self._ready = ""  # text that nothing holds back any more
        self._undelivered: list[int] = []
        self._n_logprobs = 0  # delivered

    @property
    def stop_string(self) -> str | None:
        """The stop string that was found; nothing is added after it."""
        return None if self._stops is None else self._stops.found

    def echo(self, tokens: Sequence[int], logprobs: Iterable[TokenLogprob]) -> None:
        """The prompt, which the first chunk begins with. Stop strings are not looked for in it."""
        self.prompt = tuple(tokens)
        self._undelivered += self.prompt
        self._ready = self._detokenizer.push_all(tokens)
        self.logprobs += logprobs

    def add(self, token: int, logprob: TokenLogprob | None = None) -> Chunk | None:
        """A chunk, if there is text for one."""
        self.tokens.append(token)
        self._undelivered.append(token)
        if logprob is not None:
            self.logprobs.append(logprob)
        text = self._detokenizer.push(token)
        if self._stops is not None and len(self.tokens) > self._unsearched:
            text = self._stops.push(text)
            if self._stops.found is not None:
                self._ready += text
                return None  # the last chunk takes it along
        self._ready += text
        return self._chunk(None) if self._ready else None

    def resume(self, logprobs: Iterable[TokenLogprob]) -> None:
        """These belong to what was added until now, all of which was delivered before."""
        self.logprobs = list(logprobs)
        self._n_logprobs = len(self.logprobs)

    def end(self, reason: FinishReason) -> Chunk:
        """The last chunk, with whatever was held back: a beginning of a stop string as it is, a beginning of a
        character as U+FFFD. Behind a stop string there is nothing."""
        if self._stops is None:
            self._ready += self._detokenizer.flush()
        elif self._stops.found is None:
            self._ready += self._stops.flush() + self._detokenizer.flush()
        return self._chunk(reason)

    def _chunk(self, reason: FinishReason | None) -> Chunk:
        text, tokens, first = self._ready, tuple(self._undelivered), self._n_logprobs
        self._ready, self._undelivered, self._n_logprobs = "", [], len(self.logprobs)
        self.delivered.append(text)
        logprobs = tuple(self.logprobs[first:]) if self._with_logprobs else None
        return Chunk(text=text, tokens=tokens, logprobs=logprobs, finish_reason=reason)
