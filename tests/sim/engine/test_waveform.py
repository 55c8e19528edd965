# amaranth: UnusedElaboratable=no
"""A waveform of a compiled board is, byte for byte, what pysim records of the same run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth import Assert, C, Cat, Elaboratable, Module, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import ConfigError
from sim.engine import recording, waveform
from sim.engine.base import EngineError
from sim.engine.compiled import CompiledBoard
from sim.engine.pysim import PysimEngine
from sim.wave import Waveform, Window


class Colour(enum.Enum, shape=3):
    RED = 0
    LIGHT_BLUE = 1
    GREEN = 5


class Sign(enum.Enum, shape=signed(4)):
    MINUS = -1
    ZERO = 0
    PLUS = 1


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
        wide = Signal(130, init=(1 << 129) + 5)
        shifted = Signal(200)
        turning = Signal(7)
        negative = Signal(7)
        alias = Signal(130)
        mixed = Signal(20)
        below = Signal(Sign)
        fixed = Signal(9)
        loose = Signal(5, init=19)
        partly = Signal(6, init=42)
        chain = Signal(4)
        deep = Signal(8)
        m.d.sync += [
            wide.eq(Cat(wide[1:], wide[0] ^ self.step[0])), deep.eq(deep + self.step),
            turning.eq(turning - 3), below.eq(below.as_value() - 1),
        ]
        m.d.comb += [
            left.step.eq(self.step), right.step.eq(deep),
            left.i.eq(wide), right.i.eq(left.o),
            alias.eq(wide), shifted.eq(wide << 65), fixed.eq(C(0x155, 9)),
            mixed.eq(Cat(wide[60:70], self.step)), negative.eq(turning.as_signed()),
            partly[2:4].eq(loose), chain.eq(Cat(self.step[0], chain[:3])),
            self.total.eq(left.o.as_value() + deep),
        ]
        m.d.sync += Assert(deep != 0xEE, "deep")
        return m


ALWAYS = Window()
DEEP = Window(None, None, ((("deep", 35),), (("left.count", 3), ("right.count", 1))))


@pytest.fixture(scope="module")
def engines():
    return PysimEngine(Board()), CompiledBoard(Board())


def program(engine):
    """Inputs, registers that are set, a reset of the board and one by its input."""
    for cycle in range(40):
        engine.poke("step", cycle * 37 & 255)
        engine.step()
        if cycle == 20:
            engine.poke("deep", 200)
            engine.poke("left.count", 6)
            engine.step(7)
        if cycle == 30:
            engine.reset()
        engine.poke("rst", cycle == 25)


def record(engine, path, window=ALWAYS, scopes=(), program=program):
    """What is recorded meanwhile."""
    path.unlink(missing_ok=True)
    engine.end_capture()
    engine.reset()
    engine.capture(path, window, scopes)
    program(engine)
    recorded = engine.end_capture()
    assert recorded == path.exists()
    return path.read_bytes() if recorded else None


def same(engines, folder, *arguments, **options):
    """Records on both."""
    expected, found = [
        record(engine, folder / f"{engine.name}.vcd", *arguments, **options) for engine in engines
    ]
    assert found == expected
    return found


def test_everything_is_recorded_alike(engines, tmp_path):
    text = same(engines, tmp_path).decode()
    for label in ("sLIGHT_BLUE", "sMINUS", "sunknown", "sIdle/0", "sBusy/1"):
        assert f"\n{label} " in text, label
    assert "$var wire 200" in text
    wave = Waveform(tmp_path / "compiled.vcd")
    assert wave.value("wide", 0) == (1 << 129) + 5
    assert wave.value("alias", 3) == wave.value("wide", 3) != wave.value("wide", 2)
    assert wave.value("shifted", 3) == wave.value("wide", 3) << 65 & (1 << 200) - 1
    assert wave.value("partly", 0) == 0b101110


@pytest.mark.parametrize("scopes", [("left",), ("right.o", "deep", "left.fsm_state"), ("chain",)])
def test_scopes_hold_in_both(engines, tmp_path, scopes):
    assert same(engines, tmp_path, Window(3, 20), scopes)
    names = Waveform(tmp_path / "compiled.vcd").signals
    assert "clk" in names
    assert "turning" not in names


@pytest.mark.parametrize(
    "window",
    [Window(0, 1), Window(5, 9), Window(20, None), Window(60, 70), DEEP,
     Window(None, None, ((("wide", (1 << 129) + 5),),)), Window(None, None, ((("fixed", 1),),)),
     Window(None, None, ((("fixed", 0x155), ("mixed", 0x14802)),))],
    ids=str,
)  # fmt: skip
def test_windows_are_alike(engines, tmp_path, window):
    same(engines, tmp_path, window)


actions = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("poke"), st.sampled_from(["step", "deep", "wide"]), st.integers(0, 255)),
    st.tuples(st.just("run_until"), st.just("left.count"), st.integers(0, 7)),
    st.tuples(st.just("reset")),
)
windows = st.one_of(
    st.builds(lambda start, length: Window(start, start + length),
              st.integers(0, 30), st.integers(1, 30)),
    st.builds(lambda name, value: Window(None, None, (((name, value),),)),
              st.sampled_from(["left.count", "step", "left.fsm_state"]), st.integers(0, 3)),
)  # fmt: skip


@settings(max_examples=60)
@given(window=windows, does=st.lists(actions, max_size=12))
def test_whatever_is_done_it_is_recorded_alike(engines, tmp_path_factory, window, does):
    def program(engine):
        for action, *arguments in does:
            if action == "run_until":
                name, value = arguments
                engine.run_until(name, engine.now + 15, value)
            else:
                getattr(engine, action)(*arguments)
            seen.append((engine.now, engine.capturing, engine.peek("total"), engine.peek("mixed")))

    seen = []
    same(engines, tmp_path_factory.mktemp("waves"), window, program=program)
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_long_windows_of_conditions_end_where_they_should(engines, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "CHUNK", 3)

    def program(engine):
        engine.poke("step", 1)
        assert engine.run_until("deep", None, 60)
        return engine.now

    assert same(engines, tmp_path, DEEP, program=program)
    assert same(engines, tmp_path, Window(None, None, ((("step", 1),),)), program=program)


def test_the_board_breaks_while_it_is_recorded(engines, tmp_path):
    def program(engine):
        engine.poke("step", 17)
        with pytest.raises(EngineError, match="deep; cycle 14"):
            engine.step(100)

    assert same(engines, tmp_path, program=program)
    assert Waveform(tmp_path / "compiled.vcd").last == 14


class Texts(Elaboratable):
    """More labels than are remembered, and long ones."""

    storages = {}

    def elaborate(self, platform):
        m = Module()
        count = Signal(9, decoder=lambda number: f"a {number}" if number % 3 else "x" * number)
        far = Signal(64, decoder=lambda number: {0: "none"}[number] if number < 9 else number)
        m.d.sync += [count.eq(count * 5 + 3), far.eq(far * 3 + (far << 40) + count[:3])]
        return m


@pytest.mark.parametrize("buffer", [1 << 20, 500, 1])
def test_labels_of_any_number_and_length_pass_through_a_buffer_of_any_size(
    tmp_path, monkeypatch, buffer
):
    monkeypatch.setattr(waveform, "BUFFER", buffer)
    text = same(
        (PysimEngine(Texts()), CompiledBoard(Texts())), tmp_path,
        program=lambda engine: engine.step(800),
    ).decode()
    assert text.count("\nsa_") > 400
    assert f"\ns{'x' * 256} " in text


def test_signals_that_are_not_kept_at_full_speed_are_at_hand(tmp_path):
    engines = PysimEngine(Board()), CompiledBoard(Board(), keep=["chain"])
    fast = engines[1]
    assert fast.program.slot("total") is None
    for engine in engines:
        engine.poke("step", 7)
        engine.step(9)
    assert [engine.peek("total") for engine in engines] == [63] * 2
    assert [engine.peek("alias") for engine in engines] == [engines[0].peek("wide")] * 2
    snapshot = fast.snapshot()
    ends = []
    for engine in engines:
        assert engine.run_until("total", None, 84)
        engine.poke("deep", 100)
        assert engine.seek(((("total", 100), ("deep", 0)), (("total", 114), ("deep", 114))), None)
        ends.append((engine.now, engine.peek("deep"), engine.peek("mixed"), engine.peek("chain")))
    assert ends[0] == ends[1]
    assert ends[0][:2] == (14, 114)
    fast.restore(snapshot)
    assert (fast.now, fast.peek("total"), fast.peek("deep")) == (9, 63, 63)
    assert set(fast.signals) <= set(engines[0].signals)
    assert same(engines, tmp_path, Window(None, None, ((("total", 200),),)))
    with pytest.raises(ConfigError, match="no signal is called 'nothing'"):
        fast.peek("nothing")


LEFT_OPEN = """
from pathlib import Path
from sim.engine.compiled import CompiledBoard
from sim.wave import Window
from tests.sim.engine.test_waveform import Board
board = CompiledBoard(Board())
board.capture(Path("left.vcd"), Window())
board.step(12)
"""


def test_a_process_that_ends_leaves_a_whole_file(engines, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", LEFT_OPEN], cwd=tmp_path, env=environment, check=True)
    whole = record(engines[0], tmp_path / "x.vcd", program=lambda engine: engine.step(12))
    assert (tmp_path / "left.vcd").read_bytes() == whole


def test_a_file_that_cannot_be_written_is_an_error_of_the_run(engines, tmp_path):
    class Full:
        closed = False

        def write(self, content):
            raise OSError("no room")

        def close(self):
            self.closed = True

    board = engines[1]
    board.reset()
    board.capture(tmp_path / "x.vcd", ALWAYS)
    board.step()
    wave = board._recording._waveform
    wave._file.close()
    wave._file = Full()
    with pytest.raises(OSError, match="no room"):
        board.step(100_000)
    board.end_capture()
    assert wave._file.closed
    with pytest.raises(ConfigError, match="no scope is called 'nowhere'"):
        board.capture(tmp_path / "y.vcd", ALWAYS, ("nowhere",))
    with pytest.raises(FileNotFoundError):
        record(board, tmp_path / "none" / "x.vcd")
    board.end_capture()
