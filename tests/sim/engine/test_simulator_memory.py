"""Memories of a design, in it and from testbenches, with the same results on each engine."""

import pytest
from amaranth.hdl import ClockDomain, Module, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory, MemoryData

from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def memory(shape=8, depth=4, init=(0xAA, 0x55)):
    """A module with a memory in it."""
    m = Module()
    m.submodules.memory = storage = Memory(shape=shape, depth=depth, init=init)
    return m, storage


def test_a_registered_read_gives_the_row_a_tick_later_and_holds_it_while_disabled():
    m, storage = memory()
    port = storage.read_port()

    async def bench(ctx):
        ctx.set(port.en, 1)
        ctx.set(port.addr, 1)
        assert ctx.get(port.data) == 0
        await ctx.tick()
        assert ctx.get(port.data) == 0x55
        ctx.set(port.en, 0)
        ctx.set(port.addr, 0)
        await ctx.tick()
        assert ctx.get(port.data) == 0x55
        ctx.set(port.en, 1)
        await ctx.tick()
        assert ctx.get(port.data) == 0xAA

    simulate(m, bench)


def test_a_read_without_clock_follows_its_address_and_what_is_written():
    m, storage = memory()
    read, write = storage.read_port(domain="comb"), storage.write_port()

    async def bench(ctx):
        assert ctx.get(read.data) == 0xAA
        ctx.set(read.addr, 1)
        assert ctx.get(read.data) == 0x55
        ctx.set(write.addr, 1)
        ctx.set(write.data, 0x33)
        ctx.set(write.en, 1)
        assert ctx.get(read.data) == 0x55
        await ctx.tick()
        assert ctx.get(read.data) == 0x33
        ctx.set(storage.data[1], 0x11)
        assert ctx.get(read.data) == 0x11

    simulate(m, bench)


def test_writes_are_as_fine_as_their_granularity():
    m, storage = memory(shape=10, init=(0b11_1111_1111,))
    port = storage.write_port(granularity=2)

    async def bench(ctx):
        ctx.set(port.data, 0)
        ctx.set(port.en, 0b10001)
        await ctx.tick()
        assert ctx.get(storage.data[0]) == 0b00_1111_1100

    simulate(m, bench)


@pytest.mark.parametrize(("transparent", "read"), [(False, 0xAA), (True, 0x3A)])
def test_a_read_of_a_row_that_is_written_sees_it_only_if_it_is_transparent(transparent, read):
    m, storage = memory()
    write = storage.write_port(granularity=4)
    port = storage.read_port(transparent_for=[write] if transparent else [])

    async def bench(ctx):
        ctx.set(port.en, 1)
        ctx.set(write.data, 0x33)
        ctx.set(write.en, 0b10)
        await ctx.tick()
        assert ctx.get(port.data) == read
        assert ctx.get(storage.data[0]) == 0x3A

    simulate(m, bench)


