"""The scheduler with its event unit: exact cycles, faults, aborts and random programs."""

import random

import pytest

from hw.config import NpuConfig
from hw.interface import DISPATCHES
from hw.regs.descriptor import TaskType
from hw.regs.fault import FaultCause
from hw.regs.registers import StreamState
from hw.schedule.scheduler import Scheduler
from tests.models.machine import CONFIG, Entry, Harness, Plan
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

KERNEL, MEMCPY, MEMSET = TaskType.KERNEL, TaskType.MEMCPY, TaskType.MEMSET
NOP, RECORD, WAIT = TaskType.NOP, TaskType.EVENT_RECORD, TaskType.EVENT_WAIT
VALUE_WRITE = TaskType.VALUE_WRITE
CORE = CONFIG.engines.index("core0")
CONTROL, VALUE = CONFIG.engines.index("control"), CONFIG.engines.index("value")
QUEUE_PORT = CONTROL + 1
QUEUE = 0xFE


@pytest.fixture(scope="module")
def harness(engine):
    return Harness()


def test_a_record_starts_its_dependents_in_the_next_cycle(harness):
    async def behaviour(machine):
        for s in range(4):
            await machine.start(s)
        generation = 0
        for dependencies in range(1, 5):
            generation += 1
            deps = tuple((slot, generation) for slot in range(dependencies))
            machine.queues[0] = [Entry(MEMCPY, record=dep) for dep in deps]
            machine.queues[1] = [Entry(KERNEL, deps=deps)]
            machine.queues[2] = [Entry(MEMSET, deps=deps)]
            machine.queues[3] = [Entry(WAIT, deps=deps)]
            machine.dispatched.clear()
            machine.records.clear()
            await machine.until(lambda: len(machine.dispatched) == dependencies + 3)  # noqa: B023
            last = machine.records[-1][0]
            assert [cycle for cycle, s, _ in machine.dispatched if s != 0] == [last + 1] * 3
            await machine.steps(12)

    harness.run(behaviour)


def test_a_stream_goes_on_in_the_cycle_of_done(harness):
    async def behaviour(machine):
        await machine.start(0)
        machine.queues[0] = [
            Entry(MEMCPY, plan=Plan(done=7)), Entry(KERNEL, plan=Plan(done=5)), Entry(NOP),
            Entry(RECORD, record=(3, 1)), Entry(WAIT, deps=((3, 1),)), Entry(NOP),
        ]  # fmt: skip
        await machine.until(lambda: len(machine.retired) == 6)
        first = machine.dispatched[0][0]
        assert [cycle - first for cycle, _, _ in machine.dispatched] == [0, 7, 12, 13, 15, 16]
        assert [cycle - first for cycle, _ in machine.retired] == [7, 12, 13, 14, 16, 17]
        assert machine.records == [(first + 14, 3, 1)]
        await machine.steps(2)
        numbers = (0, CORE, CONTROL, CONTROL, CONTROL, CONTROL)
        assert machine.marks == [
            (cycle + 1, 1 << number)
            for (cycle, _, _), number in zip(machine.dispatched, numbers, strict=True)
        ]

    harness.run(behaviour)


@pytest.mark.parametrize("kind", [MEMCPY, VALUE_WRITE, NOP, KERNEL])
def test_the_same_engine_goes_on_in_the_cycle_in_which_it_can(harness, kind):
    async def behaviour(machine):
        await machine.start(0)
        await machine.start(1)
        plans = [Plan(started=2, ended=done, done=done) for done in (3, 6, 4, 9)]
        machine.queues[0] = [
            Entry(kind, task_id=n, completion=True, plan=plan) for n, plan in enumerate(plans)
        ]
        await machine.until(lambda: len(machine.retired) == 4)
        gaps = [start - end for (start, *_), (end, _) in
                zip(machine.dispatched[1:], machine.retired, strict=False)]  # fmt: skip
        assert gaps == [1 if kind == KERNEL else 0] * 3
        for n, (_, entry) in enumerate(machine.retirements):
            taken = machine.dispatched[n][0]
            assert entry.task_id == n
            if kind != NOP:
                assert (entry.start, entry.end) == (taken + 2, taken + plans[n].ended)
            else:
                assert (entry.start, entry.end) == (taken + 1, taken + 1)

    harness.run(behaviour)


