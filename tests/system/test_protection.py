"""No access beyond the windows of a context, and memory errors stay with who met them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from hw.axi import Response
from hw.config import HOST_BASE
from hw.regs.descriptor import Completion, CopyPayload, TaskType, ValuePayload
from hw.regs.fault import FaultCause
from hw.regs.instruction import KernelHeader
from hw.regs.registers import (
    ArgsBase,
    CompletionBase,
    CompletionTail,
    RingBase,
    StreamCommand,
    WindowBase,
    WindowLimit,
)
from rt.errors import DeviceFault
from rt.kernel.assembler import assemble
from tests.system.faults import (
    bystander,
    copy_entry,
    fails,
    home,
    instruction,
    kernel_entry,
    place_code,
    submit,
    works,
)

DEVICE_PLACE, HOST_PLACE = 768 << 10, HOST_BASE + (768 << 10)
"""Memory that no window of the session covers."""
BEYOND = 1 << 30
"""An address without memory."""
FREE_WINDOW = 2
RIGHTS = ("read", "write", "execute")
LOAD = """
    address register=r0 source=argument argument=scalar0
    address register=r1
    load memory=r0 local=r1 row_bytes=24
    end
"""
STORE = """
    address register=r0 source=argument argument=scalar0
    address register=r1
    store memory=r0 accumulators=r1 columns=4
    end
