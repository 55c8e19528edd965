"""Heads that wait for notifies, values, the host and barriers: exact cycles, timeouts, aborts."""

import pytest

from hw.interface import Status
from hw.regs.descriptor import Comparison, NotifyOperation, TaskType, ValuePayload
from hw.regs.fault import FaultCause
from hw.regs.registers import StreamState, Wait
from tests.models.machine import CONFIG, Entry, Harness, Plan

pytestmark = pytest.mark.usefixtures("engine")

MEMCPY, NOP, RECORD, WAIT = (
    TaskType.MEMCPY, TaskType.NOP, TaskType.EVENT_RECORD, TaskType.EVENT_WAIT
)  # fmt: skip
CONTROL, QUEUE = CONFIG.engines.index("control"), 0xFE
ADD, SET = NotifyOperation.ADD, NotifyOperation.SET
NEVER = 10**6
"""Cycles that no poll of a test lasts."""


@pytest.fixture(scope="module")
def harness(engine):
    return Harness()


def value_wait(plan=None, **settings):
    payload = ValuePayload(address=0x4_0008, value=77, mask=0xFF, operation=Comparison.EQUAL)
    return Entry(TaskType.VALUE_WAIT, payload=payload.to_int(), plan=plan or Plan(), **settings)


def callback(task_id=5, **settings):
    return Entry(TaskType.HOST_CALLBACK, task_id=task_id, **settings)


def barrier(task_id=100, **settings):
    return Entry(TaskType.BARRIER, task_id=task_id, **settings)


def notify_wait(counter=1, amount=1, **settings):
    return Entry.notify(NotifyOperation.WAIT, counter, amount, **settings)


async def waiting(machine, s, entry):
    """Starts the stream with a head that waits; returns the first cycle in which it does."""
    await machine.start(s)
    machine.queues[s] = [entry]
    first = machine.cycle
    await machine.step()
    assert not machine.dispatched
    return first


HEADS = {
    Wait.EVENT: lambda **settings: Entry(WAIT, deps=((7, 1),), **settings),
    Wait.NOTIFY: notify_wait,
    Wait.VALUE: lambda **settings: value_wait(Plan(done=NEVER), **settings),
    Wait.CALLBACK: callback,
    Wait.BARRIER: barrier,
}
"""A head that nothing releases, for each way to wait."""


async def endless(machine, kind, **settings):
    """A head of stream 1 that waits in that way, if need be for an earlier task of stream 0."""
    if kind == Wait.BARRIER:
        await machine.start(0)
        machine.queues[0] = [Entry(WAIT, task_id=1, deps=((8, 1),))]
    return await waiting(machine, 1, HEADS[kind](address=0x1240, **settings))


def test_a_notify_is_changed_in_the_cycle_after_its_dispatch_and_releases_in_the_next(harness):
    async def behaviour(machine):
        for s in range(4):
            await machine.start(s)
        machine.queues[1] = [notify_wait(1, 2), Entry(NOP)]
        machine.queues[2] = [notify_wait(1, 3)]
        await machine.steps(5)
        assert machine.ctx.get(machine.scheduler.blocked) == 0b110
        assert machine.status(1, "wait_kind") == Wait.NOTIFY
        machine.queues[0] = [Entry.notify(ADD, 1, 4)]
        added = machine.cycle
        await machine.steps(6)
        assert machine.changes == [(added + 1, ADD, 1, 4)]
        assert [(cycle - added, s) for cycle, s, _ in machine.dispatched] == [
            (0, 0), (2, 1), (3, 1)
        ]  # fmt: skip
        assert machine.ctx.get(machine.scheduler.blocked) == 0b100  # 2 are left, 3 are wanted
        machine.queues[0] = [Entry.notify(SET, 1, 3)]
        machine.queues[3] = [notify_wait(2, 0)]
        second = machine.cycle
        await machine.steps(6)
        assert machine.changes[1:] == [(second + 2, SET, 1, 3)]
        assert [(cycle - second, s) for cycle, s, _ in machine.dispatched[3:]] == [
            (0, 3), (1, 0), (3, 2)
        ]  # fmt: skip
        assert machine.ctx.get(machine.scheduler.blocked) == 0

    harness.run(behaviour)