def test_an_engine_that_ends_takes_the_task_of_another_stream_in_that_cycle(harness):
    async def behaviour(machine):
        for s, context in enumerate((0, 1)):
            await machine.start(s, context=context)
        plan = Plan(ended=5, done=5, fault=None)
        machine.queues[0] = [Entry(VALUE_WRITE, task_id=1, plan=plan)]
        await machine.step()
        machine.queues[1] = [Entry(VALUE_WRITE, task_id=2, completion=True, plan=plan)]
        await machine.until(lambda: len(machine.dispatched) == 2)
        assert machine.dispatched[1][0] == machine.retired[0][0]
        assert machine.status(1, "running")
        assert not machine.status(0, "running")
        assert machine.status(1, "engine") == VALUE
        assert machine.ctx.get(machine.scheduler.busy) == 1 << VALUE
        assert machine.ctx.get(machine.scheduler.tasks[VALUE].stream) == 1
        await machine.until(lambda: machine.retirements)
        entry = machine.retirements[0][1]
        assert (entry.engine, entry.stream, entry.context, entry.status) == (VALUE, 1, 1, 0)

    harness.run(behaviour)


def test_a_fault_of_the_value_engine_names_it(harness):
    async def behaviour(machine):
        await machine.start(0)
        plan = Plan(fault=4, cause=FaultCause.BUS_SLAVE_ERROR, address=0x88)
        machine.queues[0] = [Entry(NOP), Entry(VALUE_WRITE, task_id=7, counters=True, plan=plan)]
        await machine.until(lambda: machine.retirements)
        ((_, port, fault),) = machine.faults
        assert port == VALUE - 1
        assert (fault.engine, fault.task_id, fault.report.address) == (VALUE, 7, 0x88)
        entry = machine.retirements[0][1]
        assert (entry.engine, entry.status) == (VALUE, plan.cause)
        assert list(entry.counters) == list(range(VALUE, VALUE + 8))

    harness.run(behaviour)


def test_streams_run_side_by_side_and_copies_share_the_channels(harness):
    async def behaviour(machine):
        for s in range(5):
            await machine.start(s, context=s % 3)
        for s, kind in enumerate((MEMCPY, MEMCPY, MEMCPY, KERNEL, NOP)):
            machine.queues[s] = [Entry(kind, task_id=s)]
        await machine.step()
        assert sorted(s for _, s, _ in machine.dispatched) == [0, 3, 4]
        assert machine.ctx.get(machine.scheduler.busy) == 1 | 1 << CORE | 1 << CONTROL
        machine.queues[3] = [Entry(KERNEL)]
        await machine.step()
        assert machine.engines[1].entry.task_id == 1
        assert machine.status(1, "engine") == 1
        assert machine.status(3, "engine") == CORE
        assert machine.status(3, "running")
        assert machine.status(3, "staged")
        assert machine.status(3, "task_id") == 3
        await machine.until(lambda: len(machine.retired) == 6)
        assert [(cycle, s) for cycle, s, _ in machine.dispatched if s in (1, 2)] == [
            (machine.dispatched[0][0] + 1, 1), (machine.dispatched[0][0] + 4, 2)
        ]  # fmt: skip

    harness.run(behaviour)


def test_an_engine_is_told_everything_about_its_task(harness):
    async def behaviour(machine):
        await machine.start(2, context=1, overflow=1)
        machine.queues[2] = [
            Entry(NOP), Entry(KERNEL, task_id=5, option=True, payload=(1 << 191) | 77)
        ]  # fmt: skip
        await machine.until(lambda: machine.tasks)
        ((when, task),) = machine.tasks
        assert when == machine.dispatched[-1][0]
        assert (task.type, task.stream, task.context, task.slot) == (KERNEL, 2, 1, 1)
        assert (task.option, task.overflow, task.payload) == (1, 1, (1 << 191) | 77)
        await machine.steps(2)
        assert machine.marks[-1] == (when + 1, 1 << CORE)

    harness.run(behaviour)


def test_the_greatest_priority_goes_first_and_equals_take_turns(harness):
    async def behaviour(machine):
        for s, priority in enumerate((3, 3, 0, 7, 3)):
            await machine.start(s, priority=priority)
        for s in range(5):
            machine.queues[s] = [Entry(KERNEL, plan=Plan(done=2)) for _ in range(4)]
        await machine.until(lambda: len(machine.retired) == 20)
        order = [s for _, s, _ in machine.dispatched]
        assert order == [2] * 4 + [0, 1, 4] * 4 + [3] * 4

    harness.run(behaviour)


