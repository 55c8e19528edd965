"""Functions of the host that streams call."""

import itertools
import threading
import time

import numpy as np
import pytest

from hw.regs.descriptor import Sqe, TaskType
from rt import FailureMode
from rt.errors import (
    DeviceFault,
    InvalidHandle,
    InvalidParameter,
    ReentryError,
    StreamAborted,
    WaitTimeout,
)
from rt.task import Task
from tests.rt.machine import SPIN, binary
from tests.rt.threads import LONG, threads

BYTES = np.arange(64, dtype=np.uint8)


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles, **more: stream.launch(kernel, scalars=[cycles], **more)


@pytest.fixture
def calls():
    return []


def test_a_function_is_called_between_the_tasks_around_it(session, spin, calls):
    transport = session.device.driver.transport
    stream, buffer = session.stream(), session.empty(64, np.uint8)
    before = spin(stream, 500, profile=True)
    stream.callback(lambda *args: calls.append((args, transport.now())), 1, "two")
    after = stream.fill(buffer, 3, profile=True)
    assert calls == []
    stream.synchronise()
    [(args, cycle)] = calls
    assert args == (1, "two")
    assert before.profile.end <= cycle < after.profile.start


def test_no_time_passes_meanwhile(session, calls):
    transport, stream = session.device.driver.transport, session.stream()

    def function():
        start = transport.now()
        threading.Event().wait(0.02)
        calls.append(transport.now() - start)

    stream.callback(function)
    stream.synchronise()
    assert calls == [0]


def test_no_time_passes_for_others_either(device, session, spin, calls):
    transport, stream, other = device.driver.transport, session.stream(), device.session()
    running = other.stream()
    running.launch(other.load(binary(SPIN, device.config)), scalars=[30_000])
    waiting = threading.Event()

    def wait():
        waiting.set()
        running.synchronise()

    waiter = threading.Thread(target=wait)

    def function():
        waiter.start()
        start = transport.now()
        waiting.wait(10)
        threading.Event().wait(0.05)
        calls.append(transport.now() - start)

    stream.callback(function)
    stream.synchronise()
    waiter.join(10)
    assert calls == [0]


def test_functions_run_on_one_thread_in_the_order_of_the_device(session, spin, calls):
    one, two = session.stream(), session.stream()

    def function(name):
        calls.append((name, threading.current_thread()))

    spin(one, 300)
    one.callback(function, "c")
    two.callback(function, "a")
    two.callback(function, "b")
    session.synchronise()
    assert [name for name, _ in calls] == ["a", "b", "c"]
    [thread] = {thread for _, thread in calls}
    assert thread is not threading.current_thread()
    session.close()
    thread.join(10)
    assert not thread.is_alive()


def test_time_stands_still_for_each_of_several_functions(session, calls):
    transport = session.device.driver.transport

    def function():
        start = transport.now()
        threading.Event().wait(0.02)
        calls.append((start, transport.now()))

    for stream in (session.stream() for _ in range(3)):
        stream.callback(function)
    session.synchronise()
    assert [end - start for start, end in calls] == [0, 0, 0]
    assert calls == sorted(calls)


def test_query_calls_functions_too(session, calls):
    stream = session.stream()
    stream.callback(calls.append, 1)
    while not stream.query():
        pass
    assert calls == [1]


def test_the_runtime_refuses_calls_from_within_a_function(device, session, calls):
    stream, buffer, event = session.stream(), session.buffer(BYTES), session.event()
    other = session.stream()
    task = other.fill(buffer, 1)
    uses = [
        lambda: stream.fill(buffer, 1), stream.synchronise, stream.query, stream.abort,
        stream.close, lambda: stream.callback(print), lambda: stream.record(event),
        lambda: stream.wait(event), event.query, event.synchronise, task.wait, stream.barrier,
        session.synchronise, session.stream, session.event, session.notify, session.close,
        lambda: session.buffer(BYTES), session.recover, device.session, device.close,
    ]  # fmt: skip

    def function():
        for use in uses:
            with pytest.raises(ReentryError, match="uses the runtime") as caught:
                use()
            calls.append(caught.value.code)

    stream.callback(function)
    stream.synchronise()
    assert calls == [107000] * len(uses)
    session.synchronise()


