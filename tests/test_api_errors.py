"""What a host sees: one family of errors, silence on its streams, and no harm from forks, exits and imports."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from fake_engine import fake_model, free_slots

import muser
from muser import ForkedError, MuserError, ParameterError, errors

TESTS = str(Path(__file__).parent)
SOURCE = str(Path(muser.__file__).parent.parent)


def python(code: str, **options) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, TESTS])}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, env=environment, check=False, **options
    )


CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, MuserError)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_one_base_survives_pickling_and_is_exported(cls):
    error = pickle.loads(pickle.dumps(cls("what happened")))
    assert str(error) == "what happened"
    assert isinstance(error, MuserError)
    assert getattr(muser, cls.__name__) is cls
    with pytest.raises(TypeError, match="no field"):
        cls("x", nonsense=1)


def test_errors_are_also_what_the_standard_library_would_raise():
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(errors.WaitTimeoutError, TimeoutError)
    assert issubclass(errors.OutOfMemoryError, MemoryError)
    assert issubclass(errors.FileAccessError, OSError)
    assert issubclass(errors.FileMissingError, FileNotFoundError)
    missing = errors.FileMissingError("m", path="p", filename="p", errno=2, strerror="none")
    for error in (missing, pickle.loads(pickle.dumps(missing))):
        assert (str(error), error.path, error.filename, error.errno, error.strerror) == ("m", "p", "p", 2, "none")
    error = pickle.loads(pickle.dumps(ParameterError("m", parameter="p", value=3)))
    assert (error.parameter, error.value) == ("p", 3)


def test_all_public_names_exist_and_are_documented():
    for name in muser.__all__:
        assert hasattr(muser, name)
    for cls in (muser.Model, muser.Session, muser.SlotPool, muser.Stream, muser.AsyncStream, muser.Sampler, muser.SamplingParams,
                muser.Permit, muser.Completion, muser.Usage, muser.Timings, muser.Health, muser.QueueStats):  # fmt: skip
        assert cls.__doc__
        for name, member in inspect.getmembers(cls):
            if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{cls.__name__}.{name}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_told_and_the_parent_goes_on():
    model = fake_model()
    session = model.session().session
    stream = model.stream("x")
    next(stream)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = []
            calls = [
                lambda: model.generate("x"), lambda: model.session(), lambda: session.decode(1), lambda: session.cancel(),
                lambda: next(stream), lambda: model.stats(), lambda: model.close(), lambda: model.health(),
            ]  # fmt: skip
            for call in calls:
                try:
                    call()
                    said.append("nothing")
                except ForkedError as error:
                    said.append(f"{error.pid}")
            session = stream = calls = call = None
            os.write(writer, " ".join(said).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read().split() == [str(os.getpid())] * 8
    os.waitpid(child, 0)
    list(model.stream("x", max_tokens=3))
    session.prefill("x")
    stream.close()
    session = None
    assert free_slots(model) == 4


def test_import_has_no_side_effects():
    done = python(
        """
        import sys, threading, signal, locale, warnings, os
        before = (threading.active_count(), signal.getsignal(signal.SIGINT), sys.getswitchinterval(), dict(os.environ), os.getcwd())
        warnings.simplefilter("error")
        import muser
        assert before == (threading.active_count(), signal.getsignal(signal.SIGINT), sys.getswitchinterval(), dict(os.environ), os.getcwd())
        for heavy in ("tokenizers", "jinja2", "gguf", "asyncio", "concurrent.futures.thread"):
            assert heavy not in sys.modules, heavy
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


QUIET = """
    import io, sys, warnings
    warnings.simplefilter("error")
    {streams}
    from fake_engine import fake_model
    import muser, asyncio
    with fake_model() as model:
        model.generate("x", max_tokens=5)
        asyncio.run(model.agenerate("x", max_tokens=5))
        try:
            model.generate([])
        except muser.ParameterError:
            pass
        next(model.stream("x"))
"""


