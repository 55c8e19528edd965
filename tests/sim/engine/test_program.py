"""What a program says about its design: names, places of signals, memories, and what is refused."""

import pickle
import re

import pytest
from amaranth.hdl import C, Cat, ClockDomain, Instance, IOPort, Module, Signal, signed
from amaranth.hdl._ast import AnyConst
from amaranth.lib import io
from amaranth.lib.memory import Memory

from sim.engine.model import Model
from sim.engine.program import compile
from sim.engine.tables import Unsupported


class Top:
    """Signals of every kind, in modules below modules."""

    def __init__(self):
        self.m = m = Module()
        m.domains.sync = self.domain = ClockDomain()
        m.submodules.outer = outer = Module()
        outer.submodules.inner = inner = Module()
        self.value = Signal(8, name="value")
        self.count = Signal(8, name="count", init=200)
        self.wide = Signal(130, name="wide", init=(1 << 129) + 5)
        self.alias = Signal(8, name="alias")
        self.constant = Signal(70, name="constant")
        self.mixed = Signal(12, name="mixed")
        self.sum = Signal(9, name="sum")
        self.negative = Signal(signed(70), name="negative")
        inner.d.sync += [self.count.eq(self.count + 1), self.wide.eq(self.wide + self.value)]
        outer.d.comb += [self.alias.eq(self.count), self.constant.eq((1 << 69) + 3)]
        m.d.comb += [
            self.mixed.eq(Cat(self.count[4:], self.value[:4], C(5, 4))),
            self.sum.eq(self.count + self.value),
            self.negative.eq(self.count[:4].as_signed()),
        ]
        outer.submodules.table = self.memory = Memory(shape=70, depth=5, init=[1, 1 << 69])
        port = self.memory.read_port(domain="comb")
        m.d.comb += port.addr.eq(self.value)


@pytest.fixture(scope="module")
def top():
    return Top()


@pytest.fixture(scope="module")
def program(top):
    return compile(top.m)


@pytest.fixture
def model(program):
    return Model(program, optimise=0)


def test_names_are_paths_below_the_top(top, program):
    assert program.names["outer.inner.count"] is top.count
    assert program.names["outer.alias"] is top.alias
    assert program.names["sum"] is top.sum
    assert program.slot("outer.inner.wide") == program.slot(top.wide)
    assert set(program.paths) <= set(program.names)
    assert program.slot("outer.inner.nothing") is None
    assert program.slot(Signal(name="count")) is None


def test_a_wide_signal_has_a_piece_for_each_limb(top, program, model):
    slot = program.slot(top.wide)
    assert slot.width == 130
    assert [(piece.position, piece.width) for piece in slot.pieces] == [(0, 64), (64, 64), (128, 2)]
    assert model.get(slot) == (1 << 129) + 5
    model.set(slot, (1 << 130) - 1)
    model.set(program.slot(top.value), 3)
    assert model.step(1) == 1
    assert model.get(slot) == 2


def test_an_alias_lies_where_its_signal_does(top, program, model):
    assert program.slot(top.alias) == program.slot(top.count)
    assert model.get(program.slot(top.alias)) == 200


def test_a_constant_needs_no_place(top, program, model):
    slot = program.slot(top.constant)
    assert all(piece.place is None for piece in slot.pieces)
    assert model.get(slot) == (1 << 69) + 3
    assert not slot.settable


def test_bits_of_registers_and_constants_are_put_together(top, program, model):
    model.set(program.slot(top.value), 0x9A)
    model.settle()
    assert model.get(program.slot(top.mixed)) == 0x5AC
    assert not program.slot(top.mixed).settable
    assert model.get(program.slot(top.sum)) == 200 + 0x9A
    assert model.get(program.slot(top.negative)) == (1 << 70) - 8


def test_registers_and_inputs_can_be_set_and_logic_cannot(top, program):
    settable = {name for name, slot in program.paths.items() if slot.settable}
    inner = {f"outer.inner.{name}" for name in ("count", "wide", "clk", "rst")}
    assert {"value", *inner} <= settable
    assert not settable & {"sum", "mixed", "negative", "outer.constant"}


