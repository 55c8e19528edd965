"""What processes and testbenches can wait for, with the same results on each engine."""

import pytest
from amaranth.hdl import ClockDomain, Module, Signal, signed
from amaranth.lib import data
from amaranth.sim import BrokenTrigger

from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def adder():
    """Inputs, their registered sum, and a module that makes it."""
    m = Module()
    a, b, total = Signal(8), Signal(8), Signal(8)
    m.d.sync += total.eq(a + b)
    return m, a, b, total


def test_a_process_samples_what_a_register_samples():
    m, a, b, total = adder()
    twin = Signal(8)

    async def process(ctx):
        async for *_, x, y in ctx.tick().sample(a, b):
            ctx.set(twin, x + y)

    async def bench(ctx):
        for step in range(5):
            ctx.set(a, 3 * step)
            ctx.set(b, 100 - step)
            await ctx.tick()
            assert ctx.get(total) == ctx.get(twin) == 100 + 2 * step

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_process(process)
    sim.add_testbench(bench)
    sim.run()


def test_a_process_replaces_logic_and_sees_the_initial_values_too():
    m = Module()
    a, doubled, y = Signal(8, init=4), Signal(8), Signal(8)
    m.d.comb += y.eq(doubled + 1)

    async def process(ctx):
        async for (value,) in ctx.changed(a):
            ctx.set(doubled, 2 * value)

    async def bench(ctx):
        assert ctx.get(y) == 9
        ctx.set(a, 50)
        assert ctx.get(y) == 101

    sim = simulator_of(m)
    sim.add_process(process)
    sim.add_testbench(bench)
    sim.run()


def test_a_process_sees_logic_settle_for_the_first_time():
    m = Module()
    a, y = Signal(8, init=4), Signal(8)
    m.d.comb += y.eq(a + 1)
    seen = []

    async def process(ctx):
        async for (value,) in ctx.changed(y):
            seen.append(value)

    async def once(ctx):
        seen.append(await ctx.posedge(y[0]).sample(y))

    sim = simulator_of(m)
    sim.add_process(process)
    sim.add_process(once)
    sim.advance()
    assert sorted(seen, key=str) == [(True, 5), 0, 5]


def test_two_processes_answer_each_other_within_one_moment():
    m = Module()
    ping, pong = Signal(8), Signal(8)
    y = Signal(9)
    m.d.comb += y.eq(ping + pong)

    async def forth(ctx):
        async for (value,) in ctx.changed(ping):
            ctx.set(pong, value)

    async def back(ctx):
        async for (value,) in ctx.changed(pong):
            if 0 < value < 9:
                ctx.set(ping, value + 1)

    async def bench(ctx):
        ctx.set(ping, 1)
        assert (ctx.get(ping), ctx.get(pong), ctx.get(y)) == (9, 9, 18)

    sim = simulator_of(m)
    sim.add_process(forth)
    sim.add_process(back)
    sim.add_testbench(bench)
    sim.run()
    assert sim._engine.now == 0


def test_a_process_cannot_get():
    m, a, *_ = adder()

    async def process(ctx):
        ctx.get(a)

    sim = simulator_of(m)
    sim.add_process(process)
    with pytest.raises(TypeError, match=r"^`\.get\(\)` cannot be used to sample"):
        sim.run()


def test_edges_of_single_bits_are_seen_in_both_directions():
    m = Module()
    word = Signal(4)
    m.d.comb += Signal(4).eq(~word)
    log = []

    async def watch(ctx):
        async for up, down in ctx.posedge(word[1]).negedge(word[0]):
            log.append((ctx.get(word), up, down))

    async def bench(ctx):
        for value in (0b0001, 0b0011, 0b0111, 0b1100, 0b1101, 0b1010):
            await ctx.delay(1e-9)
            ctx.set(word, value)

    sim = simulator_of(m)
    sim.add_testbench(watch, background=True)
    sim.add_testbench(bench)
    sim.run()
    assert log == [(0b0011, True, False), (0b1100, False, True), (0b1010, True, True)]


