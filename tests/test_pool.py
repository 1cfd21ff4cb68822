"""The line in front of the slots: first come, first served, bounded, and no slot is ever lost."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from fake_engine import fake_model, wait_until

from muser import (
    CancelledError,
    ClosedError,
    MuserError,
    OverloadedError,
    ParameterError,
    UnhealthyError,
    WaitTimeoutError,
)
from muser._queue import MAX_WAITERS, SlotQueue, Ticket


def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


class Waiters:
    """Threads that take a slot, note their name, and give it back when told."""

    def __init__(self, queue):
        self.queue = queue
        self.served, self.errors, self.tickets, self.threads = [], [], {}, []

    def add(self, name):
        def run():
            try:
                self.tickets[name] = self.queue.acquire()
                self.served.append(name)
            except MuserError as error:
                self.errors.append(error)

        before = self.queue.stats().waiting
        self.threads.append(in_thread(run))
        wait_until(lambda: self.queue.stats().waiting == before + 1)

    def join(self):
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def test_slots_go_out_once_each():
    queue = SlotQueue(4)
    tickets = [queue.acquire() for _ in range(4)]
    assert sorted(t.slot for t in tickets) == [0, 1, 2, 3]
    with pytest.raises(WaitTimeoutError):
        queue.acquire(timeout=0)
    tickets[2].release()
    tickets[2].release()  # twice is once
    again = queue.acquire()
    assert again.slot == 2
    with pytest.raises(WaitTimeoutError):
        queue.acquire(timeout=0)


def test_first_come_first_served_and_nobody_overtakes():
    queue = SlotQueue(1)
    held = queue.acquire()
    waiters = Waiters(queue)
    for name in range(10):
        waiters.add(name)
    held.release()
    for name in range(10):
        wait_until(lambda n=name: len(waiters.served) == n + 1)
        with pytest.raises(WaitTimeoutError):  # the slot never shows as free while somebody waits
            queue.acquire(timeout=0)
        waiters.tickets.pop(name).release()
    waiters.join()
    assert waiters.served == list(range(10))
    assert queue.stats().free == 1


def test_the_line_is_bounded_and_refuses_at_once():
    queue = SlotQueue(4)
    held = [queue.acquire() for _ in range(4)]
    waiters = Waiters(queue)
    for name in range(MAX_WAITERS):
        waiters.add(name)
    started = time.monotonic()
    with pytest.raises(OverloadedError, match="64") as caught:
        queue.acquire(timeout=60)
    assert time.monotonic() - started < 30
    assert (caught.value.waiting, caught.value.limit) == (64, 64)
    assert queue.stats().refused == 1
    queue.close(lambda: ClosedError("over"))
    waiters.join()
    assert len(waiters.errors) == MAX_WAITERS
    assert len({id(e) for e in waiters.errors}) == MAX_WAITERS  # an error of one's own, with one's own traceback
    del held


def test_threads_and_coroutines_stand_in_one_line():
    queue = SlotQueue(1)
    order = []

    async def main():
        held = queue.acquire()
        tasks = []

        async def coroutine(name):
            ticket = await queue.acquire_async()
            order.append(name)
            await asyncio.sleep(0)
            ticket.release()

        def thread(name):
            ticket = queue.acquire()
            order.append(name)
            ticket.release()

        for name in range(8):
            if name % 2:
                tasks.append(asyncio.ensure_future(coroutine(name)))
            else:
                tasks.append(asyncio.ensure_future(asyncio.to_thread(thread, name)))
            while queue.stats().waiting < name + 1:
                await asyncio.sleep(0.001)
        held.release()
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(main(), 20))
    assert order == list(range(8))


@pytest.mark.parametrize("way", ["thread", "coroutine"])
def test_a_timeout_leaves_nothing_behind(way):
    queue = SlotQueue(1)
    held = queue.acquire()
    started = time.monotonic()
    with pytest.raises(WaitTimeoutError):
        if way == "thread":
            queue.acquire(timeout=0.05)
        else:
            asyncio.run(queue.acquire_async(timeout=0.05))
    assert 0.04 < time.monotonic() - started < 30
    assert queue.stats().waiting == 0
    held.release()
    assert queue.stats().free == 1


def test_close_wakes_everybody():
    queue = SlotQueue(1)
    held = queue.acquire()
    waiters = Waiters(queue)
    for name in range(5):
        waiters.add(name)
    queue.close(lambda: ClosedError("the model is closed"))
    waiters.join()
    assert [type(e) for e in waiters.errors] == [ClosedError] * 5
    with pytest.raises(ClosedError):
        queue.acquire()
    held.release()
    with pytest.raises(ClosedError):
        queue.acquire()


def test_a_cancelled_wait_ends_and_the_others_move_up():
    queue = SlotQueue(1)
    held = queue.acquire()
    ticket, errors = Ticket(queue), []

    def wait():
        try:
            queue.acquire(ticket=ticket)
        except CancelledError as error:
            errors.append(error)

    thread = in_thread(wait)
    wait_until(lambda: queue.stats().waiting == 1)
    ticket.cancel()
    thread.join(30)
    assert len(errors) == 1
    assert queue.stats().waiting == 0
    held.release()
    assert queue.stats().free == 1
    early = Ticket(queue)
    early.cancel()
    with pytest.raises(CancelledError):
        queue.acquire(ticket=early)
    assert queue.stats().free == 1


def test_a_dropped_ticket_gives_its_slot_back():
    queue = SlotQueue(1)
    queue.acquire()
    assert queue.stats().free == 1

    class Cycle:
        pass

    cycle = Cycle()
    cycle.me, cycle.ticket = cycle, queue.acquire()
    del cycle
    gc.collect()
    assert queue.stats().free == 1


def test_vanished_coroutines_never_take_a_slot():
    """4 running, 10 waiting, 5 of them cancelled: the line is shorter at once, and only 5 are served."""
    queue = SlotQueue(4)
    held = [queue.acquire() for _ in range(4)]
    served = []

    async def wait(name):
        ticket = await queue.acquire_async()
        served.append(name)
        ticket.release()

    async def main():
        tasks = [asyncio.ensure_future(wait(n)) for n in range(10)]
        await asyncio.sleep(0.01)
        assert queue.stats().waiting == 10
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0.01)
        assert queue.stats().waiting == 5
        for ticket in held:
            ticket.release()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert served == [1, 3, 5, 7, 9]
    assert queue.stats().free == 4


def test_a_loop_that_closed_is_passed_over():
    queue = SlotQueue(1)
    held = queue.acquire()
    loop = asyncio.new_event_loop()
    coroutine = queue.acquire_async()

    async def start():
        task = asyncio.ensure_future(coroutine)
        await asyncio.sleep(0.01)
        return task

    task = loop.run_until_complete(start())
    waiters = Waiters(queue)
    waiters.add("after it")
    loop.close()
    held.release()
    waiters.join()
    assert waiters.served == ["after it"]
    task._log_destroy_pending = False
    task = coroutine = None
    gc.collect()
    waiters.tickets.clear()
    assert queue.stats().free == 1


def test_ctrl_c_ends_a_wait():
    queue = SlotQueue(1)
    held = queue.acquire()
    started = time.monotonic()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        queue.acquire(timeout=60)
    assert time.monotonic() - started < 30
    assert queue.stats().waiting == 0
    held.release()
    assert queue.stats().free == 1


def test_random_comings_and_goings_lose_no_slot():
    queue = SlotQueue(3)
    inside = [0] * 3
    crowded = []

    def visit(seed):
        rng = random.Random(seed)
        for _ in range(60):
            try:
                ticket = queue.acquire(timeout=rng.choice([0, 0.0005, 0.002, 5]))
            except WaitTimeoutError:
                continue
            inside[ticket.slot] += 1
            if inside[ticket.slot] != 1:
                crowded.append(ticket.slot)
            time.sleep(rng.random() * 0.0005)
            inside[ticket.slot] -= 1
            if rng.random() < 0.5:
                ticket.release()
            del ticket

    async def coroutines():
        rng = random.Random(99)

        async def visit_async():
            for _ in range(20):
                try:
                    ticket = await asyncio.wait_for(queue.acquire_async(), rng.choice([0.0003, 0.002, 5]))
                except (asyncio.TimeoutError, WaitTimeoutError):
                    continue
                inside[ticket.slot] += 1
                if inside[ticket.slot] != 1:
                    crowded.append(ticket.slot)
                await asyncio.sleep(0)
                inside[ticket.slot] -= 1
                ticket.release()

        await asyncio.gather(*(visit_async() for _ in range(8)))

    threads = [in_thread(visit, seed) for seed in range(8)] + [in_thread(asyncio.run, coroutines())]
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    gc.collect()
    assert crowded == []
    assert queue.stats().free == 3
    assert queue.stats().waiting == 0


# -- model.slots -----------------------------------------------------------------------------------------------


def test_the_permit_prefers_the_longest_shared_prefix():
    model = fake_model()
    texts = ["the cat sat", "the dog", "a bird", "the cat ran off"]
    permits = [model.slots.acquire() for _ in texts]
    for permit, text in zip(permits, texts):
        permit.session.prefill(text)
    for permit in permits:
        permit.release()
    for prompt, slot in [("the cat ran away", 3), ("the cat sat on the mat", 0), ("a b", 2), ("the dog", 1), ("zebra", 2)]:
        with model.slots.acquire(prompt=prompt) as session:
            assert session.slot == slot
            assert session.position == 0  # empty all the same
            session.prefill(texts[slot])


def test_acquire_checks_its_arguments():
    model = fake_model()
    for bad in (-1, float("nan"), float("inf"), "3", True):
        with pytest.raises(ParameterError, match="timeout"):
            model.slots.acquire(timeout=bad)
    with pytest.raises(ParameterError, match="prompt"):
        model.slots.acquire(prompt=np.array([0.5]))
    assert model.slots.stats().free == len(model.slots) == 4


def test_the_pool_latches_with_the_engine():
    model = fake_model(slots=1)
    permit = model.slots.acquire()
    errors = []

    def wait():
        try:
            model.slots.acquire()
        except UnhealthyError as error:
            errors.append(error)

    threads = [in_thread(wait) for _ in range(3)]
    wait_until(lambda: model.slots.stats().waiting == 3)
    model.engine.cause = "the device hung"
    permit.release()
    for thread in threads:
        thread.join(30)
    assert [e.cause for e in errors] == ["the device hung"] * 3
    with pytest.raises(UnhealthyError, match="the device hung"):
        model.generate("x")
    health = model.health()
    assert (health.state, health.cause, health.ok) == ("unhealthy", "the device hung", False)
    model.close()
    assert model.health().state == "closed"


async def test_async_permits():
    model = fake_model(slots=1)
    async with model.slots.acquire_async(timeout=30) as session:
        assert session.position == 0
        with pytest.raises(WaitTimeoutError):
            await model.slots.acquire_async(timeout=0.01)
    with pytest.raises(ClosedError):
        session.prefill("x")
    with await model.slots.acquire_async() as session:
        session.prefill("x")
    assert model.slots.stats().free == 1


def test_sessions_keep_their_slot_for_as_long_as_they_live():
    model = fake_model(slots=1)
    session = model.session().session  # the permit object itself is gone
    session.prefill("x")
    assert model.slots.stats().free == 0
    del session
    assert model.slots.stats().free == 1
