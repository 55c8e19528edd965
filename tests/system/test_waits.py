"""Waits that fail on the whole machine: each is recorded, reported, contained, recovered from."""

import threading

import numpy as np
import pytest

from hw.axi import Response
from hw.regs.descriptor import NotifyOperation, NotifyPayload, Sqe, TaskType, ValuePayload
from hw.regs.fault import FaultCause
from hw.regs.registers import StreamStatus, Wait
from rt.errors import DeviceFault, StreamAborted, WaitTimeout
from rt.task import TaskState
from tests.rt.threads import LONG
from tests.system.faults import bystander, fails, home, submit, works

NEVER = NotifyPayload(counter=1, amount=1 << 31, operation=NotifyOperation.WAIT).to_int()


def place_of_next_entry(stream):
    return stream._ring.base + (stream._tail - stream._origin) % stream._ring.entries * Sqe.BYTES


def value_at(address, value=0):
    return ValuePayload(address=address, value=value).to_int()


@pytest.mark.parametrize(("kind", "engine", "access"), [
    (TaskType.VALUE_WAIT, "queue", "read"), (TaskType.VALUE_WRITE, "value", "write"),
])  # fmt: skip
def test_a_value_outside_the_windows_is_not_touched(device, session, kind, engine, access):
    stream = session.stream()
    with bystander(device) as other:
        foreign = home(other.streams[0])
        fails(
            stream, lambda: submit(stream, type=kind, payload=value_at(foreign)),
            cause=FaultCause.ACCESS_VIOLATION, engine=engine, access=access, address=foreign,
        )  # fmt: skip
    works(session)


@pytest.mark.parametrize("listed", [False, True])
def test_the_task_whose_value_cannot_be_read_is_known_to_have_failed(session, listed):
    stream, buffer = session.stream(), session.buffer(np.zeros(8, np.uint64))
    transport, place = session.device.driver.transport, buffer.address + 8
    with stream.capture() as graph:
        stream.fill(buffer, 0)
        inner = stream.wait_value(buffer, 8, 1)
    transport.inject("read", place, place + 7, Response.SLVERR)
    outer = stream.replay(graph) if listed else stream.wait_value(buffer, 8, 1)
    with pytest.raises(DeviceFault, match="BUS_SLAVE_ERROR on queue") as caught:
        outer.wait()
    assert caught.value.record.task_id == (inner.id if listed else outer.id)
    transport.inject("read", place, place + 7, None)
    session.recover()
    with pytest.raises(DeviceFault if listed else StreamAborted):
        outer.wait()
    assert outer.over if listed else outer.state is TaskState.FAILED
    works(session)


WAITS = {
    Wait.EVENT: lambda stream: dict(type=TaskType.EVENT_WAIT, dependencies=1, event_deps=[9]),
    Wait.NOTIFY: lambda stream: dict(type=TaskType.NOTIFY, payload=NEVER),
    Wait.VALUE: lambda stream: dict(
        type=TaskType.VALUE_WAIT,
        payload=value_at(stream.session.buffer(np.zeros(8, "u1")).address, 1),
    ),
    Wait.BARRIER: lambda stream: dict(type=TaskType.BARRIER),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_that_is_not_over_in_time_fails_and_holds_up_no_other_stream(device, session, wait):
    """In the 1,024th cycle after the one in which its entry is the next and nothing runs."""
    stream, blocker = session.stream(), session.stream()
    driver, transport = device.driver, device.driver.transport
    slot = 9 | 1 << 12
    submit(blocker, type=TaskType.EVENT_WAIT, dependencies=1, event_deps=[slot])
    fields = WAITS[wait](stream)
    if wait is Wait.EVENT:
        fields["event_deps"] = [slot]

    def provoke():
        task = submit(stream, timeout=1, **fields)
        transport.run_until(interrupt=False, cycle=transport.now() + 200)
        assert driver.read(StreamStatus, stream.number).wait == wait
        works(other)
        return task

    with device.session() as other:
        other.stream()
        fails(
            stream, provoke, cause=FaultCause.TASK_TIMEOUT, engine="queue",
            address=place_of_next_entry(stream), exact=False,
        )  # fmt: skip
    works(session)


def test_a_function_that_never_returns_is_named_and_holds_up_no_other_session(device, session):
    device.host_patience, end = 0.1, threading.Event()
    stream, behind = session.stream(), session.stream()
    task = stream.callback(end.wait, LONG)
    behind.wait(stream)
    for timeout in (2000, None):
        for each in (stream, behind):
            with pytest.raises(WaitTimeout, match=f"Event.wait, called by task {task.id} of"):
                each.synchronise(timeout)
    with device.session() as other:
        other.stream()
        works(other)
    stream.abort()
    with pytest.raises(StreamAborted):
        stream.synchronise()
    behind.synchronise()
    end.set()
    works(session)


def test_replays_behind_one_that_failed_do_not_run_and_leave_nothing_behind(device):
    session = device.session()
    one, two, three = (session.stream() for _ in range(3))
    cell, notify = session.buffer(np.zeros(8, np.uint64)), session.notify()
    ready, done = session.event(), session.event()
    with one.capture() as graph:
        one.fill(cell, 0)
        one.record(ready)
        two.wait(ready)
        late = two.wait_value(cell, 0, 1, timeout=1024)
        two.fill(cell, 9)
        two.record(done)
        one.wait(done)
        one.notify(notify)
    replays = [one.replay(graph) for _ in range(2)]
    three.wait(one)
    after = three.fill(cell, 1)
    with pytest.raises(DeviceFault, match=f"task {late.id} of graph 1") as caught:
        replays[1].wait()
    assert caught.value.code == 107020
    session.recover()
    for replay, error in zip(replays, (DeviceFault, StreamAborted), strict=True):
        with pytest.raises(error):
            replay.wait()
    assert after.state is TaskState.DROPPED
    assert notify.value == 0
    works(session)
    session.close()
    assert device.device_pool.available == device.device_pool.size
    assert device.host_pool.available == device.host_pool.size
    assert len(device.events.free) == device.config.events
    assert len(device.counters.free) == device.config.notifies
