"""Engines of the scheduler itself: tasks that end at once, and entries that are refused."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out

from ..config import ADDRESS_BITS
from ..interface import EngineSignature, NotifyChange
from ..layout import struct
from ..regs.descriptor import NotifyOperation, NotifyPayload, TaskType

__all__ = ["ControlEngine", "Refusal", "RefusalEngine"]


class Refusal(data.Struct):
    """Payload of a refused entry's task: where the entry lies and what is wrong with it."""

    address: ADDRESS_BITS
    cause: 8


class ControlEngine(wiring.Component):
    """Runs all tasks with nothing left to do but retire, as their streams have waited for them
    already, and NOTIFY that adds or sets.

    Members
    -------
    engine: `EngineSignature`. A task taken in cycle t is started, ended and done in t + 1, and if
        that is accepted the next one is taken in t + 1.
    changes: of a NOTIFY taken in cycle t, in t + 1; to a unit that always takes them.
    """

    engine: Out(EngineSignature())
    changes: Out(stream.Signature(NotifyChange))

    def elaborate(self, platform):
        m = Module()
        fresh = Signal()
        changing = Signal()
        task = self.engine.tasks.p
        notify = data.View(struct(NotifyPayload), task.payload)
        taken = self.engine.tasks.valid & self.engine.tasks.ready
        m.d.sync += fresh.eq(taken)
        m.d.comb += [
            self.engine.tasks.ready.eq(~self.engine.busy | self.engine.done.ready),
            self.changes.valid.eq(fresh & changing),
            self.engine.started.eq(fresh),
            self.engine.ended.eq(fresh),
            self.engine.progress.eq(fresh),
            self.engine.done.valid.eq(self.engine.busy),
        ]
        with m.If(taken):
            m.d.sync += [
                self.engine.busy.eq(1),
                changing.eq(
                    (task.type == TaskType.NOTIFY) & (notify.operation != NotifyOperation.WAIT)
                ),
                self.changes.p.counter.eq(notify.counter),
                self.changes.p.amount.eq(notify.amount),
                self.changes.p.operation.eq(notify.operation),
            ]
        with m.Elif(self.engine.done.ready):
            m.d.sync += self.engine.busy.eq(0)
        return m


class RefusalEngine(wiring.Component):
    """Turns a bad submission-queue entry into a fault and a failed task.

    Members
    -------
    engine: `EngineSignature`; the payload of its tasks is a `Refusal`. For a task taken in
        cycle t the fault is in t + 1, and done is valid from t + 2 on.
    """

    engine: Out(EngineSignature())

    def elaborate(self, platform):
        m = Module()
        fresh = Signal()
        refusal = Signal(Refusal)
        taken = self.engine.tasks.valid & self.engine.tasks.ready
        m.d.sync += fresh.eq(taken)
        m.d.comb += [
            self.engine.tasks.ready.eq(~self.engine.busy),
            self.engine.fault.valid.eq(fresh),
            self.engine.fault.report.cause.eq(refusal.cause),
            self.engine.fault.report.address.eq(refusal.address),
            self.engine.done.valid.eq(self.engine.busy & ~fresh),
            self.engine.done.p.failed.eq(1),
        ]
        with m.If(taken):
            m.d.sync += [self.engine.busy.eq(1), refusal.eq(self.engine.tasks.p.payload)]
        with m.Elif(self.engine.done.valid & self.engine.done.ready):
            m.d.sync += self.engine.busy.eq(0)
        return m
