"""Joins and cuts pieces of a byte stream: what aligns any source to any destination."""

from amaranth import Assert, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ByteFunnel", "piece_layout"]


def piece_layout(width):
    """`count` bytes from byte lane `offset` on, of `width` lanes."""
    return data.StructLayout(
        {"data": width * 8, "offset": range(width), "count": range(width + 1)}
    )


class ByteFunnel(wiring.Component):
    """A short byte queue that takes pieces of any size and gives any number of bytes at once.

    Sustains one full piece in and one full word out each cycle.

    Parameters
    ----------
    i_bytes: lanes of the input.
    o_bytes: lanes of the output.

    Members
    -------
    i: pieces; ready while there is room for a full one, whatever is popped.
    level: bytes in the queue.
    data: the oldest `o_bytes` of them, the oldest in lane 0; lanes from `level` on are zero.
    pop: how many bytes leave at the end of this cycle; at most `level` and `o_bytes`.
    clear: empties the queue.
    """

    def __init__(self, i_bytes, o_bytes):
        self.i_bytes = i_bytes
        self.o_bytes = o_bytes
        self.capacity = i_bytes + 2 * o_bytes
        super().__init__({
            "i": In(stream.Signature(piece_layout(i_bytes))),
            "level": Out(range(self.capacity + 1)),
            "data": Out(o_bytes * 8),
            "pop": In(range(o_bytes + 1)),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        queue = Signal(self.capacity * 8)
        kept = Signal(range(self.capacity + 1))
        shifted = Signal(self.capacity * 8)
        piece = Signal(self.i_bytes * 8)
        mask = Signal(self.i_bytes * 8)
        m.d.comb += [
            self.data.eq(queue),
            self.i.ready.eq(self.level <= self.capacity - self.i_bytes),
            kept.eq(self.level - self.pop),
            shifted.eq(queue >> (self.pop << 3)),
            piece.eq(self.i.p.data >> (self.i.p.offset << 3)),
        ]
        for lane in range(self.i_bytes):
            m.d.comb += mask[lane * 8 : lane * 8 + 8].eq((lane < self.i.p.count).replicate(8))
        m.d.sync += Assert(self.pop <= self.level, "more bytes leave than there are")
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                queue.eq(shifted | ((piece & mask) << (kept << 3))),
                self.level.eq(kept + self.i.p.count),
            ]
        with m.Else():
            m.d.sync += [queue.eq(shifted), self.level.eq(kept)]
        with m.If(self.clear):
            m.d.sync += [queue.eq(0), self.level.eq(0)]
        return m
