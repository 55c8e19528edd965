"""Testbenches on Amaranth's simulator, with the same results on each engine."""


import pytest
from amaranth.hdl import (
    Array,
    Cat,
    DriverConflict,
    Module,
    Signal,
    signed,
)
from amaranth.lib import data, enum

from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def counter(domain=None, **options):
    """A module that counts the ticks of `sync`, and its counter."""
    m = Module()
    if domain is not None:
        m.domains.sync = domain
    count = Signal(8, **options)
    m.d.sync += count.eq(count + 1)
    return m, count


def test_a_register_takes_its_value_at_the_tick_and_shows_it_after_it():
    m, count = counter()
    seen = []

    async def bench(ctx):
        assert ctx.get(count) == 0
        for _ in range(3):
            _, _, before = await ctx.tick().sample(count)
            seen.append((before, ctx.get(count)))

    simulate(m, bench)
    assert seen == [(0, 1), (1, 2), (2, 3)]


def test_logic_follows_a_set_at_once():
    m = Module()
    a, b = Signal(8), Signal(8)
    total, carry = Signal(8), Signal()
    m.d.comb += Cat(total, carry).eq(a + b)

    async def bench(ctx):
        ctx.set(a, 200)
        assert (ctx.get(total), ctx.get(carry)) == (200, 0)
        ctx.set(b, 100)
        assert (ctx.get(total), ctx.get(carry)) == (44, 1)
        assert ctx.get(a + b) == 300
        assert ctx.get(a - b - 101) == -1

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_an_input_keeps_its_initial_value_until_it_is_set():
    m = Module()
    a, y = Signal(signed(4), init=-3), Signal(signed(6))
    m.d.comb += y.eq(a * 2)

    async def bench(ctx):
        assert ctx.get(a) == -3
        assert ctx.get(y) == -6
        ctx.set(a, 9)  # bits of -7
        assert ctx.get(a) == -7
        assert ctx.get(y) == -14

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_a_register_that_is_set_keeps_the_value_until_its_next_tick():
    m, count = counter()

    async def bench(ctx):
        await ctx.tick()
        ctx.set(count, 40)
        assert ctx.get(count) == 40
        await ctx.delay(0.2e-9)
        assert ctx.get(count) == 40
        await ctx.tick()
        assert ctx.get(count) == 41

    simulate(m, bench)


def test_a_register_follows_a_condition_that_another_module_makes():
    """The module that reads comes first, and has logic of its own."""
    m = Module()
    m.submodules.reader = reader = Module()
    m.submodules.source = source = Module()
    force, a, b = Signal(), Signal(8), Signal(8)
    count, empty = Signal(8, init=2), Signal()
    busy, product = Signal(init=1), Signal(16)
    source.d.comb += empty.eq(count == 0)
    source.d.sync += count.eq(count - 1)
    reader.d.comb += product.eq(a * b * (a + b))
    with reader.If(force | empty):
        reader.d.sync += busy.eq(force)
    seen = []

    async def bench(ctx):
        for _ in range(4):
            await ctx.tick()
            seen.append((ctx.get(count), ctx.get(empty), ctx.get(busy)))

    simulate(m, bench)
    assert seen == [(1, 0, 1), (0, 1, 1), (255, 0, 0), (254, 0, 0)]


