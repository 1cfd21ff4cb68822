"""What the driver and the workers must call alike. The workers of peers run in interpreters that have numpy and
the peer, and little else: they may import this module, jobs.py and gaps.py."""

from __future__ import annotations

ITSELF, LLAMA, OPENVINO = "muser", "llama.cpp", "openvino-genai"  # the sides
OPENVINO_HINT = "MUSER_PERF_OPENVINO_HINT"  # environment: a side's INFERENCE_PRECISION_HINT
LLAMA_LIBS = "LLAMA_CPP_LIB_PATH"  # environment, of llama-cpp-python: where the libraries are


def name_of(side: str) -> str:
    """Without the name in brackets of a build or a setting."""
    return side.partition(" (")[0]
