"""Clocks, domains and resets on Amaranth's simulator, with the same results on each engine."""


import pytest
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    DriverConflict,
    Module,
    Signal,
)
from amaranth.sim import DomainReset

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


def test_a_clock_that_the_design_drives_or_that_is_driven_already_is_refused():
    m = Module()
    m.domains.slow = ClockDomain("slow")
    source = Signal()
    m.d.comb += ClockSignal("slow").eq(source)
    m.d.slow += Signal().eq(1)
    m.d.sync += Signal().eq(1)
    sim = simulator_of(m)
    with pytest.raises(DriverConflict, match=r"^Clock signal is already driven by combinational"):
        sim.add_clock(1e-9, domain="slow")
    with pytest.raises(NameError, match=r"^Domain 'absent' is not present in simulation$"):
        sim.add_clock(1e-9, domain="absent")
    sim.add_clock(1e-9, domain="absent", if_exists=True)
    sim.add_clock(1e-9)
    with pytest.raises(DriverConflict, match=r"^Domain 'sync' already has a clock"):
        sim.add_clock(1e-9)


def test_clocks_keep_their_periods_and_phases():
    m = Module()
    log = []
    for name in ("fast", "slow", "late"):
        m.domains += ClockDomain(name, reset_less=True)
        m.d[name] += Signal(4, name=f"of_{name}").eq(1)

    def watch(name):
        async def bench(ctx):
            async for _ in ctx.tick(name):
                now = sim._engine.now // 1_000_000
                log.append((now, name))

        return bench

    sim = simulator_of(m)
    sim.add_clock(4e-9, domain="fast")
    sim.add_clock(10e-9, domain="slow", phase=0)
    sim.add_clock(10e-9, domain="late", phase=7e-9)
    for name in ("fast", "slow", "late"):
        sim.add_testbench(watch(name), background=True)
    sim.run_until(21e-9)
    assert log == [
        (0, "slow"), (2, "fast"), (6, "fast"), (7, "late"), (10, "fast"), (10, "slow"),
        (14, "fast"), (17, "late"), (18, "fast"), (20, "slow"),
    ]  # fmt: skip


def test_domains_with_the_same_clock_edge_exchange_their_values_from_before_it():
    m = Module()
    m.domains += ClockDomain("left", reset_less=True), ClockDomain("right", reset_less=True)
    a, b = Signal(8, init=1), Signal(8, init=2)
    m.d.left += a.eq(b)
    m.d.right += b.eq(a)
    seen = []

    async def bench(ctx):
        for _ in range(3):
            await ctx.tick("left")
            seen.append((ctx.get(a), ctx.get(b)))

    sim = simulator_of(m)
    sim.add_clock(2e-9, domain="left")
    sim.add_clock(4e-9, domain="right", phase=1e-9)
    sim.add_testbench(bench)
    sim.run()
    assert seen == [(2, 1), (1, 1), (1, 1)]


def test_a_domain_of_the_falling_edge_moves_between_the_rising_ones():
    domain = ClockDomain("sync", clk_edge="neg")
    m, count = counter(domain)
    log = []

    async def bench(ctx):
        async for rising, falling, value in (
            ctx.posedge(domain.clk).negedge(domain.clk).sample(count)
        ):
            log.append((rising, falling, value, ctx.get(count)))
            if len(log) == 4:
                return

    simulate(m, bench)
    assert log == [
        (True, False, 0, 0), (False, True, 0, 1), (True, False, 1, 1), (False, True, 1, 2),
    ]  # fmt: skip


