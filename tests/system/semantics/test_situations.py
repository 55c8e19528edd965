"""Situations in which runtimes have failed, each with the right behaviour, on the gateware."""

import itertools

import numpy as np
import pytest

from hw.regs.registers import EventRecord
from rt import Device, DeviceFault
from rt.errors import (
    InvalidHandle,
    NoEvent,
    ReentryError,
    StreamAborted,
    WaitTimeout,
    WrongContext,
)
from rt.ops import gemm
from tests.rt.threads import threads
from tests.system.faults import copy_entry
from tests.system.semantics.benches import Gateware, Model

BYTES = np.arange(64, dtype=np.uint8)


@pytest.fixture
def streams(session):
    return [session.stream() for _ in range(3)]


@pytest.fixture
def small(session):
    return session.empty(64, np.uint8)


@pytest.fixture
def work(session):
    """Keeps a stream busy for a little more than so many cycles: 8 bytes are filled in each."""
    room = session.empty(1 << 17, np.uint8)
    return lambda stream, cycles: stream.fill(room.part(0, 8 * cycles, "u1"), 0, profile=True)


@pytest.fixture
def mark(small):
    """A short task, measured."""
    return lambda stream: stream.fill(small, 1, profile=True)


def in_order(*tasks):
    """Each has ended before the next begins."""
    profiles = [task.profile for task in tasks]
    return all(one.end < two.start for one, two in itertools.pairwise(profiles))


# ------------------------------------------------------------------------------------- events


def test_a_waiter_keeps_its_record_when_the_event_is_recorded_again(session, streams, work, mark):
    one, two, three = streams
    event = session.event()
    first = work(one, 500)
    one.record(event)
    two.wait(event)
    early = mark(two)
    second = work(one, 3000)
    one.record(event)
    three.wait(event)
    late = mark(three)
    session.synchronise()
    assert in_order(first, early, late)
    assert in_order(second, late)
    assert early.profile.end < second.profile.end


def test_no_slot_is_used_again_while_somebody_waits_for_it(session, streams, work, mark):
    """Every slot is recorded again and again meanwhile, and no record blocks the host."""
    one, two, three = streams
    event = session.event()
    slow = work(one, 16_000)
    one.record(event)
    two.wait(event)
    waiter = mark(two)
    transport = session.device.driver.transport
    for _ in range(2 * session.device.config.events):
        other, before = session.event(), transport.now()
        mark(three)
        three.record(other)
        assert transport.now() - before < 200
        other.synchronise()
        assert other.record.slot is not event.record.slot
    assert not event.query()
    session.synchronise()
    assert in_order(slow, waiter)


def test_no_signal_is_lost_when_the_next_comes_before_the_last_was_consumed(
    session, streams, work, mark
):
    producer, consumer, _ = streams
    event, notify = session.event(), session.notify()
    produced, consumed = [], []
    for _ in range(6):
        produced.append(mark(producer))
        producer.record(event)
        producer.notify(notify)
        consumer.wait(event)
        consumer.wait_notify(notify)
        consumed.append(work(consumer, 1500))
    session.synchronise()
    assert produced[-1].profile.end < consumed[1].profile.start
    assert all(in_order(*pair) for pair in zip(produced, consumed, strict=True))
    assert notify.value == 0


def test_a_timeout_names_the_event_that_is_waited_for(session, streams, work, mark):
    one, two, _ = streams
    event = session.event()
    work(one, 6000)
    one.record(event)
    two.wait(event)
    mark(two)
    with pytest.raises(WaitTimeout) as caught:
        two.synchronise(timeout=500)
    assert f"waits for {event.record}, which {one} records" in str(caught.value)
    session.synchronise()


def test_of_an_event_recorded_on_many_streams_the_last_record_counts(
    session, streams, work, mark
):
    one, two, three = streams
    event = session.event()
    slow = work(one, 4000)
    one.record(event)
    quick = work(two, 500)
    two.record(event)
    three.wait(event)
    task = mark(three)
    event.synchronise()
    assert not one.query()
    session.synchronise()
    assert in_order(quick, task)
    assert task.profile.end < slow.profile.end