def test_streams_that_wait_for_one_counter_share_it_without_loss(harness):
    async def behaviour(machine):
        for s in range(4):
            await machine.start(s)
        for s in range(1, 4):
            machine.queues[s] = [notify_wait(0, 1) for _ in range(4)]
        machine.queues[0] = [Entry.notify(ADD, 0, 5) for _ in range(2)]
        await machine.steps(30)
        assert [s for _, s, _ in machine.dispatched if s] == [1, 2, 3] * 3 + [1]
        cycles = [cycle for cycle, _, _ in machine.dispatched]
        assert cycles == list(range(cycles[0], cycles[0] + 12))
        machine.queues[0] = [Entry.notify(ADD, 0, 2)]
        await machine.steps(6)
        assert [s for _, s, _ in machine.dispatched if s] == [1, 2, 3] * 4

    harness.run(behaviour)


def test_a_value_is_polled_when_the_events_are_met_and_the_stream_runs_nothing(harness):
    async def behaviour(machine):
        await machine.start(0, context=2)
        await machine.start(1)
        machine.queues[0] = [Entry(MEMCPY, plan=Plan(done=9)), value_wait(Plan(done=6)), Entry(NOP)]
        await machine.until(lambda: len(machine.dispatched) == 3)
        ((retired, _), *_) = machine.retired
        ((polled, s, request),) = machine.polled
        assert (polled, s) == (retired + 1, 0)
        assert (request.address, request.context, request.value) == (0x4_0008, 2, 77)
        assert (request.mask, request.operation) == (0xFF, Comparison.EQUAL)
        assert [cycle for cycle, _, _ in machine.dispatched[1:]] == [polled + 6, polled + 7]

        machine.queues[1] = [value_wait(deps=((3, 1),)), value_wait(Plan(done=2))]
        await machine.steps(5)
        assert len(machine.polled) == 1
        assert machine.status(1, "wait_kind") == Wait.EVENT
        machine.queues[0] = [Entry(RECORD, record=(3, 1))]
        await machine.until(lambda: len(machine.polled) == 2)
        ((recorded, _, _),) = machine.records
        assert machine.polled[1][0] == recorded + 1
        assert machine.status(1, "wait_kind") == Wait.VALUE
        assert machine.ctx.get(machine.scheduler.blocked) == 0b10
        await machine.until(lambda: len(machine.dispatched) == 6)
        taken = machine.dispatched[4][0]
        assert taken == recorded + 1 + 4
        assert machine.polled[2][0] == taken + 2  # the former ends in taken + 1
        assert machine.dispatched[5][0] == taken + 4

    harness.run(behaviour)


@pytest.mark.parametrize("status", [Status.DENIED, Status.SLVERR, Status.DECERR])
def test_a_value_that_cannot_be_read_is_a_fault_at_its_address(harness, status):
    async def behaviour(machine):
        await machine.start(0, context=1)
        plan = Plan(fault=4, cause=status.value)
        machine.queues[0] = [value_wait(plan, task_id=9, record=(1, 1)), Entry(NOP)]
        first = machine.cycle
        await machine.until(lambda: machine.retirements)
        ((when, _, fault),) = machine.faults
        cause = FaultCause.ACCESS_VIOLATION + status.value - Status.DENIED.value
        assert when == first + 5
        assert (fault.report.cause, fault.report.address) == (cause, 0x4_0008)
        assert (fault.engine, fault.task_id, fault.context) == (QUEUE, 9, 1)
        ((when, entry),) = machine.retirements
        assert (when, entry.status, entry.task_id) == (first + 6, cause, 9)
        await machine.steps(5)
        assert machine.state(0) == StreamState.STOPPED
        assert not machine.records
        assert len(machine.dispatched) == 1

    harness.run(behaviour)