def test_completions_carry_times_counters_and_timed_records(harness):
    async def behaviour(machine):
        await machine.start(1, context=2)
        machine.queues[1] = [
            Entry(KERNEL, task_id=1 << 40, completion=True, counters=True,
                  plan=Plan(started=3, ended=6, done=9)),
            Entry(MEMCPY, task_id=2, completion=True, plan=Plan(started=1, ended=4, done=4)),
            Entry(MEMCPY, task_id=3, record=(1, 1)),
            Entry(RECORD, task_id=4, record=(2, 9), option=True, payload=0x12345670),
            Entry(NOP, task_id=5, completion=True),
        ]  # fmt: skip
        await machine.until(lambda: len(machine.retired) == 5)
        taken = [cycle for cycle, _, _ in machine.dispatched]
        assert [entry.task_id for _, entry in machine.retirements] == [1 << 40, 2, 4, 5]
        kernel, copy, record, nop = (entry for _, entry in machine.retirements)
        assert (kernel.start, kernel.end) == (taken[0] + 3, taken[0] + 6)
        assert (kernel.engine, kernel.stream, kernel.context, kernel.status) == (CORE, 1, 2, 0)
        assert list(kernel.counters) == list(range(CORE, CORE + 8))
        assert (kernel.completion, kernel.timed) == (1, 0)
        assert (copy.start, copy.end) == (taken[1] + 1, taken[1] + 4)
        assert list(copy.counters) == [0] * 8
        assert (record.completion, record.timed, record.address) == (0, 1, 0x12345670)
        assert (record.generation, record.timestamp) == (9, taken[3] + 1)
        assert machine.records[1] == (record.timestamp, 2, 9)
        assert (nop.start, nop.end, nop.engine) == (taken[4] + 1, taken[4] + 1, CONTROL)
        machine.ctx.set(machine.events.select, 2)
        await machine.steps(2)
        assert machine.ctx.get(machine.events.selected.timestamp) == record.timestamp

    harness.run(behaviour)


def test_a_full_completion_ring_holds_up_its_own_context_only(harness):
    async def behaviour(machine):
        for s, context in enumerate((0, 1, 0)):
            await machine.start(s, context=context)
        machine.set(machine.scheduler.room, 0b110)
        machine.set(machine.scheduler.watchdog, 10)
        machine.queues[0] = [Entry(MEMCPY, completion=True, timeout=1, record=(0, 1))]
        machine.queues[1] = [Entry(MEMCPY, completion=True) for _ in range(3)]
        machine.queues[2] = [Entry(KERNEL) for _ in range(3)]
        await machine.steps(1100)
        assert [s for _, s in machine.retired].count(0) == 0
        assert len(machine.retired) == 6
        assert not machine.records
        machine.set(machine.scheduler.room, 0b111)
        await machine.step()
        assert machine.retired[-1] == (machine.cycle - 1, 0)
        assert machine.records == [(machine.cycle - 1, 0, 1)]
        assert not machine.faults

    harness.run(behaviour)


