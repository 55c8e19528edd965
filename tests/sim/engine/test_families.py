"""Registers that are alike are found, and have the same values as on pysim."""

import random
import re

import pytest
from amaranth.hdl import Array, ClockDomain, Module, Mux, Signal, signed
from amaranth.hdl._ast import SignalDict

from sim.engine.lockstep import lockstep
from sim.engine.netlist import read
from sim.engine.partition import partition
from sim.engine.program import compile

from .stimuli import number

MOVE = r"memcpy\(v \+ \d+, s \+ \d+, \d+\)"


class Bench:
    """A module with a clock, whose inputs take random values."""

    def __init__(self):
        self.m = Module()
        self.m.domains.sync = self.domain = ClockDomain(reset_less=True)
        self.inputs = []

    def input(self, shape, name):
        self.inputs.append(Signal(shape, name=name))
        return self.inputs[-1]

    def compare(self, cycles=60, seed=0):
        """Both engines agree on every signal after every edge."""
        assert lockstep(self.m, self._steps(cycles, random.Random(seed))) > 0

    def _steps(self, cycles, numbers):
        for _ in range(cycles):
            yield SignalDict(
                (signal, number(numbers, len(signal)))
                for signal in self.inputs
                if numbers.random() < 0.7
            )
            yield SignalDict([(self.domain.clk, 1)])
            yield SignalDict([(self.domain.clk, 0)])

    def found(self):
        """Registers of each file, and of each family, by name."""
        netlist = read(self.m)

        def names(numbers):
            return {netlist.elements[element].name.split()[0] for element in numbers}

        groups = partition(netlist).groups
        files = [
            names(element for _, element in group.file.words) for group in groups if group.file
        ]
        families = [
            names(lane.element for lane in group.family.lanes) for group in groups if group.family
        ]
        return files, families


@pytest.fixture
def bench():
    return Bench()


def written(bench, count, *, width=8, enable=True):
    """Registers, one of which takes a value."""
    at, value = bench.input(4, "at"), bench.input(width, "value")
    words = [Signal(width, name=f"word{n}", init=n % (1 << width)) for n in range(count)]
    with bench.m.If(bench.input(1, "enable") if enable else 1):
        bench.m.d.sync += Array(words)[at].eq(value)
    return at, words


@pytest.mark.parametrize("width", [1, 8, 33, 64])
def test_an_array_that_is_written_at_an_index_is_a_file(bench, width):
    _, words = written(bench, 16, width=width)
    assert bench.found() == ([{word.name for word in words}], [])
    bench.compare()


def test_a_wide_word_is_a_file_for_each_limb(bench):
    _, words = written(bench, 8, width=130)
    assert bench.found()[0] == [{word.name for word in words}] * 3
    bench.compare()


def test_a_file_without_an_enable_is_written_at_every_edge(bench):
    at, words = written(bench, 16, enable=False)
    out = Signal(8)
    bench.m.d.comb += out.eq(Array(words)[at])
    assert bench.found()[0] == [{word.name for word in words}]
    bench.compare()


def test_an_index_beyond_a_file_writes_nothing(bench):
    _, words = written(bench, 5)
    assert bench.found()[0] == [{word.name for word in words}]
    bench.compare()


def test_what_is_written_is_read_before_in_the_same_cycle(bench):
    at, words = written(bench, 16)
    other = bench.input(4, "other")
    copy, total = Signal(8), Signal(12)
    bench.m.d.sync += [copy.eq(Array(words)[other]), total.eq(total + Array(words)[at])]
    assert bench.found()[0] == [{word.name for word in words}]
    bench.compare()


def test_two_files_with_one_index_are_two(bench):
    at, enable = bench.input(4, "at"), bench.input(1, "enable")
    one, two = ([Signal(8, name=f"{name}{n}") for n in range(16)] for name in ("one", "two"))
    with bench.m.If(enable):
        bench.m.d.sync += Array(one)[at].eq(bench.input(8, "first"))
        bench.m.d.sync += Array(two)[at].eq(bench.input(8, "second"))
    files, _ = bench.found()
    assert sorted(files, key=sorted) == [{word.name for word in words} for words in (one, two)]
    bench.compare()


