"""A scheduler with the units that its streams wait at, cycle by cycle.

Queues, engines and the poller are played in Python.
"""

from dataclasses import dataclass, field

from amaranth import Module
from amaranth.lib import wiring

from hw.config import NpuConfig
from hw.event import EventUnit
from hw.interface import DISPATCHES
from hw.notify import NotifyUnit
from hw.regs.descriptor import NotifyPayload, TaskType
from hw.regs.registers import StreamState
from hw.schedule.barrier import BarrierUnit
from hw.schedule.scheduler import Scheduler
from tests.simulation import simulator_of

__all__ = ["CONFIG", "Entry", "Harness", "Machine", "Plan"]

CONFIG = NpuConfig.preset("tiny", streams=5, contexts=3)


@dataclass
class Plan:
    """How an engine runs a task: cycles after the one in which it was taken.

    Of a VALUE_WAIT: cycles from the first one of its poll until it is `done`, or has the `fault`
    with status `cause`.
    """

    started: int = 1
    ended: int = 3
    done: int = 4
    fault: int | None = None
    cause: int = 0
    address: int = 0
    progress: bool = True
    drain: int = 3
    """Cycles from an abort or a fault until done."""


@dataclass
class Entry:
    """A submission-queue entry, with the way it will run."""

    type: TaskType = TaskType.NOP
    task_id: int = 0
    deps: tuple = ()
    record: tuple | None = None
    completion: bool = False
    counters: bool = False
    option: bool = False
    timeout: int = 0
    payload: int = 0
    cause: int = 0
    address: int = 0
    plan: Plan = field(default_factory=Plan)
    entries: tuple = ()
    """Of a CALL."""

    @classmethod
    def notify(cls, operation, counter, amount, **settings):
        payload = NotifyPayload(counter=counter, amount=amount, operation=operation)
        return cls(TaskType.NOTIFY, payload=payload.to_int(), **settings)

    def head(self, slot, listed=False, returned=False):
        def word(pair):
            return pair[0] | pair[1] << 12

        return {
            "sqe": {
                "type": self.type, "dependencies": len(self.deps), "timeout": self.timeout,
                "record": self.record is not None, "completion": self.completion,
                "counters": self.counters, "option": self.option, "task_id": self.task_id,
                "event_deps": [word(dep) for dep in self.deps] + [0] * (4 - len(self.deps)),
                "record_event": word(self.record) if self.record else 0, "payload": self.payload,
            },
            "cause": self.cause, "slot": slot, "address": self.address,
            "listed": listed, "returned": returned,
        }  # fmt: skip


class Call:
    """A list that runs: what is left of it, and how many of its tasks have not retired."""

    def __init__(self, entry):
        self.entry = entry
        self.left = list(entry.entries)
        self.unretired = 0


class Engine:
    """An engine as `EngineSignature` describes it.

    An `eager` one takes its next task in the cycle in which the former one's end is accepted.
    """

    def __init__(self, machine, name):
        self.machine = machine
        names = [other for other in CONFIG.engines if other != "control"]
        self.port = machine.scheduler.engines[names.index(name)]
        self.eager = not name.startswith("core")
        self.entry = None
        self.age = 0
        self.stop = None
        self.aborts = []
        machine.set(self.port.tasks.ready, 1)

    def drive(self):
        done = failed = started = ended = fault = False
        if self.entry is not None:
            plan = self.entry.plan
            self.age += 1
            if self.stop is None:
                started, ended = self.age == plan.started, self.age == plan.ended
                fault = self.age == plan.fault
                done = plan.fault is None and self.age >= plan.done
            else:
                done = failed = self.age >= self.stop
            if fault:
                self.stop = self.age + plan.drain
                self.machine.set(
                    self.port.fault.report, {"cause": plan.cause, "address": plan.address}
                )
        values = (
            (self.port.tasks.ready, self.entry is None), (self.port.busy, self.entry is not None),
            (self.port.started, started), (self.port.ended, ended), (self.port.fault.valid, fault),
            (self.port.progress, self.entry is not None and self.entry.plan.progress),
            (self.port.done.valid, done), (self.port.done.p.failed, failed),
        )  # fmt: skip
        for signal, value in values:
            self.machine.set(signal, int(value))
        self.done = done

    def overlap(self):
        if self.eager and self.done and self.machine.ctx.get(self.port.done.ready):
            self.machine.set(self.port.tasks.ready, 1)

    def sample(self):
        get = self.machine.ctx.get
        if get(self.port.abort):
            self.aborts.append(self.machine.cycle)
            if self.entry is not None and not self.done and self.stop is None:
                self.stop = self.age + self.entry.plan.drain
        if self.done and get(self.port.done.ready):
            self.entry = None
        if get(self.port.tasks.valid) and get(self.port.tasks.ready):
            assert self.entry is None
            task = get(self.port.tasks.p)
            self.machine.tasks.append((self.machine.cycle, task))
            self.entry, self.age, self.stop = self.machine.heads_taken[task.stream], 0, None


