import numpy as np
import pytest

from hw.config import HOST_BASE
from hw.regs.descriptor import Completion, CopyPayload, Sqe, TaskType
from hw.regs.fault import FaultCause
from rt import FailureMode
from rt.errors import FAULT_CODES, DeviceFault, FaultRecord
from rt.task import Task
from tests.rt.machine import SPIN, TRAP, binary

BYTES = np.arange(64, dtype=np.uint8)


def submit(stream, **fields):
    """An entry that the runtime itself would never submit."""
    stream.prepare()
    return stream.submit(Task(stream, stream.session.device.task_id()), Sqe(**fields))


def copy_to(stream, destination):
    source = stream.session._memory.address
    payload = CopyPayload(source=source, destination=destination, row_bytes=8).to_int()
    return submit(stream, type=TaskType.MEMCPY, payload=payload)


def test_a_trap_is_decoded_and_stays(session):
    stream, buffer = session.stream(), session.buffer(BYTES)
    task = stream.launch(session.load(binary(TRAP, session.device.config)))
    after = stream.fill(buffer, 1)
    for _ in range(2):
        with pytest.raises(DeviceFault, match="ILLEGAL_INSTRUCTION on core0") as caught:
            stream.synchronise()
        assert caught.value.code == 507015
    record = caught.value.record
    assert (record.task_id, record.stream, record.context) == (task.id, stream.number, 0)
    assert (record.start_pc, record.pc, record.state) == (0x1020, 0x1040, 5)
    assert record.instruction == 0xAB << 120 | 7
    assert 0 < record.timestamp <= session.device.driver.transport.now()
    for use in (stream.query, session.synchronise, task.wait, after.wait,
                lambda: stream.fill(buffer, 2)):  # fmt: skip
        with pytest.raises(DeviceFault, match="pc 0x0000001040"):
            use()


def test_other_streams_go_on_unless_the_stream_says_stop(session):
    kernel = session.load(binary(TRAP, session.device.config))
    buffer = session.buffer(BYTES)
    first, second, third = session.stream(), session.stream(), session.stream(
        failure_mode=FailureMode.STOP
    )  # fmt: skip
    first.launch(kernel)
    with pytest.raises(DeviceFault):
        session.synchronise()
    download = second.download(buffer)
    model = session.device.driver.transport
    model.run_until(interrupt=False, cycle=model.now() + 1000)
    session.collect()
    assert (download.result() == BYTES).all()
    third.launch(kernel)
    model.run_until(interrupt=False, cycle=model.now() + 1000)
    with pytest.raises(DeviceFault):
        second.query()
    with pytest.raises(DeviceFault):
        second.download(buffer)


def test_recovery_starts_anew(session):
    stream, other = session.stream(), session.stream()
    event = session.event()
    stream.launch(session.load(binary(TRAP, session.device.config)))
    stream.record(event)
    other.wait(event)
    buffer = session.empty(64, np.uint8)
    stuck = other.fill(buffer, 1)
    with pytest.raises(DeviceFault):
        other.synchronise()
    session.recover()
    assert not stuck.done
    assert len(session.device.events.free) == session.device.config.events
    other.fill(buffer, 2)
    stream.record(event)
    assert (other.download(buffer).result() == 2).all()
    session.synchronise()


def test_an_entry_that_comes_after_recovery_is_no_new_fault(session):
    stream = session.stream()
    task = stream.launch(session.load(binary(TRAP, session.device.config)))
    with pytest.raises(DeviceFault):
        stream.synchronise()
    session.recover()
    ring = session._ring
    late = Completion(
        task_id=task.id, stream=stream.number, status=FaultCause.ILLEGAL_INSTRUCTION, phase=1
    )
    place = ring.base + ring.head * Completion.BYTES
    session.device.driver.transport.write_host(place, late.to_bytes())
    session.collect()
    assert ring.base + ring.head * Completion.BYTES > place
    assert not session.failed