def test_waits_inside_a_stream_hold_up_what_is_behind_them_only(session, work, mark):
    """One wait of the host starts all that it depends on, over other streams, unsent or not."""
    one, two, three, four = (session.stream() for _ in range(4))
    first, second, third = (session.event() for _ in range(3))
    with three.batch(), four.batch(), two.batch():
        quick = work(one, 500)
        one.record(first)
        slow = work(two, 3000)
        two.record(second)
        three.wait(first)
        a = mark(three)
        three.record(third)
        three.wait(second)
        b = mark(three)
        four.wait(third)
        c = mark(four)
        four.synchronise()
        assert not three.query()
        three.synchronise()
    assert in_order(quick, a, c)
    assert in_order(slow, b)
    assert c.profile.end < slow.profile.end


def test_a_barrier_waits_for_the_barrier_of_another_stream(session, streams, work, mark):
    one, two, three = streams
    slow = work(one, 800)
    first = two.barrier(profile=True)
    between = mark(two)
    second = one.barrier(profile=True)
    third = three.barrier(profile=True)
    session.synchronise()
    assert in_order(slow, first, between, second, third)


def test_a_record_on_an_empty_stream_keeps_the_waits_before_it(session, streams, work, mark):
    one, two, three = streams
    first, second = session.event(timing=True), session.event(timing=True)
    slow = work(one, 1500)
    one.record(first)
    two.wait(first)
    two.record(second)
    three.wait(second)
    task = mark(three)
    assert not second.query()
    session.synchronise()
    assert in_order(slow, task)
    assert slow.profile.end <= first.cycle < second.cycle < task.profile.start


def test_event_slots_run_out_with_an_error_at_once_and_come_back(session, streams, work):
    one, two, _ = streams
    work(one, 12_000)
    slots = session.device.config.events
    events = [session.event() for _ in range(slots + 1)]
    for event in events[:-1]:
        one.record(event)
    transport = session.device.driver.transport
    now = transport.now()
    for stream in (one, two):
        with pytest.raises(NoEvent, match=f"all {slots} event slots") as caught:
            stream.record(events[-1])
        assert caught.value.code == 207007
    assert transport.now() == now
    one.synchronise()
    two.record(events[-1])
    assert all(event.query() for event in events)


def test_a_thousand_events_may_live_as_long_as_their_records_pass(session, streams, mark):
    one, two, _ = streams
    events = [session.event() for _ in range(1023)]
    for number, event in enumerate(events):
        if number % 8 == 0:
            one.synchronise()
            mark(one)
        one.record(event)
        two.wait(event)
    after = mark(two)
    session.synchronise()
    assert after.done
    assert all(event.query() for event in events)


def test_elapsed_time_is_that_of_the_device_not_of_the_calls(session, streams, work):
    one = streams[0]
    start, end = session.event(timing=True), session.event(timing=True)
    with one.batch():
        work(one, 4000)
        one.record(start)
        task = work(one, 1000)
        one.record(end)
    one.synchronise()
    assert task.profile.cycles <= start.elapsed(end) <= task.profile.cycles + 60


# -------------------------------------------------------------------------- numbers that wrap


