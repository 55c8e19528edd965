"""What the model device does with the entries of its streams, without any runtime."""

import pytest

from hw.config import HOST_BASE, NpuConfig
from hw.regs.descriptor import (
    CallPayload,
    Comparison,
    Completion,
    CopyPayload,
    EventWord,
    NotifyOperation,
    NotifyPayload,
    Sqe,
    TaskType,
    ValuePayload,
    seal,
)
from hw.regs.fault import FaultCause, FaultUnit
from hw.regs.registers import (
    CallbackReturn,
    CompletionBase,
    CompletionConfig,
    ContextCallbacks,
    Doorbell,
    EventRecord,
    FaultAddress,
    InterruptStatus,
    NotifySelect,
    NotifySet,
    NotifyValue,
    RingBase,
    StreamCommand,
    StreamConfig,
    StreamEntry,
    StreamState,
    StreamStatus,
    StreamWait,
    Wait,
)
from rt.driver import Driver
from rt.transport import Reason
from tests.models.device import ModelDevice

RINGS, LIST, VALUE, COMPLETIONS = (HOST_BASE + base for base in (0, 0x8000, 0x9000, 0xA000))
MASK = (1 << 32) - 1


class Bench:
    """Streams of 16 entries in one context, driven by registers."""

    def __init__(self, streams=3):
        self.model = ModelDevice(NpuConfig.preset("tiny"))
        self.driver = Driver(self.model)
        self.driver.window(0, 0, HOST_BASE, HOST_BASE + 0xFFFF)
        self.driver.write(CompletionBase(address=COMPLETIONS), CompletionConfig(size=6))
        self.tails = [0] * streams
        for s in range(streams):
            self.driver.write(
                RingBase(address=RINGS + s * 0x1000), StreamConfig(size=4),
                StreamCommand(start=1), index=s,
            )  # fmt: skip

    def submit(self, stream, *entries):
        for sqe in entries:
            place = RINGS + stream * 0x1000 + self.tails[stream] % 16 * Sqe.BYTES
            self.model.write_host(place, seal(sqe).to_bytes())
            self.tails[stream] += 1
        self.driver.write(Doorbell(tail=self.tails[stream]), index=stream)

    def list(self, *entries):
        raw = b"".join(seal(sqe).to_bytes() for sqe in entries)
        self.model.write_host(LIST, raw)

    def run(self, cycles):
        return self.model.run_until(interrupt=False, cycle=self.model.now() + cycles)

    def status(self, stream):
        return self.driver.read(StreamStatus, stream)

    def done(self, stream):
        return self.model.tasks.streams[stream].head == self.tails[stream]

    def value(self, place=VALUE):
        return int.from_bytes(self.model.read_host(place, 8), "little")

    def completions(self):
        """(task, status, engine) of each."""
        entries = (
            Completion.from_bytes(self.model.read_host(COMPLETIONS + 64 * n, 64))
            for n in range(self.model.tasks.contexts[0].tail)
        )
        return [(entry.task_id, entry.status, entry.engine) for entry in entries]


@pytest.fixture
def bench():
    return Bench()


def task(kind, payload=None, **fields):
    return Sqe(type=kind, payload=payload.to_int() if payload else 0, **fields)


def notify(operation, amount, counter=1, **fields):
    payload = NotifyPayload(counter=counter, amount=amount, operation=operation)
    return task(TaskType.NOTIFY, payload, **fields)


def write(value, place=VALUE, **fields):
    return task(TaskType.VALUE_WRITE, ValuePayload(address=place, value=value), **fields)


def wait_value(value, operation=Comparison.NOT_LESS, mask=0, **fields):
    payload = ValuePayload(address=VALUE, value=value, operation=operation, mask=mask)
    return task(TaskType.VALUE_WAIT, payload, **fields)


def event(slot, generation):
    return EventWord(slot=slot, generation=generation).to_int()