def test_rows_beyond_the_end_read_zero_and_swallow_writes():
    m, storage = memory(depth=3, init=(1, 2, 3))
    asynchronous = storage.read_port(domain="comb")
    read, write = storage.read_port(), storage.write_port()

    async def bench(ctx):
        ctx.set(read.en, 1)
        for port in (asynchronous, read, write):
            ctx.set(port.addr, 3)
        ctx.set(write.data, 9)
        ctx.set(write.en, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(read.data) == ctx.get(asynchronous.data) == 0
        assert [ctx.get(row) for row in storage.data] == [1, 2, 3]

    simulate(m, bench)


def test_ports_of_several_domains_meet_in_one_memory():
    m, storage = memory()
    m.domains += ClockDomain("a", reset_less=True), ClockDomain("b", reset_less=True)
    write = storage.write_port(domain="a")
    read = storage.read_port(domain="b")

    async def bench(ctx):
        ctx.set(write.data, 0x77)
        ctx.set(write.en, 1)
        ctx.set(read.en, 1)
        await ctx.tick("b")
        assert ctx.get(read.data) == 0xAA
        await ctx.tick("a")
        assert ctx.get(read.data) == 0xAA
        await ctx.tick("b")
        assert ctx.get(read.data) == 0x77

    sim = simulator_of(m)
    sim.add_clock(10e-9, domain="a")
    sim.add_clock(10e-9, domain="b", phase=2e-9)
    sim.add_testbench(bench)
    sim.run()


def test_rows_are_got_and_set_whole_and_in_parts_with_their_shape():
    layout = data.StructLayout({"low": 4, "high": signed(4)})
    m, storage = memory(shape=layout, init=[{"low": 1, "high": -1}])
    read = storage.read_port(domain="comb")

    async def bench(ctx):
        assert ctx.get(storage.data[0]) == layout.const({"low": 1, "high": -1})
        ctx.set(storage.data[0], {"low": 2, "high": -2})
        assert ctx.get(read.data.high) == -2
        ctx.set(storage.data[0].low, 15)
        assert ctx.get(read.data) == layout.const({"low": 15, "high": -2})

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_signed_rows_are_negative():
    m, storage = memory(shape=signed(6), init=[-5])
    read, write = storage.read_port(domain="comb"), storage.write_port()

    async def bench(ctx):
        assert ctx.get(storage.data[0]) == ctx.get(read.data) == -5
        ctx.set(storage.data[0], 0x3C)
        assert ctx.get(storage.data[0]) == ctx.get(read.data) == -4
        ctx.set(write.data, -32)
        ctx.set(write.en, 1)
        await ctx.tick()
        assert ctx.get(storage.data[0]) == ctx.get(read.data) == -32

    simulate(m, bench)


def test_wide_rows_are_read_and_written_whole():
    value = 0x1_2345_6789_ABCD_EF01_2345_6789_ABCD_EF01
    m, storage = memory(shape=130, init=[value])
    read, write = storage.read_port(), storage.write_port(granularity=65)

    async def bench(ctx):
        ctx.set(read.en, 1)
        await ctx.tick()
        assert ctx.get(read.data) == value
        ctx.set(write.data, 0)
        ctx.set(write.en, 0b10)
        await ctx.tick().repeat(2)
        assert ctx.get(read.data) == value & ((1 << 65) - 1)
        ctx.set(storage.data[0][60:130], (1 << 70) - 1)
        assert ctx.get(storage.data[0]) == value & ((1 << 60) - 1) | ((1 << 70) - 1) << 60

    simulate(m, bench)


def test_a_process_writes_a_memory_along_with_the_tick():
    m, storage = memory()
    read = storage.read_port()

    async def process(ctx):
        async for _ in ctx.tick():
            ctx.set(storage.data[0], 0x0F)
            ctx.set(storage.data[0][7], 1)

    async def bench(ctx):
        ctx.set(read.en, 1)
        await ctx.tick()
        assert ctx.get(read.data) == 0xAA
        assert ctx.get(storage.data[0]) == 0x8F
        await ctx.tick()
        assert ctx.get(read.data) == 0x8F

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_process(process)
    sim.add_testbench(bench)
    sim.run()


def test_a_memory_that_only_testbenches_know_holds_rows():
    m = Module()
    notes = MemoryData(shape=8, depth=2, init=[7])

    async def bench(ctx):
        assert ctx.get(notes[0]) == 7
        ctx.set(notes[1], 9)
        assert ctx.get(notes[1]) == 9

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_a_reset_brings_the_initial_rows_back():
    m, storage = memory()
    read = storage.read_port()
    seen = []

    async def bench(ctx):
        ctx.set(read.en, 1)
        await ctx.tick()
        seen.append((ctx.get(read.data), ctx.get(storage.data[1])))
        ctx.set(storage.data[0], 1)
        ctx.set(storage.data[1], 2)
        await ctx.tick()
        seen.append((ctx.get(read.data), ctx.get(storage.data[1])))

    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_testbench(bench)
    sim.run()
    sim.reset()
    sim.run()
    assert seen == [(0xAA, 0x55), (1, 2)] * 2


def test_a_reset_clears_the_data_of_a_read_port_unless_it_reads():
    m, storage = memory()
    m.domains.sync = domain = ClockDomain("sync")
    read = storage.read_port()

    async def bench(ctx):
        ctx.set(read.en, 1)
        await ctx.tick()
        ctx.set(domain.rst, 1)
        ctx.set(read.addr, 1)
        await ctx.tick()
        assert ctx.get(read.data) == 0x55
        ctx.set(read.en, 0)
        await ctx.tick()
        assert ctx.get(read.data) == 0

    simulate(m, bench)