def test_a_bad_head_is_a_fault_in_its_turn(harness):
    async def behaviour(machine):
        await machine.start(0, context=1)
        cause = FaultCause.CHECKSUM
        machine.queues[0] = [
            Entry(MEMCPY), Entry(RECORD, task_id=7, deps=((5, 5),) * 4, record=(1, 1), option=True,
                                 cause=cause, address=0x8000_0000_40), Entry(NOP),
        ]  # fmt: skip
        await machine.until(lambda: machine.retirements)
        taken = machine.dispatched[1][0]
        assert taken == machine.retired[0][0]
        ((when, port, fault),) = machine.faults
        assert (when, port) == (taken + 1, QUEUE_PORT)
        assert (fault.stream, fault.context, fault.engine, fault.task_id) == (0, 1, QUEUE, 7)
        assert (fault.report.cause, fault.report.address) == (cause, 0x8000_0000_40)
        ((when, entry),) = machine.retirements
        assert when == taken + 2
        assert (entry.status, entry.engine, entry.completion) == (cause, QUEUE, 1)
        assert (entry.task_id, entry.context, entry.timed) == (7, 1, 0)
        await machine.steps(10)
        assert machine.state(0) == StreamState.STOPPED
        assert machine.status(0, "cause") == cause
        assert len(machine.dispatched) == 2
        assert not machine.records

    harness.run(behaviour)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_fault_stops_its_stream_or_its_whole_context(harness, mode):
    async def behaviour(machine):
        for s, context in enumerate((1, 1, 1, 2)):
            await machine.start(s, context=context, failure_mode=mode if s == 1 else 0)
        cause = FaultCause.BUS_SLAVE_ERROR
        plan = Plan(fault=5, cause=cause, address=0xABC)
        machine.queues[1] = [Entry(MEMCPY, task_id=11, record=(1, 1), plan=plan), Entry(NOP)]
        machine.queues[2] = [Entry(KERNEL, record=(2, 1), plan=Plan(done=30)), Entry(NOP)]
        machine.queues[0] = [Entry(WAIT, deps=((3, 1),)), Entry(NOP)]
        machine.queues[3] = [Entry(MEMCPY) for _ in range(3)]
        await machine.until(lambda: machine.faults)
        ((when, port, fault),) = machine.faults
        assert when == machine.dispatched[0][0] + 5
        assert port == fault.engine
        assert (fault.stream, fault.context, fault.task_id) == (1, 1, 11)
        assert (fault.report.cause, fault.report.address) == (cause, 0xABC)
        assert machine.state(1) == StreamState.STOPPED
        others = StreamState.STOPPED if mode else StreamState.ACTIVE
        assert [machine.state(s) for s in (0, 2, 3)] == [others, others, StreamState.ACTIVE]
        assert machine.status(0, "cause") == (cause if mode else 0)
        await machine.steps(60)
        assert [(cycle - when, entry.status, entry.task_id)
                for cycle, entry in machine.retirements] == [(3, cause, 11)]  # fmt: skip
        assert machine.records == [(machine.records[0][0], 2, 1)]
        assert len([s for _, s, _ in machine.dispatched if s == 3]) == 3
        assert len([s for _, s, _ in machine.dispatched if s == 2]) == (1 if mode else 2)
        assert len([s for _, s, _ in machine.dispatched if s == 1]) == 1

    harness.run(behaviour)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_fault_from_outside_stops_streams_unless_the_context_has_changed(harness, mode):
    async def behaviour(machine):
        for s, context in enumerate((0, 1, 0, 1)):
            await machine.start(s, context=context, failure_mode=mode)
        for context, stopped in ((0, ()), (1, (1, 3) if mode else (1,))):
            fault = {"valid": 1, "context": context, "stream": 1,
                     "report": {"cause": FaultCause.BUS_SLAVE_ERROR}}  # fmt: skip
            machine.ctx.set(machine.scheduler.outside, fault)
            await machine.step()
            machine.ctx.set(machine.scheduler.outside, {"valid": 0})
            states = [machine.state(s) for s in range(4)]
            assert [s for s in range(4) if states[s] == StreamState.STOPPED] == list(stopped)
            assert set(states) <= {StreamState.STOPPED, StreamState.ACTIVE}
        assert machine.status(1, "cause") == FaultCause.BUS_SLAVE_ERROR

    harness.run(behaviour)


@pytest.mark.parametrize(
    ("cause", "delay"), [(FaultCause.TASK_TIMEOUT, 1024), (FaultCause.WATCHDOG, 51)]
)
def test_a_task_that_takes_too_long_is_ended(harness, cause, delay):
    async def behaviour(machine):
        await machine.start(0)
        machine.set(machine.scheduler.watchdog, 50)
        plan = Plan(started=2, ended=5000, done=5000, progress=cause == FaultCause.TASK_TIMEOUT)
        machine.queues[0] = [Entry(KERNEL, timeout=1, plan=plan)]
        await machine.until(lambda: machine.retirements, limit=1100)
        taken = machine.dispatched[0][0]
        ((when, port, fault),) = machine.faults
        assert (when, port) == (taken + delay, CORE)
        assert fault.report.cause == cause
        assert machine.engines[CORE].aborts == [when + 1]
        ((retired, entry),) = machine.retirements
        assert retired == when + 4
        assert (entry.status, entry.start, entry.end) == (cause, taken + 2, retired)
        assert machine.state(0) == StreamState.STOPPED

    harness.run(behaviour)


