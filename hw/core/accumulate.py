"""Adds the sums of the array to the accumulators."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .array import latency, sum_row
from .memory import READ_LATENCY
from .operation import LocalRead, LocalWrite

__all__ = ["Accumulate", "accumulate_row", "accumulate_latency"]


def accumulate_latency(config):
    """Cycles from reading an activation row in the scratchpad to writing its sums."""
    return READ_LATENCY + latency(config)


def accumulate_row(config):
    """Where the sums of an activation row go.

    accumulate: add to the sums that are there; 0: replace them.
    signal: it is the last of an operation that gives a token then.
    tag: which operation it belongs to.
    """
    return data.StructLayout({
        "address": range(config.accumulator_rows), "accumulate": 1, "signal": 1,
        "tag": range(accumulate_latency(config) + 2),
    })  # fmt: skip


class Accumulate(wiring.Component):
    """Carries the destination of each row along the array, and writes the sums there.

    A row announced in cycle t (valid) has its sums at `sums` in cycle t + `accumulate_latency`
    and is written in that cycle. It sees rows announced up to t − 3: the unit keeps a distance
    of three cycles between rows that go to one place.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    valid, row: an activation row is being read, and its `accumulate_row`.
    sums: from the array.
    read, write: the accumulators.
    written: what is written in this cycle; `signal` and `tag` are zero when nothing is.
    overflow: a sum that is written in this cycle wrapped.
    busy: a row is on its way.
    clear: forgets the rows on their way.
    """

    def __init__(self, config):
        self.config = config
        width = config.columns * 32
        super().__init__({
            "valid": In(1),
            "row": In(accumulate_row(config)),
            "sums": In(sum_row(config)),
            "read": Out(LocalRead(config.accumulator_rows, width)),
            "write": Out(LocalWrite(config.accumulator_rows, width)),
            "written": Out(accumulate_row(config)),
            "overflow": Out(1),
            "busy": Out(1),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        layout = accumulate_row(self.config)
        depth = accumulate_latency(self.config)
        valids = Signal(depth)
        rows = Signal(data.ArrayLayout(layout, depth))
        m.d.comb += self.busy.eq(valids.any())
        with m.If(self.valid | self.busy):
            m.d.sync += [
                valids.eq(Cat(self.valid, valids)),
                rows.eq(Cat(self.row, rows)),
            ]
        with m.If(self.clear):
            m.d.sync += valids.eq(0)

        reading = rows[depth - READ_LATENCY - 1]
        writing = rows[depth - 1]
        m.d.comb += [
            self.read.enable.eq(valids[depth - READ_LATENCY - 1] & reading.accumulate),
            self.read.address.eq(reading.address),
            self.write.enable.eq(valids[-1]),
            self.write.address.eq(writing.address),
        ]
        with m.If(valids[-1]):
            m.d.comb += self.written.eq(writing)

        old = data.View(data.ArrayLayout(signed(32), self.config.columns), self.read.data)
        new = data.View(old.shape(), self.write.data)
        wrapped = Signal(self.config.columns)
        for c in range(self.config.columns):
            total = Signal(signed(33), name=f"total_{c}")
            m.d.comb += [
                total.eq(self.sums.lanes[c] + Mux(writing.accumulate, old[c], 0)),
                new[c].eq(total),
                wrapped[c].eq(total[32] != total[31]),
            ]
        m.d.comb += self.overflow.eq(valids[-1] & wrapped.any())
        return m
