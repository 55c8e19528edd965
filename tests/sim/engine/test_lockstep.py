"""The lockstep tool: what it compares, and how it explains a difference."""

import pytest
from amaranth.hdl import Array, ClockDomain, Fragment, Module, Signal, signed
from amaranth.hdl._ast import SignalDict
from amaranth.lib.memory import Memory

from sim.engine.drivers import drivers, names
from sim.engine.lockstep import Comparison, Difference, ModelSide, PysimSide, lockstep
from sim.engine.model import Model
from sim.engine.program import compile


class Design:
    """A counter, a sum of it and an input, and a memory, in a module `inner`."""

    def __init__(self):
        self.module = m = Module()
        m.submodules.inner = inner = Module()
        m.domains.sync = self.sync = ClockDomain("sync")
        self.step = Signal(4)
        self.count = Signal(8)
        self.total = Signal(signed(9))
        self.twice = Signal(10)
        inner.d.sync += self.count.eq(self.count + self.step)
        with inner.If(self.step[0]):
            inner.d.comb += self.total.eq(self.count + self.step)
        m.d.comb += self.twice.eq(self.total << 1)
        inner.submodules.rows = rows = Memory(shape=8, depth=3, init=[1, 2])
        write = rows.write_port()
        read = rows.read_port(domain="comb")
        self.read = read.data
        inner.d.comb += [write.addr.eq(1), write.data.eq(self.count), write.en.eq(self.step[1])]
        m.d.comb += read.addr.eq(self.step[2:])

    def steps(self, count=4):
        for number in range(count):
            yield SignalDict([(self.step, number)])
            yield SignalDict([(self.sync.clk, 1)])
            yield SignalDict([(self.sync.clk, 0)])


class Wrong(ModelSide):
    """Shows other values of some signals or rows from some step on."""

    def __init__(self, design, wrong, after):
        super().__init__(Model(compile(design), optimise=0))
        self._wrong = wrong
        self._after = after
        self._steps = 0

    def apply(self, step):
        super().apply(step)
        self._steps += 1

    def _altered(self, name, read):
        if name not in self._wrong:
            return read
        return lambda: read() ^ (self._steps >= self._after)

    def reader(self, name, signal):
        return self._altered(name, super().reader(name, signal))

    def row(self, path, data, index):
        return self._altered(f"{path}[{index}]", super().row(path, data, index))


@pytest.fixture
def design():
    return Design()


def fragment(design):
    return Fragment.get(design.module, None).prepare()


def difference(design, *wrong, after):
    prepared = fragment(design)
    with pytest.raises(Difference) as caught:
        lockstep(prepared, design.steps(), actual=Wrong(prepared, wrong, after))
    return caught.value


def test_all_signals_and_rows_are_compared_at_the_start_and_after_each_step(design):
    prepared = fragment(design)
    comparison = Comparison(prepared, PysimSide(prepared), Wrong(prepared, (), 0))
    assert comparison.names == [
        "twice", "total", "read__addr", "step", "inner.clk", "inner.rst", "inner.count",
        "inner.write__addr", "inner.write__data", "inner.write__en", "inner.rows.read__data",
        "inner.rows[0]", "inner.rows[1]", "inner.rows[2]",
    ]  # fmt: skip
    assert lockstep(prepared, design.steps()) == 13 * len(comparison.names)


def test_a_difference_names_the_signal_the_step_and_both_values(design):
    found = difference(design, "inner.count", after=8)
    assert (found.signal, found.step, found.expected, found.actual) == (
        "inner.count", "step 7", 3, 2
    )  # fmt: skip
    assert str(found).startswith("step 7: inner.count is 0x2, not 0x3\ndriven at ")


def test_a_difference_shows_what_a_register_read_before_the_step(design):
    lines = str(difference(design, "inner.count", after=8)).splitlines()
    assert lines[1].endswith("domain sync, from")
    assert __file__ in lines[1]
    assert sorted(lines[2:]) == [
        "    inner.count = 0x1 before the step", "    step = 0x2 before the step"
    ]  # fmt: skip


def test_of_several_differences_the_one_is_named_that_comes_from_none_of_them(design):
    found = difference(design, "twice", "total", after=3)
    assert found.signal == "total"
    assert "also different: twice" in str(found)


def test_a_row_of_a_memory_is_named(design):
    assert difference(design, "inner.rows[1]", after=5).signal == "inner.rows[1]"


def test_an_input_that_differs_is_driven_by_nothing(design):
    assert "driven by nothing" in str(difference(design, "step", after=1))


def test_a_signal_has_its_highest_name(design):
    found = names(fragment(design))
    assert found["total"] is design.total
    assert found["inner.count"] is design.count
    assert "inner.total" not in found


def test_drivers_read_conditions_offsets_and_indices():
    m = Module()
    a, b, test, offset, index, value = (Signal(4, name=name) for name in "abtoiv")
    with m.Switch(test):
        with m.Case(3):
            m.d.comb += Array([a, b])[index].bit_select(offset, 2).eq(value)
    m.d.comb += b[0].eq(1)
    design = Fragment.get(m, None).prepare()
    (one,) = drivers(design, a)
    assert (one.domain, {signal.name for signal in one.reads}) == ("comb", set("toiv"))
    assert [len(found.reads) for found in drivers(design, b)] == [4, 0]
    assert drivers(design, value) == []


def test_the_driver_of_a_read_port_is_its_memory(design):
    (found,) = drivers(fragment(design), design.read)
    assert found.place.endswith("(memory inner.rows)")
    assert (found.domain, [signal.name for signal in found.reads]) == (
        "comb", ["read__addr"]
    )  # fmt: skip
