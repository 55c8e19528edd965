"""Post-processing of sums: bias, requantisation, clamping."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..layout import struct
from ..regs.instruction import ChannelRecord, OutputFormat

__all__ = ["REQUANTISE_LATENCY", "Processing", "Requantise", "channel_table"]

REQUANTISE_LATENCY = 4
"""Cycles from a row of sums to its bytes."""


class Processing(data.Struct):
    """How a row is processed, as STORE says; it travels with the row.

    columns: how many are stored. tag: which STORE it is; only passed on.
    """

    output: OutputFormat
    bias: 1
    zero_point: signed(8)
    low: signed(8)
    high: signed(8)
    columns: 8
    tag: 2


def channel_table(config):
    """A `ChannelRecord` for each column."""
    return data.ArrayLayout(struct(ChannelRecord), config.columns)


class Requantise(wiring.Component):
    """Processes one row in each cycle.

    INT32: sum + bias, modulo 2^32. INT8: clamp(zero_point + round((sum + bias) × multiplier ÷
    2^shift), low, high), rounded half to even. The intermediates have 33, 64 and 65 bits, so
    that nothing wraps. Without `bias` the bias is 0.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    i: {valid, processing, lanes: an int32 for each column}; always taken.
    table: constants of the channels; stable while a row is inside.
    o: {valid, processing, bytes, overflow}, `REQUANTISE_LATENCY` cycles later. Column c is byte
        c as INT8, bytes 4c … 4c + 3 as INT32. `overflow`: an INT32 that is stored wrapped.
    busy: a row is inside.
    clear: forgets the rows inside.
    """

    def __init__(self, config):
        self.config = config
        lanes = data.ArrayLayout(signed(32), config.columns)
        super().__init__({
            "i": In(data.StructLayout({"valid": 1, "processing": Processing, "lanes": lanes})),
            "table": In(channel_table(config)),
            "o": Out(data.StructLayout(
                {"valid": 1, "processing": Processing, "bytes": 32 * config.columns,
                 "overflow": 1})),
            "busy": Out(1),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        valids = Signal(REQUANTISE_LATENCY)
        stages = [Signal(Processing, name=f"processing_{k}") for k in range(REQUANTISE_LATENCY)]
        m.d.sync += valids.eq(Cat(self.i.valid, valids))
        with m.If(self.clear):
            m.d.sync += valids.eq(0)
        with m.If(self.i.valid | self.busy):
            m.d.sync += Cat(stages).eq(Cat(self.i.processing, stages))
        m.d.comb += [
            self.busy.eq(valids.any()),
            self.o.valid.eq(valids[-1]),
            self.o.processing.eq(stages[-1]),
        ]
        bytes8, words32, wraps = [], [], []
        for c in range(self.config.columns):
            result, wrapped = self._channel(m, c, valids, stages)
            bytes8.append(result[:8])
            words32.append(result)
            wraps.append(wrapped)
        overflow = Signal()
        with m.If(valids[2]):
            m.d.sync += overflow.eq(Cat(wraps).any())
        m.d.comb += self.o.overflow.eq(overflow)
        m.d.comb += self.o.bytes.eq(
            Mux(stages[-1].output == OutputFormat.INT8, Cat(bytes8), Cat(words32))
        )
        return m

    def _channel(self, m, c, valids, stages):
        """One column: a 32-bit result, and in the cycle before it whether it wraps.

        INT32 goes the same way, scaled by 1.
        """
        channel = self.table[c]
        total = Signal(signed(33), name=f"total_{c}")
        product = Signal(signed(64), name=f"product_{c}")
        quotient = Signal(signed(65), name=f"quotient_{c}")
        result = Signal(32, name=f"result_{c}")

        multiplier = Signal(31, name=f"multiplier_{c}")
        scales = stages[0].output == OutputFormat.INT8
        m.d.comb += multiplier.eq(Mux(scales, channel.multiplier, 1))

        # Just below one half, and one more where the half must round up to an even quotient.
        shift = Signal(6, name=f"shift_{c}")
        below_half = Signal(63, name=f"below_half_{c}")
        odd = product.bit_select(shift, 1) & (shift != 0)
        m.d.comb += [
            shift.eq(Mux(stages[1].output == OutputFormat.INT8, channel.shift, 0)),
            below_half.eq(((1 << shift) - 1) >> 1),
        ]

        scaled = Signal(signed(66), name=f"scaled_{c}")
        last = stages[2]
        wrapped = Signal(name=f"wrapped_{c}")
        m.d.comb += [
            scaled.eq(quotient + last.zero_point),
            wrapped.eq(
                (last.output == OutputFormat.INT32)
                & (c < last.columns)
                & (quotient[32] != quotient[31])
            ),
        ]
        with m.If(self.i.valid):
            bias = Mux(self.i.processing.bias, channel.bias, 0)
            m.d.sync += total.eq(self.i.lanes[c] + bias)
        with m.If(valids[0]):
            m.d.sync += product.eq(total * multiplier)
        with m.If(valids[1]):
            m.d.sync += quotient.eq((product + below_half + odd) >> shift)
        with m.If(valids[2]):
            with m.If(last.output == OutputFormat.INT32):
                m.d.sync += result.eq(quotient)
            with m.Elif(scaled < last.low):
                m.d.sync += result.eq(last.low)
            with m.Elif(scaled > last.high):
                m.d.sync += result.eq(last.high)
            with m.Else():
                m.d.sync += result.eq(scaled)
        return result, wrapped