@pytest.mark.parametrize(
    "streams",
    ["", "sys.stdout, sys.stderr = io.StringIO(), io.StringIO()", "sys.stderr.close()", "sys.stdout = sys.stderr = None",
     "import os; os.close(1); os.close(2)"],
)  # fmt: skip
def test_silence_whatever_the_host_did_to_its_streams(streams):
    done = python(QUIET.format(streams=streams))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_messages_go_to_the_logger(caplog):
    class Stuck:
        def close(self, grace):
            return False

    model = fake_model()
    model.engine.close = Stuck().close
    with caplog.at_level(logging.WARNING, "muser"):
        model.close()
    assert "still running" in caplog.text


def test_exit_with_generations_in_progress_does_not_hang():
    done = python(
        """
        import asyncio
        from fake_engine import fake_model
        model = fake_model(delay=0.01, context=100_000)
        async def main():
            stream = model.astream("x")
            await stream.__anext__()
            asyncio.ensure_future(model.agenerate("x"))
            await asyncio.sleep(0.05)
        asyncio.run(main())
        half = model.stream("x")
        next(half)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "generate",
    ['asyncio.run(model.agenerate("x"))', 'model.generate("x")', 'list(model.stream("x"))'],
)
def test_exit_with_daemon_threads_that_generate(generate):
    """They end within a step, not after the 80 seconds of the generation, and without a word; so does who waits."""
    done = python(
        f"""
        import asyncio, threading, time
        from fake_engine import fake_model, wait_until
        model = fake_model(delay=0.02, context=4096, slots=1)
        for _ in range(2):
            threading.Thread(target=lambda: {generate}, daemon=True).start()
        wait_until(lambda: model.engine.steps > 2 and model.slots.stats().waiting == 1, 20)
        print(time.time(), flush=True)
        """
    )
    ended = time.time()
    assert (done.returncode, done.stderr) == (0, "")
    assert ended - float(done.stdout) < 20


def test_exit_reports_other_errors_of_daemon_threads():
    done = python(
        """
        import atexit, threading, time
        from fake_engine import fake_model, wait_until
        failed = threading.Event()
        atexit.register(failed.wait, 60)  # after the model's own
        model = fake_model(delay=0.02, context=4096)
        def work():
            try:
                model.generate("x")
            except Exception as error:
                raise KeyError("mine") from error
        previous = threading.excepthook
        def hook(args):
            previous(args)
            failed.set()
        threading.excepthook = hook
        threading.Thread(target=work, daemon=True).start()
        wait_until(lambda: model.engine.steps > 2, 20)
        """
    )
    assert done.returncode == 0 and "KeyError: 'mine'" in done.stderr


def test_load_checks_its_arguments(tmp_path):
    path = tmp_path / "missing.gguf"
    for name, values in {
        "slots": (0, 5, -1, 1.0, "4", True, None),
        "context": (0, -1, 1.5, "x"),
        "threads": (0, -1, 1025, "x", True),
        "prefill_patience": (0, -1, "x"),
        "memory_limit": (0, -1, 1.5),
        "device": (None, 3),
        "kv_dtype": (None, 3),
    }.items():
        for value in values:
            with pytest.raises(ParameterError, match=name) as caught:
                muser.Model.load(path, **{name: value})
            assert caught.value.parameter == name
    with pytest.raises(TypeError):
        muser.Model.load(path, slot=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_owners_of_a_slot_or_memory_cannot_be_copied(way):
    model = fake_model(slots=1)
    with model.session() as session:
        owners = [model, model.slots, session, model.stream("x"), model.astream("x"), model.slots.acquire_async()]
        owners += [muser.Permit(session), session._ticket]
        for owner in owners:
            with pytest.raises(TypeError, match=f"muser {type(owner).__name__} cannot be copied"):
                way(owner)
    assert model.slots.stats().free == 1
