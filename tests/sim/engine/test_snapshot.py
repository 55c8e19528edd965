"""Snapshots of a board: from any of them, a run goes on as it did."""

import pytest
from amaranth import Assert, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import HOST_BASE, ConfigError
from rt.transport import Read, Write
from sim.board.config import BoardConfig
from sim.engine.base import holds
from sim.engine.compiled import CompiledBoard
from sim.engine.pysim import PysimEngine
from sim.link import open as open_link
from sim.wave import Window
from tests.sim import stub

LENGTH = 120
BOARD = BoardConfig.fast(host_bytes=1 << 16, device_bytes=1 << 16, stall=40)


@pytest.fixture(scope="module", params=["pysim", "compiled"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def link(kind):
    transport = open_link(config=stub.CONFIG, board=BOARD, npu=stub.Stub(), engine=kind)
    yield transport
    transport.close()


def begin(link):
    """The engine in the cycle in which a copy has begun, out of zeroed memories."""
    link.reset()
    link.write_device(0, bytes(link.device_bytes))
    link.write_host(HOST_BASE, bytes(link.host_bytes))
    link.write_host(HOST_BASE + 64, b"12345678")
    link.control([
        Write(stub.SOURCE, 64), Write(stub.TARGET, 4096), Write(stub.HOSTS, 1),
        Write(stub.TIMER, 90), Write(stub.COPY, 1),
    ])  # fmt: skip
    return link.engine


@pytest.fixture
def engine(link):
    return begin(link)


def everything(engine):
    """Every named signal, and the bytes of the storages."""
    values = {name: engine.peek(name) for name in engine.signals}
    return values, bytes(engine.memory("device")), bytes(engine.memory("host")), engine.now


def watched(engine, cycles):
    states = []
    for _ in range(cycles):
        engine.step()
        states.append(everything(engine))
    return states


@settings(max_examples=5)
@given(st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=4))
def test_from_every_snapshot_every_signal_goes_on_as_it_did(link, points):
    engine = begin(link)
    start = engine.snapshot()
    run, snapshots = [everything(engine)], {}
    for cycle in range(LENGTH):
        if cycle in points:
            snapshots[cycle] = engine.snapshot()
        engine.step()
        run.append(everything(engine))
    assert run[-1][1][4096:4104] == b"12345678"
    for point in [*points, *reversed(points)]:
        engine.restore(snapshots[point])
        assert everything(engine) == run[point]
        later = run[point + 1 : point + 16]
        assert watched(engine, len(later)) == later
    engine.restore(start)
    assert watched(engine, LENGTH) == run[1:]


def test_a_snapshot_outlives_a_reset_and_inputs_are_part_of_it(link, engine):
    link.inject("write", 4096, 4096)
    snapshot = engine.snapshot()
    engine.step(100)
    failed = everything(engine)
    link.inject("write", 0, 0, None)
    link.reset()
    engine.step(3)
    engine.restore(snapshot)
    engine.step(100)
    assert everything(engine) == failed
    assert link.control([Read(stub.STATUS)]) == [2]


def test_a_register_that_was_poked_counts(engine):
    snapshot = engine.snapshot()
    engine.poke("npu.scratch", 77)
    engine.restore(snapshot)
    assert engine.peek("npu.scratch") == 0


def test_only_the_engine_itself_takes_a_snapshot_back(engine, kind, tmp_path):
    snapshot = engine.snapshot()
    other = open_link(
        config=stub.CONFIG, board=BOARD, npu=stub.Stub(), engine=kind
    ).engine
    with pytest.raises(ConfigError, match="of another engine"):
        other.restore(snapshot)
    engine.capture(tmp_path / "x.vcd", Window())
    with pytest.raises(ConfigError, match="while a waveform is recorded"):
        engine.restore(snapshot)
    engine.end_capture()
    engine.restore(snapshot)


def test_a_run_stops_at_a_value_of_a_signal(engine):
    left = engine.peek("npu.timer")
    begin = engine.now
    assert engine.run_until("npu.timer", None, 3)
    assert engine.now == begin + left - 3
    assert engine.run_until("npu.timer", None, 3)
    assert engine.run_until("npu.timer", None, 0)
    assert engine.now == begin + left
    assert not engine.run_until("npu.timer", engine.now + 5, 9)
    assert engine.now == begin + left + 5


def test_seeking_stops_where_a_condition_holds_before_a_cycle(engine):
    conditions = ((("npu.timer", 30), ("npu.scratch", 0)), (("npu.timer", 20),), (("irq", 7),))
    left, begin = engine.peek("npu.timer"), engine.now
    at = begin + left - 30
    assert not engine.seek(conditions, at)
    assert engine.now == at
    assert holds(engine, conditions)
    assert engine.seek(conditions, at + 1)
    assert engine.now == at
    engine.poke("npu.scratch", 1)
    assert engine.seek(conditions, None)
    assert engine.now == at + 10


class Fragile(wiring.Component):
    """Writes a count into a memory, and breaks at a limit."""

    limit: In(8)
    count: Out(8)
    shown: Out(8)

    def __init__(self):
        super().__init__()
        self.storages = {}

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=8, depth=4, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(1), write.addr.eq(self.count), write.data.eq(self.count),
            read.addr.eq(self.count), self.shown.eq(read.data),
        ]  # fmt: skip
        m.d.sync += [self.count.eq(self.count + 1), Assert(self.count != self.limit, "broken")]
        return m


@pytest.mark.parametrize(("make", "stopped"), [(PysimEngine, 9), (CompiledBoard, 10)])
def test_a_snapshot_brings_back_a_board_that_broke(make, stopped):
    engine = make(Fragile())
    engine.poke("limit", 9)
    engine.step(6)
    snapshot = engine.snapshot()
    for _ in range(2):
        with pytest.raises(AssertionError, match="broken; cycle 9"):
            engine.step(10)
        assert engine.now == stopped
        engine.restore(snapshot)
    engine.poke("limit", 255)
    assert [engine.peek("shown") for _ in range(4) if not engine.step()] == [3, 4, 5, 6]
