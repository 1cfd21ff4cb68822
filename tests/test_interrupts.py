"""Ctrl-C, or another signal handler that raises, at any place: no lock stays taken, no slot is lost, nothing hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest
from fake_engine import EOS, fake_model, free_slots, wait_until
from interrupt import every_interrupt

import muser
from muser import session as session_module
from muser._queue import SlotQueue, Ticket

# An interrupted __del__ cannot raise; Python reports it, and nothing may be lost all the same.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _a_hang_is_a_failure():
    import faulthandler

    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_taking_and_giving_back():
    queue = SlotQueue(2)
    kept = queue.acquire()

    def visit():
        ticket = queue.acquire(timeout=0)
        ticket.release()
        del ticket

    for _ in every_interrupt(visit):
        assert not queue._lock.locked()
        stats = queue.stats()
        assert (stats.free, stats.waiting) == (1, 0)
        assert kept.slot == 0
        del stats


def test_a_slot_goes_out_once_whatever_was_interrupted():
    queue = SlotQueue(2)
    tickets = []

    def visit():
        tickets.append(queue.acquire(timeout=0))
        tickets[0].release()
        tickets.append(queue.acquire(timeout=0))
        tickets.append(queue.acquire(timeout=0))

    for place in every_interrupt(visit):
        held = [t.slot for t in tickets if t.holds_slot]
        assert len(held) == len(set(held))
        assert queue.stats().free == 2 - len(held), place
        tickets.clear()
        assert queue.stats().free == 2


def test_waiters_are_served_although_the_release_was_interrupted():
    queue = SlotQueue(1)
    served = []

    def wait():
        queue.acquire(timeout=20).release()
        served.append(1)

    held = [queue.acquire()]
    threads = []

    def start_waiter():
        threads.append(threading.Thread(target=wait, daemon=True))
        threads[-1].start()
        while queue.stats().waiting == 0:
            pass

    start_waiter()
    rounds = 0
    for rounds, _ in enumerate(every_interrupt(lambda: held[0].release()), 1):
        held[0].release()  # as its __del__ does
        threads[-1].join(20)
        assert len(served) == rounds
        held[0] = queue.acquire(timeout=20)
        start_waiter()


def test_close_of_the_queue():
    queues = []

    def close():
        queue = SlotQueue(1)
        queues.append(queue)
        queue.close(lambda: muser.ClosedError("closed"))

    for _ in every_interrupt(close):
        for queue in queues:
            queue.close(lambda: muser.ClosedError("closed"))
            with pytest.raises(muser.ClosedError):
                queue.acquire(timeout=0)
        queues.clear()


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.prefill([1, 2]),
        lambda session: session.decode(3),
        lambda session: session.position,
        lambda session: session.cancel(),
        lambda session: muser.decode_group([(session, 1)]),
    ],
)
def test_calls_of_a_session(use):
    """It goes on afterwards, and ends at once: nobody is in it."""
    model = fake_model(slots=1)
    with model.session() as session:
        for _ in every_interrupt(lambda: use(session)):
            session.clear_cancel()
            session.rewind(0)
            assert session.position == 0
    assert free_slots(model) == 1


def test_lending_and_ending_a_session():
    model = fake_model(slots=1)

    def lend():
        with model.session(timeout=0) as session:
            session.prefill([1])

    for _ in every_interrupt(lend):
        assert free_slots(model) == 1
    permits = [model.session()]
    for place in every_interrupt(lambda: permits[0].release()):
        if place > 3:  # before, nothing has begun
            assert free_slots(model) == 1, place
        permits[0].release()
        assert free_slots(model) == 1
        permits[0] = model.session(timeout=0)


def test_generating():
    model = fake_model(slots=1)
    for _ in every_interrupt(lambda: model.generate("x", max_tokens=1, timeout=0)):
        assert free_slots(model) == 1
        assert model._core._tokenizer_lock.locked() is False


def test_generating_several():
    model = fake_model(slots=2)
    for _ in every_interrupt(lambda: model.generate_n("x", 3, max_tokens=1, timeout=0)):
        wait_until(lambda: model.slots.stats().free == 2)  # a lane whose future was lost ends by itself
        assert free_slots(model) == 2


def test_the_caller_of_several_has_made_its_own_and_waits_for_the_others():
    caller = threading.get_ident()

    def next_token(tokens):
        if threading.get_ident() == caller:
            return EOS if len(tokens) > 4 else 97
        if len(tokens) == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return 97

    model = fake_model(delay=0.002, next_token=next_token)
    with pytest.raises(KeyboardInterrupt):
        model.generate_n("x", 3, max_tokens=None)
    assert free_slots(model) == 4


def test_closing_an_interrupted_stream_gives_its_slot_back():
    model = fake_model(slots=1)
    streams = []

    def read():
        streams.append(model.stream("x", max_tokens=1, timeout=0))
        for _ in streams[-1]:
            pass

    for _ in every_interrupt(read):
        for stream in streams:
            stream.close()
        assert free_slots(model) == 1
        streams.clear()


def test_closing_a_model():
    models = []

    def close():
        models[0].close()

    models.append(fake_model(slots=1))
    models[0].generate("x", max_tokens=1)
    for _ in every_interrupt(close):
        models[0].close()
        assert models[0].engine._closed
        assert models[0]._core._native is None
        models[0] = fake_model(slots=1)


def test_the_wait_for_a_driver_is_bounded(monkeypatch, caplog):
    monkeypatch.setattr(session_module, "END_LIMIT_SECONDS", 0.05)
    model = fake_model(slots=1)
    permit = model.session()
    inside, leave = threading.Event(), threading.Event()

    def call_that_does_not_end():
        with permit.session._drive:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=call_that_does_not_end, daemon=True)
    thread.start()
    inside.wait(60)
    permit.release()
    assert "still running" in caplog.text
    assert free_slots(model) == 0  # not at rest: nobody else gets it
    with pytest.raises(muser.ClosedError):
        permit.session.decode(1)
    leave.set()
    thread.join()
    assert free_slots(model) == 1


def test_ending_a_session_in_the_middle_of_its_own_call():
    """In a signal handler: there is nobody to wait for, and the call gives the slot back. Also when it is interrupted."""
    model = fake_model(slots=1)
    permits = [model.session()]

    def end():
        with permits[0].session._drive:
            permits[0].release()

    for place in every_interrupt(end):
        assert not permits[0].session._drive.taken
        assert free_slots(model) == int(permits[0].session._ended), place
        permits[0].release()
        permits[0] = model.session(timeout=0)
    assert free_slots(model) == 1


def test_a_signal_handler_closes_the_queue_or_cancels_a_wait_whatever_it_interrupted():
    """Also what holds the queue's lock."""
    queues = [SlotQueue(1)]
    tickets = [Ticket(queues[0])]

    def visit():
        with contextlib.suppress(muser.ClosedError, muser.CancelledError):
            queues[0].acquire(timeout=0, ticket=tickets[0]).release()

    for _ in every_interrupt(visit, lambda: tickets[0].cancel()):
        assert queues[0].stats().free == 1
        tickets[0] = Ticket(queues[0])
    for _ in every_interrupt(visit, lambda: queues[0].close(lambda: muser.ClosedError("closed"))):
        with pytest.raises(muser.ClosedError):
            queues[0].acquire(timeout=0)
        queues[0] = SlotQueue(1)
        tickets[0] = Ticket(queues[0])


def test_a_signal_handler_closes_the_model_or_the_stream_whatever_it_interrupted():
    streams, models = [], [fake_model(slots=1)]

    def read():
        with contextlib.suppress(muser.ClosedError):
            streams.append(models[0].stream("x", max_tokens=2, timeout=0))
            for _ in streams[-1]:
                pass

    for _ in every_interrupt(read, lambda: [stream.close() for stream in streams]):
        assert free_slots(models[0]) == 1
        streams.clear()
    for _ in every_interrupt(read, lambda: models[0].close()):
        assert models[0].health().state == "closed"
        streams.clear()
        models[0] = fake_model(slots=1)