def test_what_a_function_raises_is_the_cause_of_the_fault(session, calls):
    stream, other = session.stream(), session.stream()
    error = KeyError("no such file")

    def fail():
        raise error

    task = stream.callback(fail)
    after = stream.callback(calls.append, 1)
    for _ in range(2):
        with pytest.raises(DeviceFault, match="HOST_CALLBACK on queue, stream 0") as caught:
            stream.synchronise()
        assert caught.value.__cause__ is error
    assert caught.value.record.task_id == task.id
    assert caught.value.code == 507000
    session.recover()
    assert not after.done
    other.callback(calls.append, 2)
    session.synchronise()
    assert calls == [2]


def test_a_task_without_a_function_fails(device, session):
    stream = session.stream()
    stream.prepare()
    stream.submit(Task(stream, device.task_id()), Sqe(type=TaskType.HOST_CALLBACK))
    with pytest.raises(DeviceFault, match="HOST_CALLBACK on queue") as caught:
        stream.synchronise()
    assert isinstance(caught.value.__cause__, InvalidHandle)


def test_a_function_that_fails_stops_the_session_if_the_stream_says_so(session, spin):
    stream, other = session.stream(failure_mode=FailureMode.STOP), session.stream()
    spin(other, 20_000)
    other.fill(session.empty(8, np.uint8), 1)
    stream.callback(lambda: 1 // 0)
    with pytest.raises(DeviceFault) as caught:
        other.synchronise()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_dropped_function_is_never_called(session, spin, calls):
    stream = session.stream()
    spin(stream, 20_000)
    task = stream.callback(calls.append, 1)
    stream.abort()
    with pytest.raises(StreamAborted):
        stream.synchronise()
    with pytest.raises(StreamAborted, match="did not run to its end"):
        task.wait()
    stream.callback(calls.append, 2)
    stream.synchronise()
    assert calls == [2]


def test_destroying_a_stream_drains_it_and_with_force_drops(session, spin, calls):
    for force in (False, True):
        stream = session.stream()
        spin(stream, 3000)
        task = stream.callback(calls.append, force)
        stream.destroy(force=force)
        stream.destroy()
        assert stream.closed
        assert task.done is not force
    assert calls == [False]


def test_closing_a_session_calls_what_is_pending(device, calls):
    with device.session() as session:
        session.stream().callback(calls.append, 1)
    assert calls == [1]
    session = device.session()
    session.stream().callback(calls.append, 2)
    session.close(drain=False)
    assert calls == [1]


def test_another_thread_works_while_a_function_runs(session, calls):
    one, two = session.stream(), session.stream()
    running, enough = threading.Event(), threading.Event()

    def function():
        running.set()
        calls.append(enough.wait(10))

    one.callback(function)
    waiter = threading.Thread(target=one.synchronise)
    waiter.start()
    assert running.wait(10)
    download = two.download(session.empty(64, np.uint8))
    assert not one.query()
    enough.set()
    waiter.join(10)
    assert calls == [True]
    download.result()


def test_a_stream_is_aborted_while_its_function_runs(session, calls):
    stream = session.stream()
    running, enough, ends = threading.Event(), threading.Event(), []

    def function():
        running.set()
        calls.append(enough.wait(10))

    def wait():
        with pytest.raises(StreamAborted) as caught:
            stream.synchronise()
        ends.append(caught.value.code)

    stream.callback(function)
    waiter = threading.Thread(target=wait)
    waiter.start()
    assert running.wait(10)
    stream.abort()
    enough.set()
    waiter.join(10)
    assert ends == [107023]
    stream.callback(calls.append, "next")
    stream.synchronise()
    assert calls == [True, "next"]


def test_a_stream_says_that_it_waits_for_a_function(session, calls):
    stream = session.stream()
    task = stream.callback(calls.append, 1)
    assert task.waits_for == "the host's function list.append"
    assert stream.describe().endswith(f"task {task.id} waits for the host's function list.append")
    stream.synchronise()


def test_what_is_no_function_is_refused(session):
    stream = session.stream()
    with pytest.raises(InvalidParameter, match="a function is needed, not int; give"):
        stream.callback(3)
    assert stream.idle


def test_a_timeout_counts_no_time_of_functions(session):
    stream = session.stream()
    stream.callback(threading.Event().wait, 0.02)
    stream.synchronise(timeout=2000)


# ------------------------------------------------------------------ functions that do not return


@pytest.fixture
def stuck(device):
    """A function that returns when the test is over, and seconds for which time waits for it."""
    device.host_patience, end = 0.1, threading.Event()

    def stuck():
        end.wait(LONG)

    yield stuck
    end.set()


BLAME = (
    r"task {} waits for the host's function .*stuck; "
    r"the host's function .*stuck, called by task {} of stream 0, has not returned for "
)


@pytest.mark.parametrize("timeout", [None, 5000])
@pytest.mark.parametrize("use", ["stream", "task", "event", "session", "others"])
def test_a_wait_for_a_function_that_never_returns_ends_and_names_it(
    session, stuck, use, timeout
):
    stream, other, event = session.stream(), session.stream(), session.event()
    number = stream.callback(stuck).id
    stream.record(event)
    task = stream.fill(session.empty(8, np.uint8), 1)
    other.wait(event)
    wait = dict(
        stream=stream.synchronise, task=task.wait, event=event.synchronise,
        session=session.synchronise, others=other.synchronise,
    )[use]  # fmt: skip
    blame = BLAME.format(number, number)
    if use == "others":
        blame = "which stream 0 records .*" + blame[blame.index("; the host's") :]
    with pytest.raises(WaitTimeout, match=blame) as caught:
        wait(timeout)
    assert caught.value.code == (507047 if use == "event" else 507046)
    session.close(drain=False)


def test_a_query_of_a_stream_whose_function_never_returns_is_not_done(session, stuck):
    stream = session.stream()
    stream.callback(stuck)
    assert not any(stream.query() for _ in range(5))
    session.close(drain=False)


def test_a_function_that_never_returns_holds_up_no_other_session_for_ever(device, session, stuck):
    stream, other = session.stream(), device.session()
    stream.callback(stuck)
    assert not stream.query()
    buffer = other.buffer(BYTES)
    assert (other.stream().download(buffer).result() == BYTES).all()
    with pytest.raises(WaitTimeout, match="stuck"):
        session.close()
    assert session.closed


def test_the_device_is_usable_after_the_abort_of_a_function_that_never_returns(
    device, session, stuck, calls
):
    stream = session.stream()
    task = stream.callback(stuck)
    with pytest.raises(WaitTimeout):
        stream.synchronise(1000)
    stream.abort()
    with pytest.raises(StreamAborted):
        task.wait()
    assert (stream.download(session.buffer(BYTES)).result() == BYTES).all()
    stream.callback(calls.append, 1)  # behind it: a session's functions run one at a time
    with pytest.raises(WaitTimeout, match=f"stuck, called by task {task.id} of stream 0, has not"):
        stream.synchronise(1000)
    assert calls == []
    stream.abort()
    device.host_patience = LONG
    with device.session() as other:
        other.stream().callback(calls.append, 2)
    assert calls == [2]
    session.close(drain=False)


def test_functions_are_waited_for_as_long_as_each_returns_in_time(
    device, session, monkeypatch, calls
):
    clock = itertools.count(1000, 6)  # each function takes at least 6 s
    monkeypatch.setattr("rt.callback.time.monotonic", lambda: now[0])
    now = [next(clock)]

    def function():
        now[0] = next(clock)
        calls.append(device.standstill)

    for stream in (session.stream() for _ in range(4)):
        stream.callback(function)
    session.synchronise(timeout=3000)
    assert calls == [device.host_patience - 6] * 4


def test_time_waits_for_functions_of_two_sessions_that_are_asked_for_at_once(device, calls):
    transport = device.driver.transport
    sessions = [device.session(), device.session()]
    barrier = threading.Barrier(2)

    def function():
        calls.append(transport.now())
        barrier.wait(LONG)  # each on the thread of its session

    for stream in (session.stream() for session in sessions):
        stream.callback(function)
    sessions[0].synchronise()
    assert len(set(calls)) == 1


def test_a_function_whose_call_was_aborted_does_not_return_for_the_next(session, calls):
    stream, running, enough = session.stream(), threading.Event(), threading.Event()

    def function():
        calls.append("begins")
        running.set()
        enough.wait(LONG)
        calls.append("ends")

    with stream.capture() as graph:
        stream.callback(function)
    stream.replay(graph)
    with threads(lambda: aborted(stream)):
        assert running.wait(LONG)
        stream.abort()
    again = stream.replay(graph)
    with threads(again.wait):
        time.sleep(0.05)
        assert not again.done
        enough.set()
    assert calls == ["begins", "ends"] * 2


def aborted(stream):
    with pytest.raises(StreamAborted):
        stream.synchronise()