def test_a_counter_is_waited_for_and_subtracted(bench):
    bench.submit(0, notify(NotifyOperation.WAIT, 3), notify(NotifyOperation.WAIT, 1))
    bench.submit(1, notify(NotifyOperation.ADD, 2))
    assert bench.status(0).wait == Wait.NOTIFY
    bench.submit(1, notify(NotifyOperation.ADD, 2))
    assert bench.done(0)
    bench.driver.write(NotifySelect(counter=1))
    assert bench.driver.read(NotifyValue).value == 0
    bench.driver.write(NotifySet(value=MASK))
    bench.submit(0, notify(NotifyOperation.ADD, 3))
    assert bench.driver.read(NotifyValue).value == 2
    bench.submit(0, notify(NotifyOperation.SET, 9))
    assert bench.driver.read(NotifyValue).value == 9


@pytest.mark.parametrize(
    ("operation", "found", "wanted", "mask", "passes"),
    [
        (Comparison.NOT_LESS, 5, 5, 0, True),
        (Comparison.NOT_LESS, 4, 5, 0, False),
        (Comparison.NOT_LESS, 3, (1 << 64) - 2, 0, True),
        (Comparison.EQUAL, 0x1_0000_0007, 7, 0, False),
        (Comparison.EQUAL, 0x1_0000_0007, 7, MASK, True),
        (Comparison.AND, 0xF0, 0x10, 0, True),
        (Comparison.AND, 0xF0, 0x10, 0xE0, False),
        (Comparison.NOR, 0xF0, 0x0F, 0xFF, False),
        (Comparison.NOR, 0xF0, 0x0E, 0xFF, True),
        (Comparison.NOR, (1 << 64) - 1, 0, 0, False),
    ],
)
def test_values_compare(bench, operation, found, wanted, mask, passes):
    bench.submit(0, write(found), wait_value(wanted, operation, mask))
    bench.run(1000)
    assert bench.done(0) == passes
    assert bench.value() == found


def test_a_value_wait_passes_when_the_host_writes(bench):
    bench.submit(0, wait_value(1))
    assert bench.run(1000).reason is Reason.CYCLE
    assert bench.status(0).wait == Wait.VALUE
    bench.model.write_host(VALUE, (7).to_bytes(8, "little"))
    bench.run(1)
    assert bench.done(0)


@pytest.mark.parametrize("failed", [0, 1])
def test_the_host_is_asked_once_and_returns(bench, failed):
    number = (1 << 40) + 77
    bench.submit(0, task(TaskType.HOST_CALLBACK, task_id=number))
    assert bench.driver.read(ContextCallbacks).streams == 1
    assert bench.driver.read(InterruptStatus).callback
    bench.driver.write(InterruptStatus(callback=1))
    bench.driver.write(CallbackReturn(task=78), index=0)
    bench.driver.write(CallbackReturn(task=77), index=1)
    assert bench.status(0).wait == Wait.CALLBACK
    bench.driver.write(CallbackReturn(task=77, failed=failed), index=0)
    assert bench.done(0)
    assert bench.driver.read(ContextCallbacks).streams == 0
    assert not bench.driver.read(InterruptStatus).callback
    expected = [(number, FaultCause.HOST_CALLBACK, FaultUnit.QUEUE)] if failed else []
    assert bench.completions() == expected


def test_a_barrier_waits_for_lesser_numbers_of_the_context(bench):
    bench.submit(0, notify(NotifyOperation.WAIT, 1, task_id=5), task(TaskType.NOP, task_id=8))
    bench.submit(1, task(TaskType.BARRIER, task_id=6))
    bench.submit(2, task(TaskType.BARRIER, task_id=4))
    assert bench.status(1).wait == Wait.BARRIER
    assert bench.done(2)
    bench.submit(2, notify(NotifyOperation.ADD, 1, task_id=9))
    assert bench.done(1)


@pytest.mark.parametrize(
    ("sqe", "wait"),
    [
        (notify(NotifyOperation.WAIT, 1), Wait.NOTIFY),
        (wait_value(1), Wait.VALUE),
        (task(TaskType.HOST_CALLBACK), Wait.CALLBACK),
        (task(TaskType.EVENT_WAIT, dependencies=1, event_deps=[event(2, 5)]), Wait.EVENT),
    ],
)
def test_a_head_that_waits_too_long_is_refused(bench, sqe, wait):
    bench.submit(0, task(TaskType.NOP), sqe.replace(timeout=2, task_id=3))
    bench.run(2000)
    assert bench.status(0).wait == wait
    assert bench.status(0).engine == 0
    bench.run(100)
    assert bench.status(0).state == StreamState.STOPPED
    assert bench.completions() == [(3, FaultCause.TASK_TIMEOUT, FaultUnit.QUEUE)]
    assert bench.driver.read(FaultAddress).address == RINGS + Sqe.BYTES