def test_the_host_is_called_once_and_its_return_dispatches_in_the_next_cycle(harness):
    async def behaviour(machine):
        await machine.start(1)
        task_id = 0x1234_5678_9ABC
        machine.queues[1] = [Entry(MEMCPY, plan=Plan(done=6)), callback(task_id), callback(8)]
        stream = machine.scheduler.streams[1]
        machine.answer(1, task_id)  # too early: the function has not been asked for
        await machine.until(lambda: machine.called)
        assert machine.called == [(machine.retired[0][0] + 1, 1)]
        await machine.steps(9)
        assert machine.ctx.get(stream.callback)
        assert machine.status(1, "wait_kind") == Wait.CALLBACK
        assert machine.status(1, "task_id") == task_id
        assert machine.ctx.get(machine.scheduler.blocked) == 0b10
        machine.answer(1, 8)  # that of another task
        await machine.steps(3)
        assert len(machine.dispatched) == len(machine.called) == 1
        machine.answer(1, task_id)
        returned = machine.cycle
        await machine.step()
        assert not machine.ctx.get(stream.callback)
        await machine.steps(4)
        assert [cycle for cycle, _, _ in machine.dispatched[1:]] == [returned + 1]
        assert machine.called[1:] == [(returned + 3, 1)]
        machine.answer(1, 8)
        await machine.until(lambda: len(machine.retired) == 3)
        assert not machine.faults

    harness.run(behaviour)


def test_a_function_of_the_host_that_fails_fails_its_task(harness):
    async def behaviour(machine):
        await waiting(machine, 0, callback(5, address=0x1240, completion=True))
        machine.answer(0, 5, failed=True)
        returned = machine.cycle
        await machine.until(lambda: machine.retirements)
        ((when, _, fault),) = machine.faults
        assert when == returned + 2
        assert (fault.report.cause, fault.report.address) == (FaultCause.HOST_CALLBACK, 0x1240)
        assert fault.task_id == 5
        assert machine.retirements[0][1].status == FaultCause.HOST_CALLBACK
        assert machine.state(0) == StreamState.STOPPED
        assert machine.called == [(returned - 1, 0)]

    harness.run(behaviour)


def test_a_barrier_waits_for_earlier_tasks_of_its_context_only(harness):
    async def behaviour(machine):
        for s, context in enumerate((0, 0, 0, 1, 0)):
            await machine.start(s, context=context)
        machine.queues[1] = [Entry(MEMCPY, task_id=1, plan=Plan(done=20)),
                             Entry(WAIT, task_id=11, deps=((7, 1),))]  # fmt: skip
        machine.queues[3] = [Entry(WAIT, task_id=2, deps=((7, 2),))]
        machine.queues[4] = [Entry(WAIT, task_id=12, deps=((7, 2),))]
        await machine.steps(3)
        machine.queues[0] = [barrier(10), Entry(NOP, task_id=13)]
        await machine.steps(5)
        assert machine.status(0, "wait_kind") == Wait.BARRIER
        assert machine.ctx.get(machine.scheduler.blocked) == 0b11001
        await machine.until(lambda: len(machine.dispatched) == 3)
        ((retired, s), *_) = machine.retired
        assert s == 1
        assert [(cycle, s) for cycle, s, _ in machine.dispatched[1:]] == [
            (retired + 2, 0), (retired + 3, 0)
        ]  # fmt: skip

    harness.run(behaviour)


