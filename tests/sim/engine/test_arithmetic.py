"""Operators on numbers of 1 to 200 bits are those of Python: as nodes, and as C."""

import random

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.engine.arithmetic import Arithmetic
from sim.engine.graph import LIMB, Graph, mask
from sim.engine.model import Model
from sim.engine.program import compile

from .evaluator import evaluate, floored, joined_limbs, signed_of
from .stimuli import number

BORDERS = (1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 193, 200)
WIDTHS = st.sampled_from(BORDERS) | st.integers(1, 200)
VALUES = st.integers(0, 1 << 200) | st.integers(-300, 300) | st.integers(0, 200).map(
    lambda bit: (1 << bit) - 1
)  # fmt: skip

BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "//": lambda a, b: floored("div", a, b),
    "%": lambda a, b: floored("mod", a, b),
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
OPERATORS = [
    *("+", "-", "*", "==", "!="),
    *(sign + name for sign in "us" for name in ("//", "%", "<", ">", "<=", ">=")),
]
UNARY = {
    "-": lambda a, width: -a,
    "b": lambda a, width: a != 0,
    "r|": lambda a, width: a != 0,
    "r&": lambda a, width: a == mask(width),
    "r^": lambda a, width: a.bit_count(),
}


class Numbers:
    """Numbers as limbs of a graph: of elements, or of constants."""

    def __init__(self):
        self.graph = Graph()
        self.states = []
        self.arithmetic = Arithmetic(self.graph)

    def limbs(self, value, width, constant=False):
        found = []
        for at in range(0, width, LIMB):
            size, limb = min(LIMB, width - at), value >> at & mask(min(LIMB, width - at))
            if constant:
                found.append(self.graph.const(size, limb))
                continue
            found.append(self.graph.node("state", size, len(self.states)))
            self.states.append(limb)
        return found

    def value(self, limbs):
        for limb in limbs[:-1]:
            assert self.graph.widths[limb] == LIMB
        return joined_limbs(self.node(limb) for limb in limbs)

    def node(self, node):
        return evaluate(self.graph, node, self.states)


@settings(max_examples=150)
@given(WIDTHS, VALUES, VALUES, st.sampled_from(["neither", "first", "second", "both"]))
@example(200, 1 << 199, -1, "neither")
@example(128, 1 << 127, (1 << 64) - 1, "neither")
def test_operators_are_those_of_python(width, a, b, constant):
    numbers = Numbers()
    one = numbers.limbs(a, width, constant in ("first", "both"))
    other = numbers.limbs(b, width, constant in ("second", "both"))
    a, b = a & mask(width), b & mask(width)
    for operator in OPERATORS:
        signed_ = operator[0] == "s"
        x, y = (signed_of(v, width) if signed_ else v for v in (a, b))
        function = BINARY.get(operator) or BINARY[operator[1:]]
        result = numbers.arithmetic.operate(operator, [one, other], width)
        size = sum(numbers.graph.widths[limb] for limb in result)
        assert size in (1, width)
        assert numbers.value(result) == function(x, y) & mask(size), operator


@settings(max_examples=60)
@given(WIDTHS, VALUES, st.booleans())
@example(129, (1 << 129) - 1, False)
@example(129, 1 << 128, False)
def test_operators_of_one_operand_are_those_of_python(width, a, constant):
    numbers = Numbers()
    limbs, a = numbers.limbs(a, width, constant), a & mask(width)
    for operator, function in UNARY.items():
        result = numbers.arithmetic.operate(operator, [limbs], width)
        size = sum(numbers.graph.widths[limb] for limb in result)
        assert size == (width if operator == "-" else 1)
        assert numbers.value(result) == function(a, width) & mask(size), operator


@settings(max_examples=120)
@given(WIDTHS, VALUES, st.sampled_from((1, 6, 8, 31, 32, 64, 65, 130)), VALUES, st.booleans())
@example(200, -1, 65, 1 << 64, False)
@example(64, -1, 64, 1 << 63, False)
@example(130, 1 << 129, 32, 64, False)
def test_a_shift_by_any_amount_leaves_zeros_or_signs(width, a, bits, amount, constant):
    numbers = Numbers()
    limbs, a = numbers.limbs(a, width), a & mask(width)
    by, amount = numbers.limbs(amount, bits, constant), amount & mask(bits)
    small = min(amount, 400)
    for operator, expected in (
        ("<<", a << small),
        ("u>>", a >> small),
        ("s>>", signed_of(a, width) >> small),
    ):
        result = numbers.arithmetic.operate(operator, [limbs, by], width)
        assert numbers.value(result) == expected & mask(width), operator


@settings(max_examples=120)
@given(WIDTHS, VALUES, VALUES, st.sampled_from((1, 3, 64, 100)), st.data())
def test_a_part_at_an_offset_is_a_shifted_value(width, a, offset, stride, data):
    numbers = Numbers()
    bits = data.draw(st.sampled_from((1, 8, 33, 70)))
    low = data.draw(st.integers(0, 150))
    high = low + data.draw(st.integers(1, LIMB))
    limbs, a = numbers.limbs(a, width), a & mask(width)
    at, offset = numbers.limbs(offset, bits), offset & mask(bits)
    for signed_ in (False, True):
        node = numbers.arithmetic.part(limbs, width, at, stride, low, high, signed=signed_)
        value = signed_of(a, width) if signed_ else a
        assert numbers.node(node) == value >> min(offset * stride + low, 500) & mask(high - low)


