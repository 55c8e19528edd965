"""Waits that nothing can end say who waits for whom, and the device goes on after an abort."""

import signal
import threading

import numpy as np
import pytest

from hw.regs.descriptor import Comparison, ValuePayload
from rt.deadlock import Diagnosis, compares
from rt.errors import DeadlockError, DeviceFault, StreamAborted, WaitTimeout
from rt.wait import QUIET
from tests.models.waits import compares as golden
from tests.rt.machine import SPIN, TRAP, binary, machine
from tests.rt.threads import LONG, threads, until


@pytest.fixture
def cell(session):
    """A buffer of 8 values, all 0."""
    return session.buffer(np.zeros(8, np.uint64))


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles: stream.launch(kernel, scalars=[cycles])


def deadlock(wait, *args, **more):
    """The text of the `DeadlockError` that a wait raises."""
    with pytest.raises(DeadlockError) as caught:
        wait(*args, **more)
    return str(caught.value)


def test_a_notify_that_nobody_adds_to(session):
    session.device.patience = 10_000_000
    stream, notify = session.stream(), session.notify()
    task = stream.wait_notify(notify)
    text = deadlock(stream.synchronise)
    number = notify.counter.number
    assert f"task {task.id} waits for notify {number} to be at least 1; stream 0 waits" in text
    assert (
        f"stream 0 waits in task {task.id} for notify {number} to be at least 1 (it is 0), and "
        "nobody adds to it: no pending NOTIFY names it; abort the streams that wait"
    ) in text
    assert text.startswith("nothing runs on the device, and every thread waits: waited ")
    assert session.device.driver.transport.now() < 3 * QUIET


def test_all_that_is_pending_adds_too_little_to_a_notify(session, cell):
    one, two, notify = session.stream(), session.stream(), session.notify()
    one.wait_notify(notify, 10)
    two.wait_value(cell, 0, 1)
    two.set_notify(notify, 3)
    two.notify(notify, 5)
    assert "at least 10 (it is 0), and all that is pending makes it 8 at most" in deadlock(
        one.synchronise, timeout=1000
    )


@pytest.mark.parametrize(
    ("comparison", "mask", "meaning"),
    [
        (Comparison.NOT_LESS, None, "to be at least 7, and"),
        (Comparison.EQUAL, 0xF, "to be 7 under the mask 0x0000000f, and"),
        (Comparison.AND, None, "to have a bit of 0x7, and"),
        (Comparison.NOR, 7, "to lack a bit beside 0x7 under the mask 0x00000007, and"),
    ],
)
def test_a_value_that_nobody_writes(session, cell, comparison, mask, meaning):
    stream = session.stream()
    task = stream.wait_value(cell, 8, 7, comparison, mask=mask)
    assert (
        f"stream 0 waits in task {task.id} for the value at 0x{cell.address + 8:010x} {meaning} "
        "no pending task writes that"
    ) in deadlock(stream.synchronise, timeout=1000)


def test_what_comes_too_late_to_be_written_is_no_help(session, cell):
    """Wait before write in one stream: it waits for itself."""
    stream = session.stream()
    wait, write = stream.wait_value(cell, 0, 5), stream.write_value(cell, 0, 9)
    text = deadlock(stream.synchronise)
    assert f"in task {wait.id} for the value" in text
    assert f"at least 5, which stream 0 writes in task {write.id}; " in text
    assert "stream 0 → stream 0 wait for each other" in text
    assert f"notify {session.notify().counter.number}" not in text


def test_a_value_too_small_ends_no_wait(session, cell):
    one, two, notify = session.stream(), session.stream(), session.notify()
    one.wait_value(cell, 0, 5)
    two.wait_notify(notify)
    two.write_value(cell, 0, 4)
    assert "and no pending task writes that" in deadlock(one.synchronise, timeout=1000)


@pytest.mark.parametrize("kind", ["copy", "fill", "kernel", "record"])
def test_whatever_may_write_a_value_is_named(session, spin, cell, kind):
    one, two, notify = session.stream(), session.stream(), session.notify()
    wait = one.wait_value(cell, 8, 5)
    gate = two.wait_notify(notify)
    match kind:
        case "copy":
            task = two.copy(cell, session.empty(8, np.uint64))
        case "fill":
            task = two.fill(cell.part(12, 4, np.uint8), 1)
        case "kernel":
            kernel = session.load(binary(SPIN, session.device.config))
            task = two.launch(kernel, outputs=[cell], scalars=[10])
        case "record":
            two.write_value(cell, 0, 5)  # beside it
            task = two.write_value(cell, 8, 6)
    text = deadlock(one.synchronise, timeout=1000)
    assert f"waits in task {wait.id} for " in text
    assert f"which stream 1 writes in task {task.id}; stream 1 waits in task {gate.id} for" in text