def test_a_barrier_does_not_trust_the_number_of_a_bad_entry(harness):
    async def behaviour(machine):
        for s in range(2):
            await machine.start(s)
        machine.set(machine.scheduler.credits[0].left, 0)
        machine.queues[1] = [Entry(NOP, task_id=1 << 60, cause=FaultCause.CHECKSUM)]
        machine.queues[0] = [barrier(10)]
        await machine.steps(10)
        barriers = machine.scheduler.barriers
        assert machine.ctx.get(barriers[0].valid)
        assert machine.ctx.get(barriers[1].pending)
        assert not machine.ctx.get(barriers[0].met)
        machine.set(machine.scheduler.credits[0].left, 1)
        await machine.until(lambda: len(machine.retired) == 2)
        assert [s for _, s in machine.retired] == [1, 0]

    harness.run(behaviour)


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_that_waits_too_long_is_refused(harness, kind):
    async def behaviour(machine):
        first = await endless(machine, kind, timeout=1, task_id=1000, record=(1, 1))
        assert machine.status(1, "wait_kind") == kind
        await machine.until(lambda: machine.dispatched, limit=1030)
        assert [cycle for cycle, s, _ in machine.dispatched if s == 1] == [first + 1024]
        if kind == Wait.CALLBACK:
            machine.answer(1, 1000)
        await machine.steps(2)
        ((when, _, fault),) = machine.faults
        assert (when, fault.stream, fault.engine) == (first + 1025, 1, QUEUE)
        assert (fault.report.cause, fault.report.address) == (FaultCause.TASK_TIMEOUT, 0x1240)
        ((when, entry),) = machine.retirements
        assert (when, entry.status) == (first + 1026, FaultCause.TASK_TIMEOUT)
        assert machine.state(1) == StreamState.STOPPED
        assert not machine.records
        assert not machine.ctx.get(machine.scheduler.streams[1].callback)

    harness.run(behaviour)


@pytest.mark.parametrize("spare", [0, 1])
def test_a_timeout_counts_from_when_the_head_is_next_and_the_last_cycle_counts(harness, spare):
    async def behaviour(machine):
        await machine.start(0)
        await machine.start(1)
        head = notify_wait(2, 1, timeout=1, task_id=9)
        machine.queues[1] = [Entry(MEMCPY, plan=Plan(ended=40, done=40)), head]
        await machine.until(lambda: machine.retired)
        first = machine.cycle
        assert first == machine.retired[0][0] + 1
        # Dispatched in c, the ADD makes the head ready in c + 2.
        await machine.steps(1022 - 1 + spare)
        machine.queues[0] = [Entry.notify(ADD, 2, 1)]
        await machine.steps(8)
        cycle = next(cycle for cycle, _, entry in machine.dispatched if entry is head)
        assert cycle == first + 1023 + spare
        assert not machine.faults
        assert machine.state(1) == StreamState.ACTIVE

    harness.run(behaviour)


def test_a_head_that_is_late_by_a_cycle_takes_nothing_from_its_counter(harness):
    async def behaviour(machine):
        await machine.start(0)
        head = notify_wait(2, 1, timeout=1)
        first = await waiting(machine, 1, head)
        machine.set(machine.scheduler.credits[0].left, 0)  # so that it is refused still later
        await machine.steps(1022)
        machine.set(machine.scheduler.credits[0].left, 5)
        machine.queues[0] = [Entry.notify(ADD, 2, 1)]
        await machine.steps(1)
        assert machine.changes == []
        machine.set(machine.scheduler.credits[0].left, 0)
        await machine.steps(9)
        assert machine.cycle == first + 1033
        assert len(machine.changes) == 1
        machine.set(machine.scheduler.credits[0].left, 1)
        await machine.steps(8)
        assert [fault.report.cause for *_, fault in machine.faults] == [FaultCause.TASK_TIMEOUT]
        machine.ctx.set(machine.notifies.select, 2)
        assert machine.ctx.get(machine.notifies.value) == 1

    harness.run(behaviour)


@pytest.mark.parametrize("waits", [0, 1024])
def test_the_host_is_not_asked_for_what_is_refused_already(harness, waits):
    """Although the head, which has no credit, stays: a function whose task has failed is no more
    to be called, and one that has not been asked for by then never is."""

    async def behaviour(machine):
        dep = (3, 1)
        head = callback(5, timeout=1, deps=(dep,) if waits else ())
        await machine.start(0)
        await waiting(machine, 1, head)
        machine.set(machine.scheduler.credits[0].left, 0)
        stream = machine.scheduler.streams[1]
        await machine.steps(1021)
        assert machine.ctx.get(stream.callback) == (not waits)
        machine.set(machine.scheduler.credits[0].left, 1)
        machine.queues[0] = [Entry(RECORD, record=dep)]
        await machine.step()
        machine.set(machine.scheduler.credits[0].left, 0)
        await machine.steps(1)
        for _ in range(5):
            assert machine.status(1, "wait_kind") == Wait.NONE
            assert not machine.ctx.get(stream.callback)
            machine.answer(1, 5)
            await machine.step()
        assert len(machine.called) == (not waits)
        machine.set(machine.scheduler.credits[0].left, 1)
        await machine.until(lambda: machine.faults)
        ((*_, fault),) = machine.faults
        assert fault.report.cause == FaultCause.TASK_TIMEOUT

    harness.run(behaviour)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("stop", ["abort", "fault"])