def test_an_engine_s_own_fault_comes_before_the_timeout(harness):
    async def behaviour(machine):
        await machine.start(0)
        plan = Plan(done=5000, fault=1024, cause=FaultCause.ILLEGAL_INSTRUCTION, drain=40)
        machine.set(machine.scheduler.watchdog, 20)
        machine.queues[0] = [Entry(KERNEL, timeout=1, plan=plan)]
        await machine.until(lambda: machine.retirements, limit=1200)
        assert [fault.report.cause for _, _, fault in machine.faults] == [plan.cause]
        assert machine.engines[CORE].aborts == []
        assert machine.retirements[0][1].status == plan.cause

    harness.run(behaviour)


def test_an_abort_stops_the_task_and_drops_the_rest(harness):
    async def behaviour(machine):
        await machine.start(0)
        machine.queues[0] = [
            Entry(MEMCPY, task_id=3, record=(1, 1), plan=Plan(ended=90, done=90)), Entry(NOP)
        ]  # fmt: skip
        await machine.steps(6)
        aborted = machine.cycle
        await machine.abort(0)
        assert machine.state(0) == StreamState.ABORTING
        await machine.until(lambda: machine.stopped)
        assert machine.engines[0].aborts == [aborted + 2]
        ((when, entry),) = machine.retirements
        assert when == aborted + 5
        assert (entry.status, entry.task_id) == (FaultCause.ABORTED, 3)
        assert machine.stopped == [(when + 4, 0)]
        assert machine.state(0) == StreamState.DISABLED
        assert not machine.records
        assert not machine.faults
        assert not machine.queues[0]
        await machine.start(0)
        machine.queues[0] = [Entry(MEMCPY, plan=Plan(done=3))]
        await machine.until(lambda: len(machine.retired) == 2)

    harness.run(behaviour)


def test_an_abort_at_any_moment_of_a_task_ends(harness):
    async def behaviour(machine):
        for moment in range(10):
            machine.retirements.clear()
            machine.stopped.clear()
            machine.records.clear()
            await machine.start(0)
            entry = Entry(MEMCPY, completion=True, record=(1, moment + 1), plan=Plan(done=5))
            machine.queues[0] = [entry, Entry(WAIT, deps=((9, 1),))]
            await machine.steps(moment)
            await machine.abort(0)
            await machine.until(lambda: machine.stopped)
            statuses = [entry.status for _, entry in machine.retirements]
            # The engine hears of it two cycles after the command, when done is valid from 5 on.
            expected = FaultCause.NONE if moment + 2 >= 5 else FaultCause.ABORTED
            assert statuses == [expected]
            assert len(machine.records) == (statuses == [FaultCause.NONE])
            assert machine.state(0) == StreamState.DISABLED
            assert not machine.faults

    harness.run(behaviour)


def test_streams_abort_while_idle_waiting_stopped_or_disabled(harness):
    async def behaviour(machine):
        for s in range(3):
            await machine.start(s)
        machine.queues[1] = [Entry(MEMCPY, deps=((4, 7),))]
        machine.queues[2] = [Entry(NOP, cause=FaultCause.UNSUPPORTED)]
        await machine.steps(8)
        assert machine.state(2) == StreamState.STOPPED
        for s in range(4):
            await machine.abort(s)
        await machine.steps(8)
        assert [s for _, s in machine.stopped] == [0, 1, 2, 3]
        assert [machine.state(s) for s in range(4)] == [StreamState.DISABLED] * 4
        assert machine.status(2, "cause") == FaultCause.UNSUPPORTED
        await machine.start(2)
        assert machine.status(2, "cause") == FaultCause.NONE
        await machine.start(1)
        machine.queues[1] = [Entry(MEMCPY, deps=((4, 8),))]
        await machine.steps(6)
        assert machine.status(1, "waiting") == 1
        assert machine.ctx.get(machine.scheduler.streams[1].wait.slot) == 4
        assert machine.ctx.get(machine.scheduler.streams[1].wait.generation) == 8
        assert machine.ctx.get(machine.scheduler.blocked) == 0b10

    harness.run(behaviour)


def test_start_counts_only_for_a_disabled_stream(harness):
    async def behaviour(machine):
        started = machine.scheduler.rings[0].start
        machine.ctx.set(machine.scheduler.streams[0].config, {"size": 1})
        machine.ctx.set(machine.scheduler.streams[0].start, 1)
        assert machine.ctx.get(started)
        await machine.step()
        assert machine.state(0) == StreamState.ACTIVE
        assert not machine.ctx.get(started)

    harness.run(behaviour)


