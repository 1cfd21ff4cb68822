"""``Stream.save`` and ``Model.resume``: a generation between two chunks.

Saved are the session, the sampler, the parameters, the prompt and the tokens. Detokenizer, stop filter, grammar and the
reader of a chat are functions of the tokens, so they are built again from them. A chat adds what is none: which tokens
each grammar got, and what the thinking budget has decided.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muser.errors import ContextFullError, GrammarDeadEndError, ParameterError, SessionFileError
from muser.grammar import Grammar
from muser.params import SamplingParams
from muser.results import TokenLogprob
from muser.saving import container, identity, sessions

if TYPE_CHECKING:
    from muser._core import Core
    from muser._native import NativeEngine
    from muser.generation import Generation

# What wrong contents lead to. All else, such as a closed model, is not the file's fault and keeps its own type.
_OF_CONTENTS = (
    ContextFullError, GrammarDeadEndError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError,
)  # fmt: skip


def save(generation: Generation, path: str, key: bytes | None) -> None:
    params = generation.params
    if params.logits_processors:
        raise ParameterError(
            "logits_processors are functions, which a file cannot hold", parameter="logits_processors"
        )
    session = generation._session
    if session is None:
        raise ParameterError("the stream has no session: it has not begun, or has ended", parameter="stream")
    chat = generation.state()
    record: dict[str, Any] = {
        "model": identity.of_generations(generation.core),
        "kind": "generation" if chat is None else "chat",
        "chat": chat,
        "params": {
            field.name: getattr(params, field.name)
            for field in dataclasses.fields(params)
            if field.name not in ("grammar", "logits_processors", "seed")
        },
        "grammar": None if params.grammar is None else [params.grammar._kind, params.grammar._lark],
        "seed": generation.sampler.seed,
        "prompt": generation.ids.tolist(),
        "dropped": generation._dropped,
        "tokens": generation._transcript.tokens,
        "logprobs": [[e.token, e.logprob, e.top] for e in generation._transcript.logprobs],
    }
    with session._drive as engine:
        blobs: dict[str, memoryview | bytes] = {
            "session": engine.snapshot(session.slot).data,
            "sampler": generation.sampler.state(),
        }
    container.write(path, record, blobs, key)


def load(core: Core, path: str, key: bytes | None) -> tuple[Generation, memoryview]:
    """The generation, and the snapshot for its session. Raises SessionFileError."""
    from muser.chat.generation import ChatGeneration
    from muser.generation import Generation

    record, blobs = sessions.read(core, path, key, "generation", "chat")
    try:
        session, tokens = blobs["session"], [int(t) for t in record["tokens"]]
        prompt, dropped = np.array(record["prompt"], np.int32), int(record["dropped"])
        grammar = None if record["grammar"] is None else Grammar._made(*record["grammar"])
        params = SamplingParams(**record["params"], grammar=grammar, seed=record["seed"])
        rows = _tokens_of(session).tolist()
        if not tokens or (not dropped and rows != [*prompt.tolist(), *tokens[:-1]]):
            raise ParameterError("the tokens are not those of the session")
        if record["kind"] == "chat":
            generation: Generation = ChatGeneration.restored(core, prompt, params, record["chat"])
        else:
            generation = Generation(core, prompt, params)
        generation._dropped = dropped
        logprobs = [
            TokenLogprob(token=t, logprob=own, top=tuple(map(tuple, top)))
            for t, own, top in record["logprobs"]
        ]
        generation.resume(tokens, blobs["sampler"].tobytes(), logprobs)
    except _OF_CONTENTS as error:
        raise SessionFileError(f"{path}: is inconsistent: {error}", path=path) from None
    return generation, session


def _tokens_of(snapshot: memoryview) -> NDArray[np.int32]:
    """csrc/session/snapshot.h has the form. The engine checks all of it; here only what a slice needs."""
    position, planes = np.frombuffer(snapshot, np.uint32, 5)[[1, 4]].tolist()
    return np.frombuffer(snapshot, np.int32, position, 4 * (6 + 2 * planes)).copy()


def install(engine: NativeEngine, slot: int, snapshot: memoryview, path: str) -> None:
    try:
        engine.restore(slot, np.frombuffer(snapshot, np.uint8))
    except ParameterError as error:
        raise SessionFileError(f"{path}: {error}", path=path) from None
