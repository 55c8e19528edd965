"""Completion entries: as the host sees them, and what tasks and streams must wait for."""

import numpy as np
import pytest

from hw.config import HOST_BASE
from hw.regs.descriptor import Completion
from hw.regs.fault import FaultCause
from hw.regs.registers import (
    ArgsBase,
    CompletionCommand,
    CompletionConfig,
    CompletionTail,
    EngineStatus,
    InterruptEnable,
    InterruptStatus,
    RingBase,
    StreamCommand,
    StreamConfig,
    StreamState,
    StreamStatus,
)
from rt.errors import DeviceFault, StreamAborted
from rt.ops import matmul
from rt.ring import CompletionRing
from tests.system.faults import EVERY_CAUSE, works


@pytest.mark.oracle
def test_an_entry_is_whole_in_the_cycle_in_which_its_phase_is_new(transport, session):
    """Looks at the ring in every cycle while entries are being written, beat by beat."""
    stream = session.stream()
    ring = session._ring
    buffer = session.empty(64, "u1")
    tasks = [stream.fill(buffer, value) for value in range(3)]
    seen = []
    for _ in range(600):
        transport.run_until(interrupt=False, cycle=transport.now() + 1)
        raw = transport.read_host(ring.base + len(seen) * Completion.BYTES, Completion.BYTES)
        entry = Completion.from_bytes(raw)
        if entry.phase:
            seen.append(entry)
        if len(seen) == len(tasks):
            break
    assert [entry.task_id for entry in seen] == [task.id for task in tasks]
    assert all(0 < entry.start <= entry.end for entry in seen)
    stream.synchronise()


@pytest.mark.parametrize("moment", range(0, 40, 4))
def test_nothing_is_written_once_an_abort_has_ended(transport, session, moment):
    """Neither the completion entry nor the timed record of tasks that retired before it."""
    driver, stream = session.device.driver, session.stream()
    buffer, event = session.empty(64, "u1"), session.event(timing=True)
    with stream.batch():
        stream.fill(buffer, 1, profile=True)
        stream.record(event)
    engine = transport.engine
    assert engine.run_until(f"npu.queues.stream{stream.number}.head", engine.now + 400)
    transport.run_until(interrupt=False, cycle=transport.now() + moment)
    driver.write(StreamCommand(abort=1), index=stream.number)
    stopped = f"npu.scheduler.stream{stream.number}.registers__stopped"
    assert engine.run_until(stopped, engine.now + 400)
    before = transport.read_host(HOST_BASE, transport.host_bytes)
    tail = driver.read(CompletionTail, session.context)
    transport.run_until(interrupt=False, cycle=transport.now() + 200)
    assert transport.read_host(HOST_BASE, transport.host_bytes) == before
    assert driver.read(CompletionTail, session.context) == tail
    stream.abort()
    with pytest.raises(StreamAborted):
        stream.synchronise()


def test_an_entry_that_cannot_be_written_stops_its_stream(transport, session):
    stream, other = session.stream(), session.stream()
    ring = session._ring.base
    transport.inject("write", ring, ring + 4095)
    with stream.batch():
        for value in range(4):
            stream.fill(session.empty(64, "u1"), value, profile=True)
    with pytest.raises(DeviceFault) as caught:
        stream.synchronise()
    record = caught.value.record
    assert (record.cause, record.engine) == (FaultCause.BUS_SLAVE_ERROR, "completion")
    assert (record.stream, record.access) == (stream.number, "write")
    status = session.device.driver.read(StreamStatus, stream.number)
    assert (status.state, status.cause) == (StreamState.STOPPED, FaultCause.BUS_SLAVE_ERROR)
    assert session.device.driver.stream_state(other.number) is StreamState.ACTIVE
    transport.inject("write", 0, 0, None)
    session.recover()
    works(session)


def test_an_entry_that_landed_although_its_write_failed_is_behind_us_after_recovery(
    transport, session
):
    """Only its first beat fails, so its phase is new in memory; a single job follows."""
    stream = session.stream()
    buffer = session.empty(64, "u1")
    place = session._ring.base + session._ring.head * Completion.BYTES
    transport.inject("write", place, place + 7)
    stream.fill(buffer, 1)
    with pytest.raises(DeviceFault):
        stream.synchronise()
    transport.inject("write", 0, 0, None)
    session.recover()
    stream.fill(buffer, 2)
    stream.synchronise()


def test_a_session_that_reads_no_completions_leaves_every_engine_to_others(transport, device):
    """Two streams with more copies than its ring of two entries holds, and a kernel."""
    with device.session() as session, device.session() as other:
        driver, context = device.driver, session.context
        streams = [session.stream() for _ in range(2)]
        buffer = session.empty(64, "u1")
        driver.write(InterruptEnable(), index=context)
        session._ring = CompletionRing(transport, session._ring.base, 1)
        driver.write(CompletionConfig(size=1), CompletionCommand(restart=1), index=context)
        for stream in streams:
            with stream.batch():
                for value in range(6):
                    stream.fill(buffer, value, profile=True)
        transport.run_until(interrupt=False, cycle=transport.now() + 500)
        assert driver.read(EngineStatus).busy == 0
        assert driver.read(InterruptStatus, context).full
        assert sum(stream.device_ended() for stream in streams) == 2
        a = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
        assert np.array_equal(matmul(other, a, a), a.astype(np.int32) @ a)
        driver.write(InterruptEnable(**EVERY_CAUSE), index=context)
        session.synchronise()
        assert all(stream.device_ended() == stream._tail for stream in streams)


def test_a_stream_is_configured_by_its_start(transport, device):
    """Registers that change while it runs count at the next start, and only if they can."""
    with device.session() as session, device.session() as other:
        driver, stream = device.driver, session.stream()
        buffer = session.buffer(np.arange(64, dtype=np.uint8))
        driver.write(RingBase(), ArgsBase(), StreamConfig(context=other.context, size=15),
                     index=stream.number)  # fmt: skip
        assert (stream.download(buffer).result() == np.arange(64)).all()
        driver.write(StreamCommand(abort=1), index=stream.number)
        while driver.stream_state(stream.number) is not StreamState.DISABLED:
            pass
        for settings in (StreamConfig(context=9, size=4), StreamConfig(size=15), StreamConfig()):
            driver.write(settings, StreamCommand(start=1), index=stream.number)
            status = driver.read(StreamStatus, stream.number)
            assert (status.state, status.cause) == (
                StreamState.DISABLED, FaultCause.ILLEGAL_DESCRIPTOR,
            )  # fmt: skip
        stream.start()
        assert (stream.download(buffer).result() == np.arange(64)).all()
