"""Amaranth's corners: registers, clocks, resets and messages, on each engine."""

import pytest
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Print, Signal, signed

from .clocked import clocked, pulse, run

pytestmark = pytest.mark.usefixtures("engine")


def test_registers_begin_with_their_initial_value_and_return_to_it():
    m, sync = clocked()
    kept, lost = Signal(signed(100), init=-77, reset_less=True), Signal(100, init=77)
    m.d.sync += [kept.eq(kept + 1), lost.eq(lost + 1)]

    async def bench(ctx):
        assert (ctx.get(kept), ctx.get(lost)) == (-77, 77)
        await pulse(ctx, sync)
        assert (ctx.get(kept), ctx.get(lost)) == (-76, 78)
        ctx.set(sync.rst, 1)
        assert (ctx.get(kept), ctx.get(lost)) == (-76, 78)
        await pulse(ctx, sync)
        assert (ctx.get(kept), ctx.get(lost)) == (-75, 77)

    run(m, bench)


def test_an_asynchronous_reset_acts_when_it_rises_and_at_each_edge():
    m, sync = clocked("sync", async_reset=True)
    count = Signal(8, init=3)
    m.d.sync += count.eq(count + 1)

    async def bench(ctx):
        await pulse(ctx, sync)
        assert ctx.get(count) == 4
        ctx.set(sync.rst, 1)
        assert ctx.get(count) == 3
        await pulse(ctx, sync)
        assert ctx.get(count) == 3
        ctx.set(sync.rst, 0)
        assert ctx.get(count) == 3
        await pulse(ctx, sync)
        assert ctx.get(count) == 4
        ctx.set(Cat(sync.clk, sync.rst), 0b11)
        assert ctx.get(count) == 3
        ctx.set(Cat(sync.clk, sync.rst), 0b00)
        ctx.set(Cat(sync.clk, sync.rst), 0b01)
        assert ctx.get(count) == 4

    run(m, bench)


def test_a_register_that_is_set_takes_its_next_value_again():
    m, sync = clocked()
    register, wide, source = Signal(8), Signal(130), Signal(130)
    m.d.sync += [register.eq(source), wide.eq(source)]

    async def bench(ctx):
        ctx.set(source, 5)
        await pulse(ctx, sync)
        ctx.set(register, 1)
        ctx.set(wide, 1 << 129)
        assert (ctx.get(register), ctx.get(wide)) == (1, 1 << 129)
        await pulse(ctx, sync)
        assert (ctx.get(register), ctx.get(wide)) == (5, 5)

    run(m, bench)


def test_registers_of_both_edges_and_of_two_clocks_take_what_was_before():
    m = Module()
    rising, falling = ClockDomain("rising"), ClockDomain("falling", clk_edge="neg")
    m.domains += [rising, falling]
    one, two = Signal(8, init=1), Signal(8, init=2)
    m.d.rising += one.eq(two)
    m.d.falling += two.eq(one)

    async def bench(ctx):
        ctx.set(falling.clk, 1)
        ctx.set(Cat(rising.clk, falling.clk), 0b01)
        assert (ctx.get(one), ctx.get(two)) == (2, 1)
        ctx.set(Cat(rising.clk, falling.clk), 0b10)
        assert (ctx.get(one), ctx.get(two)) == (2, 1)

    run(m, bench)


def test_a_register_is_a_clock_and_its_domain_sees_what_changed_with_it():
    m, sync = clocked()
    slow = ClockDomain(reset_less=True)
    m.domains += slow
    count, copy = Signal(8), Signal(8)
    m.d.sync += [count.eq(count + 1), slow.clk.eq(~slow.clk)]
    m.d.slow += copy.eq(count)

    async def bench(ctx):
        seen = []
        for _ in range(5):
            await pulse(ctx, sync)
            seen.append(ctx.get(copy))
        assert seen == [1, 1, 3, 3, 5]

    run(m, bench)


def test_the_level_of_a_clock_can_be_read():
    m, sync = clocked()
    level, inverse = Signal(), Signal()
    m.d.comb += inverse.eq(~ClockSignal())
    m.d.sync += level.eq(ClockSignal())

    async def bench(ctx):
        assert (ctx.get(level), ctx.get(inverse)) == (0, 1)
        ctx.set(sync.clk, 1)
        assert (ctx.get(level), ctx.get(inverse)) == (1, 0)

    run(m, bench)


def test_a_register_follows_its_unchanged_input_again_after_a_reset():
    for asynchronous in (False, True):
        m, sync = clocked("sync", async_reset=asynchronous)
        register, wide, source = Signal(8), Signal(130), Signal(130)
        m.d.sync += [register.eq(source), wide.eq(source)]

        async def bench(ctx, sync=sync, source=source, register=register, wide=wide):
            ctx.set(source, 5)
            await pulse(ctx, sync)
            ctx.set(sync.rst, 1)
            await pulse(ctx, sync)
            assert (ctx.get(register), ctx.get(wide)) == (0, 0)
            ctx.set(sync.rst, 0)
            await pulse(ctx, sync)
            assert (ctx.get(register), ctx.get(wide)) == (5, 5)

        run(m, bench)


def test_what_is_printed_without_a_condition_is_printed_at_each_edge_in_order(capsys):
    m, sync = clocked()
    count = Signal(2)
    m.d.sync += [count.eq(count + 1), Print("a", end="")]
    with m.If(count[1]):
        m.d.sync += Print("b", end="")
    m.d.sync += Print("c", end="")
    with m.If(count[0]):
        m.d.sync += Print("d", end="")
    m.d.sync += Print("e")

    async def bench(ctx):
        for _ in range(4):
            await pulse(ctx, sync)

    run(m, bench)
    assert capsys.readouterr().out == "ace\nacde\nabce\nabcde\n"
