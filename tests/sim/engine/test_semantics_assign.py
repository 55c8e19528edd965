"""Amaranth's corners: left sides of assignments, on each engine."""

import pytest
from amaranth.hdl import Array, Cat, Module, Signal, signed

from .clocked import clocked, pulse, run

pytestmark = pytest.mark.usefixtures("engine")


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
