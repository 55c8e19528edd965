"""Engines of the scheduler itself: tasks that end at once, and entries that are refused."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from ..config import ADDRESS_BITS
from ..interface import EngineSignature

__all__ = ["ControlEngine", "Refusal", "RefusalEngine"]


class Refusal(data.Struct):
    """Payload of a refused entry's task: where the entry lies and what is wrong with it."""

    address: ADDRESS_BITS
    cause: 8


class ControlEngine(wiring.Component):
    """Runs NOP, EVENT_RECORD and EVENT_WAIT: there is nothing to do but retire.

    Members
    -------
    engine: `EngineSignature`. A task taken in cycle t is started, ended and done in t + 1.
    """

    engine: Out(EngineSignature())

    def elaborate(self, platform):
        m = Module()
        fresh = Signal()
        taken = self.engine.tasks.valid & self.engine.tasks.ready
        m.d.sync += fresh.eq(taken)
        m.d.comb += [
            self.engine.tasks.ready.eq(~self.engine.busy),
            self.engine.started.eq(fresh),
            self.engine.ended.eq(fresh),
            self.engine.progress.eq(fresh),
            self.engine.done.valid.eq(self.engine.busy),
        ]
        with m.If(taken):
            m.d.sync += self.engine.busy.eq(1)
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
