"""Tasks that must fail on the whole machine, and what a fault has to leave behind."""

import zlib
from contextlib import contextmanager

import numpy as np
import pytest

from hw.regs.descriptor import (
    Arguments,
    Completion,
    CopyPayload,
    KernelPayload,
    Sqe,
    TaskType,
    seal,
)
from hw.regs.fault import FaultCause
from hw.regs.instruction import KernelHeader
from hw.regs.registers import (
    Doorbell,
    FaultCount,
    InterruptContexts,
    InterruptEnable,
    InterruptStatus,
    StreamState,
    StreamStatus,
)
from rt.driver import EVERY_CAUSE
from rt.errors import DeviceFault
from rt.kernel.assembler import assemble
from rt.task import Task, TaskState
from rt.transport import Reason

__all__ = [
    "bystander", "copy_entry", "fails", "instruction", "kernel_entry", "place_code",
    "submit", "works",
]  # fmt: skip

LIMIT = 4000
"""Cycles within which a fault must interrupt."""

CODES = {
    FaultCause.ILLEGAL_DESCRIPTOR: 507001, FaultCause.CHECKSUM: 507001,
    FaultCause.UNSUPPORTED: 207000, FaultCause.ILLEGAL_KERNEL: 507016,
    FaultCause.ILLEGAL_INSTRUCTION: 507015, FaultCause.ACCESS_VIOLATION: 507015,
    FaultCause.BUS_SLAVE_ERROR: 507053, FaultCause.BUS_DECODE_ERROR: 507053,
    FaultCause.WATCHDOG: 507010, FaultCause.TASK_TIMEOUT: 507014,
    FaultCause.QUEUE_OVERRUN: 507002, FaultCause.EVENT_MISUSE: 507001,
    FaultCause.ARITHMETIC_OVERFLOW: 207003,
}  # fmt: skip
COPY_VIOLATION = 507013
LATE_WAIT = 107020


# --------------------------------------------------------------------------------------- entries


def inverted(raw, at, bits):
    """Bytes, with some bits of one inverted."""
    return raw[:at] + bytes([raw[at] ^ bits]) + raw[at + 1 :]


def reseal(raw):
    """The bytes of an entry, with the right checksum."""
    at = Sqe.crc.offset // 8
    blank = raw[:at] + bytes(4) + raw[at + 4 :]
    return raw[:at] + zlib.crc32(blank).to_bytes(4, "little") + raw[at + 4 :]


def submit(stream, *, flip=None, sealed=True, **fields):
    """An entry that the runtime itself would never submit.

    flip: (byte, bits): bits of a byte of the entry that are inverted.
    sealed: the checksum is right for what comes of it.
    """
    stream.prepare()
    task = Task(stream, stream.session.device.task_id())
    task.entry = Sqe(**{"completion": 1, "task_id": task.id, **fields})
    raw = seal(task.entry).to_bytes()
    if flip:
        raw = inverted(raw, *flip)
    index = stream._tail - stream._origin
    place = stream._ring.base + index % stream._ring.entries * Sqe.BYTES
    driver = stream.session.device.driver
    driver.transport.write_host(place, reseal(raw) if sealed else raw)
    stream._pending.append(task)
    stream._tail += 1
    driver.write(Doorbell(tail=(index + 1) % (1 << 32)), index=stream.number)
    return task


def home(stream):
    """The first address of the device memory of the stream's session."""
    return stream.session._memory.address


def copy_entry(stream, source, destination, size=24):
    """A copy between any two addresses."""
    payload = CopyPayload(source=source, destination=destination, row_bytes=size)
    return submit(stream, type=TaskType.MEMCPY, payload=payload.to_int())


def kernel_entry(stream, address, *, scalars=(), args_address=None, timeout=0):
    """A launch of whatever lies at `address`, read anew."""
    stream.prepare()
    index = stream._tail - stream._origin
    if args_address is None:
        args_address = stream._ring.args_address(index)
        stream._ring.write_arguments(index, Arguments(scalars=list(scalars)))
    payload = KernelPayload(kernel_address=address, args_address=args_address)
    return submit(
        stream, type=TaskType.KERNEL, payload=payload.to_int(), option=1, timeout=timeout
    )  # fmt: skip


