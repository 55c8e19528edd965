"""What the scheduler keeps of the task on an engine."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..fault import Supervisor
from ..interface import EngineSignature, FaultEvent, Task
from ..layout import struct
from ..regs.descriptor import EventWord
from ..regs.fault import FaultCause

__all__ = ["Assignment", "Lane", "Outcome", "Ticket"]


class Ticket(data.Struct):
    """What must be known of a task to retire it; `address` is that of its timed record."""

    stream: 5
    context: 4
    task_id: 64
    timeout: 32
    record: 1
    event: struct(EventWord)
    completion: 1
    counters: 1
    timed: 1
    address: ADDRESS_BITS


class Assignment(data.Struct):
    """A task for an engine, and its ticket."""

    task: Task
    ticket: Ticket


class Outcome(data.Struct):
    """How a task ended. `cause` is its status.

    starting, ending: `start`, `end` is this very cycle instead. A task that never started has
    the cycle of its dispatch as start; one that never ended has that of its retirement as end.
    """

    ticket: Ticket
    cause: 8
    start: 64
    end: 64
    starting: 1
    ending: 1


class Lane(wiring.Component):
    """Hands tasks to one engine, supervises them, and keeps ticket, cause and times.

    Parameters
    ----------
    number: of the engine, in fault events.

    Members
    -------
    tasks: a task is taken when the lane is not busy and the engine takes it, in that cycle; also
        in the cycle in which the outcome of the former one is, if the engine can.
    free: a task would be taken in this cycle.
    engine: the engine.
    cancel: level; the task is to be aborted. The engine is told in the next cycle.
    watchdog: greatest number of cycles without progress; 0 for any.
    cycle: now.
    busy: a task is in work or waits to be retired.
    ticket: of that task.
    fault: in the cycle in which the engine finds a fault, or a timeout or the watchdog strikes;
        for the latter two the engine is told to abort in the next cycle.
    outcome: valid as soon as the engine is done. A task that was told to abort and failed without
        a fault of its own is ABORTED; one with a fault has the first one's cause, whatever the
        engine says of it.
    """

    def __init__(self, number):
        self.number = number
        super().__init__({
            "tasks": In(stream.Signature(Assignment)),
            "free": Out(1),
            "engine": In(EngineSignature()),
            "cancel": In(1),
            "watchdog": In(32),
            "cycle": In(64),
            "busy": Out(1),
            "ticket": Out(Ticket),
            "fault": Out(FaultEvent),
            "outcome": Out(stream.Signature(Outcome)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        engine = self.engine
        cause = Signal(FaultCause)
        told = Signal()
        start = Signal(64)
        end = Signal(64)
        ended = Signal()
        dispatch = Signal()
        retire = Signal()
        m.d.comb += [
            retire.eq(self.outcome.valid & self.outcome.ready),
            engine.tasks.valid.eq(self.tasks.valid & (~self.busy | retire)),
            engine.tasks.p.eq(self.tasks.p.task),
            self.free.eq(engine.tasks.ready & (~self.busy | retire)),
            self.tasks.ready.eq(self.free),
            dispatch.eq(self.tasks.valid & self.tasks.ready),
        ]
        with m.If(retire):
            m.d.sync += self.busy.eq(0)
        with m.If(engine.started):
            m.d.sync += start.eq(self.cycle)
        with m.If(engine.ended):
            m.d.sync += [end.eq(self.cycle), ended.eq(1)]

        m.submodules.supervisor = supervisor = Supervisor()
        m.d.comb += [
            supervisor.dispatch.eq(dispatch),
            supervisor.timeout.eq(self.tasks.p.ticket.timeout),
            supervisor.watchdog.eq(self.watchdog),
            supervisor.running.eq(self.busy & ~told & ~engine.done.valid),
            supervisor.progress.eq(engine.progress),
            self.fault.valid.eq(
                engine.fault.valid | (supervisor.expired != FaultCause.NONE)
            ),
            self.fault.context.eq(self.ticket.context),
            self.fault.stream.eq(self.ticket.stream),
            self.fault.engine.eq(self.number),
            self.fault.task_id.eq(self.ticket.task_id),
        ]
        with m.If(self.fault.valid):
            m.d.comb += self.fault.report.eq(engine.fault.report)
        with m.If(~engine.fault.valid):
            m.d.comb += self.fault.report.cause.eq(supervisor.expired)
        with m.If(self.fault.valid & (cause == FaultCause.NONE)):
            m.d.sync += cause.eq(self.fault.report.cause)

        # A registered pulse: an engine may mask its fault with its abort.
        m.d.sync += engine.abort.eq(0)
        with m.If(engine.fault.valid):
            m.d.sync += told.eq(1)
        with m.Elif(supervisor.running & (self.cancel | self.fault.valid)):
            m.d.sync += [told.eq(1), engine.abort.eq(1)]

        m.d.comb += [
            self.outcome.valid.eq(self.busy & engine.done.valid & ~engine.fault.valid),
            engine.done.ready.eq(self.busy & self.outcome.ready & ~engine.fault.valid),
            self.outcome.p.ticket.eq(self.ticket),
            self.outcome.p.cause.eq(
                Mux(engine.done.p.failed & (cause == FaultCause.NONE), FaultCause.ABORTED, cause)
            ),
            self.outcome.p.start.eq(start),
            self.outcome.p.end.eq(end),
            self.outcome.p.starting.eq(engine.started),
            self.outcome.p.ending.eq(engine.ended | ~ended),
        ]

        # Last, so that a task begins afresh in the cycle in which the former one ends.
        with m.If(dispatch):
            m.d.sync += [
                self.busy.eq(1),
                self.ticket.eq(self.tasks.p.ticket),
                cause.eq(FaultCause.NONE),
                told.eq(0),
                start.eq(self.cycle),
                ended.eq(0),
            ]
        return m