def test_a_fault_never_reaches_another_session(device):
    bad, good = device.session(), device.session()
    buffer = good.buffer(BYTES)
    broken, healthy = bad.stream(), good.stream()
    broken.launch(bad.load(binary(TRAP, device.config)))
    download = healthy.download(buffer)
    healthy.synchronise()
    assert (download.result() == BYTES).all()
    with pytest.raises(DeviceFault):
        bad.close()
    assert (healthy.download(buffer).result() == BYTES).all()
    assert (device.session().buffer(BYTES).nbytes) == 64


def test_a_failed_record_releases_nobody(device):
    bad, good = device.session(), device.session()
    stream, waiter, event = bad.stream(), bad.stream(), bad.event()
    stream.launch(bad.load(binary(TRAP, device.config)))
    stream.record(event)
    waiter.wait(event)
    stuck = waiter.fill(bad.empty(8, np.uint8), 0)
    other = good.stream()
    for _ in range(3 * device.config.events):
        other.record(good.event())
        other.synchronise()
    with pytest.raises(DeviceFault):
        bad.synchronise()
    bad.close()
    assert not stuck.done


@pytest.mark.parametrize(
    ("place", "cause", "code"),
    [
        ((1 << 20) - 64, FaultCause.ACCESS_VIOLATION, 507013),
        (HOST_BASE + (1 << 20) - 64, FaultCause.ACCESS_VIOLATION, 507013),
        (1 << 30, FaultCause.ACCESS_VIOLATION, 507013),
        (0, FaultCause.ACCESS_VIOLATION, 507013),
    ],
)
def test_memory_of_others_is_out_of_reach(session, place, cause, code):
    stream = session.stream()
    copy_to(stream, place)
    with pytest.raises(DeviceFault) as caught:
        stream.synchronise()
    record = caught.value.record
    assert (record.cause, caught.value.code) == (cause, code)
    assert (record.address, record.access, record.engine) == (place, "write", "copy0")


@pytest.mark.parametrize("cause", [FaultCause.BUS_SLAVE_ERROR, FaultCause.BUS_DECODE_ERROR])
def test_bus_errors(session, cause):
    stream = session.stream()
    buffer = session.buffer(BYTES)
    session.device.driver.transport.memory.broken[buffer.address + 5] = cause
    download = stream.download(buffer)
    with pytest.raises(DeviceFault, match=cause.name) as caught:
        download.result()
    assert caught.value.code == 507053


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        (dict(type=TaskType.BARRIER, payload=1), FaultCause.ILLEGAL_DESCRIPTOR),
        (dict(type=TaskType.NOP, payload=1), FaultCause.ILLEGAL_DESCRIPTOR),
        (dict(type=TaskType.NOP, record=1, record_event=4000), FaultCause.EVENT_MISUSE),
    ],
)
def test_bad_entries(session, fields, cause):
    stream = session.stream()
    task = submit(stream, **fields)
    with pytest.raises(DeviceFault, match=f"{cause.name} on queue") as caught:
        stream.synchronise()
    assert caught.value.record.task_id == task.id


def test_a_kernel_that_runs_too_long(session):
    stream = session.stream()
    kernel = session.load(binary(SPIN, session.device.config))
    stream.launch(kernel, scalars=[5000], timeout=3000)
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT") as caught:
        stream.synchronise()
    assert caught.value.code == 507014


def test_the_fault_comes_before_the_timeout_of_a_wait(session):
    stream = session.stream()
    stream.launch(session.load(binary(SPIN, session.device.config)), scalars=[1 << 40])
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT"):
        stream.synchronise()


def test_an_unknown_cause_is_reported_whole():
    record = FaultRecord(cause=99, engine="core0", stream=1, task_id=2, context=3, address=4,
                         access="read", start_pc=0, pc=0, instruction=0, state=0x77,
                         timestamp=5)  # fmt: skip
    fault = DeviceFault(record, "close the session")
    assert fault.code == 507000
    doing = "(load busy, compute busy, store busy, load waiting, compute waiting, store waiting)"
    for part in ("UNKNOWN_99", "task 2", "context 3", "cycle 5", f"state 0x00000077 {doing}. ",
                 "[507000]"):  # fmt: skip
        assert part in str(fault)


def test_every_cause_has_a_code():
    assert set(FAULT_CODES) == set(FaultCause) - {FaultCause.NONE}