def test_values_waited_for_in_a_ring(session, cell):
    one, two = session.stream(), session.stream()
    first = one.wait_value(cell, 0, 1)
    answer = one.write_value(cell, 8, 1)
    second = two.wait_value(cell, 8, 1)
    call = two.write_value(cell, 0, 1)
    text = deadlock(session.synchronise)
    assert (
        f"stream 0 waits in task {first.id} for the value at 0x{cell.address:010x} to be at least "
        f"1, which stream 1 writes in task {call.id}; stream 1 waits in task {second.id} for the "
        f"value at 0x{cell.address + 8:010x} to be at least 1, which stream 0 writes in task "
        f"{answer.id}; stream 0 → stream 1 → stream 0 wait for each other"
    ) in text


def test_a_value_and_an_event_in_a_ring(session, cell):
    one, two, event = session.stream(), session.stream(), session.event()
    first = one.wait_value(cell, 0, 1)
    one.record(event)
    two.wait(event)
    second = two.write_value(cell, 0, 1)
    text = deadlock(two.synchronise)
    word = event.record.word
    assert f"stream 0 waits in task {first.id} for the value" in text
    assert f"which stream 1 writes in task {second.id}" in text
    assert (
        f"stream 1 waits in task {second.id} for event slot {word.slot} generation "
        f"{word.generation}, which stream 0 records in task "
    ) in text
    assert "stream 1 → stream 0 → stream 1 wait for each other" in text
    with pytest.raises(DeadlockError, match="event slot") as caught:
        event.synchronise(timeout=500)
    assert caught.value.code == 507047


def test_a_chain_leads_to_what_is_missing_and_names_nothing_else(session, cell):
    streams = [session.stream() for _ in range(4)]
    event, notify, other = session.event(), session.notify(), session.notify()
    streams[0].wait_notify(notify)
    streams[0].record(event)
    streams[1].wait(event)
    last = streams[1].fill(cell, 1)
    streams[3].wait_notify(other)
    text = deadlock(last.wait)
    assert f"task {last.id} for event slot" in text
    assert f"for notify {notify.counter.number} to be at least 1 (it is 0), and nobody" in text
    assert "wait for each other" not in text
    assert "stream 3 waits" not in text


def test_several_events_are_all_named(session, cell):
    one, two, three = (session.stream() for _ in range(3))
    events = [session.event() for _ in range(2)]
    notify = session.notify()
    for stream, event in zip((one, two), events, strict=True):
        stream.wait_notify(notify)
        stream.record(event)
        three.wait(event)
    three.fill(cell, 1)
    text = deadlock(three.synchronise)
    slots = [event.record.slot.number for event in events]
    assert f"for event slot {slots[0]} generation" in text
    assert f"in task {three.pending[0].id} for event" in text
    assert f" and for event slot {slots[1]} generation" in text


def test_a_barrier_behind_a_blocked_stream(session):
    one, two, notify = session.stream(), session.stream(), session.notify()
    blocked = one.wait_notify(notify)
    barrier = two.barrier()
    text = deadlock(two.synchronise)
    assert (
        f"stream 1 waits in task {barrier.id} for all tasks that were submitted before it, of "
        f"which stream 0 has task {blocked.id}; stream 0 waits in task {blocked.id} for notify"
    ) in text
    one.abort()
    two.synchronise()
    assert barrier.done


def test_a_barrier_and_a_notify_in_a_ring(session):
    one, two, notify = session.stream(), session.stream(), session.notify()
    one.wait_notify(notify)
    two.barrier()
    two.notify(notify)
    assert "stream 1 → stream 0 → stream 1 wait for each other" in deadlock(two.synchronise)


def test_a_deadlock_ends_with_the_abort_of_one_stream(session, cell):
    one, two, event = session.stream(), session.stream(), session.event()
    one.wait_value(cell, 0, 1)
    one.record(event)
    two.wait(event)
    done = two.write_value(cell, 0, 1)
    deadlock(two.synchronise)
    one.abort()
    two.synchronise()
    assert done.done
    with pytest.raises(StreamAborted):
        one.synchronise()
    assert one.download(cell).result()[0] == 1
    session.synchronise()