def test_a_value_that_cannot_be_read_is_refused(bench):
    bench.submit(0, wait_value(1).replace(payload=ValuePayload(address=0x40).to_int(), task_id=2))
    assert bench.completions() == [(2, FaultCause.ACCESS_VIOLATION, FaultUnit.QUEUE)]
    assert bench.driver.read(FaultAddress).address == 0x40


def test_a_list_runs_as_if_it_stood_in_the_ring(bench):
    bench.list(
        write(1, task_id=50),
        write(2, VALUE + 8, task_id=51, relative=1, record=1, record_event=event(3, 2)),
        write(3, VALUE + 16, task_id=52, relative=1, dependencies=1, event_deps=[event(4, 1)]),
    )
    call = CallPayload(list_address=LIST, entries=3, epoch=(1 << 20) + 10)
    bench.submit(
        0,
        task(TaskType.CALL, call, task_id=7, dependencies=1, event_deps=[event(2, 1)],
             record=1, record_event=event(5, 1), completion=1),
        write(4, VALUE + 24),
    )  # fmt: skip
    assert not bench.status(0).called
    bench.driver.write(EventRecord(slot=2, generation=1))
    assert bench.status(0).called
    bench.run(100)
    assert bench.driver.read(StreamEntry, 0).entry == 2
    assert bench.driver.read(StreamWait, 0).as_dict() == dict(slot=4, generation=11)
    assert bench.model.tasks.waits.events[3][0] == 12
    bench.driver.write(EventRecord(slot=4, generation=11))
    bench.run(100)
    assert bench.done(0)
    assert bench.model.tasks.waits.events[5][0] == 1
    assert [bench.value(VALUE + 8 * n) for n in range(4)] == [1, 2, 3, 4]
    control = bench.driver.config.engines.index("control")
    assert bench.completions() == [(7, FaultCause.NONE, control)]
    assert bench.driver.read(StreamEntry, 0).entry == 0


def test_a_barrier_in_a_list_has_the_number_of_its_call(bench):
    bench.list(task(TaskType.BARRIER, task_id=100))
    call = CallPayload(list_address=LIST, entries=1)
    bench.submit(1, notify(NotifyOperation.WAIT, 1, task_id=8))
    bench.submit(0, task(TaskType.CALL, call, task_id=7))
    assert bench.done(0)
    bench.submit(0, task(TaskType.CALL, call, task_id=9))
    assert bench.status(0).wait == Wait.BARRIER
    bench.submit(2, notify(NotifyOperation.ADD, 1, task_id=10))
    assert bench.done(0)


def test_an_abort_leaves_a_list_and_the_next_start_begins_anew(bench):
    bench.list(notify(NotifyOperation.WAIT, 1))
    bench.submit(0, task(TaskType.CALL, CallPayload(list_address=LIST, entries=1)))
    assert bench.status(0).called
    bench.driver.write(StreamCommand(abort=1), StreamCommand(start=1), index=0)
    assert not bench.status(0).called
    bench.tails[0] = 0
    bench.submit(0, write(5))
    bench.run(100)
    assert bench.value() == 5


def test_a_call_within_a_list_is_refused(bench):
    call = task(TaskType.CALL, CallPayload(list_address=LIST, entries=1), task_id=1)
    bench.list(call)
    bench.submit(0, call)
    assert bench.completions() == [(1, FaultCause.ILLEGAL_DESCRIPTOR, FaultUnit.QUEUE)]
    assert bench.driver.read(FaultAddress).address == LIST


def test_a_wait_of_one_stream_holds_up_no_other(bench):
    bench.submit(0, wait_value(1))
    bench.submit(1, notify(NotifyOperation.WAIT, 1))
    copy = CopyPayload(source=LIST, destination=VALUE, row_bytes=8)
    bench.model.write_host(LIST, (1).to_bytes(8, "little"))
    bench.submit(2, task(TaskType.MEMCPY, copy), notify(NotifyOperation.ADD, 1))
    bench.run(100)
    assert [bench.done(s) for s in range(3)] == [True] * 3
