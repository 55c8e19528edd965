"""Running a compiled design: cycles, conditions, messages, snapshots and memories."""

import numpy as np
import pytest
from amaranth.hdl import Assert, ClockDomain, Module, Print, Signal
from amaranth.lib.memory import Memory

from sim.engine.model import Model, ModelError
from sim.engine.program import compile


class Bench:
    """A counter, a memory that notes it, and messages."""

    def __init__(self):
        self.m = m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        self.count, self.limit = Signal(16), Signal(16, init=0xFFFF)
        self.step, self.low = Signal(4, init=1), Signal(4)
        self.printed, self.wide = Signal(16, init=0xFFFF), Signal(130)
        m.submodules.log = log = Memory(shape=16, depth=32, init=[])
        write, read = log.write_port(), log.read_port(domain="comb")
        self.row, self.data = Signal(5), Signal(16)
        m.d.comb += [
            write.en.eq(1), write.addr.eq(self.count), write.data.eq(self.count * 3),
            read.addr.eq(self.row), self.data.eq(read.data), self.low.eq(self.count[:4]),
        ]  # fmt: skip
        m.d.sync += [
            self.count.eq(self.count + self.step),
            self.wide.eq((self.wide << 1) ^ self.count),
            Assert(self.count != self.limit),
        ]
        with m.If(self.count == self.printed):
            m.d.sync += Print("at", self.count)
        self.model = Model(compile(m), optimise=0)

    def get(self, signal):
        return self.model.get(self.model.program.slot(signal))

    def set(self, signal, value):
        self.model.set(self.model.program.slot(signal), value)

    def until(self, signal, value, **options):
        return self.model.until(self.model.program.slot(signal), value, **options)


@pytest.fixture(scope="module")
def built():
    return Bench()


@pytest.fixture
def bench(built):
    built.model.reset()
    built.model.messages()
    return built


def test_a_step_is_so_many_cycles(bench):
    assert bench.model.step(0) == 0
    assert bench.get(bench.count) == 0
    assert bench.model.step() == 1
    assert bench.model.step(41) == 41
    assert bench.get(bench.count) == 42


def test_a_step_is_a_rising_and_a_falling_edge(bench):
    model = bench.model
    (clock,) = model.program.clocks
    for level in (1, 0, 1, 0):
        model.set(clock, level)
        assert model.edges() is bool(level)
        assert model.edges() is False
        model.settle()
    assert bench.get(bench.count) == 2


def test_a_run_stops_before_the_cycle_in_which_a_condition_holds(bench):
    assert bench.model.run_until([bench.until(bench.count, 5)], 100) == 5
    assert bench.get(bench.count) == 5
    assert bench.model.run_until([bench.until(bench.count, 5)], 100) == 0
    assert bench.model.run_until([bench.until(bench.count, 5)], 0) == 0
    assert bench.model.run_until([bench.until(bench.count, 5, equal=False)], 100) == 1


def test_a_run_whose_condition_never_holds_takes_all_cycles(bench):
    assert bench.model.run_until([bench.until(bench.step, 2)], 100) == 100
    assert bench.get(bench.count) == 100


def test_a_run_stops_when_any_of_several_conditions_holds(bench):
    conditions = [bench.until(bench.count, 50), bench.until(bench.low, 9)]
    assert bench.model.run_until(conditions, 100) == 9
    assert bench.model.run_until(conditions[:1], 100) == 41


def test_a_run_stops_when_joined_conditions_hold_together(bench):
    joined = [
        bench.until(bench.low, 9, more=True),
        bench.until(bench.count, 20, equal=False, more=True),
        bench.until(bench.count, 9, equal=False),
    ]
    assert bench.model.run_until(joined, 100) == 25
    bench.model.reset()
    assert bench.model.run_until([*joined, bench.until(bench.count, 12)], 100) == 12


def test_a_condition_holds_or_not(bench):
    condition, other = bench.until(bench.low, 3), bench.until(bench.low, 3, equal=False)
    found = []
    for _ in range(4):
        found.append((bench.model.holds(condition), bench.model.holds(other)))
        bench.model.step(1)
    assert found == [(False, True)] * 3 + [(True, False)]


def test_a_condition_on_a_wide_signal_is_refused(bench):
    with pytest.raises(ModelError, match=r"in one piece of at most 64 bits"):
        bench.until(bench.wide, 0)


