"""Lists that a CALL runs: when they begin, what they are to others, how they end."""

import pytest

from hw.regs.descriptor import NotifyOperation, TaskType
from hw.regs.fault import FaultCause
from hw.regs.registers import StreamState, Wait
from tests.models.machine import CONFIG, Entry, Harness, Plan

pytestmark = pytest.mark.usefixtures("engine")

KERNEL, MEMCPY, NOP, RECORD, WAIT, CALL, BARRIER = (
    TaskType.KERNEL, TaskType.MEMCPY, TaskType.NOP, TaskType.EVENT_RECORD, TaskType.EVENT_WAIT,
    TaskType.CALL, TaskType.BARRIER,
)  # fmt: skip
CONTROL = CONFIG.engines.index("control")


@pytest.fixture(scope="module")
def harness(engine):
    return Harness()


def call(*entries, **settings):
    return Entry(CALL, entries=entries, **settings)


def test_a_list_is_entered_when_its_events_are_met_and_its_tasks_follow_at_once(harness):
    async def behaviour(machine):
        await machine.start(0)
        await machine.start(1)
        listed = [Entry(MEMCPY, task_id=1, plan=Plan(done=5)), Entry(NOP, task_id=2)]
        record = (2, 4)
        machine.queues[0] = [
            Entry(MEMCPY, plan=Plan(done=9)),
            call(*listed, task_id=50, deps=((3, 1), (3, 2)), record=record, completion=True),
            Entry(KERNEL, deps=(record,)),
        ]  # fmt: skip
        await machine.steps(14)
        assert machine.status(0, "wait_kind") == Wait.EVENT
        assert not machine.entered
        machine.queues[1] = [Entry(RECORD, record=(3, 2))]
        await machine.until(lambda: len(machine.retired) == 6)
        met = machine.records[0][0] + 1
        assert machine.entered == [(met, 0)]
        first, *rest = [(cycle - met, entry) for cycle, s, entry in machine.dispatched if s == 0]
        # Its second task ends in 7 and the CALL comes back in 8; its events are not asked again.
        assert [cycle for cycle, _ in rest] == [1, 6, 8, 10]
        assert [entry.task_id for _, entry in rest[:3]] == [1, 2, 50]
        ((when, entry),) = machine.retirements
        assert (when, entry.task_id, entry.engine) == (met + 9, 50, CONTROL)
        assert (entry.start, entry.end) == (when, when)
        assert machine.records[1:] == [(when, *record)]

    harness.run(behaviour)


def test_a_list_is_entered_in_the_cycle_in_which_the_former_task_retires(harness):
    async def behaviour(machine):
        await machine.start(0)
        credit = machine.scheduler.credits[0]
        machine.queues[0] = [Entry(NOP), call(Entry(NOP), Entry(NOP)), Entry(NOP)]
        first = machine.cycle
        await machine.step()
        machine.set(credit.left, 0)
        await machine.steps(9)
        assert machine.entered == [(first + 1, 0)]  # needs no credit, its tasks do
        assert machine.status(0, "called")
        assert len(machine.dispatched) == 1
        machine.set(credit.left, 1)
        second = machine.cycle
        await machine.steps(8)
        assert [cycle - second for cycle, *_ in machine.dispatched[1:]] == [0, 1, 3, 4]
        assert not machine.status(0, "called")

    harness.run(behaviour)


def test_calls_are_counted_and_shown(harness):
    async def behaviour(machine):
        for s in range(2):
            await machine.start(s)
        for s in range(2):
            machine.queues[s] = [call(Entry(WAIT, task_id=3, deps=((1, 1),)), task_id=60 + s)]
        pulses = []
        for _ in range(6):
            machine.drive()
            pulses.append(machine.ctx.get(machine.scheduler.calls))
            await machine.step()
        assert pulses == [0b11, 0, 0, 0, 0, 0]
        for s in range(2):
            assert machine.status(s, "called")
            assert machine.status(s, "task_id") == 3
            assert machine.status(s, "wait_kind") == Wait.EVENT
            assert machine.ctx.get(machine.scheduler.barriers[s].known)
            assert machine.ctx.get(machine.scheduler.barriers[s].oldest) == 60 + s

    harness.run(behaviour)


