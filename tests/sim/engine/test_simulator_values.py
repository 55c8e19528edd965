"""Operators and assignments in a design, against Amaranth's own evaluation of expressions."""

import itertools
import random

import pytest
from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value, signed, unsigned

from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def expressions(a, b):
    """An expression for each operator, and for each way to select bits, on two values."""
    table = Array([a, b, a + 1, ~b, 7])
    return [
        a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b, ~a, -a, abs(a), +a,
        a == b, a != b, a < b, a <= b, a > b, a >= b,
        a << b.as_unsigned()[:4], a >> b.as_unsigned()[:4], a >> b.as_unsigned(),
        a.any(), a.all(), a.xor(), a.bool(), Mux(a, b, a), Mux(a > b, a, b),
        Cat(a, b, a[0]), Cat(a, b)[2:5], a[1:], b[-1], a.replicate(3),
        a.as_signed(), b.as_unsigned(), a.as_signed() >> 1,
        a.bit_select(b.as_unsigned(), 2), a.word_select(b.as_unsigned(), 2),
        Cat(a, b).bit_select(b.as_unsigned(), 3), Cat(a, b).word_select(a.as_unsigned()[:2], 3),
        a.shift_left(2), a.shift_right(1), a.shift_right(9), a.rotate_left(1), a.rotate_right(3),
        a.matches(0, "1--0" if len(a) == 4 else "1" + "-" * (len(a) - 1)), a.matches(),
        table[b.as_unsigned()], table[a.as_unsigned()[:1]], (a - b) * (a + b) % 11,
        (a + b) >> 1, (a ^ b).as_signed() < a,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right"),
    [(unsigned(4), unsigned(4)), (signed(4), signed(4)), (unsigned(4), signed(4)),
     (signed(4), unsigned(4)), (unsigned(4), unsigned(1)), (signed(1), signed(4))],
)  # fmt: skip
def test_every_operator_gives_what_the_language_says_for_all_values(left, right):
    _compare(left, right, itertools.product(range(1 << left.width), range(1 << right.width)))


@pytest.mark.parametrize(
    ("left", "right"),
    [(unsigned(64), unsigned(64)), (signed(64), signed(33)), (unsigned(65), signed(64)),
     (signed(130), signed(127)), (unsigned(100), unsigned(7))],
)  # fmt: skip
def test_every_operator_gives_what_the_language_says_for_wide_values(left, right):
    rng = random.Random(left.width)

    def value(shape):
        return rng.choice([
            rng.getrandbits(shape.width), rng.getrandbits(rng.randrange(shape.width) + 1),
            -1 & ((1 << shape.width) - 1), 1 << (shape.width - 1), 0, 1,
        ])  # fmt: skip

    _compare(left, right, [(value(left), value(right)) for _ in range(60)])


def _compare(left, right, operands):
    m = Module()
    a, b = Signal(left), Signal(right)
    results = []
    for expression in expressions(a, b):
        value = Value.cast(expression)
        result = Signal(value.shape())
        m.d.comb += result.eq(value)
        results.append((value, result))

    async def bench(ctx):
        for x, y in operands:
            ctx.set(Cat(a, b), x | y << left.width)
            for value, result in results:
                assert ctx.get(result) == ctx.get(value), (x, y, value)

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_narrower_targets_cut_values_off_and_wider_ones_extend_them():
    m = Module()
    a, b = Signal(4), Signal(signed(4))
    y = [Signal(2), Signal(signed(2)), Signal(9), Signal(signed(9))]
    z = [Signal.like(signal) for signal in y]
    m.d.comb += [signal.eq(a) for signal in y] + [signal.eq(b) for signal in z]

    async def bench(ctx):
        ctx.set(a, 0b1110)
        ctx.set(b, 0b1110)
        assert [ctx.get(signal) for signal in y] == [2, -2, 14, 14]
        assert [ctx.get(signal) for signal in z] == [2, -2, 510, -2]

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def assigned(targets, statements, *inputs):
    """Values of `targets`, without a clock, once `inputs` (pairs) are set."""
    m = Module()
    m.d.comb += statements
    values = []

    async def bench(ctx):
        for signal, value in inputs:
            ctx.set(signal, value)
        values.extend(ctx.get(target) for target in targets)

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()
    return values


def test_assigned_slices_leave_the_other_bits():
    a, y = Signal(2), Signal(8, init=0b11111011)
    assert assigned([y], y[2:4].eq(a), (a, 0b01)) == [0b11110111]
    assert assigned([y], y[2:4][1].eq(a), (a, 0b10)) == [0b11110011]


