"""Amaranth's corners: values of operators, with the expected numbers, on each engine."""

import pytest
from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value, signed, unsigned

from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")
U8, S8 = unsigned(8), signed(8)
BORDERS = (1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129)


def check(rows):
    """Each row: a function, shapes of its operands, then tuples (operands..., expected).

    The operands are signals, so that nothing is known when a design is compiled.
    """
    m = Module()
    cases = []
    for function, shapes, *examples in rows:
        operands = [Signal(shape) for shape in shapes]
        result = Value.cast(function(*operands))
        output = Signal(result.shape())
        m.d.comb += output.eq(result)
        cases += [(operands, values, output, expected) for *values, expected in examples]

    async def bench(ctx):
        for number, (operands, values, output, expected) in enumerate(cases):
            for operand, value in zip(operands, values, strict=True):
                ctx.set(operand, value)
            assert ctx.get(output) == expected, (number, values)

    simulator = simulator_of(m)
    simulator.add_testbench(bench)
    simulator.run()


def divide(a, b):
    return a // b


def modulo(a, b):
    return a % b


def test_division_rounds_to_minus_infinity():
    check([
        (divide, (S8, S8), (7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (-128, -1, 128)),
        (divide, (U8, S8), (200, -3, -67), (200, 3, 66), (255, -128, -2), (255, -1, -255)),
        (divide, (S8, U8), (-128, 255, -1), (-128, 3, -43), (127, 255, 0), (-1, 1, -1)),
        (divide, (U8, U8), (255, 2, 127), (1, 255, 0)),
        (divide, (unsigned(130), unsigned(65)), (1 << 129, 3, (1 << 129) // 3),
         ((1 << 130) - 1, (1 << 65) - 1, (1 << 65) + 1)),
        (divide, (signed(130), signed(65)), (-(1 << 129), -1, 1 << 129), (-(1 << 129), 3,
         -226854911280625642308916404954512140971), ((1 << 129) - 1, -(1 << 64), -(1 << 65))),
        (divide, (signed(64), signed(64)), (-(1 << 63), -1, 1 << 63), (-(1 << 63), 1, -(1 << 63))),
        (divide, (signed(1), signed(1)), (-1, -1, 1), (0, -1, 0)),
    ])  # fmt: skip


def test_the_remainder_has_the_sign_of_the_divisor():
    check([
        (modulo, (S8, S8), (7, 2, 1), (-7, 2, 1), (7, -2, -1), (-7, -2, -1), (-128, -1, 0)),
        (modulo, (U8, S8), (200, -3, -1), (200, 3, 2), (255, -128, -1)),
        (modulo, (S8, U8), (-128, 255, 127), (-7, 3, 2), (-1, 1, 0)),
        (modulo, (unsigned(130), unsigned(65)), (1 << 129, 3, 2), (1 << 129, 1 << 64, 0)),
        (modulo, (signed(130), signed(65)), (-(1 << 129), 3, 1), (-(1 << 129) + 1, -(1 << 64),
         -(1 << 64) + 1)),
        (modulo, (signed(64), signed(64)), (-(1 << 63), -1, 0), (-(1 << 63), 10, 2)),
    ])  # fmt: skip


def test_division_by_zero_gives_zero_and_so_does_its_remainder():
    shapes = (U8, S8, unsigned(64), signed(64), unsigned(65), signed(130))
    rows = [
        (function, (a, b), (-1 if a.signed else 1, 0, 0), (0, 0, 0), (100, 0, 0))
        for function in (divide, modulo)
        for a in shapes
        for b in shapes
    ]
    check(rows)


def test_shifts_by_more_than_the_width_leave_zeros_or_the_sign():
    def right(a, b):
        return a >> b

    def left(a, b):
        return a << b

    check([
        (right, (U8, U8), (255, 7, 1), (255, 8, 0), (255, 255, 0)),
        (right, (S8, U8), (-128, 7, -1), (-1, 8, -1), (-128, 255, -1), (127, 255, 0)),
        (right, (unsigned(130), U8), (1 << 129, 129, 1), ((1 << 130) - 1, 64, (1 << 66) - 1),
         ((1 << 130) - 1, 65, (1 << 65) - 1), ((1 << 130) - 1, 130, 0), (1 << 129, 255, 0)),
        (right, (signed(130), U8), (-(1 << 129), 129, -1), (-(1 << 129), 64, -(1 << 65)),
         (-(1 << 129), 200, -1), ((1 << 129) - 1, 200, 0)),
        (right, (unsigned(64), unsigned(70)), (1 << 63, 63, 1), (1 << 63, 64, 0),
         (1 << 63, 1 << 64, 0), (1 << 63, 1 << 69, 0)),
        (right, (signed(64), unsigned(70)), (-(1 << 63), 1 << 64, -1), (-2, 1, -1)),
        (left, (S8, unsigned(4)), (-1, 15, -32768), (127, 15, 127 << 15), (-128, 0, -128)),
        (left, (unsigned(65), unsigned(6)), (1 << 64, 63, 1 << 127), (3, 62, 3 << 62)),
        (left, (U8, unsigned(0)), (255, 0, 255)),
    ])  # fmt: skip


def test_constant_shifts_and_rotations_go_round_and_beyond():
    full = (1 << 65) - 1
    check([
        (lambda a: a.shift_right(9), (S8,), (-128, -1), (127, 0)),
        (lambda a: a.shift_right(9), (U8,), (255, 0)),
        (lambda a: a.shift_left(60), (S8,), (-1, -(1 << 60))),
        (lambda a: a.shift_right(-60), (S8,), (-1, -(1 << 60))),
        (lambda a: a.rotate_left(66), (unsigned(65),), (1 << 64, 1), (1, 2), (full, full)),
        (lambda a: a.rotate_right(64), (unsigned(65),), (1 << 64, 1), (1, 2)),
        (lambda a: a.rotate_left(-1), (S8,), (1, 128), (-128, 64)),
    ])


def test_comparisons_take_each_operand_by_its_own_sign_at_every_width():
    rows = []
    for width in BORDERS:
        low, high, top = -(1 << (width - 1)), (1 << (width - 1)) - 1, (1 << width) - 1
        s, u = signed(width), unsigned(width)
        rows += [
            (lambda a, b: a < b, (s, s), (low, high, 1), (high, low, 0), (low, low, 0)),
            (lambda a, b: a >= b, (s, s), (-1, 0, 0), (0, -1, 1), (low, low, 1)),
            (lambda a, b: a < b, (s, u), (-1, top, 1), (-1, 0, 1), (0, 0, 0), (low, 0, 1)),
            (lambda a, b: a == b, (s, u), (-1, top, 0), (0, 0, 1)),
            (lambda a, b: a != b, (u, s), (top, -1, 1), (0, 0, 0)),
            (lambda a, b: a > b, (u, u), (top, 0, 1), (0, top, 0), (top, top, 0)),
            (lambda a, b: a <= b, (s, signed(130)), (low, low, 1), (low, low - 1, 0)),
            (lambda a, b: a == b, (s, signed(130)), (-1, -1, 1), (-1, top, 0)),
        ]
    check(rows)


def test_values_are_extended_by_their_own_sign_and_cut_at_every_width():
    rows = []
    for width in BORDERS:
        low, top = -(1 << (width - 1)), (1 << width) - 1
        s, u = signed(width), unsigned(width)
        rows += [
            (lambda a: a + C(0, signed(131)), (s,), (low, low), (-1, -1), (0, 0)),
            (lambda a: a + C(0, signed(131)), (u,), (top, top), (0, 0)),
            (lambda a: a.as_unsigned(), (s,), (-1, top), (low, -low)),
            (lambda a: a.as_signed(), (u,), (top, -1), (-low, low)),
            (lambda a: -a, (s,), (low, -low), (-1, 1)),
            (lambda a: -a, (u,), (top, -top), (0, 0)),
            (lambda a: ~a, (s,), (low, -low - 1), (-1, 0)),
            (lambda a: ~a, (u,), (top, 0), (0, top)),
            (abs, (s,), (low, -low), (-1, 1), (0, 0)),
            (lambda a, b: a - b, (u, u), (0, top, -top), (top, 0, top)),
            (lambda a, b: a - b, (u, s), (0, low, -low), (top, low, top - low)),
            (lambda a, b: a * b, (s, s), (low, low, low * low), (low, -1, -low)),
            (lambda a, b: a * b, (u, s), (top, low, top * low), (top, -1, -top)),
            (lambda a, b: a & b, (s, unsigned(130)), (-1, (1 << 130) - 1, (1 << 130) - 1)),
            (lambda a, b: a ^ b, (s, signed(130)), (-1, -1, 0), (low, 0, low)),
        ]
    check(rows)


def test_reductions_look_at_every_bit():
    rows = []
    for width in BORDERS:
        top, high = (1 << width) - 1, 1 << (width - 1)
        rows += [
            (lambda a: a.any(), (unsigned(width),), (high, 1), (0, 0), (top, 1)),
            (lambda a: a.all(), (unsigned(width),), (top, 1), (top - high, 0)),
            (lambda a: a.xor(), (unsigned(width),), (top, width % 2), (high, 1), (0, 0)),
            (lambda a: a.bool(), (signed(width),), (-high, 1), (0, 0)),
        ]
    empty = Signal(0)
    rows.append((lambda a: Cat(empty.any(), empty.all(), empty.xor(), a), (unsigned(1),), (1, 10)))
    check(rows)


def test_a_condition_of_many_bits_holds_if_any_is_set():
    def choose(test, a, b):
        return Mux(test, a, b)

    check([
        (choose, (unsigned(70), S8, U8), (1 << 69, -1, 200, -1), (0, -1, 200, 200)),
        (choose, (signed(2), U8, U8), (-2, 1, 2, 1), (0, 1, 2, 2)),
        (choose, (unsigned(0), U8, U8), (0, 1, 2, 2)),
        (choose, (U8, unsigned(130), signed(65)), (4, 1 << 129, -1, 1 << 129), (0, 5, -1, -1)),
    ])  # fmt: skip


def test_what_is_selected_beyond_the_end_is_zero_or_the_sign():
    def bits(a, i):
        return a.bit_select(i, 4)

    def words(a, i):
        return a.word_select(i, 3)

    check([
        (bits, (U8, U8), (0xA5, 4, 10), (0xA5, 6, 2), (0xA5, 8, 0), (0xA5, 255, 0)),
        (bits, (S8, U8), (-128, 4, 8), (-128, 6, 14), (-128, 8, 15), (127, 8, 0), (-1, 255, 15)),
        (words, (U8, U8), (0xE5, 0, 5), (0xE5, 2, 3), (0xE5, 3, 0), (0xE5, 255, 0)),
        (words, (S8, U8), (-128, 2, 6), (-128, 3, 7), (-128, 200, 7)),
        (bits, (unsigned(130), U8), (15 << 126, 126, 15), (15 << 126, 128, 3), (1 << 64, 61, 8),
         (1 << 129, 130, 0)),
        (bits, (signed(65), unsigned(70)), (-(1 << 64), 63, 14), (-(1 << 64), 1 << 69, 15)),
        (lambda a, i: a.word_select(i, 64), (unsigned(130), U8), (3 << 128, 2, 3),
         (1 << 64, 1, 1), (1 << 129, 3, 0)),
    ])  # fmt: skip


def test_an_array_gives_nothing_beyond_its_end():
    def element(a, b, c, i):
        return Array([a, b, c])[i]

    check([
        (element, (U8, S8, unsigned(3), unsigned(2)), (200, -100, 5, 0, 200),
         (200, -100, 5, 1, -100), (200, -100, 5, 2, 5), (200, -100, 5, 3, 0)),
        (element, (U8, U8, U8, unsigned(1)), (1, 2, 3, 0, 1), (1, 2, 3, 1, 2)),
        (element, (U8, U8, U8, unsigned(70)), (1, 2, 3, 1 << 69, 0), (1, 2, 3, 2, 3)),
        (element, (unsigned(130), signed(65), U8, U8), (1 << 129, -1, 3, 0, 1 << 129),
         (1 << 129, -1, 3, 1, -1), (1 << 129, -1, 3, 255, 0)),
    ])  # fmt: skip


def test_patterns_match_bit_by_bit_and_a_wide_value_whole():
    wide = "1" + "-" * 128 + "0"
    check([
        (lambda a: a.matches("1-0", "011"), (unsigned(3),), (4, 1), (6, 1), (3, 1), (5, 0)),
        (lambda a: a.matches(-1, 3), (signed(4),), (-1, 1), (3, 1), (-3, 0)),
        (lambda a: a.matches(wide), (unsigned(130),), (1 << 129, 1), ((1 << 129) + 1, 0), (2, 0)),
        (lambda a: a.matches(), (U8,), (0, 0)),
    ])  # fmt: skip


def test_values_without_bits_are_zero():
    check([
        (lambda a, b: Cat(a, b, a), (unsigned(0), U8), (0, 77, 77)),
        (lambda a, b: a + b, (unsigned(0), S8), (0, -5, -5)),
        (lambda a, b: a == b, (unsigned(0), unsigned(0)), (0, 0, 1)),
        (lambda a: a[3:3], (U8,), (255, 0)),
        (lambda a: a.replicate(0), (U8,), (255, 0)),
        (lambda a, b: b << a, (unsigned(0), U8), (0, 9, 9)),
    ])