def test_the_record_of_a_failed_stream_is_reported_as_its_fault(session, cell):
    one, two, event = session.stream(), session.stream(), session.event()
    one.launch(session.load(binary(TRAP, session.device.config)))
    one.record(event)
    two.wait(event)
    two.fill(cell, 1)
    with pytest.raises(DeviceFault, match="ILLEGAL_INSTRUCTION"):
        two.synchronise()


def test_a_wait_for_what_runs_is_no_deadlock_however_others_stand(session, spin):
    one, two, notify = session.stream(), session.stream(), session.notify()
    two.wait_notify(notify)
    task = spin(one, 5000)
    one.notify(notify)
    with pytest.raises(WaitTimeout, match="runs on core0") as caught:
        one.synchronise(timeout=1000)
    assert not isinstance(caught.value, DeadlockError)
    with pytest.raises(WaitTimeout) as caught:
        two.synchronise(timeout=1000)
    assert not isinstance(caught.value, DeadlockError)  # it will be signalled
    session.synchronise()
    assert task.done


def test_two_sources_of_which_one_can_come_are_no_deadlock(session, spin, cell):
    one, two, three = (session.stream() for _ in range(3))
    one.wait_notify(session.notify())
    one.write_value(cell, 0, 1)
    two.wait_value(cell, 0, 1)
    spin(three, 3000)
    three.write_value(cell, 0, 1)
    with pytest.raises(WaitTimeout) as caught:
        two.synchronise(timeout=500)
    assert not isinstance(caught.value, DeadlockError)
    two.synchronise()
    assert "and nobody adds to it" in deadlock(one.synchronise, timeout=500)


def test_healthy_long_tasks_are_waited_for():
    with machine(patience=10_000_000) as device, device.session() as session:
        stream, other = session.stream(timeout=1 << 23), session.stream()
        event = session.event()
        task = stream.launch(session.load(binary(SPIN, device.config)), scalars=[20 * QUIET])
        stream.record(event)
        other.wait(event)
        other.synchronise()
        assert task.done


def test_the_timeout_of_a_waiting_task_comes_before_the_diagnosis():
    with machine(patience=10_000_000) as device:
        session = device.session()
        stream, cell = session.stream(), session.buffer(np.zeros(1, np.uint64))
        stream.wait_value(cell, 0, 1, timeout=8 * QUIET)
        with pytest.raises(DeviceFault, match="TASK_TIMEOUT"):
            stream.synchronise()
        assert device.driver.transport.now() > 8 * QUIET


def test_memory_that_no_task_gives_back():
    with machine(device_bytes=1 << 16, contexts=1) as device:
        session = device.session()
        stream, notify = session.stream(), session.notify()
        buffer = session.empty(40_000, np.uint8)
        stream.wait_notify(notify)
        stream.fill(buffer, 1)
        buffer.free()
        assert "and nobody adds to it" in deadlock(session.empty, 40_000, np.uint8)
        session.close(drain=False)


def test_a_ring_full_of_what_cannot_run(session):
    stream, notify = session.stream(depth=2), session.notify()
    stream.wait_notify(notify)
    stream.notify(notify)
    text = deadlock(stream.notify, notify)
    assert "room in the ring of 2 entries" in text
    assert "stream 0 → stream 0 wait for each other" in text


def test_what_has_run_is_no_source_even_if_the_host_does_not_know_yet(session, cell):
    """The end of a task inside a batch is not reported by itself."""
    one, two, notify = session.stream(), session.stream(), session.notify()
    with one.batch():
        one.notify(notify)
        one.wait_notify(notify, 2)
    assert len(one.pending) == 2
    text = deadlock(one.synchronise, timeout=1000)
    assert "to be at least 2 (it is 1), and nobody adds to it" in text
    two.notify(notify)
    session.synchronise()


def test_a_diagnosis_changes_nothing_that_streams_could_go_on_by(session):
    stream, notify = session.stream(), session.notify()
    stream.wait_notify(notify)
    session.device.driver.transport.run_until(interrupt=False, cycle=2000)
    before = session.device.driver.orders
    diagnosis = Diagnosis(session)
    assert diagnosis.stuck == {stream}
    assert session.device.driver.orders == before