def place_code(session, text, flip=None):
    """A kernel in the session's memory, as in `submit`: its address and its instruction words."""
    binary = assemble(text, session.device.config.fingerprint)
    code = binary[KernelHeader.BYTES :]
    if flip:
        binary = inverted(binary, *flip)
    buffer = session.buffer(np.frombuffer(binary, np.uint8))
    words = [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]
    return buffer.address, words


def instruction(address, words, index):
    """What a fault record says of an instruction of the kernel at `address`."""
    start = address + KernelHeader.BYTES
    return dict(start_pc=start, pc=start + 16 * index, instruction=words[index])


# ---------------------------------------------------------------------------------- what is seen


def fails(stream, provoke, *, times=1, readable=True, entry=True, exact=True, **expected):
    """Checks all that the first fault of `provoke()` leaves behind, recovers, and returns it.

    That is: the interrupt in the cycle after the fault, of this context only; the record; the
    stopped stream; the error at synchronise with its number; the failed task and its completion
    entry; the count.

    times: how many faults there are in the end.
    readable: the entry was read and its checksum is right, so that its task is known.
    entry: a completion entry is written.
    exact: `provoke` returns before the fault.
    expected: fields of the fault record.
    """
    session, device = stream.session, stream.session.device
    driver, transport = device.driver, device.driver.transport
    device.service()
    session.collect()
    taken = session._ring.head
    task = provoke()
    stop = transport.run_until(interrupt=True, cycle=transport.now() + LIMIT)
    assert stop.reason is Reason.INTERRUPT
    assert driver.read(InterruptContexts).contexts == 1 << session.context
    assert driver.read(InterruptStatus, session.context).fault
    with pytest.raises(DeviceFault) as caught:
        stream.synchronise() if task is not None else stream.query()
    fault, record = caught.value, caught.value.record
    found = {name: getattr(record, name) for name in expected}
    assert found == expected
    if exact:
        assert record.timestamp == stop.cycle - 1
    assert (record.stream, record.context) == (stream.number, session.context)
    code = CODES[record.cause]
    if record.engine.startswith("copy") and record.cause == FaultCause.ACCESS_VIOLATION:
        code = COPY_VIOLATION
    elif record.engine == "queue" and record.cause == FaultCause.TASK_TIMEOUT:
        code = LATE_WAIT
    assert fault.code == code
    status = driver.read(StreamStatus, stream.number)
    assert (status.state, status.cause) == (StreamState.STOPPED, record.cause)
    if entry:
        session.wait_until(
            lambda: session._ring.head > taken, LIMIT, lambda: "the entry", despite_fault=True
        )
        _check_entry(session, record)
    if entry and readable:
        assert record.task_id == task.id
        assert task.state is TaskState.FAILED
    elif task is not None:
        assert not task.state.over
    assert driver.read(FaultCount, session.context).count == times
    session.recover()
    assert driver.fault(session.context) is None
    if task is not None:
        assert not task.done
    return fault


def _check_entry(session, record):
    """The last completion entry tells of the fault."""
    ring, driver = session._ring, session.device.driver
    place = ring.base + (ring.head - 1) % ring.entries * Completion.BYTES
    entry = Completion.from_bytes(driver.transport.read_host(place, Completion.BYTES))
    assert (entry.status, entry.task_id, entry.stream, entry.context) == (
        record.cause, record.task_id, record.stream, record.context,
    )  # fmt: skip
    if record.engine != "completion":
        assert driver.engine_name(entry.engine) == record.engine
        assert entry.start <= record.timestamp <= entry.end


def works(session, value=0x5A):
    """Copies of the session do what they should."""
    stream = session.streams[0]
    buffer = session.empty(80, np.uint8)
    stream.fill(buffer, value)
    assert (stream.download(buffer).result() == value).all()
    buffer.free()


@contextmanager
def bystander(device, size=2048):
    """A session with copies under way during the body; they must end right, without a fault."""
    driver = device.driver
    data = np.arange(size).astype(np.uint8)
    with device.session() as session:
        stream, buffer = session.stream(), session.empty(size, np.uint8)
        driver.mute(session.context)  # the first interrupt is to be that of the body
        stream.upload(buffer, data)
        download = stream.download(buffer)
        yield session
        driver.write(InterruptEnable(**EVERY_CAUSE), index=session.context)
        assert (download.result() == data).all()
        session.synchronise()
        assert driver.fault(session.context) is None
        assert driver.read(FaultCount, session.context).count == 0
        assert driver.read(StreamStatus, stream.number).state == StreamState.ACTIVE