def test_registers_have_a_place_and_logic_only_when_it_is_kept(top):
    program = compile(top.m, keep=())
    assert program.slot(top.wide) is not None
    assert program.slot(top.alias) is not None  # is a register, too
    assert program.slot(top.sum) is None
    assert compile(top.m, keep=[top.sum]).slot(top.sum) is not None
    assert compile(top.m, keep=["s*m"]).slot(top.sum) is not None
    assert compile(top.m, keep=["*.sum", "su"]).slot(top.sum) is None


def test_memories_have_names_and_sizes(top, program, model):
    (info,) = program.memories
    assert (info.name, info.width, info.depth, info.row_bytes) == ("outer.table", 70, 5, 16)
    assert info.data is top.memory.data
    assert info.external is None
    assert [model.read_memory(info, row) for row in range(5)] == [1, 1 << 69, 0, 0, 0]


@pytest.mark.parametrize(("width", "size"), [(1, 1), (8, 1), (9, 2), (17, 4), (33, 8), (65, 16)])
def test_rows_have_the_size_of_an_integer_or_of_whole_limbs(width, size):
    m = Module()
    m.submodules.table = memory = Memory(shape=width, depth=3, init=[])
    memory.read_port(domain="comb")
    assert [info.row_bytes for info in compile(m).memories] == [size]


def test_clocks_are_those_that_nothing_drives(top, program):
    assert program.clocks == [program.slot(top.domain.clk)]
    m = Module()
    m.domains.sync = whole = ClockDomain(reset_less=True)
    m.domains.half = half = ClockDomain(reset_less=True)
    divided, count = Signal(), Signal(4)
    m.d.sync += divided.eq(~divided)
    m.d.comb += half.clk.eq(divided)
    m.d.half += count.eq(count + 1)
    program = compile(m)
    assert program.clocks == [program.slot(whole.clk)]
    model = Model(program, optimise=0)
    assert model.step(10) == 10
    assert model.get(program.slot(count)) == 5


def test_a_detached_program_is_pickled_and_runs_as_before(top, program, model):
    again = pickle.loads(pickle.dumps(program.detached()))
    assert again.names == {}
    assert again.paths == program.paths
    assert [info.data for info in again.memories] == [None]
    other = Model(again, optimise=0)
    for each in (model, other):
        each.set(again.slot("value"), 7)
        each.step(100)
    assert other.snapshot() == model.snapshot()
    assert other.get(again.slot("sum")) == (200 + 100) % 256 + 7


def test_a_program_is_the_same_each_time(top, program):
    again = compile(top.m)
    assert again.sources == program.sources
    assert again.detached() == program.detached()


# --------------------------------------------------------------------------------- refusals


def refusal(m):
    with pytest.raises(Unsupported) as caught:
        compile(m)
    return str(caught.value)


def test_an_instance_is_refused_by_its_name():
    m = Module()
    out = Signal(4)
    m.submodules.pll = Instance("SB_PLL40", o_O=out)
    assert re.fullmatch(
        r"cannot simulate an instance of SB_PLL40 at .*test_program\.py:\d+: "
        "simulate a model of it in its place",
        refusal(m),
    )


def test_an_io_buffer_is_refused():
    m = Module()
    m.submodules.pad = io.Buffer("o", io.SingleEndedPort(IOPort(1, name="pad"), direction="o"))
    assert re.fullmatch(
        r"cannot simulate an I/O buffer at \S+:\d+: simulate what is inside of it", refusal(m)
    )


def test_a_value_of_a_proof_is_refused():
    m = Module()
    out = Signal(4)
    m.d.comb += out.eq(AnyConst(4))
    assert re.fullmatch(
        r"cannot simulate AnyConst or AnySeq at \S+:\d+, which are for formal proofs", refusal(m)
    )


def test_a_combinational_loop_is_refused_with_its_place():
    m = Module()
    m.submodules.ring = ring = Module()
    one, two = Signal(4), Signal(4)
    ring.d.comb += [one.eq(two + 1), two.eq(one ^ 3)]
    assert re.fullmatch(
        r"bit 0 of a value in top\.ring \(from .*test_program\.py:\d+\) depends on itself without "
        "a register between: break the combinational loop",
        refusal(m),
    )