@pytest.mark.parametrize("comparison", tuple(Comparison))
def test_values_compare_as_on_the_device(comparison):
    values = (0, 1, 5, 0xF0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    for mask in (0, 0xFF, 0xFFFFFFFF):
        for value in values:
            wait = ValuePayload(value=value, mask=mask, operation=comparison)
            for found in values:
                assert compares(found, wait) == golden(found, wait), (found, wait)


# ------------------------------------------------------------------------------- several threads


def test_when_every_thread_waits_each_is_told_at_once(session, cell):
    """The value that neither stream writes; patience would last for ever."""
    session.device.patience, session.device.host_patience = 1 << 40, 1000
    streams, errors = [session.stream(), session.stream()], {}
    streams[0].wait_value(cell, 0, 1)
    streams[0].write_value(cell, 8, 1)
    streams[1].wait_value(cell, 8, 1)
    streams[1].write_value(cell, 0, 1)

    def wait(stream):
        errors[stream] = deadlock(stream.synchronise)

    start = session.device.driver.transport.now()
    with threads(lambda: wait(streams[1])):
        until(lambda: len(session.device.monitor._users) == 2)
        wait(streams[0])
    assert session.device.driver.transport.now() < start + QUIET
    for one, two in (streams, streams[::-1]):
        assert "and every thread waits" in errors[one]
        assert f"{one} → {two} → {one} wait for each other" in errors[one]


def test_no_time_passes_while_another_thread_is_at_work(session, cell):
    stream, other = session.stream(), session.stream()
    stream.wait_value(cell, 0, 1)
    monitor, transport = session.device.monitor, session.device.driver.transport
    with threads(stream.synchronise):
        until(lambda: session.device.quiet.holds and monitor._sleepers)
        before = transport.now()
        with monitor:
            pass
        until(lambda: monitor._sleepers)
        assert transport.now() == before
        other.write_value(cell, 0, 1)


def test_a_thread_that_never_acts_is_waited_for_so_long_and_no_longer(session, cell):
    session.device.host_patience = 0.2
    stream, texts = session.stream(), []
    stream.wait_value(cell, 0, 1)
    start = session.device.driver.transport.now()
    with threads(lambda: texts.append(deadlock(stream.synchronise))):
        pass
    assert "no thread has changed that in 0.2 s" in texts[0]
    assert "no pending task writes that" in texts[0]
    assert session.device.driver.transport.now() < start + QUIET


def test_a_thread_that_has_not_used_the_device_yet_is_waited_for(session, cell):
    stream, other = session.stream(), session.stream()
    session.device.patience = 1 << 40
    stream.wait_value(cell, 0, 1)

    def come_late():
        until(lambda: session.device.quiet.holds and session.device.monitor._sleepers)
        other.write_value(cell, 0, 1)

    with threads(come_late):
        stream.synchronise()


def test_a_thread_that_dies_is_not_waited_for(session, cell):
    session.device.host_patience = 1000
    stream = session.stream()
    stream.wait_value(cell, 0, 1)

    def die():
        stream.query()
        until(lambda: session.device.monitor._sleepers)

    with threads(die):
        until(lambda: len(session.device.monitor._users) == 2)
        assert "and every thread waits" in deadlock(stream.synchronise)


def test_the_timeout_of_a_waiting_task_passes_although_all_wait(session, cell):
    one, two = session.stream(), session.stream()
    session.device.patience = 1 << 40
    one.wait_value(cell, 0, 1, timeout=20 * 1024)
    two.wait_value(cell, 8, 1)

    def wait(stream):
        with pytest.raises(DeviceFault, match="TASK_TIMEOUT"):
            stream.synchronise()

    with threads(lambda: wait(one)):
        until(lambda: len(session.device.monitor._users) == 2)
        wait(two)


def test_an_interrupt_from_the_keyboard_ends_a_wait_and_nothing_else(session, cell):
    stream, other = session.stream(), session.stream()
    stream.wait_value(cell, 0, 1)
    monitor, main = session.device.monitor, threading.main_thread().ident

    def disturb():
        with monitor:
            pass
        until(lambda: monitor._sleepers)
        signal.pthread_kill(main, signal.SIGINT)
        until(lambda: not monitor._sleepers)

    with threads(disturb):
        until(lambda: len(monitor._users) == 2)
        with pytest.raises(KeyboardInterrupt):
            stream.synchronise()
    assert (monitor._owner, monitor._depth) == (None, 0)
    other.write_value(cell, 0, 1)
    with threads(stream.synchronise):
        stream.synchronise(timeout=LONG * 1000)
