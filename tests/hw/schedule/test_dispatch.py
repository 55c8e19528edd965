"""Fairness, and random programs with all types of tasks: what holds whatever the cycles."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.regs.descriptor import NotifyOperation, TaskType
from tests.models.machine import CONFIG, Entry, Harness, Plan

pytestmark = pytest.mark.usefixtures("engine")

KINDS = {
    TaskType.KERNEL: "core", TaskType.MEMCPY: "copy", TaskType.MEMSET: "copy",
    TaskType.VALUE_WRITE: "value", TaskType.NOP: "control",
}  # fmt: skip
STREAMS, CONTEXTS = CONFIG.streams, CONFIG.contexts


@pytest.fixture(scope="module")
def harness(engine):
    return Harness()


@settings(max_examples=6)
@given(seed=st.integers(0, 1 << 32), levels=st.integers(1, 3))
def test_no_ready_stream_of_a_level_starves(harness, seed, levels):
    """It is served after at most as many dispatches of its level and kind as there are others."""

    async def behaviour(machine):
        rng = random.Random(seed)
        priority = [rng.randrange(levels) for _ in range(STREAMS)]
        kinds = rng.sample(sorted(KINDS), rng.randrange(1, 4))
        for s in range(STREAMS):
            await machine.start(s, priority=priority[s], context=rng.randrange(CONTEXTS))
        for c, credit in enumerate(machine.scheduler.credits):
            machine.set(credit.left, rng.choice((1, 4, 5)) if c else 5)
        passed = [0] * STREAMS
        served = 0
        for _ in range(150):
            for queue in machine.queues:
                while len(queue) < 2 and rng.random() < 0.9:
                    done = rng.randrange(1, 6)
                    plan = Plan(started=1, ended=done, done=done)
                    queue.append(Entry(TaskType(rng.choice(kinds)), plan=plan))
            heads = [queue[0] if queue else None for queue in machine.queues]
            running = [machine.status(s, "running") for s in range(STREAMS)]
            count = len(machine.dispatched)
            await machine.step()
            for _, s, entry in machine.dispatched[count:]:
                served += 1
                passed[s] = 0
                for other, head in enumerate(heads):
                    if (head is not None and not running[other] and other != s
                            and priority[other] == priority[s]
                            and KINDS[head.type] == KINDS[entry.type]):  # fmt: skip
                        passed[other] += 1
                        assert passed[other] < STREAMS
        assert served > 30

    harness.run(behaviour)


class Program:
    """Random tasks for all streams that can always end, numbered in the order of submission.

    Whatever is waited for (an event, a notify, a barrier's tasks) was submitted before, and one
    stream alone waits for a counter.
    """

    def __init__(self, rng, size, contexts):
        self.rng = rng
        self.contexts = contexts
        self.queues = [[] for _ in contexts]
        self.order = [[] for _ in contexts]
        self.recorded = [0] * STREAMS
        self.recorders = {}
        self.left = [0] * CONFIG.notifies
        self.owners = []
        self.before = []
        """For each task, those that must have retired when it is dispatched."""
        while len(self.owners) < size:
            s = rng.randrange(STREAMS)
            self.queues[s].append(self.entry(s, listed=False))

    def entry(self, s, listed, above=frozenset()):
        rng, task_id = self.rng, len(self.owners)
        others = () if listed else (TaskType.BARRIER, TaskType.CALL)
        kind = rng.choice((
            *KINDS, TaskType.EVENT_WAIT, TaskType.NOTIFY, TaskType.VALUE_WAIT,
            TaskType.HOST_CALLBACK, *others,
        ))  # fmt: skip
        slots = [slot for slot in range(STREAMS) if slot != s and self.recorded[slot]]
        deps = tuple(
            (slot, self.recorded[slot]) for slot in rng.sample(slots, min(len(slots), 2))
        )
        before = above | {self.recorders[dep] for dep in deps}
        if kind == TaskType.BARRIER:
            before |= {n for n, owner in enumerate(self.owners)
                       if self.contexts[owner] == self.contexts[s]}  # fmt: skip
        self.owners.append(s)
        self.before.append(before)
        done = rng.randrange(2, 9)
        fields = dict(task_id=task_id, deps=deps, plan=Plan(ended=done, done=done))
        if kind == TaskType.CALL:
            entries = [self.entry(s, listed=True, above=before) for _ in range(rng.randrange(1, 4))]
            fields["entries"] = entries
            self.before[task_id] = before | {entry.task_id for entry in entries}
        self.order[s].append(task_id)
        if rng.random() < 0.3:
            self.recorded[s] += 1
            fields["record"] = (s, self.recorded[s])
            self.recorders[fields["record"]] = task_id
        if kind == TaskType.NOTIFY:
            return self.notify(s, fields)
        return Entry(kind, **fields)

    def notify(self, s, fields):
        counter = self.rng.randrange(CONFIG.notifies)
        if counter == s and self.left[s]:
            amount = self.rng.randrange(1, self.left[s] + 1)
            self.left[s] -= amount
            return Entry.notify(NotifyOperation.WAIT, s, amount, **fields)
        self.left[counter] += 2
        return Entry.notify(NotifyOperation.ADD, counter, 2, **fields)


@settings(max_examples=6)
@given(seed=st.integers(0, 1 << 32))
def test_random_programs_of_all_types_end_and_keep_their_order(harness, seed):
    async def behaviour(machine):
        rng = random.Random(seed)
        contexts = [s % 2 for s in range(STREAMS)]
        program = Program(rng, 80, contexts)
        for s, context in enumerate(contexts):
            await machine.start(s, context=context, priority=rng.randrange(3))
        for queue, tasks in zip(machine.queues, program.queues, strict=True):
            queue.extend(tasks)
        taken, ended = {}, {}
        running = [None] * STREAMS
        dispatched = retired = called = 0
        awaited = []
        while len(ended) < len(program.owners):
            await machine.step()
            for cycle, s in machine.retired[retired:]:
                ended[running[s]] = cycle
            for cycle, s, entry in machine.dispatched[dispatched:]:
                taken[entry.task_id], running[s] = cycle, entry.task_id
                assert program.before[entry.task_id] <= ended.keys()
            retired, dispatched = len(machine.retired), len(machine.dispatched)
            for _, s in machine.called[called:]:
                awaited.append((machine.cycle + rng.randrange(6), s))
            called = len(machine.called)
            for due in [due for due in awaited if due[0] <= machine.cycle]:
                machine.answer(due[1], machine.status(due[1], "task_id"))
                awaited.remove(due)
            assert machine.cycle < 3000
        for s, expected in enumerate(program.order):
            mine = [entry.task_id for _, owner, entry in machine.dispatched if owner == s]
            assert mine == expected
        for counter, left in enumerate(program.left):
            machine.ctx.set(machine.notifies.select, counter)
            assert machine.ctx.get(machine.notifies.value) == left
        assert not machine.faults

    harness.run(behaviour)