def test_a_start_with_an_impossible_configuration_is_refused_with_a_cause(harness):
    async def behaviour(machine):
        impossible = [{"size": size} for size in (0, 13, 15)] + [{"context": CONFIG.contexts}]
        for settings in impossible:
            await machine.start(1, **settings)
            assert machine.state(1) == StreamState.DISABLED
            assert machine.status(1, "cause") == FaultCause.ILLEGAL_DESCRIPTOR
            await machine.start(1, size=12)
            assert machine.state(1) == StreamState.ACTIVE
            assert machine.status(1, "cause") == FaultCause.NONE
            await machine.start(1, **settings)
            assert machine.state(1) == StreamState.ACTIVE
            await machine.abort(1)
            await machine.steps(8)
        assert not machine.faults

    harness.run(behaviour)


def test_a_stream_keeps_the_configuration_of_its_start(harness):
    async def behaviour(machine):
        before = dict(context=1, priority=2, overflow=1, failure_mode=1)
        after = dict(context=2, priority=5, overflow=0, failure_mode=0)
        await machine.start(0, **before)
        await machine.start(1, context=1)
        machine.ctx.set(machine.scheduler.streams[0].config, {"size": 0, **after})
        plan = Plan(fault=2, cause=FaultCause.BUS_SLAVE_ERROR)
        machine.queues[0] = [Entry(KERNEL), Entry(KERNEL, plan=plan)]
        await machine.until(lambda: machine.faults)
        assert [(task.context, task.overflow) for _, task in machine.tasks] == [(1, 1)] * 2
        assert machine.faults[0][2].context == 1
        assert machine.state(1) == StreamState.STOPPED  # failure mode STOP still holds
        settings = machine.status(0, "settings")
        assert {name: settings[name] for name in before} == before
        await machine.abort(0)
        await machine.until(lambda: machine.stopped)
        await machine.start(0, **after)
        machine.queues[0] = [Entry(KERNEL)]
        await machine.until(lambda: len(machine.tasks) == 3)
        assert (machine.tasks[2][1].context, machine.tasks[2][1].overflow) == (2, 0)

    harness.run(behaviour)


def test_an_abort_ends_when_the_completion_writer_holds_nothing_of_the_stream(harness):
    async def behaviour(machine):
        await machine.start(2)
        await machine.start(3)
        machine.queues[2] = [Entry(NOP, completion=True)]
        await machine.until(lambda: machine.retirements)
        machine.set(machine.scheduler.holds, 0b01100)
        await machine.abort(2)
        await machine.steps(40)
        assert machine.state(2) == StreamState.ABORTING
        machine.set(machine.scheduler.holds, 0b01000)
        await machine.step()
        assert machine.stopped == [(machine.cycle - 1, 2)]
        assert machine.state(2) == StreamState.DISABLED

    harness.run(behaviour)


def starved(machine):
    return [machine.ctx.get(credit.starved) for credit in machine.scheduler.credits]


def test_a_context_without_credit_starts_nothing_and_leaves_the_engines_to_others(harness):
    async def behaviour(machine):
        for s, context in enumerate((0, 0, 1, 0, 0)):
            await machine.start(s, context=context)
        credit = machine.scheduler.credits[0]
        machine.set(credit.left, 0)
        kinds = (Entry(MEMCPY), Entry(KERNEL), Entry(KERNEL), Entry(NOP),
                 Entry(NOP, cause=FaultCause.CHECKSUM))  # fmt: skip
        for s, entry in enumerate(kinds):
            machine.queues[s] = [entry]
        machine.drive()
        assert starved(machine) == [1, 0, 0]
        await machine.steps(30)
        assert [s for _, s, _ in machine.dispatched] == [2]
        assert len(machine.retired) == 1
        assert not machine.faults
        machine.set(credit.left, DISPATCHES)
        first = machine.cycle
        machine.drive()
        assert starved(machine) == [0, 0, 0]
        await machine.step()
        assert sorted(machine.dispatched[1:], key=lambda item: item[1]) == [
            (first, s, kinds[s]) for s in (0, 1, 3, 4)
        ]
        assert machine.ctx.get(credit.running) == 4
        await machine.step()
        assert machine.ctx.get(credit.running) == 3  # the control engine's task has retired
        await machine.until(lambda: len(machine.retired) == 5)
        assert machine.ctx.get(credit.running) == 0

    harness.run(behaviour)