def test_three_registers_are_no_file(bench):
    at, value = bench.input(4, "at"), bench.input(8, "value")
    words = [Signal(8, name=f"word{n}") for n in range(3)]
    for index, word in enumerate(words):
        with bench.m.If(at == index):
            bench.m.d.sync += word.eq(value)
    assert bench.found() == ([], [])
    bench.compare()


def test_registers_that_take_the_same_index_are_no_file(bench):
    at, value = bench.input(4, "at"), bench.input(8, "value")
    words = [Signal(8, name=f"word{n}") for n in range(8)]
    for index, word in enumerate(words):
        with bench.m.If(at == index % 4):
            bench.m.d.sync += word.eq(value)
    assert bench.found() == ([], [])
    bench.compare()


def test_registers_that_take_different_values_are_no_file(bench):
    at, value = bench.input(4, "at"), bench.input(8, "value")
    words = [Signal(8, name=f"word{n}") for n in range(6)]
    for index, word in enumerate(words):
        with bench.m.If(at == index):
            bench.m.d.sync += word.eq(value + index)
    assert bench.found()[0] == []
    bench.compare()


# ------------------------------------------------------------------------------- families


def row(bench, count):
    """Cells of a systolic array: weights stay, data goes right, sums grow."""
    enable, load = bench.input(1, "enable"), bench.input(1, "load")
    data = [bench.input(signed(8), "feed")]
    data += [Signal(signed(8), name=f"data{n}") for n in range(count)]
    weights = [Signal(signed(8), name=f"weight{n}", init=n) for n in range(count)]
    sums = [Signal(signed(24), name=f"sum{n}") for n in range(count)]
    with bench.m.If(load):
        for at, weight in enumerate(weights):
            bench.m.d.sync += weight.eq(weights[at - 1] + data[0])
    with bench.m.If(enable):
        for at in range(count):
            bench.m.d.sync += [
                data[at + 1].eq(data[at]),
                sums[at].eq(sums[at] + data[at] * weights[at]),
            ]
    return sums


@pytest.mark.parametrize("count", [8, 13, 16])
def test_a_row_of_multipliers_is_a_family(bench, count):
    sums = row(bench, count)
    _, families = bench.found()
    assert {signal.name for signal in sums} in families
    bench.compare()


def test_lanes_with_guards_of_their_own_are_a_family(bench):
    switches = bench.input(16, "switches")
    step = bench.input(8, "step")
    lanes = [Signal(8, name=f"lane{n}", init=n) for n in range(16)]
    for at, lane in enumerate(lanes):
        with bench.m.If(switches[at]):
            bench.m.d.sync += lane.eq(lane ^ (lanes[at - 1] + step))
    assert bench.found() == ([], [{lane.name for lane in lanes}])
    bench.compare()


def test_a_grid_of_cells_is_a_family(bench):
    rows, columns = 4, 8
    feeds = [bench.input(8, f"feed{n}") for n in range(rows)]
    cells = [[Signal(12, name=f"cell{y}_{x}") for x in range(columns)] for y in range(rows)]
    for y in range(rows):
        for x in range(columns):
            cell, up, left = cells[y][x], cells[y - 1][x], cells[y][x - 1]
            bench.m.d.sync += cell.eq(Mux(up > cell, left - feeds[y], cell + 1))
    _, families = bench.found()
    assert families == [{cell.name for cells_ in cells for cell in cells_}]
    bench.compare()


OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "compare": lambda a, b: Mux(a < b, a, b),
    "compare_signed": lambda a, b: Mux(a.as_signed() < b.as_signed(), a, b),
    "equal": lambda a, b: Mux(a == b, a, ~b),
    "shift_left": lambda a, b: a << b[:3],
    "shift_right": lambda a, b: a >> b[:3],
    "shift_signed": lambda a, b: a.as_signed() >> b[:4],
    "bits": lambda a, b: a[3:] | b[:4] << 6,
    "extend": lambda a, b: a.as_signed()[:7].as_signed() + b,
}