class Machine:
    """Steps the design; every list it keeps holds (cycle, …) pairs in order."""

    def __init__(self, ctx, scheduler, events):
        self.ctx = ctx
        self.scheduler = scheduler
        self.events = events
        self.cycle = 0
        self.known = {}
        self.queues = [[] for _ in range(CONFIG.streams)]
        self.slots = [0] * CONFIG.streams
        self.heads_taken = [None] * CONFIG.streams
        self.engines = {
            number: Engine(self, name) for number, name in enumerate(CONFIG.engines)
            if name != "control"
        }  # fmt: skip
        self.calls = [None] * CONFIG.streams
        self.unretired = [0] * CONFIG.streams
        self.polls = [0] * CONFIG.streams
        self.polled = []
        self.changes = []
        self.entered = []
        self.called = []
        self.answering = []
        self.marks = []
        self.dispatched = []
        self.records = []
        self.retirements = []
        self.retired = []
        self.faults = []
        self.stopped = []
        self.flush_age = [0] * CONFIG.streams
        self.tasks = []
        self.set(scheduler.room, (1 << CONFIG.contexts) - 1)
        for credit in scheduler.credits:
            self.set(credit.left, DISPATCHES)
        self.set(scheduler.retirements.ready, 1)
        self.set(scheduler.deltas, [list(range(e, e + 8)) for e in range(len(CONFIG.engines))])

    def set(self, signal, value):
        key = id(signal) if not hasattr(signal, "as_value") else id(signal.as_value())
        if self.known.get(key, (None, None))[1] != value:
            self.known[key] = (signal, value)
            self.ctx.set(signal, value)

    async def start(self, s, *, size=4, **settings):
        port = self.scheduler.streams[s]
        self.ctx.set(port.config, {"size": size, **settings})
        self.ctx.set(port.start, 1)
        await self.step()
        self.ctx.set(port.start, 0)

    async def abort(self, s):
        self.ctx.set(self.scheduler.streams[s].abort, 1)
        await self.step()
        self.ctx.set(self.scheduler.streams[s].abort, 0)

    def state(self, s):
        return StreamState(self.ctx.get(self.scheduler.streams[s].state))

    def status(self, s, name):
        return self.ctx.get(getattr(self.scheduler.streams[s], name))

    def head(self, s):
        """The next task of a stream, whether it stands in a list, and whether its list is over."""
        call, queue = self.calls[s], self.queues[s]
        if self.flush_age[s]:
            return None, False, False
        if call is None:
            return (queue[0] if queue else None), False, False
        if call.left:
            return call.left[0], True, False
        return (None if call.unretired else call.entry), False, True

    def drive(self):
        """Sets what the cycle begins with."""
        for s, queue in enumerate(self.queues):
            port, ring = self.scheduler.heads[s], self.scheduler.rings[s]
            self.set(ring.flushed, int(self.flush_age[s] not in (1, 2)))
            self.set(ring.empty, int(not (queue or self.unretired[s])))
            shown = entry, listed, returned = self.head(s)
            if entry is not None and self.known.get(("head", s)) != (id(entry), *shown[1:]):
                self.known["head", s] = (id(entry), *shown[1:])
                self.ctx.set(port.p, entry.head(self.slots[s], listed, returned))
            self.set(port.valid, int(entry is not None))
            self._poll(s, entry)
        for engine in self.engines.values():
            engine.drive()
        for engine in self.engines.values():
            engine.overlap()

    def _poll(self, s, entry):
        poll = self.scheduler.polls[s]
        done = failed = False
        if self.polls[s]:
            done = entry.plan.fault is None and self.polls[s] >= entry.plan.done
            failed = entry.plan.fault is not None and self.polls[s] >= entry.plan.fault
            self.set(poll.status, entry.plan.cause)
        self.set(poll.met, int(done))
        self.set(poll.failed, int(failed))

    async def step(self):
        """One cycle: drives, records what happens in it, ticks."""
        get, scheduler = self.ctx.get, self.scheduler
        self.drive()
        for s, queue in enumerate(self.queues):
            ring = scheduler.rings[s]
            if get(ring.retire):
                assert not get(ring.flush)
                self.retired.append((self.cycle, s))
                self.unretired[s] -= 1
                if self.calls[s]:
                    self.calls[s].unretired -= 1
            poll = scheduler.polls[s]
            if not get(poll.valid) or get(poll.take):
                self.polls[s] = 0
            else:
                self.polls[s] += 1
                if self.polls[s] == 1:
                    self.polled.append((self.cycle, s, get(poll.request)))
            if get(ring.enter):
                self.calls[s] = Call(queue[0])
                self.entered.append((self.cycle, s))
            if get(scheduler.streams[s].called_host):
                self.called.append((self.cycle, s))
            if get(scheduler.heads[s].valid) and get(scheduler.heads[s].ready):
                self._pop(s)
            if get(scheduler.streams[s].stopped):
                self.stopped.append((self.cycle, s))
            if get(ring.flush):
                queue.clear()
                self.calls[s] = None
            self.flush_age[s] = self.flush_age[s] + 1 if get(ring.flush) else 0
        if get(scheduler.records.valid):
            word = scheduler.records.p
            self.records.append((self.cycle, get(word.slot), get(word.generation)))
        if get(scheduler.retirements.valid) and get(scheduler.retirements.ready):
            self.retirements.append((self.cycle, get(scheduler.retirements.p)))
        for port, fault in enumerate(scheduler.faults):
            if get(fault.valid):
                self.faults.append((self.cycle, port, get(fault)))
        if get(scheduler.changes.valid):
            change = scheduler.changes.p
            self.changes.append(
                (self.cycle, *map(get, (change.operation, change.counter, change.amount)))
            )
        if marks := get(scheduler.marks):
            self.marks.append((self.cycle, marks))
        for engine in self.engines.values():
            engine.sample()
        await self.ctx.tick()
        while self.answering:
            self.ctx.set(scheduler.streams[self.answering.pop()].returned, 0)
        self.cycle += 1
        self.ctx.set(scheduler.cycle, self.cycle)
        self.ctx.set(self.events.cycle, self.cycle)

    def _pop(self, s):
        """Takes the head; a list goes on until its CALL is taken, too."""
        entry, listed, returned = self.head(s)
        if listed:
            self.calls[s].left.pop(0)
            self.calls[s].unretired += 1
        else:
            assert self.queues[s].pop(0) is entry
            self.calls[s] = None
        self.heads_taken[s] = entry
        self.slots[s] ^= 1
        self.unretired[s] += 1
        self.dispatched.append((self.cycle, s, entry))

    def answer(self, s, task_id, failed=False):
        """The host has called a function, seen in the next cycle that is stepped only."""
        stream = self.scheduler.streams[s]
        self.ctx.set(stream.returned, 1)
        self.ctx.set(stream.returned_task, task_id & (1 << 31) - 1)
        self.ctx.set(stream.returned_failed, int(failed))
        self.answering.append(s)

    async def steps(self, count):
        for _ in range(count):
            await self.step()

    async def until(self, condition, limit=300):
        for _ in range(limit):
            if condition():
                return
            await self.step()
        raise AssertionError(f"not reached within {limit} cycles")


class Harness:
    """Elaborates once and runs one behaviour after the other, each from reset."""

    def __init__(self):
        m = Module()
        m.submodules.scheduler = scheduler = Scheduler(CONFIG)
        m.submodules.events = events = EventUnit(CONFIG)
        m.submodules.notifies = notifies = NotifyUnit(CONFIG)
        m.submodules.barriers = barriers = BarrierUnit(CONFIG)
        wiring.connect(m, scheduler.records, events.records)
        wiring.connect(m, scheduler.changes, notifies.changes)
        for s in range(CONFIG.streams):
            wiring.connect(m, scheduler.waiters[s], events.waiters[s])
            wiring.connect(m, scheduler.notifies[s], notifies.waiters[s])
            wiring.connect(m, scheduler.barriers[s], barriers.streams[s])

        async def testbench(ctx):
            machine = Machine(ctx, scheduler, events)
            machine.notifies = notifies
            await self.behaviour(machine)

        self.simulator = simulator_of(m)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(testbench)
        self.behaviour = None

    def run(self, behaviour):
        if self.behaviour is not None:
            self.simulator.reset()
        self.behaviour = behaviour
        self.simulator.run()