def test_a_task_that_waits_for_an_event_or_behind_another_is_not_starved(harness):
    async def behaviour(machine):
        await machine.start(0, context=2)
        await machine.start(1, context=1)
        machine.queues[0] = [Entry(KERNEL, deps=((1, 1),))]
        machine.queues[1] = [Entry(KERNEL), Entry(KERNEL)]
        await machine.step()
        machine.set(machine.scheduler.credits[1].left, 0)
        machine.set(machine.scheduler.credits[2].left, 0)
        machine.drive()
        assert starved(machine) == [0, 0, 0]
        await machine.until(lambda: machine.retired)
        assert machine.ctx.get(machine.scheduler.blocked) == 1
        machine.drive()
        assert starved(machine) == [0, 1, 0]

    harness.run(behaviour)


def test_scarce_credit_goes_by_priority_and_in_turn_one_task_a_cycle(harness):
    async def behaviour(machine):
        for s, (context, priority) in enumerate(((0, 5), (0, 5), (0, 0), (1, 5), (2, 7))):
            await machine.start(s, context=context, priority=priority)
        machine.set(machine.scheduler.credits[0].left, 1)
        machine.set(machine.scheduler.credits[1].left, DISPATCHES - 1)
        plan = Plan(started=1, ended=1, done=1)
        for s, kind in enumerate((MEMCPY, KERNEL, NOP, NOP, MEMSET)):
            machine.queues[s] = [Entry(kind, plan=plan) for _ in range(6)]
        await machine.until(lambda: len(machine.retired) == 30)
        scarce = [(cycle, s) for cycle, s, _ in machine.dispatched if s != 4]
        assert len({cycle for cycle, _ in scarce}) == len(scarce) == 24
        first = scarce[0][0]
        assert scarce[:6] == [(first + i, 2) for i in range(6)]
        assert [s for _, s in scarce[6:]] == [0, 1, 3] * 6

    harness.run(behaviour)


def test_overruns_and_bad_heads_of_one_cycle_are_all_reported(harness):
    async def behaviour(machine):
        for s in range(5):
            await machine.start(s, context=s % 2)
        machine.queues[4] = [Entry(NOP, task_id=9, cause=FaultCause.ILLEGAL_DESCRIPTOR)]
        for s in range(4):
            machine.ctx.set(machine.scheduler.rings[s].overrun, 1)
        await machine.step()
        machine.queues[2] = [Entry(NOP, cause=FaultCause.CHECKSUM)]
        first = machine.cycle
        for s in range(4):
            machine.ctx.set(machine.scheduler.rings[s].overrun, 0)
        await machine.steps(8)
        found = [(cycle - first, fault.stream, fault.report.cause) for cycle, _, fault in
                 machine.faults]  # fmt: skip
        overrun = FaultCause.QUEUE_OVERRUN
        assert found == [(0, 4, FaultCause.ILLEGAL_DESCRIPTOR), (1, 0, overrun), (2, 1, overrun),
                         (3, 2, overrun), (4, 3, overrun)]  # fmt: skip
        assert [fault.context for _, _, fault in machine.faults] == [0, 0, 1, 0, 1]
        assert all(machine.state(s) == StreamState.STOPPED for s in range(5))
        assert machine.status(2, "cause") == overrun
        assert [s for _, s, _ in machine.dispatched] == [4]

    harness.run(behaviour)


@pytest.mark.slow
def test_a_scheduler_of_the_greatest_size_runs(engine):
    config = NpuConfig.preset("tiny", streams=32, contexts=16, copy_channels=4, cores=4)
    scheduler = Scheduler(config)

    async def behaviour(ctx):
        for stream in scheduler.streams:
            ctx.set(stream.config, {"size": 4})
            ctx.set(stream.start, 1)
        await ctx.tick()
        assert all(ctx.get(stream.state) == StreamState.ACTIVE for stream in scheduler.streams)

    simulate(scheduler, behaviour)


