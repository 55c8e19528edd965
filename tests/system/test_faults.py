"""Every fault cause through the driver: recorded, reported, contained, and recovered from."""

from functools import partial

import numpy as np
import pytest

from hw.regs.descriptor import CopyPayload, NotifyPayload, Sqe, TaskType
from hw.regs.fault import FaultCause
from hw.regs.registers import Doorbell, EventRecord, FaultCount, StreamState, Watchdog
from rt import FailureMode
from rt.errors import DeviceFault
from rt.ops import matmul
from rt.transport import TransportError
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

CONFIG_EVENTS = 16
FOREVER = """
    address register=r0 source=argument argument=scalar0
    address register=r1
    loop count=4294967295
    load memory=r0 local=r1 row_bytes=4096
    next
    end
"""


def place_of_next_entry(stream):
    return stream._ring.base + (stream._tail - stream._origin) % stream._ring.entries * Sqe.BYTES


def fails_in_queue(stream, cause, provoke, **more):
    """The queue refuses the next entry."""
    fails(stream, provoke, cause=cause, engine="queue", access="read",
          address=place_of_next_entry(stream), start_pc=0, pc=0, instruction=0, state=0,
          **more)  # fmt: skip


# --------------------------------------------------------------------------------------- entries


def test_illegal_descriptors(device, session):
    stream = session.stream()
    copy = CopyPayload(source=0, destination=0, row_bytes=8, rows=0).to_int()
    with bystander(device):
        for provoke in (
            lambda: submit(stream, flip=(0, TaskType.NOP)),  # type 0, as in cleared memory
            lambda: submit(stream, flip=(0, 0xC0)),  # a type that nobody knows
            lambda: submit(stream, flip=(3, 0x80)),  # a reserved bit
            lambda: submit(stream, type=TaskType.NOP, payload=1),
            lambda: submit(stream, type=TaskType.MEMCPY, payload=copy),
            lambda: kernel_entry(stream, 8),  # not aligned
            lambda: submit(stream, type=TaskType.VALUE_WAIT, payload=4),
            lambda: submit(stream, type=TaskType.BARRIER, payload=1),
            lambda: submit(stream, type=TaskType.CALL),  # no entries
            lambda: submit(stream, type=TaskType.NOP, relative=1),  # not in a list
        ):
            fails_in_queue(stream, FaultCause.ILLEGAL_DESCRIPTOR, provoke)
    works(session)


