"""A waveform of a compiled board is, byte for byte, what pysim records of the same run."""

import pytest
from amaranth import C, Cat, Module, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.config import ConfigError
from sim.engine.compiled import CompiledBoard
from sim.engine.pysim import PysimEngine
from sim.wave import Window


class Colour(enum.Enum, shape=3):
    RED = 0
    LIGHT_BLUE = 1
    GREEN = 5


class Balance(enum.Enum, shape=2):
    EVEN = 0
    ODD = 1


class Inner(data.Struct):
    colour: Colour
    low: 2


class Outer(data.Struct):
    inner: Inner
    level: 4
    lanes: data.ArrayLayout(3, 4)


class Part(wiring.Component):
    """A scope of its own, with a structure, an enumeration, states and a memory."""

    i: In(Outer)
    step: In(8)
    o: Out(Outer)
    colour: Out(Colour)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=4, init=[1, 2, 3])
        read, write = memory.read_port(), memory.write_port()
        held = Signal(Outer)
        count = Signal(3)
        m.d.sync += [held.eq(self.i), count.eq(count + self.step[0])]
        m.d.comb += [
            self.o.eq(held),
            self.colour.eq(count),
            read.addr.eq(count), write.addr.eq(count + 1),
            write.data.eq(self.step ^ read.data), write.en.eq(self.step[1]),
        ]
        with m.FSM():
            with m.State("Idle"), m.If(self.step[2]):
                m.next = "Busy"
            with m.State("Busy"), m.If(count == 3):
                m.next = "Idle"
        return m


class Board(wiring.Component):
    """Names of the same wires, wide signals, signed ones, constants, parts that are not driven."""

    step: In(8)
    total: Out(8)

    def __init__(self):
        super().__init__()
        self.storages = {}

    def elaborate(self, platform):
        m = Module()
        m.submodules.left = left = Part()
        m.submodules.right = right = Part()
        wide = Signal(130)
        shifted = Signal(200)
        signed = Signal(7)
        negative = Signal(7)
        alias = Signal(130)
        mixed = Signal(20)
        fixed = Signal(9)
        loose = Signal(5, init=19)
        partly = Signal(6, init=42)
        chain = Signal(4)
        deep = Signal(8)
        m.d.sync += [
            wide.eq(Cat(wide[1:], wide[0] ^ self.step[0])), deep.eq(deep + self.step),
            signed.eq(signed - 3),
        ]
        m.d.comb += [
            left.step.eq(self.step), right.step.eq(deep),
            left.i.eq(wide), right.i.eq(left.o),
            alias.eq(wide), shifted.eq(wide << 65), fixed.eq(C(0x155, 9)),
            mixed.eq(Cat(wide[60:70], self.step)), negative.eq(signed.as_signed()),
            partly[2:4].eq(loose), chain.eq(Cat(self.step[0], chain[:3])),
            self.total.eq(left.o.as_value() + deep),
        ]
        return m


def run(engine, path, window=Window(), scopes=()):
    """The same things done to an engine; what was recorded meanwhile."""
    engine.reset()
    engine.capture(path, window, scopes)
    for cycle in range(40):
        engine.poke("step", cycle * 37 & 255)
        engine.step()
        if cycle == 20:
            engine.poke("deep", 200)
            engine.poke("left.count", 6)
            engine.step(7)
    recorded = engine.end_capture()
    return path.read_text() if recorded else None


@pytest.fixture(scope="module")
def engines():
    return PysimEngine(Board()), CompiledBoard(Board())


def test_all(engines, tmp_path):
    first, second = [run(engine, tmp_path / engine.name) for engine in engines]
    assert first == second