def random_entry(rng, task_id, s, recorded):
    kind = rng.choice((KERNEL, MEMCPY, MEMSET, NOP, RECORD, WAIT, VALUE_WRITE))
    done = rng.randrange(2, 14)
    record = None
    if kind == RECORD or rng.random() < 0.4:
        recorded[s] += 1
        record = (s, recorded[s])
    behind = [(slot, rng.randrange(1, recorded[slot] + 1)) for slot in range(5)
              if slot != s and recorded[slot]]  # fmt: skip
    deps = rng.sample(behind, rng.randrange(len(behind[:4]) + 1)) if behind else []
    return Entry(
        kind, task_id=task_id, deps=tuple(deps), record=record, completion=rng.random() < 0.5,
        option=kind == RECORD and rng.random() < 0.5,
        plan=Plan(started=1, ended=rng.randrange(1, done + 1), done=done),
    )  # fmt: skip


def test_random_programs_run_in_order_and_lose_nothing(harness):
    async def behaviour(machine):
        rng = random.Random(5)
        for s in range(5):
            await machine.start(s, priority=rng.randrange(3), context=s % 3)
        recorded = [0] * 5
        programs = [[] for _ in range(5)]
        for task_id in range(200):
            s = rng.randrange(5)
            programs[s].append(random_entry(rng, task_id, s, recorded))
        waiting = [list(program) for program in programs]
        priority = [machine.status(s, "settings").priority for s in range(5)]
        kind_of = {KERNEL: (CORE, CORE + 1), MEMCPY: (0, CORE), MEMSET: (0, CORE),
                   VALUE_WRITE: (VALUE, VALUE + 1)}  # fmt: skip
        generation = [0] * 5
        while any(waiting) or len(machine.retired) < 200:
            for s in range(5):
                if not machine.queues[s] and waiting[s] and rng.random() < 0.5:
                    machine.queues[s].append(waiting[s].pop(0))
            machine.set(machine.scheduler.room, rng.choice((7, 7, rng.randrange(8))))
            before = [queue[0] if queue else None for queue in machine.queues]
            busy = machine.ctx.get(machine.scheduler.busy)
            running = [machine.status(s, "running") for s in range(5)]
            engine = [machine.status(s, "engine") for s in range(5)]
            count, ended = len(machine.dispatched), len(machine.retired)
            seen = len(machine.records)
            ready = []
            await machine.step()
            for _, s in machine.retired[ended:]:
                running[s] = False
                if engine[s] != CORE:
                    busy &= ~(1 << engine[s])
            now = [s for _, s, _ in machine.dispatched[count:]]
            for s in range(5):
                entry = before[s]
                if entry is not None and not running[s] and all(
                    generation[slot] >= wanted for slot, wanted in entry.deps
                ):  # fmt: skip
                    ready.append(s)
            assert set(now) <= set(ready)
            for s in now:
                mine = kind_of.get(before[s].type, (CONTROL, CONTROL + 1))
                assert any(not busy >> e & 1 for e in range(*mine))
                for other in ready:
                    rival = kind_of.get(before[other].type, (CONTROL, CONTROL + 1))
                    if other not in now and rival == mine and not before[other].deps:
                        assert priority[s] <= priority[other]
            for s in ready:
                mine = kind_of.get(before[s].type, (CONTROL, CONTROL + 1))
                free = any(not busy >> e & 1 for e in range(*mine))
                if free and not before[s].deps:
                    assert any(
                        kind_of.get(before[other].type, (CONTROL, CONTROL + 1)) == mine
                        for other in now
                    )
            for _, slot, value in machine.records[seen:]:
                assert value == generation[slot] + 1
                generation[slot] = value
            assert machine.cycle < 6000
        for s in range(5):
            order = [entry.task_id for _, stream, entry in machine.dispatched if stream == s]
            assert order == [entry.task_id for entry in programs[s]]
        assert generation == recorded
        entries = {entry.task_id: entry for program in programs for entry in program}
        taken = {entry.task_id: cycle for cycle, _, entry in machine.dispatched}
        expected = {i for i, entry in entries.items() if entry.completion or entry.option}
        assert {entry.task_id for _, entry in machine.retirements} == expected
        assert len(machine.retirements) == len(expected)
        for _, entry in machine.retirements:
            asked = entries[entry.task_id]
            assert (entry.completion, entry.timed) == (asked.completion, asked.option)
            if asked.type in kind_of:
                start = taken[entry.task_id]
                assert (entry.start, entry.end) == (start + 1, start + asked.plan.ended)
        assert not machine.faults

    harness.run(behaviour)