def test_a_synchronous_reset_takes_effect_at_the_tick_and_spares_what_is_without_reset():
    domain = ClockDomain("sync")
    m, count = counter(domain, init=7)
    kept = Signal(8, reset_less=True)
    m.d.sync += kept.eq(kept + 1)
    log = []

    async def bench(ctx):
        await ctx.tick().repeat(2)
        ctx.set(domain.rst, 1)
        log.append((ctx.get(count), ctx.get(kept)))
        for _ in range(2):
            edge, reset = await ctx.tick()
            log.append((edge, reset, ctx.get(count), ctx.get(kept)))
        ctx.set(domain.rst, 0)
        edge, reset = await ctx.tick()
        log.append((edge, reset, ctx.get(count), ctx.get(kept)))

    simulate(m, bench)
    assert log == [(9, 2), (True, True, 7, 3), (True, True, 7, 4), (True, False, 8, 5)]


def test_an_asynchronous_reset_takes_effect_at_once_and_holds():
    domain = ClockDomain("sync", async_reset=True)
    m, count = counter(domain, init=7)
    log = []

    async def control(ctx):
        await ctx.delay(2.25e-9)
        assert ctx.get(count) == 9
        ctx.set(domain.rst, 1)
        assert ctx.get(count) == 7
        await ctx.delay(1e-9)
        assert ctx.get(count) == 7
        ctx.set(domain.rst, 0)
        await ctx.delay(1e-9)
        assert ctx.get(count) == 8

    async def watch(ctx):
        async for edge, reset, value in ctx.tick().sample(count):
            log.append((edge, reset, value))

    simulate(m, control, background=[watch])
    assert log == [
        (True, False, 7), (True, False, 8), (False, True, 9), (True, True, 7), (True, False, 7),
    ]  # fmt: skip


def test_a_wait_over_several_ticks_ends_when_its_domain_is_reset():
    domain = ClockDomain("sync")
    m, count = counter(domain)

    async def bench(ctx):
        ctx.set(domain.rst, 1)
        with pytest.raises(DomainReset):
            await ctx.tick().repeat(3)
        with pytest.raises(DomainReset):
            await ctx.tick().until(count == 5)
        ctx.set(domain.rst, 0)
        (value,) = await ctx.tick().sample(count).until(count == 5)
        assert value == 5
        assert ctx.get(count) == 6
        (value,) = await ctx.tick().sample(count).repeat(3)
        assert value == 8

    simulate(m, bench)


def test_a_renamed_component_runs_on_its_own_clock():
    m = Module()
    inner, count = counter()
    m.submodules.inner = DomainRenamer("video")(inner)

    async def bench(ctx):
        await ctx.tick("video").repeat(4)
        assert ctx.get(count) == 4

    sim = simulator_of(m)
    sim.add_clock(3e-9, domain="video")
    sim.add_testbench(bench)
    sim.run()


def test_a_clock_that_a_register_makes_ticks_its_domain():
    m, count = counter()
    m.domains.half = ClockDomain("half", reset_less=True)
    m.d.comb += ClockSignal("half").eq(count[0])
    slow = Signal(8)
    m.d.half += slow.eq(slow + 1)
    seen = []

    async def bench(ctx):
        for _ in range(6):
            await ctx.tick()
            seen.append((ctx.get(count), ctx.get(slow)))

    simulate(m, bench)
    assert seen == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]


def test_a_clock_that_a_testbench_drives_ticks_its_domain():
    domain = ClockDomain("sync", reset_less=True)
    m, count = counter(domain)

    async def bench(ctx):
        for expected in (1, 2, 3):
            ctx.set(domain.clk, 1)
            assert ctx.get(count) == expected
            ctx.set(domain.clk, 0)
            assert ctx.get(count) == expected

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_a_clock_that_is_high_once_logic_has_settled_ticks_its_domain_at_the_start():
    m = Module()
    a, count = Signal(), Signal(8)
    m.domains.sync = ClockDomain("sync", reset_less=True)
    m.d.comb += ClockSignal().eq(~a)
    m.d.sync += count.eq(count + 1)

    async def bench(ctx):
        assert ctx.get(count) == 1
        ctx.set(a, 1)
        ctx.set(a, 0)
        assert ctx.get(count) == 2

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()
