"""Performance counters: what happened, how often, and between which cycles."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .interface import DELTAS
from .regs.pmu import PmuEvent
from .regs.registers import PmuValue

__all__ = ["AMOUNT_BITS", "Pmu", "event_codes"]

AMOUNT_BITS = 17
"""Bits of what one event may add in a cycle."""


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
    a snapshot in cycle t covers all cycles before t, and the difference of two covers the cycles
    from the first up to, not including, the second.

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
    clear: pulse; the counters are zero in the next cycle. What happens in the cycle of the pulse
        is lost.
    snapshot: pulse in cycle t: from t + 1 on `values` are the counters and `snapshot_cycle` is
        the cycle counter, all as they were in t. Together with `clear` it still sees the sums.
    selects: event of each counter.
    selected: pulse; clears that counter, whatever it counts.
    values, snapshot_cycle: last snapshot.
    starts, ends: pulses for each engine. A task lasts from the last start to the last end behind
        it, both cycles included; without an end, it goes on.
    deltas: for each engine, what each counter has added in the task's cycles up to and with this
        one, modulo 2^32; combinational, so whole in the very cycle of the end. A clear while the
        task lasts forgets what came before; later ones change nothing.
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
            "starts": In(engines),
            "ends": In(engines),
            "deltas": Out(data.ArrayLayout(DELTAS, engines)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        numbers = range(self.config.counters)
        counters = [Signal(self.value_bits, name=f"counter{n}") for n in numbers]

        m.d.sync += self.cycle.eq(self.cycle + 1)
        with m.If(self.snapshot):
            m.d.sync += self.snapshot_cycle.eq(self.cycle)
            m.d.sync += [self.values[n].eq(counters[n]) for n in numbers]

        amounts = [self._count(m, n, counter) for n, counter in enumerate(counters)]
        for engine in range(len(self.config.engines)):
            self._measure(m, engine, counters, amounts)
        return m

    def _count(self, m, number, counter):
        """Adds up in one counter; returns what it adds in this cycle."""
        select = self.selects[number]
        added = Signal(AMOUNT_BITS, name=f"added{number}")
        with m.If(self.enable & (select != PmuEvent.NONE)), m.Switch(select):
            for code in event_codes(self.config):
                with m.Case(code):
                    m.d.comb += added.eq(1 if code == PmuEvent.CYCLES else self.amounts[code])
        with m.If(self.clear | self.selected[number]):
            m.d.sync += counter.eq(0)
        with m.Elif(added != 0):
            m.d.sync += counter.eq(counter + added)
        return added

    def _measure(self, m, engine, counters, amounts):
        """Differences of one engine's task: of where the counters stood, or as they were kept."""
        mark = Signal(DELTAS, name=f"mark{engine}")
        kept = Signal(DELTAS, name=f"kept{engine}")
        over = Signal(name=f"over{engine}")
        starts, ends, delta = self.starts[engine], self.ends[engine], self.deltas[engine]
        with m.If(ends):
            m.d.sync += [kept.eq(delta), over.eq(1)]
        with m.Elif(starts):
            m.d.sync += over.eq(0)
        for n, (counter, added) in enumerate(zip(counters, amounts, strict=True)):
            with m.If(over & ~starts & ~ends):
                m.d.comb += delta[n].eq(kept[n])
            with m.Elif(starts):
                m.d.comb += delta[n].eq(added)
            with m.Else():
                m.d.comb += delta[n].eq(counter + added - mark[n])
            with m.If(self.clear | self.selected[n]):
                m.d.sync += mark[n].eq(0)
            with m.Elif(starts):
                m.d.sync += mark[n].eq(counter)
