"""Puts write data into the order of its addresses, without waiting for them to be taken."""

from amaranth import Module, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["WriteOrder"]


class WriteOrder(wiring.Component):
    """Passes AW and notes whose data comes next on W.

    AXI4 forbids a manager to hold WVALID back until AWREADY: some subordinates take an address
    only when they see its data. So a source has its turn from the cycle after its address was
    first offered, whether that was taken or not.

    ::

        cycle          0    1    2    3    4
        i.valid       _/‾‾‾‾‾‾‾‾‾‾‾‾‾‾\\____
        o.valid       _/‾‾‾‾‾‾‾‾‾‾‾‾‾‾\\____
        o.ready       ___________/‾‾‾‾\\____
        turns.valid   ______/‾‾‾‾‾‾‾‾‾‾‾‾‾‾      until the turn is over

    Parameters
    ----------
    address: payload of AW. sources: how many there are. depth: turns that may be open.

    Members
    -------
    i: addresses, each with its source; stable from `valid` until taken.
    o: the same addresses, 0 cycles later; held back while `depth` turns are open.
    turns: source whose burst is next on W; to be taken with the last beat.
    """

    def __init__(self, address, sources, depth):
        self.sources = sources
        self.depth = depth
        super().__init__({
            "i": In(stream.Signature(
                data.StructLayout({"address": address, "source": range(sources)}))),
            "o": Out(stream.Signature(address)),
            "turns": Out(stream.Signature(range(sources))),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFO(width=len(self.turns.p), depth=self.depth)
        noted = Signal()  # the address that is offered has its turn already
        passes = Signal()
        m.d.comb += [
            passes.eq(noted | queue.w_rdy),
            self.o.valid.eq(self.i.valid & passes),
            self.o.p.eq(self.i.p.address),
            self.i.ready.eq(self.o.ready & passes),
            queue.w_en.eq(self.i.valid & ~noted),
            queue.w_data.eq(self.i.p.source),
            self.turns.valid.eq(queue.r_rdy),
            self.turns.p.eq(queue.r_data),
            queue.r_en.eq(self.turns.ready),
        ]
        m.d.sync += noted.eq(self.o.valid & ~self.o.ready)
        return m
