"""Performance counters: what happened, how often, and between which cycles."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .regs.pmu import PmuEvent
from .regs.registers import PmuValue

__all__ = ["AMOUNT_BITS", "DELTA_BITS", "Pmu", "event_codes"]

AMOUNT_BITS = 17
"""Bits of what one event may add in a cycle."""
DELTA_BITS = 32
"""Bits of a difference between two readings of a counter."""


def event_codes(config):
    """Codes of everything that can be counted on a device of that configuration."""
    special = (PmuEvent.NONE, PmuEvent.STREAM_WAIT)
    return [
        *(event.value for event in PmuEvent if event not in special),
        *(PmuEvent.STREAM_WAIT + stream for stream in range(config.streams)),
    ]


class Pmu(wiring.Component):
    """The cycle counter and eight counters of 48 bits, each adding up one selected event.

    While counting is enabled, the amounts of cycle t are in the counters from cycle t + 1 on. So
    a counter that is looked at in cycle t covers all cycles before t; a snapshot or a mark in
    cycle t is such a look, the difference of two covers the cycles from the first up to, not
    including, the second.

    A counter whose event is NONE, or a code without meaning, stands still.

    Parameters
    ----------
    config: streams and engines.

    Members
    -------
    cycle: cycles since reset: 0 in the first.
    amounts: what each event adds in this cycle, indexed by its code. CYCLES is counted by the
        PMU itself; the inputs of codes without meaning are ignored.
    enable: count.
    clear: pulse; the counters and marks are zero in the next cycle. What happens in the cycle of
        the pulse is lost.
    snapshot: pulse in cycle t: from t + 1 on `values` are the counters and `snapshot_cycle` is
        the cycle counter, all as they were in t. Together with `clear` it still sees the sums.
    selects: event of each counter.
    selected: pulse; the counter and its marks are zero in the next cycle, whatever it counts.
    values, snapshot_cycle: last snapshot.
    marks: pulse for an engine: remembers where the counters stand, as its task begins.
    deltas: for each engine, what each counter has added since the mark, modulo 2^32;
        combinational. Since the last clear, if that was later.
    """

    def __init__(self, config):
        self.config = config
        engines = len(config.engines)
        self.value_bits = PmuValue.value.width
        super().__init__({
            "cycle": Out(64),
            "amounts": In(AMOUNT_BITS).array(PmuEvent.STREAM_WAIT + config.streams),
            "enable": In(1),
            "clear": In(1),
            "snapshot": In(1),
            "selects": In(8).array(config.counters),
            "selected": In(1).array(config.counters),
            "values": Out(self.value_bits).array(config.counters),
            "snapshot_cycle": Out(64),
            "marks": In(engines),
            "deltas": Out(data.ArrayLayout(data.ArrayLayout(DELTA_BITS, config.counters), engines)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        numbers = range(self.config.counters)
        counters = [Signal(self.value_bits, name=f"counter{n}") for n in numbers]

        m.d.sync += self.cycle.eq(self.cycle + 1)
        with m.If(self.snapshot):
            m.d.sync += self.snapshot_cycle.eq(self.cycle)
            m.d.sync += [self.values[n].eq(counters[n]) for n in numbers]

        for counter, select, selected in zip(counters, self.selects, self.selected, strict=True):
            with m.If(self.clear | selected):
                m.d.sync += counter.eq(0)
            with m.Elif(self.enable & (select != PmuEvent.NONE)), m.Switch(select):
                for code in event_codes(self.config):
                    amount = 1 if code == PmuEvent.CYCLES else self.amounts[code]
                    with m.Case(code):
                        m.d.sync += counter.eq(counter + amount)

        for engine in range(len(self.config.engines)):
            mark = Signal(data.ArrayLayout(DELTA_BITS, self.config.counters), name=f"mark{engine}")
            with m.If(self.marks[engine]):
                m.d.sync += [mark[n].eq(counters[n]) for n in numbers]
            for n in numbers:
                with m.If(self.clear | self.selected[n]):
                    m.d.sync += mark[n].eq(0)
            m.d.comb += self.deltas[engine].eq(
                Cat((counters[n] - mark[n])[:DELTA_BITS] for n in numbers)
            )
        return m