def test_changes_are_given_as_values_of_their_shape():
    m = Module()
    a = Signal(data.StructLayout({"low": 4, "high": signed(4)}))
    b = Signal(signed(3))
    m.d.comb += Signal(11).eq(a.as_value() ^ b)
    seen = []

    async def watch(ctx):
        async for pair, number in ctx.changed(a, b):
            seen.append((pair.low, pair.high, number))

    async def bench(ctx):
        await ctx.delay(1e-9)
        ctx.set(a, {"low": 3, "high": -2})
        await ctx.delay(1e-9)
        ctx.set(b, -4)
        await ctx.delay(1e-9)
        ctx.set(b, -4)

    sim = simulator_of(m)
    sim.add_testbench(watch, background=True)
    sim.add_testbench(bench)
    sim.run()
    assert seen == [(0, 0, 0), (3, -2, 0), (3, -2, -4)]


def test_the_first_of_several_triggers_wakes():
    m, a, _, total = adder()
    log = []

    async def bench(ctx):
        log.append(await ctx.delay(3e-9).changed(total).sample(a))
        ctx.set(a, 7)
        log.append(await ctx.delay(3e-9).changed(total).sample(a))
        log.append(sim._engine.now)
        log.append(await ctx.delay(0.25e-9).posedge(total[3]))
        log.append(sim._engine.now)

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_testbench(bench)
    sim.run()
    assert log == [(True, 0, 0), (False, 7, 7), 3_500_000, (True, False), 3_750_000]


def test_a_delay_in_a_loop_repeats():
    m, *_ = adder()
    times = []

    async def bench(ctx):
        async for _ in ctx.delay(2e-9):
            times.append(sim._engine.now)
            if len(times) == 3:
                return

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()
    assert times == [2_000_000, 4_000_000, 6_000_000]


def test_a_loop_that_missed_an_event_breaks():
    m = Module()
    a = Signal(8)
    m.d.comb += Signal(8).eq(a)

    async def watch(ctx):
        trigger = aiter(ctx.changed(a))
        await anext(trigger)
        await ctx.delay(2e-9)
        with pytest.raises(BrokenTrigger):
            await anext(trigger)

    async def bench(ctx):
        for value in range(1, 4):
            await ctx.delay(1e-9)
            ctx.set(a, value)

    sim = simulator_of(m)
    sim.add_testbench(watch)
    sim.add_testbench(bench)
    sim.run()


def test_benches_run_in_the_order_in_which_they_were_added():
    m, a, b, total = adder()
    log = []

    def bench(name):
        async def run(ctx):
            for _ in range(2):
                await ctx.tick()
                log.append(name)

        return run

    simulate(m, *map(bench, "xyz"))
    assert log == list("xyzxyz")


def test_a_bench_sees_at_once_what_one_before_it_set():
    m, a, b, total = adder()

    async def writer(ctx):
        await ctx.tick()
        ctx.set(a, 5)

    async def reader(ctx):
        await ctx.tick()
        assert ctx.get(a) == 5
        assert ctx.get(total) == 0
        await ctx.tick()
        assert ctx.get(total) == 5

    simulate(m, writer, reader)


def test_a_background_bench_ends_with_the_others_unless_it_is_in_a_critical_section():
    m, *_ = adder()
    log = []

    async def background(ctx):
        while True:
            await ctx.tick()
            with ctx.critical():
                log.append("begins")
                await ctx.tick().repeat(3)
                log.append("ends")

    async def bench(ctx):
        await ctx.tick().repeat(2)

    simulate(m, bench, background=[background])
    assert log == ["begins", "ends"]


def test_a_process_becomes_critical_by_itself():
    m, *_ = adder()
    log = []

    async def process(ctx):
        with ctx.critical():
            await ctx.tick().repeat(4)
            log.append(sim._engine.now)

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_process(process)
    sim.run()
    assert log == [3_500_000]


def test_ticks_can_be_awaited_of_a_domain_as_an_object_and_of_its_own_polarity():
    m = Module()
    m.domains.down = domain = ClockDomain("down", clk_edge="neg", reset_less=True)
    count = Signal(8)
    m.d.down += count.eq(count + 1)
    times = []

    async def bench(ctx):
        for _ in range(2):
            edge, reset, before = await ctx.tick(domain).sample(count)
            times.append((sim._engine.now, edge, reset, before, ctx.get(count)))

    sim = simulator_of(m)
    sim.add_clock(2e-9, domain="down")
    sim.add_testbench(bench)
    sim.run()
    assert times == [(2_000_000, True, False, 0, 1), (4_000_000, True, False, 1, 2)]


def test_an_exception_of_a_bench_reaches_the_caller():
    m, *_ = adder()

    async def bench(ctx):
        await ctx.tick()
        raise LookupError("from the bench")

    with pytest.raises(LookupError, match="from the bench"):
        simulate(m, bench)