def test_wrong_checksums(device, session):
    """Whatever bit is wrong, that of the task's number too, which then means nothing."""
    stream = session.stream()
    task_id = Sqe.task_id.offset // 8
    with bystander(device):
        for flip in ((63, 0x80), (Sqe.crc.offset // 8, 1), (task_id, 2), (task_id + 7, 0x40)):
            fails_in_queue(
                stream, FaultCause.CHECKSUM,
                partial(submit, stream, flip=flip, sealed=False), readable=False,
            )  # fmt: skip
    works(session)


@pytest.mark.oracle
def test_an_unreadable_entry_ends_none_of_the_tasks_around_it(session):
    """Not even if the number that was read is that of a later one."""
    stream = session.stream()
    bad = submit(stream, flip=(Sqe.task_id.offset // 8 + 1, 1), sealed=False)
    later = [submit(stream, type=TaskType.NOP) for _ in range(2)]
    with pytest.raises(DeviceFault, match="CHECKSUM"):
        stream.synchronise()
    transport = session.device.driver.transport
    transport.run_until(interrupt=False, cycle=transport.now() + 100)
    session.collect()
    assert not any(task.done for task in (bad, *later))
    session.recover()
    works(session)


def test_event_slots_and_counters_that_do_not_exist(device, session):
    stream = session.stream()
    assert device.config.events == CONFIG_EVENTS
    notify = NotifyPayload(counter=device.config.notifies, amount=1)
    with bystander(device):
        for fields in (
            dict(type=TaskType.NOP, record=1, record_event=CONFIG_EVENTS),
            dict(type=TaskType.EVENT_WAIT, dependencies=1, event_deps=[4095]),
            dict(type=TaskType.NOP, dependencies=2, event_deps=[0, CONFIG_EVENTS]),
            dict(type=TaskType.NOTIFY, payload=notify.to_int()),
        ):
            fails_in_queue(stream, FaultCause.EVENT_MISUSE, partial(submit, stream, **fields))
        last = dict(record=1, record_event=CONFIG_EVENTS - 1 | 1 << 12)
        submit(stream, type=TaskType.NOP, **last).wait()
    works(session)


def test_a_record_by_register_of_a_slot_that_does_not_exist_is_refused(device, session):
    """With an error to whoever wrote it: it is of no context whose fault it could be."""
    with pytest.raises(TransportError, match="write to .* was answered with SLVERR"):
        device.driver.write(EventRecord(slot=CONFIG_EVENTS, generation=1))
    assert device.driver.fault(session.context) is None
    session.stream()
    works(session)


def test_doorbells_that_announce_more_than_the_ring_holds_or_less_than_before(device, session):
    stream = session.stream(depth=4)
    with bystander(device):
        for tail in (5, (1 << 32) - 1):
            fails(
                stream,
                partial(device.driver.write, Doorbell(tail=tail), index=stream.number),
                cause=FaultCause.QUEUE_OVERRUN, engine="queue", task_id=0, address=0,
                entry=False, exact=False,
            )  # fmt: skip
    tasks = [submit(stream, type=TaskType.NOP) for _ in range(4)]
    stream.synchronise()
    assert all(task.done for task in tasks)
    works(session)


# --------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("flip", [
    (0, 1), (4, 2), (7, 0x80), (8, 1), (12, 8), (12, 16), (13, 16), (16, 1), (31, 0x80),
], ids=["magic", "ISA version", "reserved bit", "fingerprint", "half an instruction",
        "no instruction", "too many instructions", "CRC", "last reserved bit"])  # fmt: skip
def test_illegal_kernels(session, flip):
    stream = session.stream()
    address, _ = place_code(session, "end", flip)
    fails(
        stream, lambda: kernel_entry(stream, address), cause=FaultCause.ILLEGAL_KERNEL,
        engine="core0", address=address, access="execute", start_pc=address + 32,
        pc=address + 32, instruction=0,
    )  # fmt: skip
    assert kernel_entry(stream, place_code(session, "end")[0]).wait() is None


BROKEN = {
    "unknown opcode": (1, "loop\n.word 0x7f\nnext\nend"),
    "reserved bit": (0, ".word 0x80000000000000000000000000000001"),
    "cleared memory": (1, "fence\n.word 0\nend"),
    "next without loop": (0, "next\nend"),
    "end inside a loop": (1, "loop\nend"),
    "a unit's field": (
        2, "address register=r0\naddress register=r1\nload memory=r0 local=r1 rows=0\nend"
    ),
    "one token too many": (1, "grant load=15\ngrant load=1\nend"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_illegal_instructions(session, name):
    index, text = BROKEN[name]
    stream = session.stream()
    address, words = place_code(session, text)
    where = instruction(address, words, index)
    fails(stream, lambda: kernel_entry(stream, address), cause=FaultCause.ILLEGAL_INSTRUCTION,
          engine="core0", address=0, access="read", **where)  # fmt: skip
    assert kernel_entry(stream, place_code(session, "end")[0]).wait() is None


def test_running_past_the_last_instruction(session):
    stream = session.stream()
    address, words = place_code(session, "grant\ngrant")
    where = {**instruction(address, [*words, 0], 2), "instruction": 0}
    fails(stream, lambda: kernel_entry(stream, address), cause=FaultCause.ILLEGAL_INSTRUCTION,
          engine="core0", **where)  # fmt: skip


WAITS = {
    "load": "load memory=r0 local=r1 wait_next",
    "compute": "matmul activations=r0 weights=r1 accumulators=r2 wait_previous",
    "store": "store memory=r0 accumulators=r1 columns=1 wait_previous",
}


@pytest.mark.parametrize("unit", WAITS)
def test_a_kernel_that_waits_for_a_token_that_never_comes(device, session, unit):
    """Found without a watchdog, when nothing has moved for rows + columns + 32 cycles."""
    device.driver.write(Watchdog(cycles=0))
    stream = session.stream()
    addresses = "".join(f"address register=r{n}\n" for n in range(3))
    address, words = place_code(session, f"{addresses}{WAITS[unit]}\nend")
    with bystander(device):
        fault = fails(
            stream, lambda: kernel_entry(stream, address), cause=FaultCause.ILLEGAL_INSTRUCTION,
            engine="core0", **instruction(address, words, 4),
        )  # fmt: skip
    waiting = 1 << (4 + list(WAITS).index(unit))
    blocked = 1 << 13 | 1 << 14
    assert fault.record.state & (blocked | 0x70) == blocked | waiting
    a = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    assert np.array_equal(matmul(session, a, a), a.astype(np.int32) @ a)


@pytest.mark.oracle
def test_arithmetic_overflow_is_a_fault_where_the_stream_says_so(device, session):
    """The sum that is there is set by hand: thousands of products would be needed to reach it."""
    engine = device.driver.transport.engine
    unit = "npu.core0.compute.accumulate"
    text = """
        address register=r0
        matmul activations=r0 weights=r0 accumulators=r0 depth=4
        address register=r1 source=argument argument=scalar0
        address register=r2
        load memory=r1 local=r2 row_bytes=16 pitch=16 signal_next
        matmul activations=r2 weights=r2 accumulators=r2 depth=4 accumulate wait_previous
        end
    """
    address, words = place_code(session, text)
    ones = session.buffer(np.ones(16, np.int8))

    def launch(stream):
        task = kernel_entry(stream, address, scalars=[ones.address])
        for _ in range(2):  # the second sum is the one that is added to
            assert engine.run_until(f"{unit}.write__enable", engine.now + 400)
            edge = int.from_bytes(np.full(4, 2**31 - 4, "<i4").tobytes(), "little")
            engine.poke("npu.core0.accumulators.decoded0", edge)
            sums = engine.peek(f"{unit}.write__data")
            wraps = engine.peek(f"{unit}.overflow")
            engine.step()
        assert (sums & 0xFFFFFFFF, wraps) == (1 << 31, 1)  # 4 more: one above the greatest
        return task

    wrapping = session.stream()
    launch(wrapping).wait()
    wrapping.close()
    stream = session.stream(overflow=True)
    fails(
        stream, lambda: launch(stream), cause=FaultCause.ARITHMETIC_OVERFLOW, engine="core0",
        exact=False, **instruction(address, words, 5),
    )  # fmt: skip
    works(session)


# -------------------------------------------------------------------------------------- too slow


def test_a_task_that_runs_for_too_long(device, session):
    """Ends 1,024 cycles after its dispatch, for each unit of its timeout."""
    stream = session.stream()
    engine = device.driver.transport.engine
    address, words = place_code(session, FOREVER)
    dispatched = []

    def launch():
        task = kernel_entry(stream, address, scalars=[home(stream)], timeout=1)
        assert engine.run_until("npu.trace_core0_busy", engine.now + 400)
        dispatched.append(engine.now - 1)
        return task

    with bystander(device):
        fault = fails(stream, launch, cause=FaultCause.TASK_TIMEOUT, engine="core0")
        record = fault.record
        assert record.timestamp == dispatched[0] + 1024
        index = (record.pc - record.start_pc) // 16
        assert index in (3, 4)  # LOAD or NEXT
        assert instruction(address, words, index).items() <= vars(record).items()
    with device.session() as other:
        a = np.arange(6, dtype=np.int8).reshape(2, 3)
        assert np.array_equal(matmul(other, a, a.T.copy()), a.astype(np.int32) @ a.T)


def test_the_watchdog_bites_where_memory_is_slower_than_it_allows(device, session):
    """A copy's first beat comes 11 cycles after its dispatch: too late if 6 are allowed."""
    driver, stream = device.driver, session.stream()
    engine = driver.transport.engine
    driver.write(Watchdog(cycles=6))
    dispatched = []

    def copy():
        task = copy_entry(stream, home(stream), home(stream) + 64)
        assert engine.run_until("npu.trace_copy0_busy", engine.now + 400)
        dispatched.append(engine.now - 1)
        return task

    fault = fails(stream, copy, cause=FaultCause.WATCHDOG, engine="copy0")
    assert fault.record.timestamp == dispatched[0] + 7  # after 6 running cycles without progress
    driver.write(Watchdog(cycles=16))
    works(session)


def test_a_stream_that_waits_for_an_event_is_not_idle_for_the_watchdog(device, session):
    driver = device.driver
    driver.write(Watchdog(cycles=32))
    stream = session.stream()
    task = submit(stream, type=TaskType.NOP, dependencies=1, event_deps=[3 | 1 << 12])
    transport = driver.transport
    transport.run_until(interrupt=False, cycle=transport.now() + 400)
    assert driver.fault(session.context) is None
    driver.write(EventRecord(slot=3, generation=1))
    task.wait()


# ------------------------------------------------------------------------------ modes and counts


@pytest.mark.oracle
def test_a_fault_stops_its_own_stream_only(device, session):
    first, second = session.stream(), session.stream()
    submit(first, type=TaskType.CALL)
    behind = submit(first, type=TaskType.NOP)
    with pytest.raises(DeviceFault):
        session.synchronise()
    later = submit(second, type=TaskType.NOP)
    transport = device.driver.transport
    transport.run_until(interrupt=False, cycle=transport.now() + 100)
    session.collect()
    assert later.done
    assert not behind.state.over
    states = [device.driver.stream_state(stream.number) for stream in (first, second)]
    assert states == [StreamState.STOPPED, StreamState.ACTIVE]


def test_with_failure_mode_stop_a_fault_stops_every_stream_of_its_context(device, session):
    first, second = session.stream(failure_mode=FailureMode.STOP), session.stream()
    with bystander(device):
        submit(first, type=TaskType.CALL)
        with pytest.raises(DeviceFault):
            session.synchronise()
        states = [device.driver.stream_state(stream.number) for stream in (first, second)]
        assert states == [StreamState.STOPPED] * 2
        with pytest.raises(DeviceFault):
            submit(second, type=TaskType.NOP)
        session.recover()
    submit(second, type=TaskType.NOP).wait()
    works(session)


def test_the_first_fault_is_kept_and_later_ones_are_counted(device, session):
    driver, transport = device.driver, device.driver.transport
    streams = [session.stream() for _ in range(3)]
    tasks = []
    for stream, kind in zip(streams, (TaskType.CALL, TaskType.NOP, TaskType.BARRIER), strict=True):
        tasks.append(submit(stream, type=kind, payload=1))
        transport.run_until(interrupt=False, cycle=transport.now() + 40)
    for _ in range(2):
        with pytest.raises(DeviceFault, match="ILLEGAL_DESCRIPTOR") as caught:
            session.synchronise()
        assert caught.value.record.task_id == tasks[0].id
    assert driver.read(FaultCount, session.context).count == 3
    session.recover()
    assert driver.read(FaultCount, session.context).count == 0
    fails_in_queue(
        streams[1], FaultCause.ILLEGAL_DESCRIPTOR,
        lambda: submit(streams[1], type=TaskType.NOP, payload=1),
    )  # fmt: skip
    works(session)


def test_a_new_session_has_no_fault_of_the_one_before(device):
    session = device.session()
    submit(session.stream(), type=TaskType.CALL)
    with pytest.raises(DeviceFault):
        session.close()
    with device.session() as session:
        assert device.driver.fault(session.context) is None
        session.stream()
        works(session)


# --------------------------------------------------------------------------------- bounded stop


def issued(transport, clients, cycles):
    """Cycles in which the bus took an address of the clients, from now on."""
    engine, config = transport.engine, transport.config
    names = []
    for side, channel, known in (
        ("reads", "ar", config.read_clients), ("writes", "aw", config.write_clients)
    ):  # fmt: skip
        names += [
            f"npu.bus.interconnect.{side}__{n}__{channel}"
            for n, name in enumerate(known) if name in clients
        ]  # fmt: skip
    found = []
    for _ in range(cycles):
        if any(engine.peek(f"{n}__valid") and engine.peek(f"{n}__ready") for n in names):
            found.append(transport.now())
        engine.step()
    return found


STORES = """
    address register=r0 source=argument argument=scalar0
    address register=r1
    load memory=r0 local=r1 rows=60 row_bytes=16 pitch=128
    load memory=r0 local=r1 rows=60 row_bytes=16 pitch=128
    end
"""


@pytest.mark.parametrize("engine", ["copy0", "core0"])
@pytest.mark.parametrize("why", ["fault", "timeout"])
def test_no_address_of_the_engine_is_on_the_bus_once_a_fault_is_reported(
    transport, session, engine, why
):
    """The last one is taken in the cycle of the fault, at the latest, if the engine finds it.

    After a timeout the engine is told in the next cycle: the core acts on it in the one after.
    The bus is free, so that no address waits for others.
    """
    stream = session.stream()
    source = session.empty(8192, np.uint8)
    target = session.empty(8192, np.uint8)
    address, _ = place_code(session, STORES)
    if why == "fault":
        transport.inject("read", source.address + 2944, source.address + 2951)
    if engine == "copy0":
        copy_entry(stream, source.address, target.address, 8192)
        clients = ("copy0",)
    else:
        kernel_entry(stream, address, scalars=[source.address])
        clients = ("code0", "load0", "store0")
    busy = issued(transport, clients, 20)
    for _ in range(1000):
        busy += issued(transport, clients, 1)
        if transport.engine.peek("npu.trace_fault"):
            break
        if why == "timeout" and len(busy) == 8:
            session.device.driver.write(Watchdog(cycles=1))
    fault = transport.now()
    assert len(busy) > 8
    after = issued(transport, clients, 200)
    allowed = {"fault": 0, "timeout": {"copy0": 1, "core0": 2}[engine]}[why]
    assert max([*busy, *after]) <= fault + allowed
    with pytest.raises(DeviceFault):
        stream.synchronise()
