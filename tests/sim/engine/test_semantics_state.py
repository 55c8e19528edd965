"""Amaranth's corners: assignments, registers, resets, clocks and memories, on each engine."""

import pytest
from amaranth.hdl import Array, Cat, ClockDomain, ClockSignal, Module, Print, Signal, signed
from amaranth.lib.memory import Memory

from tests import simulation
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def run(m, bench):
    simulator = simulator_of(m)
    simulator.add_testbench(bench)
    simulator.run()


def clocked(*names, **kinds):
    """A module with clock domains whose clocks and resets a testbench drives."""
    m = Module()
    domains = [ClockDomain(name, **kinds) for name in names or ("sync",)]
    m.domains += domains
    return m, *domains


async def pulse(ctx, *domains):
    """One whole cycle of all these clocks at once."""
    clocks = Cat(domain.clk for domain in domains)
    ctx.set(clocks, (1 << len(domains)) - 1)
    ctx.set(clocks, 0)


# -------------------------------------------------------------------------------- left sides


@pytest.mark.parametrize(
    ("assign", "offset", "expected"),
    [
        (lambda a, i: a.bit_select(i, 4).eq(15), 0, 0xF),
        (lambda a, i: a.bit_select(i, 4).eq(15), 7, 0x380),
        (lambda a, i: a.bit_select(i, 4).eq(15), 8, 0x300),
        (lambda a, i: a.bit_select(i, 4).eq(15), 10, 0),
        (lambda a, i: a.bit_select(i, 4).eq(-1), 200, 0),
        (lambda a, i: a.word_select(i, 4).eq(10), 1, 0xA0),
        (lambda a, i: a.word_select(i, 4).eq(11), 2, 0x300),
        (lambda a, i: a.word_select(i, 4).eq(15), 3, 0),
        (lambda a, i: a[2:8].bit_select(i, 4).eq(15), 4, 0xC0),
        (lambda a, i: a[2:8].bit_select(i, 4)[1:3].eq(3), 1, 0x30),
        (lambda a, i: a.as_signed().bit_select(i, 2).eq(3), 9, 0x200),
    ],
)
def test_what_is_assigned_beyond_the_end_is_lost(assign, offset, expected):
    m = Module()
    target, index = Signal(10), Signal(8)
    m.d.comb += assign(target, index)

    async def bench(ctx):
        ctx.set(index, offset)
        assert ctx.get(target) == expected

    run(m, bench)


def test_a_part_of_a_concatenation_reaches_into_its_neighbours():
    m = Module()
    low, middle, high, index = Signal(3), Signal(130), Signal(signed(4)), Signal(8)
    m.d.comb += Cat(low, middle, high).bit_select(index, 3).eq(7)

    async def bench(ctx):
        for at, expected in (
            (1, (6, 1, 0)), (64, (0, 7 << 61, 0)), (131, (0, 3 << 128, 1)), (134, (0, 0, -2)),
            (136, (0, 0, -8)), (137, (0, 0, 0)),
        ):  # fmt: skip
            ctx.set(index, at)
            assert tuple(ctx.get(each) for each in (low, middle, high)) == expected, at

    run(m, bench)


def test_an_assignment_beyond_the_end_of_an_array_changes_nothing():
    m = Module()
    targets, index = [Signal(8, init=n) for n in range(3)], Signal(2)
    m.d.comb += Array(targets)[index].eq(99)

    async def bench(ctx):
        for at in range(4):
            ctx.set(index, at)
            assert [ctx.get(each) for each in targets] == [99 if at == n else n for n in range(3)]

    run(m, bench)


def test_elements_of_different_widths_take_what_fits():
    m = Module()
    narrow, wide, index, value = Signal(signed(3)), Signal(70), Signal(), Signal(signed(8))
    m.d.comb += Array([narrow, wide])[index].eq(value)

    async def bench(ctx):
        ctx.set(value, -3)
        assert (ctx.get(narrow), ctx.get(wide)) == (-3, 0)
        ctx.set(index, 1)
        assert (ctx.get(narrow), ctx.get(wide)) == (0, (1 << 70) - 3)

    run(m, bench)


def test_the_last_assignment_to_each_bit_wins():
    m = Module()
    target, test = Signal(130, init=5), Signal(8)
    m.d.comb += target[60:70].eq(0x3FF)
    with m.If(test[0]):
        m.d.comb += target[64:].eq(1)
    with m.If(test[1]):
        m.d.comb += target.eq(2)

    async def bench(ctx):
        base = 5 | 0x3FF << 60
        for value, expected in ((0, base), (1, 5 | 15 << 60 | 1 << 64), (2, 2), (3, 2)):
            ctx.set(test, value)
            assert ctx.get(target) == expected

    run(m, bench)


def test_bits_of_one_signal_may_be_a_chain_of_logic():
    m = Module()
    carry, step = Signal(131), Signal(130)
    m.d.comb += carry[0].eq(1)
    for bit in range(130):
        m.d.comb += carry[bit + 1].eq(carry[bit] & step[bit])

    async def bench(ctx):
        for run_length in (0, 1, 63, 64, 65, 130):
            ctx.set(step, (1 << run_length) - 1)
            assert ctx.get(carry) == (1 << (run_length + 1)) - 1

    run(m, bench)


def test_bits_of_one_signal_may_have_drivers_in_several_modules_and_domains():
    m, a, b = clocked("a", "b")
    m.submodules.inner = inner = Module()
    target, source = Signal(signed(66), init=-1), Signal(66)
    m.d.comb += target[:3].eq(source)
    m.d.a += target[3:64].eq(source[3:])
    inner.d.b += target[64:].eq(source[64:])

    async def bench(ctx):
        assert ctx.get(target) == -8
        ctx.set(source, 5)
        assert ctx.get(target) == -3
        await pulse(ctx, a)
        assert ctx.get(target) == 5 - (1 << 64)
        await pulse(ctx, b)
        assert ctx.get(target) == 5

    run(m, bench)


# ------------------------------------------------------------------------- clocks and resets


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


# ---------------------------------------------------------------------------------- memories


def memory(m, *, shape=8, depth=5, init=(), **ports):
    """A memory with one write port and read ports of the given domains."""
    m.submodules.memory = found = Memory(shape=shape, depth=depth, init=init)
    writer = found.write_port(domain=ports.pop("write", "sync"))
    through = {name: [writer] if name == "through" else [] for name in ports}
    readers = {
        name: found.read_port(domain=domain, transparent_for=through[name])
        for name, domain in ports.items()
    }
    return found, writer, readers


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


# -------------------------------------------------------------------- where pysim is not right


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