@pytest.mark.parametrize("number", [49, 51])
def test_a_barrier_counts_a_list_by_the_number_of_its_call(harness, number):
    async def behaviour(machine):
        for s in range(2):
            await machine.start(s)
        # The numbers of the list's own entries are greater, or less: they do not matter.
        listed = [Entry(MEMCPY, task_id=100 - number, plan=Plan(done=20)),
                  Entry(MEMCPY, task_id=100 - number, plan=Plan(done=20))]  # fmt: skip
        machine.queues[1] = [call(*listed, task_id=50)]
        await machine.steps(3)
        head = Entry(BARRIER, task_id=number)
        machine.queues[0] = [head]
        shown = machine.cycle
        await machine.until(lambda: len(machine.retired) == 4)
        cycle = next(cycle for cycle, _, entry in machine.dispatched if entry is head)
        returned = [cycle for cycle, s in machine.retired if s == 1][-1]
        assert cycle == (shown + 1 if number < 50 else returned + 2)

    harness.run(behaviour)


def test_a_barrier_in_a_list_stands_where_its_call_does(harness):
    async def behaviour(machine):
        for s in range(3):
            await machine.start(s)
        machine.queues[1] = [Entry(MEMCPY, task_id=49, plan=Plan(done=20))]
        machine.queues[2] = [Entry(WAIT, task_id=51, deps=((1, 1),))]
        machine.queues[0] = [call(Entry(BARRIER, task_id=2), task_id=50)]
        await machine.until(lambda: len(machine.retired) == 3)
        assert [s for _, s in machine.retired] == [1, 0, 0]
        assert machine.dispatched[1][0] == machine.retired[0][0] + 2

    harness.run(behaviour)


def test_heads_of_lists_wait_as_those_of_rings_do(harness):
    async def behaviour(machine):
        for s in range(2):
            await machine.start(s)
        waits = Entry.notify(NotifyOperation.WAIT, 0, 1)
        machine.queues[0] = [
            call(Entry(TaskType.HOST_CALLBACK, task_id=4), waits,
                 Entry(TaskType.VALUE_WAIT, plan=Plan(done=3)))
        ]  # fmt: skip
        await machine.until(lambda: machine.called)
        machine.answer(0, 4)
        await machine.steps(4)
        assert machine.status(0, "wait_kind") == Wait.NOTIFY
        machine.queues[1] = [Entry.notify(NotifyOperation.ADD, 0, 1)]
        await machine.until(lambda: len(machine.retired) == 5)
        assert [s for _, s in machine.retired] == [0, 1, 0, 0, 0]

    harness.run(behaviour)


def test_a_list_can_be_aborted_at_any_moment(harness):
    async def behaviour(machine):
        for moment in range(14):
            machine.stopped.clear()
            await machine.start(0)
            listed = [Entry(MEMCPY, plan=Plan(done=4)), Entry(NOP)]
            machine.queues[0] = [call(*listed), Entry(NOP), call(*listed)]
            await machine.steps(moment)
            await machine.abort(0)
            await machine.until(lambda: machine.stopped)
            assert machine.state(0) == StreamState.DISABLED
            assert not machine.status(0, "called")
            assert len(machine.retired) == len(machine.dispatched)
        assert not machine.faults

    harness.run(behaviour)


def test_a_fault_in_a_list_stops_its_stream_within_it(harness):
    async def behaviour(machine):
        await machine.start(0)
        bad = Entry(NOP, task_id=7, cause=FaultCause.CHECKSUM)
        machine.queues[0] = [call(Entry(NOP), bad, Entry(NOP)), Entry(NOP)]
        await machine.until(lambda: machine.faults)
        await machine.steps(6)
        assert machine.state(0) == StreamState.STOPPED
        assert machine.status(0, "called")
        assert len(machine.dispatched) == 2

    harness.run(behaviour)
