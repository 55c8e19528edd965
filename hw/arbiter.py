"""Chooses one of several requests: by level first, in turn inside a level."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Arbiter"]


class Arbiter(wiring.Component):
    """Round-robin arbiter with priority levels; no request starves another of its level.

    Each level remembers its own turn, so that traffic of one level never costs a requester of
    another level its turn.

    Parameters
    ----------
    width: number of requesters.
    levels: number of priority levels.

    Members
    -------
    requests: one bit for each requester.
    priorities: level of each requester, 0 the greatest.
    accept: the choice of this cycle was served: it goes to the end of its level's turn.
    valid: there is a request.
    grant, index: the choice, one-hot and as a number; combinational.
    """

    def __init__(self, width, levels=1):
        self.width = width
        self.levels = levels
        super().__init__({
            "requests": In(width),
            "priorities": In(data.ArrayLayout(range(levels), width)),
            "accept": In(1),
            "valid": Out(1),
            "grant": Out(width),
            "index": Out(range(width)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        candidates = Signal(self.width)
        behind = Signal(self.width)
        turn = Signal(self.width)
        level = Signal(range(self.levels))
        behinds = Array(Signal(self.width, name=f"behind{n}") for n in range(self.levels))
        for n in reversed(range(self.levels)):
            members = Cat(priority == n for priority in self.priorities)
            with m.If((self.requests & members).any()):
                m.d.comb += [level.eq(n), candidates.eq(self.requests & members)]
        m.d.comb += [
            behind.eq(candidates & behinds[level]),
            turn.eq(Mux(behind.any(), behind, candidates)),
            self.grant.eq(turn & -turn),
            self.valid.eq(turn.any()),
        ]
        for i in range(self.width):
            with m.If(self.grant[i]):
                m.d.comb += self.index.eq(i)
        with m.If(self.accept & self.valid):
            m.d.sync += behinds[level].eq(~(self.grant | (self.grant - 1)))
        return m
