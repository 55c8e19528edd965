"""Amaranth's corners: memories, on each engine."""

import pytest
from amaranth.hdl import Signal, signed
from amaranth.lib.memory import Memory

from .clocked import clocked, memory, pulse, run

pytestmark = pytest.mark.usefixtures("engine")


def test_a_read_sees_a_write_of_its_cycle_only_if_it_is_transparent():
    m, sync = clocked()
    _, write, ports = memory(m, init=[1], old="sync", through="sync", now="comb")

    async def bench(ctx):
        ctx.set(write.data, 9)
        ctx.set(write.en, 1)
        await pulse(ctx, sync)
        assert {name: ctx.get(port.data) for name, port in ports.items()} == {
            "old": 1, "through": 9, "now": 9,
        }  # fmt: skip
        ctx.set(write.en, 0)
        await pulse(ctx, sync)
        assert ctx.get(ports["old"].data) == 9

    run(m, bench)


def test_a_read_of_another_clock_sees_what_was_there_before_its_edge():
    m, sync, other = clocked("sync", "other")
    _, write, ports = memory(m, init=[1], old="other")

    async def bench(ctx):
        ctx.set(write.data, 9)
        ctx.set(write.en, 1)
        await pulse(ctx, sync, other)
        assert ctx.get(ports["old"].data) == 1
        await pulse(ctx, other)
        assert ctx.get(ports["old"].data) == 9

    run(m, bench)


def test_transparency_goes_by_granules_and_later_write_ports_win():
    m, sync = clocked()
    m.submodules.memory = rows = Memory(shape=128, depth=2, init=[0])
    writes = [rows.write_port(granularity=32) for _ in range(2)]
    read = rows.read_port(transparent_for=writes[:1])
    everything = rows.read_port(transparent_for=writes)
    now = rows.read_port(domain="comb")

    async def bench(ctx):
        for port, byte, enable in zip(writes, (0x11, 0x22), (0b0111, 0b1110), strict=True):
            ctx.set(port.data, int.from_bytes([byte] * 16, "little"))
            ctx.set(port.en, enable)
        await pulse(ctx, sync)
        one, two = 0x11111111, 0x22222222
        assert ctx.get(read.data) == one | one << 32 | one << 64
        assert ctx.get(everything.data) == one | two << 32 | two << 64 | two << 96
        assert ctx.get(now.data) == one | two << 32 | two << 64 | two << 96

    run(m, bench)


def test_a_port_that_always_writes_does_so_again_after_another_port():
    m, sync = clocked()
    m.submodules.memory = rows = Memory(shape=8, depth=2, init=[7])
    always, sometimes = rows.write_port(), rows.write_port()
    enable, data = Signal(), Signal(8)
    m.d.comb += [always.en.eq(1), always.data.eq(data)]
    m.d.comb += [sometimes.en.eq(enable), sometimes.data.eq(99)]

    async def bench(ctx):
        ctx.set(data, 5)
        for on, expected in ((0, 5), (1, 99), (0, 5), (0, 5)):
            ctx.set(enable, on)
            await pulse(ctx, sync)
            assert ctx.get(rows.data[0]) == expected
        ctx.set(rows.data[0], 1)
        assert ctx.get(rows.data[0]) == 1
        await pulse(ctx, sync)
        assert ctx.get(rows.data[0]) == 5

    run(m, bench)


@pytest.mark.parametrize("shape", [8, signed(65), 130])
def test_beyond_the_last_row_nothing_is_written_and_zero_is_read(shape):
    m, sync = clocked()
    rows, write, ports = memory(m, shape=shape, init=[1, 2, 3, 4, 5], sync="sync", comb="comb",
                                through="sync")  # fmt: skip

    async def bench(ctx):
        ctx.set(write.data, 9)
        ctx.set(write.en, 1)
        for address in (5, 7):
            for port in (write, *ports.values()):
                ctx.set(port.addr, address)
            await pulse(ctx, sync)
            assert ctx.get(ports["comb"].data) == ctx.get(ports["sync"].data) == 0
            assert [ctx.get(rows.data[n]) for n in range(5)] == [1, 2, 3, 4, 5]

    run(m, bench)


def test_a_read_port_without_enable_keeps_its_data_until_a_reset():
    m, sync = clocked()
    _, _, ports = memory(m, init=[7, 8], read="sync")
    read = ports["read"]

    async def bench(ctx):
        assert ctx.get(read.data) == 0
        await pulse(ctx, sync)
        assert ctx.get(read.data) == 7
        ctx.set(read.en, 0)
        ctx.set(read.addr, 1)
        await pulse(ctx, sync)
        assert ctx.get(read.data) == 7
        ctx.set(sync.rst, 1)
        await pulse(ctx, sync)
        assert ctx.get(read.data) == 0
        ctx.set(read.en, 1)
        await pulse(ctx, sync)
        assert ctx.get(read.data) == 8

    run(m, bench)


def test_a_memory_of_one_row_needs_no_address():
    m, sync = clocked()
    _, write, ports = memory(m, shape=signed(3), depth=1, init=[-4], sync="sync", comb="comb")

    async def bench(ctx):
        assert ctx.get(ports["comb"].data) == -4
        ctx.set(write.data, -1)
        ctx.set(write.en, 1)
        await pulse(ctx, sync)
        assert ctx.get(ports["comb"].data) == -1
        assert ctx.get(ports["sync"].data) == -4

    run(m, bench)
