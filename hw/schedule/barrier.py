"""Barrier unit: finds out when all tasks before a BARRIER have ended."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ..arbiter import Arbiter
from ..interface import BarrierSignature

__all__ = ["BarrierUnit"]


class BarrierUnit(wiring.Component):
    """Compares the streams' BARRIERs with the oldest tasks of all other streams.

    A BARRIER passes if each other stream of its context has either no task left, or one that is
    known and has a greater number. Streams that wait are looked at in turn, one a cycle: with n of
    them each is in every n-th cycle. One that passes in cycle t is `met` from t + 1 on, until its
    head leaves; a stream alone that waits from v on is `met` in v + 1 at the earliest.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    streams: `BarrierSignature` of each. Task numbers grow with the order of submission in the
        context, so what was found stays so.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({"streams": In(BarrierSignature()).array(config.streams)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.turn = turn = Arbiter(self.config.streams)
        looked_at = Array(self.streams)[turn.index]
        before = Signal(self.config.streams)
        passes = Signal()
        m.d.comb += [turn.accept.eq(1), passes.eq(~(before & ~turn.grant).any())]
        m.d.comb += before.eq(Cat(
            stream.pending & (stream.context == looked_at.context)
            & ~(stream.known & (stream.oldest > looked_at.task_id))
            for stream in self.streams
        ))  # fmt: skip
        for s, stream in enumerate(self.streams):
            m.d.comb += turn.requests[s].eq(stream.valid & ~stream.met)
            with m.If(~stream.valid):
                m.d.sync += stream.met.eq(0)
            with m.Elif(turn.grant[s] & passes):
                m.d.sync += stream.met.eq(1)
        return m