@settings(max_examples=120)
@given(WIDTHS, VALUES, st.integers(0, 300), st.integers(0, 250), st.integers(1, LIMB))
@example(8, 0xA5, 3, 0, 16)
def test_a_placed_value_lies_at_its_start_and_zeros_elsewhere(width, a, start, low, size):
    numbers = Numbers()
    limbs, a = numbers.limbs(a, width), a & mask(width)
    (at,) = numbers.limbs(start, LIMB)
    node = numbers.arithmetic.place(limbs, at, low, low + size)
    assert numbers.node(node) == (a << start) >> low & mask(size)


@settings(max_examples=60)
@given(
    st.integers(0, 40) | VALUES, st.sampled_from((6, 32, 64, 70)),
    st.integers(0, 12), st.integers(1, 12), st.integers(0, 20), st.integers(1, 9),
)  # fmt: skip
def test_a_position_is_inside_of_its_choices_only(chosen, bits, first, count, start, stride):
    numbers = Numbers()
    limbs, chosen = numbers.limbs(chosen, bits), chosen & mask(bits)
    inside, at = numbers.arithmetic.position(limbs, first, count, start, stride)
    assert numbers.node(inside) == (first <= chosen < first + count)
    if numbers.node(inside):
        assert numbers.node(at) == start + (chosen - first) * stride


@pytest.mark.parametrize("kind", ["mul_limb", "div_limb"])
def test_numbers_of_many_limbs_have_nodes_of_their_own(kind):
    numbers = Numbers()
    one, other = numbers.limbs(0, 130), numbers.limbs(0, 130)
    operator = "*" if kind == "mul_limb" else "s//"
    result = numbers.arithmetic.operate(operator, [one, other], 130)
    assert [numbers.graph.ops[limb] for limb in result[:2]] == [kind, kind]
    assert [numbers.graph.widths[limb] for limb in result] == [64, 64, 2]
    again = numbers.arithmetic.operate(operator, [one, other], 130)
    assert again is result


# ------------------------------------------------------------------------------------ as C

C_WIDTHS = (1, 31, 33, 64, 65, 128, 129, 200)


def outcomes(a, b, amount):
    """Values of Amaranth with the function of the operands' numbers that each must be."""
    return [
        (a + b, lambda x, y, n: x + y),
        (a - b, lambda x, y, n: x - y),
        (a * b, lambda x, y, n: x * y),
        (a // b, lambda x, y, n: floored("div", x, y)),
        (a % b, lambda x, y, n: floored("mod", x, y)),
        (a < b, lambda x, y, n: x < y),
        (a <= b, lambda x, y, n: x <= y),
        (a > b, lambda x, y, n: x > y),
        (a >= b, lambda x, y, n: x >= y),
        (a == b, lambda x, y, n: x == y),
        (a != b, lambda x, y, n: x != y),
        (-a, lambda x, y, n: -x),
        (~a, lambda x, y, n: ~x),
        (a & b, lambda x, y, n: x & y),
        (a | b, lambda x, y, n: x | y),
        (a ^ b, lambda x, y, n: x ^ y),
        (a.bool(), lambda x, y, n: x != 0),
        (a.any(), lambda x, y, n: x != 0),
        (a.all(), lambda x, y, n: x & mask(len(a)) == mask(len(a))),
        (a.xor(), lambda x, y, n: (x & mask(len(a))).bit_count() & 1),
        (a << amount, lambda x, y, n: x << n),
        (a >> amount, lambda x, y, n: x >> n),
        (a.bit_select(amount, 70), lambda x, y, n: x >> n),
        (a.word_select(amount, 67), lambda x, y, n: x >> 67 * n),
        (Mux(a < b, a, b), lambda x, y, n: min(x, y)),
        (Cat(a, b), lambda x, y, n: x & mask(len(a)) | y << len(a)),
    ]


def test_operators_in_c_are_those_of_python():
    m, cases = Module(), []
    amount = Signal(8)
    for width in C_WIDTHS:
        for kind in (unsigned, signed):
            a, b = Signal(kind(width)), Signal(kind(width))
            for value, function in outcomes(a, b, amount):
                output = Signal(Value.cast(value).shape())
                m.d.comb += output.eq(value)
                cases.append((a, b, output, function))
    model = Model(compile(m), optimise=0)
    slot = model.program.slot
    numbers = random.Random(1)
    inputs = {id(signal): signal for a, b, *_ in cases for signal in (a, b)}

    def read(signal):
        value = model.get(slot(signal))
        return signed_of(value, len(signal)) if signal.shape().signed else value

    for _ in range(40):
        model.set(slot(amount), number(numbers, 8))
        for signal in inputs.values():
            model.set(slot(signal), number(numbers, len(signal)))
        model.settle()
        n = read(amount)
        for a, b, output, function in cases:
            x, y = read(a), read(b)
            assert model.get(slot(output)) == function(x, y, n) & mask(len(output)), (a, x, y, n)
