"""Sessions and generations that are saved go on, in another process as well, as if nothing had happened; and no file that is
not whole, unchanged and of this very model changes anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from toy import write_toy

import muser
from muser import Grammar, SamplingParams
from muser.errors import FileAccessError, FileMissingError, MuserError, ParameterError, SessionFileError

KEY = bytes(range(32))
CHAIN = {
    "temperature": 1.3, "top_k": 50, "seed": 2**60, "xtc_probability": 0.5, "repetition_penalty": 1.2, "dry_multiplier": 0.8,
}  # fmt: skip
LIMITS = {
    "plain": {"max_tokens": 60, "ignore_eos": True, **CHAIN},
    "mirostat": {"max_tokens": 60, "ignore_eos": True, "mirostat": 2, "seed": 5, "stop": ["zebra", "the end of"]},
    "grammar": {"max_tokens": 60, "grammar": Grammar.regex("([a-z]{1,9}[ ,.]){40,50}"), "logprobs": True, **CHAIN},
    "echo": {"max_tokens": 40, "echo": True, "logprobs": True, "top_logprobs": 2, "min_tokens": 30, **CHAIN},
}


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(slots=2, context=512) as model:
        yield model


@pytest.fixture(scope="module")
def other():
    """What another process would load: nothing computed, nothing cached."""
    with muser.Model.tiny(slots=2, context=512, threads=1) as model:
        yield model


@pytest.mark.parametrize("chain", [{}, {"temperature": 0.7, "top_k": 40, "logit_bias": {3: 1.5}}, {"dry_multiplier": 0.8}])
def test_the_error_says_how_to_make_the_sampler_that_a_session_was_saved_with(model, tmp_path, monkeypatch, chain):
    path, first = tmp_path / "session", muser.Sampler(tokenizer=model.tokenizer, **chain)
    with model.session() as session:
        session.prefill("Once upon a time")
        session.decode(session.sample(first))
        session.save(path, sampler=first)
        expected = [session.sample(first) for _ in range(20)]
        for wrong in (None, muser.Sampler(seed=3), muser.Sampler(seed=first.seed, top_k=7)):
            with pytest.raises(SessionFileError, match=f"seed={first.seed}") as caught:
                session.restore(path, sampler=wrong)
        again = eval("muser.Sampler(" + str(caught.value).rpartition("muser.Sampler(")[2], {"muser": muser, "model": model})
        session.restore(path, sampler=again)
        assert [session.sample(again) for _ in range(20)] == expected
        monkeypatch.setattr("muser.saving.sessions.made_with", lambda sampler: None)  # as files were before
        session.save(path, sampler=first)
        with pytest.raises(SessionFileError, match="with the same parameters and seed"):
            session.restore(path)


@pytest.mark.parametrize("kind", LIMITS)
def test_a_generation_saved_at_any_chunk_goes_on_the_same(model, other, tmp_path, kind):
    params = SamplingParams(**LIMITS[kind])
    prompt = "Once upon a time there was a little fox"
    whole = list(model.stream(prompt, params))
    expected = model.generate(prompt, params)
    places = {0, 1, 2, len(whole) // 2, len(whole) - 2}
    stream = model.stream(prompt, params, reader_grace=600)  # a slow device resumes for longer than 5 s meanwhile
    for place, _ in enumerate(stream):
        if place not in places:
            continue
        path = tmp_path / f"{place}.muser"
        stream.save(path, key=KEY if place % 2 else None)
        before = other.stats()["prefill_tokens"]
        resumed = other.resume(path, key=KEY if place % 2 else None)
        assert list(resumed) == whole[place + 1 :]
        assert other.stats()["prefill_tokens"] == before
        done = resumed.completion
        assert (done.text, done.tokens, done.finish_reason) == (expected.text, expected.tokens, expected.finish_reason)
        assert (done.seed, done.logprobs, done.timings.prompt_tokens) == (expected.seed, expected.logprobs, 0)
    assert stream.completion.tokens == expected.tokens  # saving changed nothing


WINDOW, RING = 256, 768  # of the model in the package, and of its stand-in on slow devices
EDGES = (WINDOW, RING, 64, 512)


@pytest.mark.parametrize("edge", EDGES)
def test_a_generation_saved_around_an_edge_goes_on_for_50_tokens(tmp_path, edge):
    """Of windows, rings and chunks; with a grammar and a random sampler."""
    params = SamplingParams(max_tokens=51, grammar=Grammar.regex("([a-z]{1,9}[ ,.]){99}"), logprobs=True, **CHAIN)
    ids = np.random.default_rng(edge).integers(0, 256, edge + 1).tolist()
    with muser.Model.tiny(slots=1, context=1024) as one, muser.Model.tiny(slots=1, context=1024, threads=1) as other:
        assert one.memory_plan()["ring_rows"] == RING
        for prompt in (ids[: edge - 1], ids[:edge], ids):
            expected = one.generate(prompt, params)
            assert len(expected.tokens) == 51
            stream = one.stream(prompt, params, reader_grace=600)
            next(stream)
            stream.save(tmp_path / "saved.muser")
            stream.close()
            resumed = other.resume(tmp_path / "saved.muser")
            assert sum(len(chunk.tokens) for chunk in resumed) == 50
            assert (resumed.completion.tokens, resumed.completion.logprobs) == (expected.tokens, expected.logprobs)


def test_a_session_and_its_sampler_go_on_in_another_process(model, tmp_path):
    path = tmp_path / "session.muser"
    chain = {**CHAIN, "dry_sequence_breakers": ()}
    sampler = muser.Sampler(**chain)
    with model.session() as session:
        session.prefill("Once upon a time")
        sampler.accept(session.tokens)
        for _ in range(20):
            session.decode(session.sample(sampler))
        session.save(path, sampler=sampler)
        expected = [session.sample(sampler)]
        for _ in range(50):
            session.decode(expected[-1])
            expected.append(session.sample(sampler))
        logits = session.logits.tobytes()
    program = f"""