def test_a_stream_that_waits_can_be_aborted_and_stopped(harness, kind, stop):
    async def behaviour(machine):
        await endless(machine, kind, task_id=1000)
        await machine.steps(20)
        stream, poll = machine.scheduler.streams[1], machine.scheduler.polls[1]
        assert machine.ctx.get(stream.callback) == (kind == Wait.CALLBACK)
        assert machine.ctx.get(poll.valid) == (kind == Wait.VALUE)
        if stop == "abort":
            await machine.abort(1)
            assert machine.state(1) == StreamState.ABORTING
        else:
            await machine.start(3, failure_mode=1)
            machine.queues[3] = [Entry(NOP, cause=FaultCause.CHECKSUM)]
            await machine.until(lambda: machine.faults)
            assert machine.state(1) == StreamState.STOPPED
        for signal in (stream.callback, poll.valid, machine.scheduler.notifies[1].valid,
                       machine.scheduler.barriers[1].valid):  # fmt: skip
            assert not machine.ctx.get(signal)
        machine.answer(1, 1000)
        await machine.steps(6)
        assert not [s for _, s, _ in machine.dispatched if s == 1]
        if stop == "fault":
            await machine.abort(1)
        await machine.steps(6)
        assert machine.state(1) == StreamState.DISABLED
        # It starts afresh: no old answer, poll or barrier counts for the new head.
        machine.polled.clear()
        machine.called.clear()
        await machine.start(1)
        machine.queues[1] = [HEADS[kind](task_id=1000)]
        first = machine.cycle
        await machine.steps(10)
        assert not [s for _, s, _ in machine.dispatched if s == 1]
        assert [cycle for cycle, *_ in machine.polled] == [first] * (kind == Wait.VALUE)
        assert machine.called == [(first, 1)] * (kind == Wait.CALLBACK)
        assert machine.status(1, "wait_kind") == kind

    harness.run(behaviour)


def test_an_abort_in_the_cycle_of_the_return_or_of_the_dispatch_ends(harness):
    async def behaviour(machine):
        for moment in range(4):
            machine.stopped.clear()
            await machine.start(0)
            machine.queues[0] = [callback(5), callback(5), Entry(NOP)]
            await machine.steps(3)
            for cycle in range(5):
                if cycle == 1:
                    machine.answer(0, 5)
                if cycle == moment:
                    await machine.abort(0)
                else:
                    await machine.step()
            await machine.until(lambda: machine.stopped)
            assert machine.state(0) == StreamState.DISABLED
            assert len(machine.retired) == len(machine.dispatched)
        assert not machine.faults

    harness.run(behaviour)


def test_heads_that_wait_occupy_no_engine(harness):
    async def behaviour(machine):
        for s, kind in enumerate(HEADS):
            await machine.start(s)
            machine.queues[s] = [HEADS[kind](task_id=1000)]
        await machine.steps(20)
        assert machine.ctx.get(machine.scheduler.busy) == 0
        assert machine.ctx.get(machine.scheduler.blocked) == 0b11111
        await machine.abort(4)
        await machine.until(lambda: machine.stopped)
        await machine.start(4)
        machine.queues[4] = [Entry(NOP) for _ in range(8)]
        await machine.steps(9)
        cycles = [cycle for cycle, s, _ in machine.dispatched]
        assert cycles == list(range(cycles[0], cycles[0] + 8))

    harness.run(behaviour)