"""


def restart(stream, *values):
    """Starts the stream with other registers; recovery sets the usual ones again."""
    stream.halt()
    stream._origin = stream._tail
    stream._driver.write(*values, StreamCommand(start=1), index=stream.number)
    stream.session.device.service()


def read_entry(session, stream, place):
    restart(stream, RingBase(address=place))
    usual = stream._ring.base
    stream._ring.base = usual if place == BEYOND else place
    task = submit(stream, type=TaskType.NOP)
    stream._ring.base = usual
    return task


def read_arguments(session, stream, place):
    return kernel_entry(stream, place_code(session, "end")[0], args_address=place)


def read_arguments_ahead(session, stream, place):
    address, _ = place_code(session, "end")
    restart(stream, ArgsBase(address=place))
    return kernel_entry(stream, address, args_address=place)


def fetch_code(session, stream, place):
    if place != BEYOND:
        binary = assemble("end", session.device.config.fingerprint)
        session.device.driver.transport.write_host(place, binary)
    return kernel_entry(stream, place)


def run(text, session, stream, place):
    return kernel_entry(stream, place_code(session, text)[0], scalars=[place])


def fill(session, stream, place):
    payload = CopyPayload(source=0xA5, destination=place, row_bytes=24)
    return submit(stream, type=TaskType.MEMSET, payload=payload.to_int())


def completion_base(session, place):
    """Where the ring must begin for its next entry to lie at `place`."""
    tail = session.device.driver.read(CompletionTail, session.context).tail
    return place - tail % session._ring.entries * Completion.BYTES


def write_completion(session, stream, place):
    base = CompletionBase(address=completion_base(session, place))
    session.device.driver.write(base, index=session.context)
    return submit(stream, type=TaskType.NOP)


def record_time(session, stream, place):
    word = session.device.events.record(session.device.events.take(), stream).word
    return submit(
        stream, type=TaskType.EVENT_RECORD, record=1, option=1, record_event=word.to_int(),
        payload=ValuePayload(address=place).to_int(),
    )  # fmt: skip


@dataclass(frozen=True)
class Client:
    """A client of the memory bus, and how it comes to access `size` bytes at a place.

    engine: of the fault record, without its number.
    tail: where its last burst begins: that fails when only the last byte is out of reach.
    names: its task is known from the completion entry of the fault.
    """

    provoke: Callable
    engine: str
    access: str
    place: int = DEVICE_PLACE
    size: int = 24
    tail: int = 0
    names: bool = True
    text: str = ""


CLIENTS = {
    "entries": Client(read_entry, "queue", "read", HOST_PLACE, 64, names=False),
    "arguments": Client(read_arguments, "queue", "read", HOST_PLACE, 128, 64, names=False),
    "arguments ahead": Client(
        read_arguments_ahead, "queue", "read", HOST_PLACE, 128, 64, names=False
    ),
    "code": Client(fetch_code, "core", "execute", HOST_PLACE, 48, KernelHeader.BYTES),
    "load": Client(partial(run, LOAD), "core", "read", text=LOAD),
    "store": Client(partial(run, STORE), "core", "write", size=16, text=STORE),
    "copy's reads": Client(
        lambda _, stream, place: copy_entry(stream, place, home(stream)), "copy", "read"
    ),
    "copy's writes": Client(
        lambda _, stream, place: copy_entry(stream, home(stream), place), "copy", "write"
    ),
    "fill": Client(fill, "copy", "write"),
    "completion entries": Client(write_completion, "completion", "write", HOST_PLACE, 64),
    "timed records": Client(record_time, "completion", "write", size=16),
}


def code_words(session, text):
    code = assemble(text, session.device.config.fingerprint)[KernelHeader.BYTES :]
    return [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]


def allow(session, first, last, rights):
    """Opens the free window for these bytes."""
    driver = session.device.driver
    driver.write(
        WindowLimit(), WindowBase(address=first),
        WindowLimit(address=last, **dict.fromkeys(rights, 1)),
        index=session.context * driver.config.windows + FREE_WINDOW,
    )  # fmt: skip


def contents(transport, place, size):
    if place >= HOST_BASE:
        return transport.read_host(place, size)
    return bytes(transport.device_memory()[place : place + size])


@pytest.mark.parametrize("name", CLIENTS)
def test_an_access_needs_a_window_that_holds_all_of_it_and_memory_that_answers(
    device, session, name
):
    """One byte below, at and above both edges of a window; every right but the one needed."""
    client = CLIENTS[name]
    driver, transport = device.driver, device.driver.transport
    stream, ring = session.stream(), session._ring
    place, last = client.place, client.place + client.size - 1
    lost = name == "completion entries"  # the entry itself

    def refused(cause, place, offset=0):
        record = fails(
            stream, lambda: client.provoke(session, stream, place), cause=cause,
            access=client.access, address=place + offset, entry=not lost, readable=client.names,
        ).record  # fmt: skip
        driver.write(CompletionBase(address=ring.base), index=session.context)
        assert record.engine.rstrip("01") == client.engine
        where = dict(start_pc=record.start_pc, pc=record.pc, instruction=record.instruction)
        if client.text:
            words = code_words(session, client.text)
            assert where == instruction(record.start_pc - KernelHeader.BYTES, words, 2)
        elif name == "code":
            start = place + KernelHeader.BYTES
            assert where == dict(start_pc=start, pc=start, instruction=0)
        else:
            assert where == dict(start_pc=0, pc=0, instruction=0)

    with bystander(device):
        # All that it needs, and nothing else.
        allow(session, place, last, (client.access,))
        usual = ring.base
        if lost:
            ring.base = completion_base(session, place)
        client.provoke(session, stream, place).wait()
        ring.base = usual
        driver.write(CompletionBase(address=usual), index=session.context)
        session.recover()

        before = contents(transport, place, client.size)
        for first, end, rights, offset in (
            (place + 1, last, RIGHTS, 0),
            (place, last - 1, RIGHTS, client.tail),
            (place, last, set(RIGHTS) - {client.access}, 0),
        ):
            allow(session, first, end, rights)
            refused(FaultCause.ACCESS_VIOLATION, place, offset)
        if client.access == "write":
            assert contents(transport, place, client.size) == before

        allow(session, place, last, RIGHTS)
        direction = "write" if client.access == "write" else "read"
        transport.inject(direction, place, last, Response.SLVERR)
        refused(FaultCause.BUS_SLAVE_ERROR, place)
        transport.inject(direction, place, last, None)
        allow(session, BEYOND, BEYOND + client.size - 1, RIGHTS)
        refused(FaultCause.BUS_DECODE_ERROR, BEYOND)
    works(session)


@pytest.mark.oracle
def test_a_session_reaches_no_memory_of_another(device):
    """Neither device memory nor the host memory with its rings; by copies and by kernels."""
    mine, other = device.session(), device.session()
    secret = other.buffer(np.full(64, 0x77, np.uint8))
    copies = other.stream()
    stream = mine.stream()
    buffer = mine.buffer(np.zeros(64, np.uint8))
    for place in (secret.address, copies._ring.base, other._ring.base):
        for entry in ((place, buffer.address), (buffer.address, place)):
            copy_entry(stream, *entry)
            with pytest.raises(DeviceFault, match="ACCESS_VIOLATION on copy0"):
                stream.synchronise()
            mine.recover()
        for text in (LOAD, STORE):
            run(text, mine, stream, place)
            with pytest.raises(DeviceFault, match="ACCESS_VIOLATION on core0"):
                stream.synchronise()
            mine.recover()
    assert (stream.download(buffer).result() == 0).all()
    assert (copies.download(secret).result() == 0x77).all()
    assert device.driver.fault(other.context) is None


def test_arguments_that_are_read_ahead_for_nobody_are_no_fault(session):
    """Of a task that takes none, they may lie where nothing may be read."""
    stream = session.stream()
    restart(stream, ArgsBase(address=HOST_PLACE))
    submit(stream, type=TaskType.NOP).wait()
    session.recover()
    works(session)