@pytest.mark.parametrize(
    ("offset", "bits", "words"), [(0, 0xFC, 0xFC), (1, 0xF9, 0xE7), (2, 0xF3, 0x3F),
                                  (3, 0xE7, 0xFF), (6, 0x3F, 0xFF), (7, 0x7F, 0xFF)],
)  # fmt: skip
def test_assigned_parts_lie_where_their_offset_says_and_are_cut_at_the_end(offset, bits, words):
    at, y, z = Signal(3), Signal(8, init=0xFF), Signal(8, init=0xFF)
    statements = [y.bit_select(at, 3).eq(0b100), z.word_select(at, 3).eq(0b100)]
    assert assigned([y, z], statements, (at, offset)) == [bits, words]


def test_assigned_concatenations_are_split():
    a = Signal(9)
    x, y, z = Signal(3), Signal(signed(3)), Signal(4)
    assert assigned([x, y, z], Cat(Cat(x, y), z).eq(a), (a, 0b100101110)) == [6, -3, 4]


@pytest.mark.parametrize(
    ("index", "expected"), [(0, [5, 2, 3]), (1, [1, 5, 3]), (2, [1, 2, 5]), (3, [1, 2, 3])]
)
def test_an_element_of_an_array_is_assigned_and_none_when_the_index_lies_outside(
    index, expected
):
    select = Signal(2)
    x, y, z = Signal(3, init=1), Signal(3, init=2), Signal(3, init=3)
    assert assigned([x, y, z], Array([x, y, z])[select].eq(5), (select, index)) == expected


def test_cases_are_tried_in_order_with_wildcards_and_a_default():
    m = Module()
    a, y = Signal(4), Signal(8)
    with m.Switch(a):
        with m.Case(0, "11--"):
            m.d.comb += y.eq(1)
        with m.Case("1---", 5):
            m.d.comb += y.eq(2)
        with m.Case():
            m.d.comb += y.eq(3)
        with m.Default():
            m.d.comb += y.eq(a + 16)

    async def bench(ctx):
        seen = []
        for value in range(16):
            ctx.set(a, value)
            seen.append(ctx.get(y))
        assert seen == [1, 17, 18, 19, 20, 2, 22, 23, 2, 2, 2, 2, 1, 1, 1, 1]

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_the_last_of_several_assignments_counts_bit_by_bit():
    m = Module()
    a, y = Signal(), Signal(8, init=0x0F)
    m.d.sync += y.eq(0x11)
    with m.If(a):
        m.d.sync += y[4:6].eq(0b10)

    async def bench(ctx):
        await ctx.tick()
        assert ctx.get(y) == 0x11
        ctx.set(a, 1)
        await ctx.tick()
        assert ctx.get(y) == 0x21

    simulate(m, bench)


def test_signals_without_bits_are_zero():
    m = Module()
    a, y, z = Signal(0), Signal(0), Signal(4)
    m.d.comb += [y.eq(a), z.eq(Cat(a, C(5, 3), y))]
    m.d.sync += Signal(0).eq(a)

    async def bench(ctx):
        ctx.set(a, 3)
        await ctx.tick()
        assert [ctx.get(signal) for signal in (a, y, z)] == [0, 0, 5]

    simulate(m, bench)


def test_a_state_machine_walks_through_its_states():
    m = Module()
    go, y = Signal(), Signal(2)
    with m.FSM(init="B") as fsm:
        with m.State("A"):
            m.d.comb += y.eq(1)
            m.next = "B"
        with m.State("B"), m.If(go):
            m.next = "A"
        with m.State("C"):
            m.next = "A"
    busy = fsm.ongoing("A")

    async def bench(ctx):
        seen = []
        for value in (0, 1, 1, 1, 0):
            ctx.set(go, value)
            await ctx.tick()
            seen.append((ctx.get(y), ctx.get(busy)))
        assert seen == [(0, 0), (1, 1), (0, 0), (1, 1), (0, 0)]

    simulate(m, bench)


def test_a_wide_register_counts_over_its_words():
    m = Module()
    count = Signal(130, init=(1 << 128) - 2)
    m.d.sync += count.eq(count + 1)

    async def bench(ctx):
        for _ in range(3):
            await ctx.tick()
        assert ctx.get(count) == (1 << 128) + 1
        ctx.set(count, -1)
        await ctx.tick()
        assert ctx.get(count) == 0

    simulate(m, bench)
