"""Cuts a burst into the beats of the bus."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BeatSplitter", "span_layout"]


def span_layout(burst_bytes):
    """The first and the last byte of a burst, within its aligned block of `burst_bytes`."""
    return data.StructLayout({"first": range(burst_bytes), "last": range(burst_bytes)})


class BeatSplitter(wiring.Component):
    """Says of each beat of a burst which byte lanes belong to it.

    Parameters
    ----------
    data_bytes: bytes of a beat, a power of two, at least 2.
    burst_bytes: power of two above `data_bytes`; no burst crosses a multiple of it.

    Members
    -------
    i: bursts; constant from `valid` until taken, which is together with the last beat.
    o: beats, combinationally (0 cycles): `count` bytes from lane `offset` on; `position` is the
        address of lane `offset` within the block; `first` and `last` mark the burst's ends.
    clear: the next beat is the first of a burst.
    """

    def __init__(self, data_bytes, burst_bytes):
        self.lane_bits = (data_bytes - 1).bit_length()
        self.data_bytes = data_bytes
        self.burst_bytes = burst_bytes
        super().__init__({
            "i": In(stream.Signature(span_layout(burst_bytes))),
            "o": Out(stream.Signature(data.StructLayout({
                "offset": range(data_bytes), "count": range(data_bytes + 1),
                "position": range(burst_bytes), "first": 1, "last": 1,
            }))),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        begun = Signal()
        following = Signal(range(self.burst_bytes // self.data_bytes))
        beat = Signal.like(following)
        first, last = self.i.p.first, self.i.p.last
        end = Signal(range(self.data_bytes))
        m.d.comb += [
            beat.eq(Mux(begun, following, first[self.lane_bits :])),
            self.o.valid.eq(self.i.valid),
            self.o.p.first.eq(~begun),
            self.o.p.last.eq(beat == last[self.lane_bits :]),
            self.o.p.offset.eq(Mux(begun, 0, first[: self.lane_bits])),
            self.o.p.position.eq((beat << self.lane_bits) | self.o.p.offset),
            end.eq(Mux(self.o.p.last, last[: self.lane_bits], self.data_bytes - 1)),
            self.o.p.count.eq(end - self.o.p.offset + 1),
            self.i.ready.eq(self.o.ready & self.o.p.last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [begun.eq(~self.o.p.last), following.eq(beat + 1)]
        with m.If(self.clear):
            m.d.sync += begun.eq(0)
        return m