@pytest.mark.parametrize("width", [8, 13, 33, 64])
def test_lanes_of_every_operation_have_the_values_of_pysim(bench, width):
    step = bench.input(width, "step")
    expected = []
    for name, operation in OPERATIONS.items():
        lanes = [Signal(width, name=f"{name}{n}", init=3 * n) for n in range(9)]
        bench.m.d.sync += [
            lane.eq(operation(lane ^ step, lanes[at - 1])) for at, lane in enumerate(lanes)
        ]
        expected.append({lane.name for lane in lanes})
    _, families = bench.found()
    assert sorted(families, key=sorted) == sorted(expected, key=sorted)
    bench.compare()


def test_seven_lanes_are_no_family(bench):
    lanes = [Signal(8, name=f"lane{n}") for n in range(7)]
    bench.m.d.sync += [lane.eq(lane + bench.input(8, f"i{n}")) for n, lane in enumerate(lanes)]
    assert bench.found() == ([], [])
    bench.compare()


def test_unequal_forms_are_no_family(bench):
    step = bench.input(8, "step")
    lanes = [Signal(8, name=f"lane{n}", init=n) for n in range(9)]
    forms = (
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a ^ b, lambda a, b: a * b,
        lambda a, b: a & ~b, lambda a, b: Mux(a > b, a, b), lambda a, b: a << b[:2],
        lambda a, b: a >> b[:2], lambda a, b: a[1:] + b,
    )  # fmt: skip
    bench.m.d.sync += [
        lane.eq(form(lane ^ step, lanes[at - 1]))
        for at, (lane, form) in enumerate(zip(lanes, forms, strict=True))
    ]
    assert bench.found() == ([], [])
    bench.compare()


@pytest.mark.parametrize(
    "operation",
    [
        lambda a, b: a // b,
        lambda a, b: a.as_signed() % b.as_signed(),
        lambda a, b: (a ^ b).xor(),
        lambda a, b: a.bit_select(b[:3], 4),
    ],
    ids=["div", "smod", "parity", "part"],
)
def test_what_no_vector_unit_does_is_right_one_by_one(bench, operation):
    lanes = [Signal(8, name=f"lane{n}", init=37 * n % 256) for n in range(9)]
    step = bench.input(8, "step")
    bench.m.d.sync += [
        lane.eq(operation(lane, lanes[at - 1] ^ step)) for at, lane in enumerate(lanes)
    ]
    bench.compare()


def test_registers_of_different_widths_or_modules_are_not_mixed(bench):
    expected = []
    for part, width in enumerate((8, 9)):
        module = bench.m.submodules[f"part{part}"] = Module()
        lanes = [Signal(width, name=f"p{part}_{n}", init=n) for n in range(8)]
        module.d.sync += [lane.eq(lane + lanes[at - 1]) for at, lane in enumerate(lanes)]
        expected.append({lane.name for lane in lanes})
    assert sorted(bench.found()[1], key=sorted) == expected
    bench.compare(cycles=20)


# --------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("enabled", [False, True])
def test_a_shift_register_is_copied_as_a_whole(bench, enabled):
    written(bench, 8)  # lies below, so that there is something to copy from
    stages = [bench.input(8, "feed")] + [Signal(8, name=f"stage{n}", init=n) for n in range(40)]
    with bench.m.If(bench.input(1, "move") if enabled else 1):
        bench.m.d.sync += [b.eq(a) for a, b in zip(stages, stages[1:], strict=False)]
    (source,) = compile(bench.m, keep=()).sources
    assert len(re.findall(MOVE, source)) == 1
    bench.compare()


def test_a_shift_register_runs_backwards_and_around(bench):
    stages = [Signal(16, name=f"stage{n}", init=n * n) for n in range(40)]
    with bench.m.If(bench.input(1, "enable")):
        bench.m.d.sync += [a.eq(b) for a, b in zip(stages, stages[1:] + stages[:1], strict=True)]
    bench.compare()


def test_a_short_shift_register_is_not_copied_as_a_whole(bench):
    stages = [bench.input(8, "feed")] + [Signal(8, name=f"stage{n}") for n in range(6)]
    bench.m.d.sync += [b.eq(a) for a, b in zip(stages, stages[1:], strict=False)]
    (source,) = compile(bench.m, keep=()).sources
    assert not re.findall(MOVE, source)
    bench.compare()