def test_slices_concatenations_and_array_elements_can_be_set():
    m = Module()
    a, b, c = Signal(8), Signal(8), Signal(8)
    index = Signal(2)
    y = Signal(24)
    m.d.comb += y.eq(Cat(a, b, c))
    m.d.comb += Signal(2).eq(index)

    async def bench(ctx):
        ctx.set(a[2:6], 0xF)
        assert ctx.get(y) == 0x00003C
        ctx.set(Cat(b, c), 0x1234)
        assert ctx.get(y) == 0x12343C
        ctx.set(index, 2)
        ctx.set(Array([a, b, c])[index], 0x99)
        assert ctx.get(y) == 0x99343C
        ctx.set(b.word_select(index[1], 4), 0x7)
        assert ctx.get(y) == 0x99743C
        ctx.set(a.bit_select(6, 4), 0xF)  # two of the bits lie outside
        assert ctx.get(y) == 0x9974FC

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_bits_beside_a_register_can_be_set_while_it_ticks():
    m = Module()
    word, copy = Signal(8), Signal(8)
    m.d.sync += word[:4].eq(word[:4] + 1)
    m.d.comb += copy.eq(word)

    async def raise_the_others(ctx):
        async for *_, now in ctx.tick().sample(word):
            ctx.set(word[4:], now + 2)

    seen = []

    async def bench(ctx):
        for _ in range(3):
            await ctx.tick()
            await ctx.delay(0)
            seen.append(ctx.get(copy))

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_process(raise_the_others)
    sim.add_testbench(bench)
    sim.run()
    assert seen == [0x21, 0x32, 0x43]


def test_signals_that_only_testbenches_know_hold_values():
    m, count = counter()
    note = Signal(signed(5))

    async def writer(ctx):
        await ctx.tick().repeat(2)
        ctx.set(note, -4)

    async def reader(ctx):
        (value,) = await ctx.changed(note)
        assert value == -4
        assert ctx.get(count) == 2

    simulate(m, writer, reader)


def test_structures_and_enumerations_come_and_go_as_such():
    class Colour(enum.Enum, shape=2):
        RED = 1
        BLUE = 2

    class Pixel(data.Struct):
        colour: Colour
        level: signed(5)

    m = Module()
    i, o = Signal(Pixel), Signal(Pixel)
    m.d.sync += o.eq(i)

    async def bench(ctx):
        ctx.set(i, {"colour": Colour.BLUE, "level": -9})
        assert ctx.get(i.colour) is Colour.BLUE
        _, _, before = await ctx.tick().sample(o.level)
        assert before == 0
        assert ctx.get(o) == Pixel.const({"colour": Colour.BLUE, "level": -9})
        ctx.set(o.level, 3)
        assert ctx.get(o).level == 3
        assert ctx.get(o).colour is Colour.BLUE

    simulate(m, bench)


def test_what_the_design_drives_without_a_clock_cannot_be_set():
    m = Module()
    a, y, z = Signal(), Signal(), Signal(2)
    m.d.comb += [y.eq(a), z[0].eq(a)]

    async def bench(ctx):
        for target in (y, z, Cat(a, y)):
            with pytest.raises(DriverConflict, match=r"^Combinationally driven signals cannot be"):
                ctx.set(target, 1)
        assert ctx.get(y) == ctx.get(a)

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_a_reset_takes_everything_back_and_starts_all_benches_again():
    m, count = counter(init=3)
    a, y = Signal(8, init=5), Signal(8)
    m.d.comb += y.eq(a + count)
    note = Signal(8)
    log = []

    async def bench(ctx):
        log.append((sim._engine.now, ctx.get(count), ctx.get(y), ctx.get(note)))
        ctx.set(a, 1)
        ctx.set(note, 9)
        await ctx.tick().repeat(2)
        log.append((ctx.get(count), ctx.get(y)))

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_testbench(bench)
    sim.run()
    sim.reset()
    sim.run()
    assert log == [(0, 3, 8, 0), (5, 6)] * 2


def test_a_simulation_runs_until_a_time():
    m, count = counter()
    sim = simulator_of(m)
    sim.add_clock(1e-9)
    values = []

    async def bench(ctx):
        async for *_, value in ctx.tick().sample(count):
            values.append(value)

    sim.add_testbench(bench, background=True)
    sim.run_until(4e-9)
    assert values == [0, 1, 2, 3]
    assert sim._engine.now == 4_000_000


def test_a_design_without_clocks_and_benches_ends_at_once():
    m, _ = counter()
    sim = simulator_of(m)
    assert not sim.advance()
    sim.run()
