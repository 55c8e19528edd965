"""Values in memory that streams write and wait for."""

import numpy as np
import pytest

from hw.regs.descriptor import Comparison
from hw.regs.fault import FaultCause
from rt.errors import DeviceFault, InvalidHandle, InvalidParameter, WrongContext
from rt.task import TaskState


@pytest.fixture
def buffer(session):
    return session.buffer(np.zeros(8, np.uint64))


def test_a_value_orders_two_streams(session, buffer):
    one, two = session.stream(), session.stream()
    result = session.empty(8, np.uint64)
    two.wait_value(buffer, 24, 5)
    two.copy(result, buffer)
    one.write_value(buffer, 32, 77)
    one.write_value(buffer, 24, 6)
    session.synchronise()
    assert two.download(result).result().tolist() == [0, 0, 0, 6, 77, 0, 0, 0]


def test_negative_values_are_those_of_two_s_complement(session, buffer):
    stream = session.stream()
    stream.write_value(buffer, 0, -2)
    stream.wait_value(buffer, 0, -3)
    stream.wait_value(buffer, 0, (1 << 64) - 2, Comparison.EQUAL)
    stream.synchronise()
    assert stream.download(buffer).result()[0] == (1 << 64) - 2


@pytest.mark.parametrize(
    ("comparison", "value", "written", "mask"),
    [
        (Comparison.NOT_LESS, 4, 4, None),
        (Comparison.EQUAL, 0x1234, 0xFF_0000_1234, 0xFFFF),
        (Comparison.AND, 0x30, 0x10, None),
        (Comparison.NOR, 0xF0, 0x0E, 0xFF),
    ],
)
def test_a_wait_passes_when_the_value_compares(session, buffer, comparison, value, written, mask):
    one, two = session.stream(), session.stream()
    one.write_value(buffer, 0, -1 if comparison is Comparison.NOR else 0)
    one.synchronise()
    two.wait_value(buffer, 0, value, comparison, mask=mask)
    assert not two.query()
    one.write_value(buffer, 0, written)
    session.synchronise()


def test_an_upload_can_be_waited_for(session, buffer):
    one, two = session.stream(), session.stream()
    task = two.wait_value(buffer, 56, 7)
    one.upload(buffer, np.arange(8, dtype=np.uint64))
    task.wait()


def test_a_wait_names_its_value_and_gives_up_after_its_timeout(session, buffer):
    stream = session.stream()
    task = stream.wait_value(buffer, 8, 3, Comparison.EQUAL, mask=0xFF, timeout=5000)
    place = f"0x{buffer.address + 8:010x}"
    assert task.waits_for == f"the value at {place} to be EQUAL 0x3 in the bits 0x000000ff"
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT on queue") as caught:
        stream.synchronise()
    assert (caught.value.code, caught.value.record.task_id) == (107020, task.id)


def test_a_freed_buffer_is_kept_while_a_value_of_it_is_waited_for(session, buffer):
    one, two = session.stream(), session.stream()
    two.wait_value(buffer, 0, 1)
    one.write_value(buffer, 0, 1)
    place = buffer.address
    buffer.free()
    assert session.empty(8, np.uint64).address != place
    session.synchronise()
    assert session.empty(8, np.uint64).address == place


def test_bad_places_and_values_name_value_and_limit(session, buffer):
    stream = session.stream()
    part = buffer.part(4, 60, np.uint8)
    for use in (stream.write_value, stream.wait_value):
        for bad, offset in ((buffer, 57), (buffer, -8), (buffer, 64), (buffer, 4), (part, 0)):
            with pytest.raises(InvalidParameter, match=rf"value lies at byte {offset} of .* of 8"):
                use(bad, offset, 1)
        use(part, 4, 1)
        for value in (1 << 64, -(1 << 63) - 1):
            with pytest.raises(InvalidParameter, match=f"value {value} does not fit 64 bits"):
                use(buffer, 0, value)
    for mask in (0, 1 << 32):
        with pytest.raises(InvalidParameter, match=f"the mask is {mask}; it must lie within 1"):
            stream.wait_value(buffer, 0, 1, mask=mask)
    with pytest.raises(InvalidParameter, match="comparison is 9; choose one of NOT_LESS, EQUAL"):
        stream.wait_value(buffer, 0, 1, 9)


def test_foreign_and_freed_buffers_are_refused(device, session, buffer):
    stream, foreign = session.stream(), device.session().empty(8, np.uint64)
    for use in (stream.write_value, stream.wait_value):
        with pytest.raises(WrongContext, match="belongs to another session"):
            use(foreign, 0, 1)
    buffer.free()
    with pytest.raises(InvalidHandle, match="was freed"):
        stream.write_value(buffer, 0, 1)


@pytest.mark.parametrize("cause", [FaultCause.BUS_SLAVE_ERROR, FaultCause.BUS_DECODE_ERROR])
def test_a_value_that_cannot_be_read_fails_the_task_that_waits_for_it(session, buffer, cause):
    stream = session.stream()
    before = stream.fill(buffer, 0)
    task = stream.wait_value(buffer, 8, 1)
    after = stream.fill(buffer, 1)
    session.device.driver.transport.memory.broken[buffer.address + 8] = cause
    with pytest.raises(DeviceFault, match=f"{cause.name} on queue") as caught:
        stream.synchronise()
    assert caught.value.record.task_id == task.id
    session.collect()
    assert [each.state for each in (before, task, after)] == [
        TaskState.DONE, TaskState.FAILED, TaskState.PENDING
    ]  # fmt: skip
    session.recover()
    assert [each.state for each in (task, after)] == [TaskState.FAILED, TaskState.DROPPED]


def test_a_replay_with_a_value_that_cannot_be_read_has_failed(session, buffer):
    stream = session.stream()
    with stream.capture() as graph:
        task = stream.wait_value(buffer, 8, 1)
    session.device.driver.transport.memory.broken[buffer.address + 8] = FaultCause.BUS_SLAVE_ERROR
    replay = stream.replay(graph)
    with pytest.raises(DeviceFault, match=f"Task {task.id} is task {task.id} of graph 1"):
        replay.wait()
    session.collect()
    session.recover()
    with pytest.raises(DeviceFault, match="BUS_SLAVE_ERROR on queue"):
        replay.wait()


def test_what_is_no_whole_number_is_named(session, buffer):
    stream = session.stream()
    for offset, value, wrong in (("0", 1, "offset is '0'"), (0, 1.5, "value is 1.5")):
        for use in (stream.write_value, stream.wait_value):
            with pytest.raises(InvalidParameter, match=f"the {wrong}; it must be a whole number"):
                use(buffer, offset, value)
    with pytest.raises(InvalidParameter, match="the amount is 2.0; it must be a whole number"):
        stream.notify(session.notify(), 2.0)
    stream.write_value(buffer, np.int64(8), np.int8(-1))
    assert (stream.download(buffer).result()[8:16] == 0xFF).all()
