"""The engine against Amaranth's own simulator loop, and what it offers to a host."""

import random

import pytest
from amaranth import Module, Signal
from amaranth.lib import fifo, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw.config import ConfigError
from sim.board.storage import Storage
from sim.engine.pysim import PysimEngine

CYCLES = 300


class Mixture(wiring.Component):
    """One of each: registers, a state machine, memories with every kind of port, a queue."""

    go: In(1)
    address: In(4)
    value: In(8)
    state: Out(2)
    total: Out(12)
    shown: Out(8)
    seen: Out(8)
    level: Out(3)
    popped: Out(8)

    def __init__(self):
        super().__init__()
        self.storages = {}

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=8, depth=12, init=range(12))
        write = words.write_port(granularity=4)
        plain = words.read_port()
        transparent = words.read_port(transparent_for=[write])
        m.submodules.queue = queue = fifo.SyncFIFO(width=8, depth=4)
        reached = Signal(12)
        m.d.comb += [
            write.addr.eq(self.address),
            write.data.eq(self.value),
            write.en.eq(self.go.replicate(2) & self.value[:2]),
            plain.addr.eq(self.address),
            plain.en.eq(self.value[7]),
            transparent.addr.eq(self.address ^ self.value[0]),
            transparent.en.eq(1),
            self.shown.eq(plain.data ^ transparent.data),
            queue.w_en.eq(self.go),
            queue.w_data.eq(self.value),
            queue.r_en.eq(self.value[6]),
            self.level.eq(queue.level),
            self.popped.eq(queue.r_data),
            reached.eq(self.total + self.value),
        ]
        with m.FSM(name="phase"):
            with m.State("IDLE"):
                with m.If(self.go):
                    m.d.sync += self.total.eq(reached)
                    m.next = "WORK"
            with m.State("WORK"):
                m.d.comb += self.state.eq(1)
                m.d.sync += self.seen.eq(transparent.data)
                with m.If(self.value[5]):
                    m.next = "REST"
            with m.State("REST"):
                m.d.comb += self.state.eq(2)
                with m.If(~self.go):
                    m.next = "IDLE"
        return m


def test_every_cycle_is_that_of_amaranths_simulator():
    chooser = random.Random(3)
    stimuli = []
    for _ in range(CYCLES):
        # Long quiet times: what did not change must not run, and nothing may be missed then.
        if stimuli and chooser.random() < 0.5:
            stimuli.append(stimuli[-1])
        else:
            stimuli.append(
                (chooser.getrandbits(1), chooser.getrandbits(4), chooser.getrandbits(8))
            )
    inputs = "go", "address", "value"
    outputs = "state", "total", "shown", "seen", "level", "popped"

    dut = Mixture()
    engine = PysimEngine(dut)
    fast = []
    for values in stimuli:
        for name, value in zip(inputs, values, strict=True):
            engine.poke(getattr(dut, name), value)
        fast.append(tuple(engine.peek(getattr(dut, name)) for name in outputs))
        engine.step()

    dut = Mixture()
    slow = []

    async def bench(ctx):
        for values in stimuli:
            for name, value in zip(inputs, values, strict=True):
                ctx.set(getattr(dut, name), value)
            slow.append(tuple(ctx.get(getattr(dut, name)) for name in outputs))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert fast == slow
    assert len(set(fast)) > CYCLES // 4


@pytest.fixture(scope="module")
def shared():
    return PysimEngine(Mixture())


@pytest.fixture
def engine(shared):
    shared.reset()
    return shared


def test_registers_can_be_read_and_flipped_by_name(engine):
    assert engine.peek("total") == 0
    engine.poke("total", engine.peek("total") ^ 0x800)
    engine.step(3)
    assert engine.peek("total") == 0x800
    assert engine.peek("queue.level") == 0
    with pytest.raises(ConfigError, match="no signal is called 'nowhere'"):
        engine.peek("nowhere")


def test_run_until_stops_at_the_signal_or_the_cycle(engine):
    assert not engine.run_until("state", 5)
    assert engine.now == 5
    engine.poke("go", 1)
    assert engine.run_until("state", 100)
    assert engine.now == 6
    assert not engine.run_until(None, 10)
    assert engine.now == 10


def test_reset_gives_the_same_run_again(engine):
    def run():
        engine.reset()
        for value in range(20):
            engine.poke("value", value * 13 & 0xFF)
            engine.poke("go", value & 1)
            engine.step()
        return engine.peek("total"), engine.peek("popped"), engine.peek("shown"), engine.now

    assert run() == run()


class Bytes(wiring.Component):
    """A storage that is read and written at the same address, from outside."""

    enable: In(2)
    address: In(4)
    data: In(32)
    strobe: In(4)
    read: Out(32)

    def __init__(self):
        super().__init__()
        self.storage = Storage(64, 4)
        self.storages = {"bytes": self.storage}

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = self.storage
        m.d.comb += [
            storage.read_enable.eq(self.enable[0]),
            storage.write_enable.eq(self.enable[1]),
            storage.read_address.eq(self.address),
            storage.write_address.eq(self.address),
            storage.write_data.eq(self.data),
            storage.write_strobe.eq(self.strobe),
            self.read.eq(storage.read_data),
        ]
        return m


def test_a_storage_behaves_like_a_synchronous_memory_of_bytes():
    dut = Bytes()
    engine = PysimEngine(dut)
    chooser = random.Random(11)
    model, shown = bytearray(64), 0
    engine.memory("bytes")[:4] = model[:4] = b"host"
    for _ in range(200):
        enable, address = chooser.getrandbits(2), chooser.randrange(16)
        data, strobe = chooser.getrandbits(32), chooser.choice([0xF, chooser.getrandbits(4)])
        for name, value in zip(
            ("enable", "address", "data", "strobe"), (enable, address, data, strobe), strict=True
        ):
            engine.poke(getattr(dut, name), value)
        assert engine.peek(dut.read) == shown
        engine.step()
        at = address * 4
        if enable & 1:
            shown = int.from_bytes(model[at : at + 4], "little")
        if enable & 2:
            word = data.to_bytes(4, "little")
            for lane in range(4):
                if strobe >> lane & 1:
                    model[at + lane] = word[lane]
    assert bytes(engine.memory("bytes")) == bytes(model)
    engine.reset()
    assert bytes(engine.memory("bytes")) == bytes(model)