def test_a_message_stops_a_run_after_its_cycle(bench):
    bench.set(bench.printed, 7)
    assert bench.model.step(100) == 8
    assert bench.model.reported
    assert bench.model.step(100) == 0  # until it is fetched
    (message,) = bench.model.messages()
    assert (message.check.kind, message.text, message.values) == ("print", "at 7\n", (7,))
    assert not bench.model.reported
    assert bench.model.messages() == []
    assert bench.model.step(100) == 100


def test_an_assert_that_fails_stops_a_run(bench):
    bench.set(bench.limit, 3)
    assert bench.model.run_until([bench.until(bench.count, 50)], 100) == 4
    assert [message.check.kind for message in bench.model.messages()] == ["assert"]
    assert bench.model.run_until([bench.until(bench.count, 50)], 100) == 46


def test_a_run_goes_on_from_a_snapshot_as_it_did(bench):
    model = bench.model
    model.step(1234)
    taken = model.snapshot()
    model.step(777)
    later = model.snapshot()
    assert later != taken
    bench.set(bench.step, 3)
    model.step(55)
    model.restore(taken)
    assert (bench.get(bench.count), bench.get(bench.step)) == (1234, 1)
    assert model.snapshot() == taken
    model.step(777)
    assert model.snapshot() == later
    other = Model(model.program, optimise=0)
    other.restore(taken)
    other.step(777)
    assert other.snapshot() == later


def test_logic_is_settled_after_a_snapshot_is_restored(bench):
    taken = bench.model.snapshot()
    bench.model.step(13)
    later = bench.model.snapshot()
    bench.model.restore(taken)
    assert bench.get(bench.low) == 0
    bench.model.restore(later)
    assert bench.get(bench.low) == 13


def test_a_reset_brings_the_initial_values_back(bench):
    first = bench.model.snapshot()
    bench.set(bench.step, 5)
    bench.model.step(100)
    bench.model.reset()
    assert bench.model.snapshot() == first
    assert bench.model.step(3) == 3
    assert bench.get(bench.count) == 3


def test_a_view_of_a_memory_is_no_copy(bench):
    (info,) = bench.model.program.memories
    view = bench.model.memory(info)
    assert (view.shape, view.dtype) == ((32, 2), np.uint8)
    assert not view.any()
    bench.model.step(32)
    assert view.view("<u2")[:, 0].tolist() == [3 * n for n in range(32)]
    view[7] = 0x34, 0x12
    assert bench.model.read_memory(info, 7) == 0x1234


def test_a_row_that_is_written_is_read_after_it_settles(bench):
    (info,) = bench.model.program.memories
    bench.set(bench.row, 9)
    bench.model.settle()
    assert bench.get(bench.data) == 0
    bench.model.write_memory(info, 9, 0x1_2345)
    bench.model.settle()
    assert bench.get(bench.data) == bench.model.read_memory(info, 9) == 0x2345


def test_another_name_for_bits_of_a_register_sets_them(bench):
    bench.set(bench.count, 0x123)
    bench.set(bench.low, 9)
    bench.model.settle()
    assert bench.get(bench.count) == 0x129


def test_logic_cannot_be_set(bench):
    with pytest.raises(ModelError, match="driven by combinational logic cannot be set"):
        bench.set(bench.data, 1)
    assert bench.get(bench.data) == 0


def test_what_is_set_is_cut_to_its_width(bench):
    bench.set(bench.step, 0x123)
    assert bench.get(bench.step) == 3
    bench.set(bench.wide, -1)
    assert bench.get(bench.wide) == (1 << 130) - 1


@pytest.mark.parametrize("clocks", [0, 2])
def test_a_step_needs_exactly_one_clock(clocks):
    m = Module()
    for index in range(clocks):
        name = f"clocked{index}"
        m.domains += ClockDomain(name, reset_less=True)
        count = Signal(8, name=f"count{index}")
        m.d[name] += count.eq(count + 1)
    m.d.comb += Signal().eq(Signal())
    model = Model(compile(m), optimise=0)
    for run in (lambda: model.step(1), lambda: model.run_until([], 1)):
        with pytest.raises(ModelError, match=f"has {clocks} clocks from outside; step needs one"):
            run()


def test_a_condition_that_comes_true_as_the_last_change_is_not_run_past():
    done, m = Signal(), Module()
    m.d.sync += done.eq(1)
    program = compile(m)
    model = Model(program, optimise=1)
    assert model.run_until([model.until(program.slot(done), 1)], 1000) == 1
