"""Chooses among the streams, hands tasks to the engines, retires them."""

from amaranth import Array, Cat, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arbiter import Arbiter
from ..interface import (
    DELTAS,
    DISPATCHES,
    BarrierSignature,
    CreditSignature,
    EngineSignature,
    FaultEvent,
    Head,
    NotifyChange,
    NotifySignature,
    PollSignature,
    Retirement,
    WaiterSignature,
)
from ..layout import struct
from ..regs.descriptor import EventWord
from ..regs.fault import FaultCause, FaultUnit
from .control import ControlEngine, RefusalEngine
from .dispatch import PRIORITIES, Dispatcher
from .lane import Lane, Ticket
from .lifecycle import Kind, StreamLifecycle
from .ports import RingControl, StreamSignature
from .retire import Retirer

__all__ = ["Scheduler"]


class Scheduler(wiring.Component):
    """Runs the streams' tasks on the engines.

    Tasks of a stream run in order, one at a time; streams run side by side. Copies go to the copy
    channels, kernels to the cores, values to the value engine, everything else to the control
    engine inside. For each of these kinds one task a cycle is dispatched: of the greatest priority,
    in turn inside a priority, to the lowest free engine, in the very cycle in which its head is
    ready. One task a cycle retires. A stream of a priority that stays ready is served within as
    many dispatches of that priority and kind as there are streams.

    What a head waits for it waits for in its stream, occupying no engine: see `StreamLifecycle`.

    A task is dispatched only if its context has completion credit, so that its retirement never
    waits for the host. Contexts with less than `DISPATCHES` entries left share one dispatch a
    cycle: of the greatest priority, in turn over the kinds inside a priority.

    Exact cycles, with free engines: a record taken in cycle t hands the tasks that wait for it to
    their engines in t + 1. `done` accepted in t records in t and dispatches the stream's next task
    in t, to the same engine too if that can take it in t; if not, in t + 1. A task of the control
    engine dispatched in t records, or changes a notify, in t + 1, when the stream's next one is
    dispatched. A bad head that shows in t is reported in t + 1 and retired, failed, in t + 2.

    Any fault stops its stream from the next cycle on; with failure mode STOP, all active streams of
    its context. Running tasks of stopped streams end as they would.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    heads: next task of each stream.
    waiters: their dependencies, at the event unit. notifies, polls, barriers: what else they wait
        for, at the notify unit, the poller and the barrier unit.
    changes: of notifies; always taken at once.
    streams: `StreamSignature` of each. rings: `RingControl` of each.
    engines: copy channels, then cores, then value. They are ready to take a task whenever they are
        idle.
    records: to the event unit, which takes them at once.
    retirements, room: to the completion writer; `room` has one bit for each context and says that
        a retirement of it would be taken now.
    credits: of each context. holds: which streams have a retirement at the completion writer.
    cycle: now. watchdog: greatest number of cycles without progress; 0 for any.
    marks: pulse for each of `config.engines` in the cycle after a dispatch to it: in the cycle
        itself the former task may still be retiring.
    deltas: what the eight counters added in its task: from its start, or else its mark, to its
        last end, or else this cycle.
    faults: of `engines`, in their order; the last is that of the queues: heads that are bad or
        have failed (with their task) and overruns (without one), one a cycle.
    outside: a fault of another unit. It stops streams as any does, unless its stream has gone to
        another context since.
    busy: which of `config.engines` have a task. tasks: what it is, while busy.
    started, ended: as their engines say.
    retired: pulse: a task retired. calls: which streams enter a list in this cycle.
    blocked: which streams run nothing as their head waits for something.
    """

    def __init__(self, config):
        self.config = config
        streams, engines = config.streams, len(config.engines)
        super().__init__({
            "heads": In(stream.Signature(Head)).array(streams),
            "waiters": Out(WaiterSignature()).array(streams),
            "notifies": Out(NotifySignature()).array(streams),
            "polls": Out(PollSignature()).array(streams),
            "barriers": Out(BarrierSignature()).array(streams),
            "changes": Out(stream.Signature(NotifyChange)),
            "streams": Out(StreamSignature()).array(streams),
            "rings": Out(RingControl()).array(streams),
            "engines": In(EngineSignature()).array(engines - 1),
            "records": Out(stream.Signature(struct(EventWord))),
            "retirements": Out(stream.Signature(Retirement)),
            "room": In(config.contexts),
            "credits": In(CreditSignature()).array(config.contexts),
            "holds": In(streams),
            "cycle": In(64),
            "watchdog": In(32),
            "marks": Out(engines),
            "deltas": In(data.ArrayLayout(DELTAS, engines)),
            "faults": Out(FaultEvent).array(engines),
            "outside": In(FaultEvent),
            "busy": Out(engines),
            "tasks": Out(Ticket).array(engines),
            "started": Out(engines),
            "ended": Out(engines),
            "retired": Out(1),
            "calls": Out(streams),
            "blocked": Out(streams),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        engines = self.config.engines
        m.submodules.control = control = ControlEngine()
        m.submodules.refusal = refusal = RefusalEngine()
        *units, value = map(flipped, self.engines)
        ports = [*units, control.engine, value, refusal.engine]
        lanes = []
        for name, port in zip((*engines, "queue"), ports, strict=True):
            lane = Lane(FaultUnit.QUEUE if name == "queue" else len(lanes))
            m.submodules[f"lane_{name}"] = lane
            connect(m, lane.engine, port)
            lanes.append(lane)
        lifecycles = []
        for s in range(self.config.streams):
            lifecycle = StreamLifecycle(self.config, s)
            m.submodules[f"stream{s}"] = lifecycle
            connect(m, flipped(self.heads[s]), lifecycle.head)
            connect(m, flipped(self.waiters[s]), lifecycle.waiter)
            connect(m, flipped(self.notifies[s]), lifecycle.notify)
            connect(m, flipped(self.polls[s]), lifecycle.poll)
            connect(m, flipped(self.barriers[s]), lifecycle.barrier)
            connect(m, flipped(self.streams[s]), lifecycle.registers)
            connect(m, flipped(self.rings[s]), lifecycle.ring)
            lifecycles.append(lifecycle)
        m.submodules.retirer = retirer = Retirer(self.config)
        connect(m, flipped(self.changes), control.changes)
        connect(m, flipped(self.records), retirer.records)
        connect(m, flipped(self.retirements), retirer.retirements)
        for lane, outcomes in zip(lanes, retirer.outcomes, strict=True):
            connect(m, lane.outcome, outcomes)

        m.d.comb += [
            retirer.room.eq(self.room),
            self.retired.eq(retirer.retired.any()),
            self.busy.eq(Cat(lane.busy for lane in lanes[: len(engines)])),
            self.started.eq(Cat(lane.engine.started for lane in lanes[: len(engines)])),
            self.ended.eq(Cat(lane.engine.ended for lane in lanes[: len(engines)])),
            self.calls.eq(Cat(lifecycle.ring.enter for lifecycle in lifecycles)),
            self.blocked.eq(Cat(lifecycle.blocked for lifecycle in lifecycles)),
        ]  # fmt: skip
        m.d.sync += self.marks.eq(
            Cat(lane.tasks.valid & lane.tasks.ready for lane in lanes[: len(engines)])
        )
        m.d.comb += [lane.watchdog.eq(self.watchdog) for lane in lanes]
        m.d.comb += [task.eq(lane.ticket) for task, lane in zip(self.tasks, lanes, strict=False)]
        for s, lifecycle in enumerate(lifecycles):
            m.d.comb += [
                lifecycle.retired.eq(retirer.retired[s]),
                lifecycle.held.eq(self.holds[s]),
            ]
        self._credit(m, lifecycles, lanes)
        self._dispatch(m, lifecycles, lanes)
        m.submodules.clock = self._clock(lanes, retirer)
        m.submodules.faulting = self._faulting(lifecycles, lanes)
        return m

    def _credit(self, m, lifecycles, lanes):
        """Which contexts may promise one more completion entry."""
        some = Array(credit.left != 0 for credit in self.credits)
        for lifecycle in lifecycles:
            m.d.comb += lifecycle.credit.eq(some[lifecycle.registers.settings.context])
        for c, credit in enumerate(self.credits):
            m.d.comb += [
                credit.running.eq(sum(lane.busy & (lane.ticket.context == c) for lane in lanes)),
                credit.starved.eq(
                    Cat(
                        lifecycle.starved & (lifecycle.registers.settings.context == c)
                        for lifecycle in lifecycles
                    ).any()
                ),
            ]

    def _dispatch(self, m, lifecycles, lanes):
        copies, cores = self.config.copy_channels, self.config.cores
        plenty = Array(credit.left == DISPATCHES for credit in self.credits)
        m.submodules.scarce = scarce = Arbiter(DISPATCHES, PRIORITIES)
        m.d.comb += scarce.accept.eq(1)
        first = 0
        counts = {
            Kind.COPY: copies, Kind.CORE: cores, Kind.CONTROL: 1, Kind.VALUE: 1, Kind.REFUSAL: 1
        }  # fmt: skip
        assert len(counts) == DISPATCHES
        for n, (kind, count) in enumerate(counts.items()):
            dispatcher = Dispatcher(self.config.streams, kind, count)
            m.d.comb += [
                scarce.requests[n].eq(dispatcher.chosen & ~plenty[dispatcher.context]),
                scarce.priorities[n].eq(dispatcher.priority),
                dispatcher.admit.eq(plenty[dispatcher.context] | scarce.grant[n]),
            ]
            m.submodules[f"dispatch_{kind.name.lower()}"] = dispatcher
            for k, lane in enumerate(lanes[first : first + count]):
                connect(m, dispatcher.tasks[k], lane.tasks)
                m.d.comb += dispatcher.free[k].eq(lane.free)
            number = FaultUnit.QUEUE if kind == Kind.REFUSAL else first + dispatcher.lane
            for s, lifecycle in enumerate(lifecycles):
                m.d.comb += dispatcher.offers[s].eq(lifecycle.offer)
                with m.If(dispatcher.taken[s]):
                    m.d.comb += [lifecycle.taken.eq(1), lifecycle.engine.eq(number)]
            first += count
        for lane in lanes:
            cancels = Array(lifecycle.cancel for lifecycle in lifecycles)
            m.d.comb += lane.cancel.eq(cancels[lane.ticket.stream])

    def _clock(self, lanes, retirer):
        """What changes in every cycle: apart, so that it does not wake the rest in simulation."""
        m = Module()
        m.d.comb += [retirer.cycle.eq(self.cycle), retirer.deltas.eq(self.deltas)]
        m.d.comb += [lane.cycle.eq(self.cycle) for lane in lanes]
        return m

    def _faulting(self, lifecycles, lanes):
        """Reports faults, and tells the streams that they stop."""
        m = Module()
        *units, queue = self.faults
        *copies_and_cores, _, value, refusal = lanes
        for fault, lane in zip(units, [*copies_and_cores, value], strict=True):
            m.d.comb += fault.eq(lane.fault)
        refused = refusal.fault
        with m.If(refused.valid):
            m.d.comb += queue.eq(refused)
        for s, lifecycle in enumerate(lifecycles):
            lower = Cat(other.overrun for other in lifecycles[:s]).any()
            with m.If(lifecycle.overrun & ~lower & ~refused.valid):
                m.d.comb += [
                    lifecycle.reported.eq(1),
                    queue.valid.eq(1),
                    queue.context.eq(lifecycle.registers.settings.context),
                    queue.stream.eq(s),
                    queue.engine.eq(FaultUnit.QUEUE),
                    queue.report.cause.eq(FaultCause.QUEUE_OVERRUN),
                ]
        settings = [lifecycle.registers.settings for lifecycle in lifecycles]
        modes = Array(setting.failure_mode for setting in settings)
        owners = Array(setting.context for setting in settings)
        for fault in reversed([*self.faults, self.outside]):
            with m.If(fault.valid & (owners[fault.stream] == fault.context)):
                for s, lifecycle in enumerate(lifecycles):
                    shared = modes[fault.stream] & (settings[s].context == fault.context)
                    with m.If((fault.stream == s) | shared):
                        m.d.comb += [
                            lifecycle.halt.valid.eq(1),
                            lifecycle.halt.cause.eq(fault.report.cause),
                        ]
        return m
