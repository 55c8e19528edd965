"""Counts the tokens that one unit gives to its neighbour."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..regs.instruction import TOKENS

__all__ = ["TokenCounter"]


class TokenCounter(wiring.Component):
    """Tokens pending from a giver to a taker. One given in cycle t can be taken in t + 1.

    Members
    -------
    give: pulse; one more.
    grant: how many more the sequencer gives in this cycle.
    take: pulse; one less. Only while `available`.
    available: at least one is pending.
    pending: how many are.
    overflow: in this cycle they become more than `TOKENS`; the surplus is dropped.
    clear: forgets all.
    """

    give: In(1)
    grant: In(4)
    take: In(1)
    available: Out(1)
    pending: Out(range(TOKENS + 1))
    overflow: Out(1)
    clear: In(1)

    def elaborate(self, platform):
        m = Module()
        total = Signal(6)
        m.d.comb += [
            self.available.eq(self.pending != 0),
            total.eq(self.pending + self.grant + self.give - self.take),
            self.overflow.eq(total > TOKENS),
        ]
        m.d.sync += self.pending.eq(Mux(self.overflow, TOKENS, total))
        with m.If(self.clear):
            m.d.sync += self.pending.eq(0)
        return m
