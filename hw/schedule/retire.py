"""Retires tasks: records their events and sends their completions."""

from amaranth import Array, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..arbiter import Arbiter
from ..interface import DELTAS, Retirement
from ..layout import struct
from ..regs.descriptor import EventWord
from ..regs.fault import FaultCause, FaultUnit
from .lane import Outcome

__all__ = ["Retirer"]


class Retirer(wiring.Component):
    """Retires one task a cycle, in turn over the lanes, in the cycle in which its outcome is taken.

    A task that ended well records its event in that cycle and sends a `Retirement` if it asked for
    one; a failed one records nothing and always sends one. A task that must wait because its
    context's completions have no room does not hold up those of other contexts.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    outcomes: of the engines, then of refused entries.
    room: one bit for each context: a retirement of it can be taken now.
    cycle: now.
    deltas: per-task counters of the engines.
    records: to the event unit.
    retirements: to the completion writer.
    retired: one bit for each stream: its task retires in this cycle.
    """

    def __init__(self, config):
        self.config = config
        engines = len(config.engines)
        super().__init__({
            "outcomes": In(stream.Signature(Outcome)).array(engines + 1),
            "room": In(config.contexts),
            "cycle": In(64),
            "deltas": In(data.ArrayLayout(DELTAS, engines)),
            "records": Out(stream.Signature(struct(EventWord))),
            "retirements": Out(stream.Signature(Retirement)),
            "retired": Out(config.streams),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        engines = len(self.config.engines)
        m.submodules.arbiter = arbiter = Arbiter(engines + 1)
        outcome = Signal(Outcome)
        room = Array(self.room)
        needed = Signal()
        for i, port in enumerate(self.outcomes):
            sends = self._sends(port.p)
            m.d.comb += [
                arbiter.requests[i].eq(port.valid & (~sends | room[port.p.ticket.context])),
                port.ready.eq(arbiter.grant[i] & arbiter.accept),
            ]
            with m.If(arbiter.grant[i]):
                m.d.comb += [outcome.eq(port.p), needed.eq(sends)]
        m.d.comb += [
            self.retirements.valid.eq(needed),
            arbiter.accept.eq(arbiter.valid & (~needed | self.retirements.ready)),
            self.records.valid.eq(
                arbiter.accept & outcome.ticket.record & (outcome.cause == FaultCause.NONE)
            ),
            self.records.p.eq(outcome.ticket.event),
        ]
        for s in range(self.config.streams):
            m.d.comb += self.retired[s].eq(arbiter.accept & (outcome.ticket.stream == s))
        m.submodules.stamp = self._stamp(outcome, arbiter.index)
        return m

    def _sends(self, outcome):
        asked = outcome.ticket.completion | outcome.ticket.timed
        return asked | (outcome.cause != FaultCause.NONE)

    def _stamp(self, outcome, index):
        """The retirement: a module of its own, as time and counters change in every cycle."""
        m = Module()
        entry, ticket = self.retirements.p, outcome.ticket
        good = outcome.cause == FaultCause.NONE
        with m.If(self.retirements.valid):
            m.d.comb += [
                entry.context.eq(ticket.context),
                entry.stream.eq(ticket.stream),
                entry.engine.eq(index),
                entry.status.eq(outcome.cause),
                entry.task_id.eq(ticket.task_id),
                entry.start.eq(outcome.start),
                entry.end.eq(outcome.end),
                entry.completion.eq(ticket.completion | ~good),
                entry.timed.eq(ticket.timed & good),
                entry.address.eq(ticket.address),
                entry.generation.eq(ticket.event.generation),
                entry.timestamp.eq(self.cycle),
            ]
            with m.If(outcome.starting):
                m.d.comb += entry.start.eq(self.cycle)
            with m.If(outcome.ending):
                m.d.comb += entry.end.eq(self.cycle)
            with m.Switch(index):
                for e in range(len(self.config.engines)):
                    with m.Case(e):
                        with m.If(ticket.counters):
                            m.d.comb += entry.counters.eq(self.deltas[e])
                with m.Default():
                    m.d.comb += entry.engine.eq(FaultUnit.QUEUE)
        return m