import muser
sampler = muser.Sampler(**{chain!r})
with muser.Model.tiny(slots=1, context=512, threads=1) as model, model.restore({str(path)!r}, sampler=sampler) as session:
    tokens = [session.sample(sampler)]
    for _ in range(50):
        session.decode(tokens[-1])
        tokens.append(session.sample(sampler))
    assert model.stats()["prefill_tokens"] == 0
    print(tokens, session.logits.tobytes().hex())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.split("] ")[0]) == ("", str(expected)[:-1])
    assert done.stdout.split("] ")[1].strip() == logits.hex()


def state_of(session):
    logits = session.logits
    return session.tokens, None if logits is None else logits.tobytes()


def test_a_damaged_file_changes_nothing(model, tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    with model.session() as session:
        session.prefill("Once upon a time")
        session.save(good)
        session.save(tmp_path / "sealed", key=KEY)
        session.prefill(" there was")
        before = state_of(session)
        data = good.read_bytes()
        rng = np.random.default_rng(1)
        damaged = [b"", b"MUSERSES", b"GGUF" + data[4:], data + b"x", data[:-1]]
        damaged += [data[: len(data) * i // 16] for i in range(16)]
        for offset in [*range(24), *rng.integers(0, len(data), 40).tolist()]:
            flipped = bytearray(data)
            flipped[offset] ^= 1 << int(rng.integers(8))
            damaged.append(bytes(flipped))
        for content in damaged:
            bad.write_bytes(content)
            with pytest.raises(SessionFileError) as caught:
                session.restore(bad)
            assert caught.value.path == str(bad) and str(bad) in str(caught.value)
        for key in (None, bytes(32)):
            with pytest.raises(SessionFileError, match="key"):
                session.restore(tmp_path / "sealed", key=key)
        with pytest.raises(SessionFileError, match="not encrypted"):
            session.restore(good, key=KEY)
        with pytest.raises(SessionFileError, match="without a sampler"):
            session.restore(good, sampler=muser.Sampler())
        with pytest.raises(SessionFileError, match="not a 'generation'"):
            model.resume(good)
        with pytest.raises(FileMissingError):
            session.restore(tmp_path / "missing")
        with pytest.raises(FileAccessError):
            session.restore(tmp_path)
        assert state_of(session) == before
        session.restore(good)
        session.prefill(" there was")
        assert state_of(session) == before
        session.restore(tmp_path / "sealed", key=KEY)
        session.prefill(" there was")
        assert state_of(session) == before
    assert model.slots.stats().free == 2


def test_a_file_with_a_right_checksum_and_wrong_contents_is_refused(model, tmp_path):
    """What a hostile sender would make."""
    from muser.saving import container

    path = tmp_path / "file"
    with model.session() as session:
        session.prefill("Once upon a time")
        session.save(path)
        record, blobs = container.read(str(path), None)
        before = state_of(session)
        wrong = [({}, blobs), ({**record, "model": None}, blobs), ({**record, "kind": 5}, blobs), (record, {})]
        for name, value in {"architecture": "llama", "weights": "0", "kv_dtype": "f32", "context": 7, "tokenizer": 1}.items():
            wrong.append(({**record, "model": {**record["model"], name: value}}, blobs))
        snapshot = bytes(blobs["session"])
        wrong += [(record, {"session": snapshot[:-4]}), (record, {"session": snapshot + b"abcd"})]
        for word in range(6):
            wrong.append((record, {"session": snapshot[: 4 * word] + b"\xff\xff\xff\x7f" + snapshot[4 * word + 4 :]}))
        for changed, parts in wrong:
            container.write(str(path), {k: v for k, v in changed.items() if k != "blobs"}, parts, None)
            with pytest.raises(SessionFileError):
                session.restore(path)
        assert state_of(session) == before


def test_another_model_is_named(model, tmp_path):
    toys = {}
    for seed in (1, 2):
        toys[seed] = tmp_path / f"{seed}.gguf"
        write_toy(toys[seed], "llama", quant="Q8_0", seed=seed, context=64)
    with muser.Model.load(toys[1]) as one, one.session() as session:
        session.prefill([1, 2, 3])
        session.save(tmp_path / "one")
    for name, options, match in [
        (toys[2], {}, "weights"), (toys[1], {"context": 32}, "context"), (toys[1], {"kv_dtype": "f32"}, "kv_dtype"),
    ]:  # fmt: skip
        with muser.Model.load(name, **options) as another:
            with pytest.raises(SessionFileError, match=match):
                another.restore(tmp_path / "one")
            assert another.slots.stats().free == 4
    with muser.Model.load(toys[1], slots=1) as same, same.restore(tmp_path / "one") as session:
        assert session.tokens == [1, 2, 3]


@pytest.mark.parametrize("ask", ["stream", "chat_stream"])
def test_a_generation_of_another_context_policy_is_refused_and_a_session_is_not(tmp_path, ask):
    """A full context ends the one and shifts the other."""
    models = {policy: muser.Model.tiny(context=64, context_policy=policy, slots=1, threads=1) for policy in ("error", "shift")}
    prompt = "Once" if ask == "stream" else [{"role": "user", "content": "Hi"}]
    for policy, other in (("error", "shift"), ("shift", "error")):
        with getattr(models[policy], ask)(prompt, max_tokens=20, seed=3, ignore_eos=True) as stream:
            next(stream)
            stream.save(tmp_path / "file")
            rest = list(stream)
        with pytest.raises(SessionFileError, match=f"context_policy is '{policy}', and this model has '{other}'") as caught:
            models[other].resume(tmp_path / "file")
        assert caught.value.path == str(tmp_path / "file") and models[other].slots.stats().free == 1
        assert list(models[policy].resume(tmp_path / "file")) == rest
        with models[policy].session() as session:
            session.prefill("Once")
            session.save(tmp_path / "session")
        with models[other].restore(tmp_path / "session") as session:
            assert session.position > 0
    for model in models.values():
        model.close()


def test_what_is_not_the_fault_of_the_file_keeps_its_type(model, tmp_path, monkeypatch):
    from muser.generation import Generation

    path = tmp_path / "file"
    with model.stream("Once", max_tokens=9, ignore_eos=True) as stream:
        next(stream)
        stream.save(path)
    for error in (muser.ClosedError, muser.ForkedError, muser.DeviceError, muser.UnhealthyError, muser.CancelledError,
                  muser.OutOfMemoryError, muser.OverloadedError, muser.InternalError, FileAccessError, KeyboardInterrupt):  # fmt: skip

        def fail(*_: object, error: type[BaseException] = error) -> None:
            raise error("not of the file")

        monkeypatch.setattr(Generation, "resume", fail)
        with pytest.raises(error) as caught:
            model.resume(path)
        assert type(caught.value) is error and str(caught.value) == "not of the file"
    monkeypatch.undo()
    assert model.slots.stats().free == 2 and len(list(model.resume(path))) > 1
    sampler = muser.Sampler(seed=3)
    with model.session() as session:
        session.save(tmp_path / "session", sampler=sampler)
        sampler.sample(np.ones(9, np.float32))
        before = sampler.state()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(np, "frombuffer", interrupt)  # between the sampler and the rows
        with pytest.raises(KeyboardInterrupt):
            session.restore(tmp_path / "session", sampler=sampler)
        monkeypatch.undo()
    assert sampler.state() == before
    closed = muser.Model.tiny(slots=1, context=512, threads=1)
    closed.close()
    for call in (closed.resume, closed.restore):
        for name in (path, tmp_path / "missing"):
            with pytest.raises(muser.ClosedError):
                call(name)


def test_saving_is_all_or_nothing(model, tmp_path, monkeypatch):
    path = tmp_path / "file"
    with model.session() as session:
        session.prefill("Once")
        session.save(path)
        good = path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
        session.prefill(" upon")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(FileAccessError, match="No space left"):
            session.save(path)
        monkeypatch.undo()
        assert path.read_bytes() == good and os.listdir(tmp_path) == ["file"]
        with pytest.raises(FileAccessError):
            session.save(tmp_path / "no folder" / "file")
        for key in (b"short", "x" * 32, 5):
            with pytest.raises(ParameterError, match="key"):
                session.save(path, key=key)
        with pytest.raises(ParameterError, match="sampler"):
            session.save(path, sampler=3)


def test_what_cannot_be_saved_says_so(model, tmp_path):
    stream = model.stream("Once", max_tokens=3)
    with pytest.raises(ParameterError, match="not begun"):
        stream.save(tmp_path / "x")
    list(stream)
    with pytest.raises(ParameterError, match="ended"):
        stream.save(tmp_path / "x")
    stream = model.stream("Once", max_tokens=3, logits_processors=[lambda tokens, logits: None])
    next(stream)
    with pytest.raises(ParameterError, match="logits_processors"):
        stream.save(tmp_path / "x")
    stream.close()
    assert os.listdir(tmp_path) == []


def test_pipes_and_devices_are_refused_at_once_and_stay_what_they_are(model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    refused: list[object] = []

    def attempts() -> None:
        def refuse(*calls) -> None:
            for call in calls:
                for path in (pipe, link):
                    with pytest.raises(FileAccessError, match="not a regular file"):
                        call(path)
                    refused.append(call)

        with model.session() as session, model.stream("Once", max_tokens=99, ignore_eos=True) as stream:
            next(stream)
            refuse(session.save, session.restore, stream.save)
        refuse(model.restore, model.resume)

    thread = threading.Thread(target=attempts, daemon=True)  # a pipe without a writer once waited for ever
    thread.start()
    thread.join(60)
    assert len(refused) == 10
    assert pipe.is_fifo() and link.is_char_device() and sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_an_empty_session_and_a_file_moved_elsewhere(model, tmp_path):
    with model.session() as session:
        session.save(tmp_path / "empty")
        session.prefill("Once")
        shutil.move(tmp_path / "empty", tmp_path / "moved")
        session.restore(tmp_path / "moved")
        assert (session.position, session.logits) == (0, None)
    assert issubclass(SessionFileError, MuserError)