@pytest.mark.parametrize("former", [0xFFFFA, 0x7FFFA], ids=["the end", "the half"])
def test_generations_of_events_wrap(session, streams, work, mark, former):
    """So does half of them, where a serial comparison would break first."""
    one, two, _ = streams
    driver = session.device.driver
    for slot in range(session.device.config.events):
        for generation in (former // 2, former):
            driver.write(EventRecord(slot=slot, generation=generation))
    event, pairs, generations = session.event(), [], []
    work(one, 1000)
    for _ in range(8):
        before = mark(one)
        one.record(event)
        generations.append(event.record.generation)
        two.wait(event)
        pairs.append((before, mark(two)))
    assert not event.query()
    session.synchronise()
    assert all(in_order(*pair) for pair in pairs)
    assert generations == [(former + n) % (1 << 20) for n in range(1, 9)]


@pytest.mark.parametrize("bits", [16, 31, 32, 63])
def test_numbers_of_tasks_go_on_over_powers_of_two(session, streams, work, mark, bits):
    """They have 64 bits and begin with 1: no run of a device comes to the end of them."""
    one, two, three = streams
    session.device._numbers = itertools.count((1 << bits) - 3)
    called = []
    slow = work(one, 500)
    one.callback(called.append, 1)
    first = two.barrier(profile=True)
    two.callback(called.append, 2)
    second = three.barrier(profile=True)
    last = mark(three)
    session.synchronise()
    assert slow.id < 1 << bits <= last.id
    assert in_order(slow, first, second, last)
    assert called == [1, 2]


@pytest.mark.parametrize("bench", ["gateware", "model"])
@pytest.mark.parametrize("depth", [2, 16])
def test_indices_of_rings_wrap(machine, bench, depth):
    """From the 5th entry on, in a ring that fills up and in one that does not."""
    bench = Gateware(machine) if bench == "gateware" else Model()
    with bench.device.session() as session:
        one, two = session.stream(depth=depth), session.stream(depth=depth)
        a = session.buffer(np.arange(16, dtype=np.int8).reshape(4, 4))
        out = session.empty((4, 4), np.int32)
        gemm(one, a, a, out)
        session.synchronise()
        for stream in (one, two):
            index = (1 << 32) - 4
            bench.set_index(stream.number, index)
            stream._origin = stream._tail - index
        event, tasks = session.event(), []
        for _ in range(10):
            tasks += gemm(one, a, a, out, profile=True)
            one.record(event)
            two.wait(event)
            tasks.append(two.copy(session.empty((4, 4), np.int32), out, profile=True))
        session.synchronise()
        assert all(task.done for task in tasks)
        assert all(one.profile.end < two.profile.start + (not bench.exact)
                   for one, two in zip(tasks[::2], tasks[1::2], strict=True))  # fmt: skip
        for stream in (one, two):
            stream.abort()
            assert stream.query()


# ------------------------------------------------------------------- streams, memory and host


def test_a_freed_block_is_used_again_when_all_who_use_it_have_passed(session, streams, work):
    one, two, _ = streams
    buffer = session.buffer(BYTES)
    work(one, 2000)
    download = one.download(buffer)
    place = buffer.address
    buffer.free()
    fresh = session.empty(64, np.uint8)
    assert fresh.address != place
    two.fill(fresh, 9)
    two.synchronise()
    assert (download.result() == BYTES).all()
    assert session.empty(64, np.uint8).address == place


def test_a_stream_with_a_pending_function_is_drained_when_it_is_destroyed(
    session, streams, work
):
    one, two, _ = streams
    event, called = session.event(), []
    work(one, 1000)
    one.callback(called.append, 1)
    one.record(event)
    two.wait(event)
    task = two.callback(called.append, 2)
    one.destroy()
    assert called[:1] == [1]
    event.synchronise()
    session.synchronise()
    assert called == [1, 2]
    assert task.done


def test_an_event_is_synchronised_after_its_stream_was_destroyed(session, streams, work):
    one, two, _ = streams
    drained, dropped = session.event(), session.event()
    work(one, 1000)
    one.record(drained)
    one.destroy()
    drained.synchronise()
    work(two, 1000)
    two.record(dropped)
    two.destroy(force=True)
    with pytest.raises(StreamAborted, match="was dropped") as caught:
        dropped.synchronise()
    assert caught.value.code == 107023


def test_a_function_that_uses_the_runtime_is_refused_and_nothing_hangs(session, streams):
    one, two, _ = streams
    refused = []

    def function():
        for use in (one.synchronise, two.query, session.event, session.synchronise):
            with pytest.raises(ReentryError):
                use()
            refused.append(use)

    one.callback(function)
    one.synchronise()
    assert len(refused) == 4


def test_two_threads_synchronise_while_another_launches(session, streams, work, mark):
    one, two, three = streams
    tasks = []

    def launch():
        tasks.extend(mark(three) for _ in range(20))
        three.synchronise()

    slow = work(one, 6000), work(two, 5000)
    with threads(one.synchronise, two.synchronise, launch):
        pass
    assert all(task.done for task in (*slow, *tasks))
    assert tasks[0].profile.start < slow[0].profile.end


# ------------------------------------------------------------------------- faults and timeouts


@pytest.fixture
def fault():
    """Lets a stream read where its session has no right to."""
    return lambda stream: copy_entry(stream, 0, stream.session._memory.address)


def test_whoever_asks_for_an_event_after_a_fault_gets_the_fault_each_time(
    session, streams, mark, fault
):
    one, two, _ = streams
    event = session.event()
    fault(one)
    mark(one)
    one.record(event)
    two.wait(event)
    mark(two)
    asks = (event.synchronise, event.query, one.synchronise, one.query, two.synchronise, two.query)
    for ask in (*asks, *asks):
        with pytest.raises(DeviceFault, match="ACCESS_VIOLATION"):
            ask()
    session.recover()
    mark(two)
    session.synchronise()


def test_a_timeout_does_not_hide_the_fault_behind_it(session, streams, work, mark, fault):
    one, two, _ = streams
    event = session.event()
    work(one, 1000)
    fault(one)
    one.record(event)
    two.wait(event)
    mark(two)
    with pytest.raises(DeviceFault, match="ACCESS_VIOLATION on copy"):
        two.synchronise(timeout=3000)
    session.recover()


def test_long_jobs_that_progress_are_not_killed(transport):
    """Longer than the watchdog and patience allow without progress: by themselves, and in sum."""
    device = Device(transport, patience=4000, watchdog=200)
    with device.session() as session:
        stream, room = session.stream(), session.empty(1 << 15, np.uint8)
        task = stream.fill(room.part(0, 8 * 3500, "u1"), 0, profile=True)
        stream.synchronise()
        for _ in range(8):
            stream.fill(room.part(0, 8 * 1500, "u1"), 1)
        stream.synchronise()
        assert task.profile.cycles > 10 * 200


# --------------------------------------------------------------------------------- wrong handles


def test_handles_of_another_session_or_device_or_that_were_closed_are_refused(
    device, session, streams, small
):
    stream = streams[0]
    other = device.session()
    elsewhere = Model().device.session()
    for foreign in (other, elsewhere):
        event, buffer, notify = foreign.event(), foreign.empty(8, np.uint8), foreign.notify()
        uses = (
            lambda event=event: stream.wait(event),
            lambda event=event: stream.record(event),
            lambda foreign=foreign: stream.wait(foreign.stream()),
            lambda buffer=buffer: stream.fill(buffer, 0),
            lambda notify=notify: stream.notify(notify),
            lambda buffer=buffer: stream.write_value(buffer, 0, 1),
        )
        for use in uses:
            with pytest.raises(WrongContext) as caught:
                use()
            assert caught.value.code == 107003
    notify = session.notify()
    notify.close()
    streams[1].close()
    small.free()
    for use in (
        lambda: stream.notify(notify), lambda: stream.wait(streams[1]), streams[1].query,
        lambda: stream.fill(small, 0),
    ):  # fmt: skip
        with pytest.raises(InvalidHandle) as caught:
            use()
        assert caught.value.code == 107017
    session.synchronise()


# ------------------------------------------------------------------------------------- replays


def test_an_abort_of_a_replay_does_not_release_those_who_wait_for_an_earlier_one(session, mark):
    """Both use the same event slots."""
    one, two, three, four = (session.stream() for _ in range(4))
    room, here, there = (session.empty(8192, np.uint8) for _ in range(3))
    fork, join = session.event(), session.event()
    with one.capture() as graph:
        one.record(fork)
        two.wait(fork)
        one.fill(here, 1)
        slow = two.fill(room, 1, profile=True)
        two.record(join)
        one.wait(join)
        one.fill(there, 1)
    first = one.replay(graph, two)
    after = mark(one)
    three.replay(graph, four)
    last = mark(three)
    four.abort()
    one.synchronise()
    three.synchronise()
    assert first.profile(slow.id).end < after.profile.start
    assert first.profile(slow.id).end < last.profile.start
    with pytest.raises(StreamAborted):
        four.synchronise()
