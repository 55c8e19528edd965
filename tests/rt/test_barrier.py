"""Barriers of a session, and streams that wait for each other as a whole."""

import numpy as np
import pytest

from rt.errors import DeviceFault, InvalidParameter, WrongContext
from tests.rt.machine import SPIN, TRAP, binary


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles, **more: stream.launch(kernel, scalars=[cycles], **more)


@pytest.fixture
def fill(session):
    buffer = session.empty(8, np.uint8)
    return lambda stream: stream.fill(buffer, 1, profile=True)


def test_a_barrier_waits_for_all_that_was_submitted_before_it(session, spin, fill):
    one, two, three = (session.stream() for _ in range(3))
    first = spin(one, 2000, profile=True)
    second = spin(two, 1000, profile=True)
    three.barrier()
    after = fill(three)
    spin(one, 5000)
    session.synchronise()
    last = max(first.profile.end, second.profile.end)
    assert last < after.profile.start < last + 1000  # not for what came later


def test_a_barrier_on_each_stream_lets_nobody_ahead(session, spin, fill):
    streams = [session.stream() for _ in range(3)]
    before = [spin(stream, 300 * n + 100, profile=True) for n, stream in enumerate(streams)]
    for stream in streams:
        stream.barrier()
    after = [fill(stream) for stream in streams]
    session.synchronise()
    last = max(task.profile.end for task in before)
    assert all(task.profile.start > last for task in after)


def test_a_barrier_alone_passes_at_once(session):
    stream = session.stream()
    stream.barrier().wait()
    assert stream.idle


def test_a_barrier_includes_batches_and_waits_that_are_not_announced_yet(session, spin, fill):
    one, two, three = (session.stream() for _ in range(3))
    event = session.event()
    running = spin(one, 3000, profile=True)
    one.record(event)
    two.wait(event)
    with one.batch():
        batched = spin(one, 500, profile=True)
        three.barrier()
        after = fill(three)
        session.device.driver.transport.run_until(interrupt=False, cycle=2000)
    session.synchronise()
    assert after.profile.start > batched.profile.end > running.profile.end


def test_a_barrier_waits_for_no_other_session(device, session, fill):
    busy = device.session()
    kernel = busy.load(binary(SPIN, device.config))
    task = busy.stream().launch(kernel, scalars=[20_000])
    stream = session.stream()
    stream.barrier()
    fill(stream).wait()
    assert not task.done


def test_a_barrier_gives_up_after_its_timeout(session, spin):
    one, two = session.stream(), session.stream()
    spin(one, 30_000)
    task = two.barrier(timeout=2048)
    assert two.describe().endswith("waits for all that was submitted to its session before it")
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT on queue") as caught:
        session.synchronise()
    assert caught.value.record.task_id == task.id


def test_a_barrier_after_a_fault_says_what_failed(session):
    one, two = session.stream(), session.stream()
    with one.batch():
        one.launch(session.load(binary(TRAP, session.device.config)))
        one.barrier()
    with pytest.raises(DeviceFault, match="ILLEGAL_INSTRUCTION"):
        one.synchronise()
    task = two.barrier()
    with pytest.raises(DeviceFault, match="ILLEGAL_INSTRUCTION"):
        two.synchronise()
    session.recover()
    assert not task.done
    two.barrier().wait()


def test_a_stream_waits_for_another_one(session, spin, fill):
    one, two = session.stream(), session.stream()
    before = spin(one, 1000, profile=True)
    two.wait(one)
    later = spin(one, 5000, profile=True)
    after = fill(two)
    session.synchronise()
    assert before.profile.end < after.profile.start < later.profile.end


def test_waiting_for_an_idle_stream_or_itself_is_nothing(session, spin):
    one, two = session.stream(), session.stream()
    one.wait(two)
    spin(one, 100)
    one.wait(one)
    assert one._tail == 1
    one.synchronise()


def test_a_wait_for_an_event_gives_up_after_its_timeout(session, spin, fill):
    one, two = session.stream(), session.stream()
    early, late = session.event(), session.event()
    spin(one, 3000)
    one.record(early)
    spin(one, 30_000)
    one.record(late)
    two.wait(early)
    two.wait(late, timeout=4096)
    task = fill(two)
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT on queue, stream 1") as caught:
        two.synchronise()
    record = caught.value.record
    assert (record.task_id, caught.value.code) == (task.id - 1, 107020)
    # It counts from when the wait before it was over.
    assert early.cycle + 4096 <= record.timestamp < early.cycle + 4200
    session.recover()
    two.wait(late, timeout=4096)
    two.synchronise()


def test_what_cannot_be_waited_for_is_refused(device, session):
    stream = session.stream()
    with pytest.raises(WrongContext, match="belongs to another session"):
        stream.wait(device.session().stream())
    with pytest.raises(InvalidParameter, match="an event or a stream is needed, not int"):
        stream.wait(3)
    with pytest.raises(InvalidParameter, match="the timeout is 0 cycles"):
        stream.wait(session.event(), timeout=0)
