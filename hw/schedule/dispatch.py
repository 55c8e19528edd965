"""Chooses the next task of one kind of engine."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..arbiter import Arbiter
from ..regs.registers import StreamConfig
from .lane import Assignment
from .lifecycle import Offer

__all__ = ["PRIORITIES", "Dispatcher"]

PRIORITIES = 1 << StreamConfig.priority.width


class Dispatcher(wiring.Component):
    """Hands the offer of the greatest priority to the lowest free lane, all in one cycle.

    Streams of one priority take turns. The choice waits, and keeps its turn, until admitted.

    Parameters
    ----------
    streams: number of streams.
    kind: `Kind` of the offers that it looks at.
    lanes: number of engines of that kind.

    Members
    -------
    offers: of all streams.
    free: one bit for each lane: it takes a task that is offered now.
    chosen: there is an offer, and a lane for it. context, priority: of that offer.
    admit: the choice may be handed over in this cycle.
    tasks: to the lanes; at most one is valid.
    taken: one bit for each stream: its offer is taken in this cycle.
    lane: by which lane.
    """

    def __init__(self, streams, kind, lanes):
        self.streams = streams
        self.kind = kind
        self.lanes = lanes
        super().__init__({
            "offers": In(Offer).array(streams),
            "free": In(lanes),
            "chosen": Out(1),
            "context": Out(4),
            "priority": Out(3),
            "admit": In(1),
            "tasks": Out(stream.Signature(Assignment)).array(lanes),
            "taken": Out(streams),
            "lane": Out(range(lanes)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = Arbiter(self.streams, PRIORITIES)
        assignment = Signal(Assignment)
        accept = Signal()
        for s, offer in enumerate(self.offers):
            m.d.comb += [
                arbiter.requests[s].eq(offer.valid & (offer.kind == self.kind)),
                arbiter.priorities[s].eq(offer.priority),
            ]
            with m.If(arbiter.grant[s]):
                m.d.comb += [assignment.eq(offer.assignment), self.priority.eq(offer.priority)]
        m.d.comb += [
            self.chosen.eq(arbiter.valid & self.free.any()),
            self.context.eq(assignment.ticket.context),
        ]
        for k, port in enumerate(self.tasks):
            lowest = self.free[k] & ~self.free[:k].any()
            m.d.comb += [port.valid.eq(self.chosen & self.admit & lowest), port.p.eq(assignment)]
            with m.If(port.valid & port.ready):
                m.d.comb += [accept.eq(1), self.lane.eq(k)]
        m.d.comb += [
            arbiter.accept.eq(accept),
            self.taken.eq(arbiter.grant & accept.replicate(self.streams)),
        ]
        return m
