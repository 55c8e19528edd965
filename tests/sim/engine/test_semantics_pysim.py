"""Where Amaranth's simulator is not right, and compiled designs follow the netlist."""

import pytest
from amaranth.hdl import ClockDomain, Module, Signal

from tests import simulation

from .clocked import clocked, memory, pulse, run

pytestmark = pytest.mark.usefixtures("engine")


def test_of_what_is_inverted_or_cast_pysim_selects_other_bits_beyond_the_end():
    m = Module()
    source, index = Signal(8), Signal(8)
    values = [each.bit_select(index, 4) for each in (~source, source.as_signed(), source)]
    outputs = [Signal(4) for _ in values]
    m.d.comb += [output.eq(value) for output, value in zip(outputs, values, strict=True)]

    async def bench(ctx):
        ctx.set(source, 0x80)
        ctx.set(index, 6)
        right = [0b0001, 0b1110, 0b0010]
        pysim = [0b1101, 0b0010, 0b0010]
        found = [ctx.get(output) for output in outputs]
        assert found == (pysim if simulation.engine == "pysim" else right)

    run(m, bench)


def test_pysim_takes_a_rising_asynchronous_reset_for_an_edge_where_nothing_is_reset():
    m, sync = clocked("sync", async_reset=True)
    count = Signal(8, reset_less=True)
    m.d.sync += count.eq(count + 1)
    rows, write, _ = memory(m, init=[1])

    async def bench(ctx):
        ctx.set(write.data, 9)
        ctx.set(write.en, 1)
        ctx.set(sync.rst, 1)
        found = ctx.get(count), ctx.get(rows.data[0])
        assert found == ((1, 9) if simulation.engine == "pysim" else (0, 1))

    run(m, bench)


def test_a_copy_of_a_clock_is_the_same_clock_though_one_delta_cycle_late_on_pysim():
    m, sync = clocked()
    copy = ClockDomain(reset_less=True)
    m.domains += copy
    count, seen = Signal(8), Signal(8)
    m.d.comb += copy.clk.eq(sync.clk)
    m.d.sync += count.eq(count + 1)
    m.d.copy += seen.eq(count)

    async def bench(ctx):
        await pulse(ctx, sync)
        assert ctx.get(seen) == (1 if simulation.engine == "pysim" else 0)

    run(m, bench)


def test_logic_between_a_clock_and_its_gateware_made_clock_is_settled_but_not_yet_on_pysim():
    m, sync = clocked()
    slow = ClockDomain("slow", reset_less=True)
    m.domains += slow
    count, later, seen = Signal(8), Signal(8), Signal(8)
    m.d.comb += later.eq(count + 100)
    m.d.sync += [count.eq(count + 1), slow.clk.eq(~slow.clk)]
    m.d.slow += seen.eq(later)

    async def bench(ctx):
        await pulse(ctx, sync)
        assert ctx.get(seen) == (100 if simulation.engine == "pysim" else 101)

    run(m, bench)
