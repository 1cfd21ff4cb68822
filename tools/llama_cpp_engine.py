"""llama.cpp through the C API that llama-cpp-python wraps: rows in, logits out, as llama-batched-bench
drives it.

Only the recorders, the accuracy comparison and tests/perf use it; llama-cpp-python is never a dependency.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import llama_cpp as C
import numpy as np
from typing_extensions import Self

KV_TYPES = {"f32": 0, "f16": 1}  # ggml type ids


@C.llama_log_callback
def _silent(level: int, text: bytes, data: object) -> None:
    pass


C.llama_log_set(_silent, None)
C.llama_backend_init()


class LlamaCpp:
    """One model and one context with `sequences` sequences."""

    def __init__(
        self,
        path: str | Path,
        *,
        threads: int = 1,
        context: int = 2048,
        sequences: int = 1,
        kv_dtype: str = "f16",
        ubatch: int = 512,
        flash_attention: bool | None = None,
        unified: bool = False,
    ) -> None:
        """flash_attention: None lets llama.cpp choose. unified: one KV buffer for all sequences, so that rows
        of sequences that differ in number share a pass."""
        self._model = C.llama_model_load_from_file(str(path).encode(), C.llama_model_default_params())
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        params = C.llama_context_default_params()
        params.n_ctx = context * sequences
        params.n_batch = max(context, ubatch)
        params.n_ubatch = ubatch
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = KV_TYPES[kv_dtype]
        params.swa_full = False  # as llama.cpp's own programs set it
        params.kv_unified = unified
        if kv_dtype == "f32":
            flash_attention = False  # on a CPU it rounds keys and values to f16
        if flash_attention is not None:
            params.flash_attn_type = int(flash_attention)
        self._context = C.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")
        self._batch = C.llama_batch_init(params.n_batch, 0, 1)
        self._vocab = C.llama_model_get_vocab(self._model)
        self.vocab: int = C.llama_vocab_n_tokens(self._vocab)

    def close(self) -> None:
        if self._context:
            C.llama_batch_free(self._batch)
            C.llama_free(self._context)
            C.llama_model_free(self._model)
            self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def clear(self) -> None:
        C.llama_memory_clear(C.llama_get_memory(self._context), False)

    def forget_from(self, sequence: int, position: int) -> None:
        """Drops the rows of one sequence from this position on."""
        if not C.llama_memory_seq_rm(C.llama_get_memory(self._context), sequence, position, -1):
            raise RuntimeError(f"llama.cpp cannot forget sequence {sequence} from {position}")

    def prepare(self, rows: Sequence[tuple[int, int, int]], *, want: str = "last") -> None:
        """Fills the batch with (sequence, token, position) rows. want: logits of "all" rows or of the "last"
        of each sequence."""
        batch = self._batch
        batch.n_tokens = len(rows)
        last = {sequence: i for i, (sequence, _, _) in enumerate(rows)}
        for i, (sequence, token, position) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = want == "all" or last[sequence] == i

    def decode(self) -> None:
        """One llama_decode of the prepared batch."""
        status = C.llama_decode(self._context, self._batch)
        if status:
            raise RuntimeError(f"llama_decode returned {status}")
        C.llama_synchronize(self._context)

    def run(self, rows: Sequence[tuple[int, int, int]], *, want: str = "last") -> None:
        self.prepare(rows, want=want)
        self.decode()

    def logits(self, row: int = -1) -> np.ndarray:
        """float32 [vocab] of one row of the last run() (an index into its rows); a copy."""
        pointer = C.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(
            ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.vocab,)
        ).copy()

    def all_logits(self, tokens: Sequence[int]) -> np.ndarray:
        """float32 [T, vocab] of one sequence in one batch, from an empty cache."""
        self.clear()
        self.run([(0, t, p) for p, t in enumerate(tokens)], want="all")
        return np.stack([self.logits(i) for i in range(len(tokens))])

    def stepwise_logits(self, tokens: Sequence[int]) -> np.ndarray:
        """The same, one token at a time."""
        self.clear()
        out = []
        for position, token in enumerate(tokens):
            self.run([(0, token, position)])
            out.append(self.logits(0))
        return np.stack(out)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        data = text.encode()
        room = len(data) + 16
        out = (C.llama_token * room)()
        n = C.llama_tokenize(self._vocab, data, len(data), out, room, add_special, parse_special)
        if n < 0:
            raise RuntimeError(f"llama_tokenize needs {-n} tokens")
        return list(out[:n])


def quantize(
    source: str | Path, target: str | Path, file_type: str, *, requantize: bool = False, pure: bool = False
) -> None:
    """llama-quantize: file_type is the tail of an LLAMA_FTYPE_MOSTLY_ name, such as "Q4_K_M" or "Q4_0"."""
    params = C.llama_model_quantize_default_params()
    params.nthread = 1
    params.ftype = getattr(C, f"LLAMA_FTYPE_MOSTLY_{file_type}")
    params.allow_requantize = requantize
    params.pure = pure
    status = C.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if status:
        raise RuntimeError(f"llama_model_quantize returned {status} for {source}")


def versions() -> dict[str, str]:
    """What a record must carry to be repeated: package, build features, CPU."""
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    features = C.llama_print_system_info().decode().strip(" |\n")
    return {
        "llama_cpp_python": C.__version__,
        "features": features,
        "cpu": cpu,
        "machine": platform.machine(),
    }
