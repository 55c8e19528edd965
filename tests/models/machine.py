"""A scheduler with its event unit, between queues and engines played in Python, cycle by cycle."""

from dataclasses import dataclass, field

from amaranth import Module
from amaranth.lib import wiring

from hw.config import NpuConfig
from hw.event import EventUnit
from hw.interface import DISPATCHES
from hw.regs.descriptor import TaskType
from hw.regs.registers import StreamState
from hw.schedule.scheduler import Scheduler
from tests.simulation import simulator_of

__all__ = ["CONFIG", "Entry", "Harness", "Machine", "Plan"]

CONFIG = NpuConfig.preset("tiny", streams=5, contexts=3)


@dataclass
class Plan:
    """How an engine runs a task: cycles after the one in which it was taken."""

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

    def head(self, slot):
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
        }  # fmt: skip


class Engine:
    """An engine as `EngineSignature` describes it."""

    def __init__(self, machine, number):
        self.machine = machine
        self.port = machine.scheduler.engines[number]
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

    def sample(self):
        get = self.machine.ctx.get
        if get(self.port.abort):
            self.aborts.append(self.machine.cycle)
            if self.entry is not None and not self.done and self.stop is None:
                self.stop = self.age + self.entry.plan.drain
        if self.done and get(self.port.done.ready):
            self.entry = None
        elif self.entry is None and get(self.port.tasks.valid):
            task = get(self.port.tasks.p)
            self.machine.tasks.append((task, get(self.machine.scheduler.marks)))
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
        self.engines = [Engine(self, e) for e in range(len(CONFIG.engines) - 1)]
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

    def drive(self):
        """Sets what the cycle begins with."""
        for s, queue in enumerate(self.queues):
            port, ring = self.scheduler.heads[s], self.scheduler.rings[s]
            self.set(ring.flushed, int(self.flush_age[s] not in (1, 2)))
            if queue and not self.flush_age[s]:
                if self.known.get(("head", s)) is not queue[0]:
                    self.known["head", s] = queue[0]
                    self.ctx.set(port.p, queue[0].head(self.slots[s]))
                self.set(port.valid, 1)
            else:
                self.set(port.valid, 0)
        for engine in self.engines:
            engine.drive()

    async def step(self):
        """One cycle: drives, records what happens in it, ticks."""
        get, scheduler = self.ctx.get, self.scheduler
        self.drive()
        for s, queue in enumerate(self.queues):
            ring = scheduler.rings[s]
            if get(scheduler.heads[s].valid) and get(scheduler.heads[s].ready):
                entry = self.heads_taken[s] = queue.pop(0)
                self.slots[s] ^= 1
                self.dispatched.append((self.cycle, s, entry))
            if get(ring.retire):
                assert not get(ring.flush)
                self.retired.append((self.cycle, s))
            if get(scheduler.streams[s].stopped):
                self.stopped.append((self.cycle, s))
            if get(ring.flush):
                queue.clear()
            self.flush_age[s] = self.flush_age[s] + 1 if get(ring.flush) else 0
        if get(scheduler.records.valid):
            word = scheduler.records.p
            self.records.append((self.cycle, get(word.slot), get(word.generation)))
        if get(scheduler.retirements.valid) and get(scheduler.retirements.ready):
            self.retirements.append((self.cycle, get(scheduler.retirements.p)))
        for port, fault in enumerate(scheduler.faults):
            if get(fault.valid):
                self.faults.append((self.cycle, port, get(fault)))
        for engine in self.engines:
            engine.sample()
        await self.ctx.tick()
        self.cycle += 1
        self.ctx.set(scheduler.cycle, self.cycle)
        self.ctx.set(self.events.cycle, self.cycle)

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
        wiring.connect(m, scheduler.records, events.records)
        for waiter, port in zip(scheduler.waiters, events.waiters, strict=True):
            wiring.connect(m, waiter, port)

        async def testbench(ctx):
            machine = Machine(ctx, scheduler, events)
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
