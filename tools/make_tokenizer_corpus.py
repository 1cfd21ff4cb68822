"""Records what llama.cpp makes of the awkward strings: tests/data/text/{corpus,llama_cpp}.json.

    python tools/make_tokenizer_corpus.py FOLDER     # with smollm2.gguf and gemma3-270m.gguf in it

Needs llama-cpp-python (an oracle, never a dependency) and the gguf package. Real models are asked with special
parsing off and on, with and without the begin-of-text token. SmolLM2's vocabulary is asked again under each of the
other pre-tokenizer names, and the small vocabularies of tests/data/text/vocabulary_*.json are asked too, so that
everything but the two real vocabularies is tested without a download.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import llama_cpp
from tokenizer_corpus import corpus

DATA = Path(__file__).parent.parent / "tests" / "data" / "text"
PRE_TOKENIZERS = ("llama4", "llama-bpe", "qwen2", "gpt-2", "default")
SMALL = ("random_muse", "tiny_muse", "toy_sentencepiece")


@contextmanager
def vocabulary(path: Path) -> Iterator[ctypes.c_void_p]:
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    yield llama_cpp.llama_model_get_vocab(model)
    llama_cpp.llama_model_free(model)


def tokenize(vocab: ctypes.c_void_p, text: str, add_special: bool, parse_special: bool) -> list[int]:
    data = text.encode()
    size = 4 * len(data) + 8
    room = (llama_cpp.llama_token * size)()
    count = llama_cpp.llama_tokenize(vocab, data, len(data), room, size, add_special, parse_special)
    if count < 0:
        raise SystemExit(f"llama.cpp wants {-count} tokens for {text!r}")
    return list(room[:count])


def column(vocab: ctypes.c_void_p, texts: list[str], parse_special: bool) -> list[str]:
    return [" ".join(map(str, tokenize(vocab, text, False, parse_special))) for text in texts]


def front(vocab: ctypes.c_void_p, texts: list[str], parse_special: bool) -> list[int]:
    """What asking for special tokens puts in front: the same for every text, which is checked."""
    found = tokenize(vocab, "", True, parse_special)
    for text in texts:
        with_special = tokenize(vocab, text, True, parse_special)
        if with_special != found + tokenize(vocab, text, False, parse_special):
            raise SystemExit(f"special tokens change more than the front of {text!r}: {with_special}")
    return found


def differences(base: list[str], other: list[str]) -> dict[str, str]:
    """{index: ids} where the two differ, to keep the file small."""
    return {str(index): ids for index, (ours, ids) in enumerate(zip(base, other, strict=True)) if ours != ids}


def record(path: Path, texts: list[str]) -> dict[str, object]:
    with vocabulary(path) as vocab:
        plain = column(vocab, texts, False)
        ends = [
            t for t in range(llama_cpp.llama_vocab_n_tokens(vocab)) if llama_cpp.llama_vocab_is_eog(vocab, t)
        ]
        return {
            "plain": plain,
            "special": differences(plain, column(vocab, texts, True)),
            "front": [front(vocab, texts, parse_special) for parse_special in (False, True)],
            "end_of_generation": ends,
        }


def write_vocabulary(path: Path, metadata: dict[str, object]) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata.items():
        if not key.startswith("tokenizer.ggml."):
            continue
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main() -> None:
    from muser._muser import GgufFile

    folder = Path(sys.argv[1])
    texts = corpus()
    models: dict[str, object] = {}
    for name in ("smollm2", "gemma3-270m"):
        models[name] = record(folder / f"{name}.gguf", texts)
    scratch = Path(tempfile.mkdtemp()) / "vocabulary.gguf"
    for name in SMALL:
        write_vocabulary(scratch, json.loads((DATA / f"vocabulary_{name}.json").read_text()))
        models[name] = record(scratch, texts)
    smollm2 = GgufFile(str(folder / "smollm2.gguf")).metadata()
    under: dict[str, object] = {}
    for pre in PRE_TOKENIZERS:
        write_vocabulary(scratch, smollm2 | {"tokenizer.ggml.pre": pre})
        with vocabulary(scratch) as vocab:
            under[pre] = differences(models["smollm2"]["plain"], column(vocab, texts, False))
    recorded = {"llama_cpp_python": llama_cpp.__version__, "models": models, "smollm2_under": under}
    (DATA / "corpus.json").write_text("[\n" + ",\n".join(map(json.dumps, texts)) + "\n]\n")
    (DATA / "llama_cpp.json").write_text(json.dumps(recorded, indent=0) + "\n")


if __name__ == "__main__":
    main()
