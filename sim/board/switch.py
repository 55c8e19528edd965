"""Splits one AXI4 bus between device memory and host memory."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Signature
from hw.bus.order import WriteOrder
from hw.config import HOST_BASE

__all__ = ["Switch"]

SIDE_BIT = HOST_BASE.bit_length() - 1
"""Address bit that tells host memory from device memory."""


class Switch(wiring.Component):
    """Routes bursts by bit 39 of their address to `lower` or `upper`.

    Adds no cycle. The two sides work in parallel: beats of bursts with different IDs may be
    interleaved on the bus. A burst waits while answers of the same ID are outstanding on the
    other side, so that answers of one ID keep their order. Write data goes to its side from the
    cycle after its address was first offered.

    Parameters
    ----------
    data_bytes, id_bits: of the bus.
    outstanding: write bursts whose address was offered, and whose data has not passed yet.

    Members
    -------
    bus: from the manager. lower, upper: to the memories.
    """

    def __init__(self, *, data_bytes, id_bits, outstanding=64):
        self.id_bits = id_bits
        self.outstanding = outstanding
        signature = Signature(data_bytes=data_bytes, id_bits=id_bits)
        super().__init__({"bus": In(signature), "lower": Out(signature), "upper": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        bus, lower, upper = self.bus, self.lower, self.upper
        m.submodules.order = order = WriteOrder(bus.aw.p.shape(), 2, self.outstanding)

        self._address(m, "read", bus.ar, lower.ar, upper.ar, bus.r, bus.r.p.last)
        self._address(m, "write", order.o, lower.aw, upper.aw, bus.b, 1)
        self._answer(m, "read", bus.r, lower.r, upper.r)
        self._answer(m, "write", bus.b, lower.b, upper.b)

        turn, side = order.turns.valid, order.turns.p
        m.d.comb += [
            order.i.valid.eq(bus.aw.valid),
            order.i.p.address.eq(bus.aw.p),
            order.i.p.source.eq(bus.aw.p.addr[SIDE_BIT]),
            bus.aw.ready.eq(order.i.ready),
            lower.w.p.eq(bus.w.p),
            upper.w.p.eq(bus.w.p),
            lower.w.valid.eq(bus.w.valid & turn & ~side),
            upper.w.valid.eq(bus.w.valid & turn & side),
            bus.w.ready.eq(turn & Mux(side, upper.w.ready, lower.w.ready)),
            order.turns.ready.eq(bus.w.valid & bus.w.ready & bus.w.p.last),
        ]
        return m

    def _address(self, m, name, bus, lower, upper, answer, last):
        """Routes an address channel and counts what is outstanding for each ID."""
        ids = range(1 << self.id_bits)
        counts = Array(Signal(8, name=f"{name}_outstanding{i}") for i in ids)
        sides = Array(Signal(name=f"{name}_side{i}") for i in ids)
        side = bus.p.addr[SIDE_BIT]
        free = Signal(name=f"{name}_free")
        count = counts[bus.p.id]
        m.d.comb += [
            free.eq((count == 0) | ((sides[bus.p.id] == side) & (count != 255))),
            lower.p.eq(bus.p),
            upper.p.eq(bus.p),
            lower.valid.eq(bus.valid & free & ~side),
            upper.valid.eq(bus.valid & free & side),
            bus.ready.eq(free & Mux(side, upper.ready, lower.ready)),
        ]
        taken = bus.valid & bus.ready
        answered = answer.valid & answer.ready & last
        with m.If(taken):
            m.d.sync += sides[bus.p.id].eq(side)
        with m.If(taken & ~(answered & (answer.p.id == bus.p.id))):
            m.d.sync += count.eq(count + 1)
        with m.If(answered & ~(taken & (answer.p.id == bus.p.id))):
            m.d.sync += counts[answer.p.id].eq(counts[answer.p.id] - 1)

    def _answer(self, m, name, bus, lower, upper):
        """Merges two answer channels in turns; what waits for `ready` stays."""
        turn = Signal(name=f"{name}_turn")
        held = Signal(name=f"{name}_held")
        choice = Signal(name=f"{name}_choice")
        m.d.comb += [
            choice.eq(Mux(held, turn, Mux(turn, ~lower.valid, upper.valid))),
            bus.valid.eq(lower.valid | upper.valid),
            bus.p.eq(Mux(choice, upper.p, lower.p)),
            lower.ready.eq(bus.ready & ~choice),
            upper.ready.eq(bus.ready & choice),
        ]
        m.d.sync += held.eq(bus.valid & ~bus.ready)
        with m.If(bus.valid):
            m.d.sync += turn.eq(choice)
