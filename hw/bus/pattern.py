"""Turns rows of bytes into bursts."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS

__all__ = ["BurstGenerator", "Chunk", "Pattern"]


class Pattern(data.Struct):
    """`rows` rows of `row_bytes` bytes, the first at `address`, `pitch` bytes apart; none is 0."""

    address: ADDRESS_BITS
    pitch: 32
    row_bytes: 32
    rows: 32
    context: 4


class Chunk(data.Struct):
    """A burst of a pattern: a `BurstRequest` that knows where it stands."""

    address: ADDRESS_BITS
    bytes: 13
    context: 4
    last_of_row: 1
    last: 1


class BurstGenerator(wiring.Component):
    """Cuts the rows of a pattern at the borders of `burst_bytes`, one burst a cycle.

    Parameters
    ----------
    burst_bytes: power of two; no chunk crosses a multiple of it.

    Members
    -------
    i: patterns; the next is taken together with the last chunk of the one before.
    o: chunks. The first is valid one cycle after its pattern was taken.
    clear: forgets the pattern in work.
    """

    def __init__(self, burst_bytes):
        self.burst_bytes = burst_bytes
        super().__init__({
            "i": In(stream.Signature(Pattern)),
            "o": Out(stream.Signature(Chunk)),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        active = Signal()
        row = Signal(ADDRESS_BITS)
        pitch = Signal(32)
        row_bytes = Signal(32)
        left = Signal(32)
        rows_left = Signal(32)
        address = Signal(ADDRESS_BITS)
        context = Signal(4)

        room = Signal(range(self.burst_bytes + 1))
        position = address[: (self.burst_bytes - 1).bit_length()]
        next_row = Signal(ADDRESS_BITS)
        m.d.comb += [
            room.eq(self.burst_bytes - position),
            next_row.eq(row + pitch),
            self.o.valid.eq(active),
            self.o.p.address.eq(address),
            self.o.p.bytes.eq(Mux(left < room, left, room)),
            self.o.p.context.eq(context),
            self.o.p.last_of_row.eq(left <= room),
            self.o.p.last.eq(self.o.p.last_of_row & (rows_left == 1)),
            self.i.ready.eq(~active | (self.o.ready & self.o.p.last)),
        ]
        with m.If(self.o.valid & self.o.ready):
            with m.If(self.o.p.last):
                m.d.sync += active.eq(0)
            with m.Elif(self.o.p.last_of_row):
                m.d.sync += [
                    row.eq(next_row),
                    address.eq(next_row),
                    left.eq(row_bytes),
                    rows_left.eq(rows_left - 1),
                ]
            with m.Else():
                m.d.sync += [address.eq(address + room), left.eq(left - room)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                active.eq(1),
                row.eq(self.i.p.address),
                address.eq(self.i.p.address),
                pitch.eq(self.i.p.pitch),
                row_bytes.eq(self.i.p.row_bytes),
                left.eq(self.i.p.row_bytes),
                rows_left.eq(self.i.p.rows),
                context.eq(self.i.p.context),
            ]
        with m.If(self.clear):
            m.d.sync += active.eq(0)
        return m
