# amaranth: UnusedElaboratable=no
"""Capture windows, read back with the same tool that users have."""

import io

import pytest
from vcdvcd import VCDVCD

import sim.link
from hw.config import ConfigError
from rt.transport import Read, Write
from sim.board.config import BoardConfig
from sim.wave import WaveError, Waveform, Window, task_conditions, viewer_setup

from . import stub


@pytest.fixture(scope="module", params=["pysim", "compiled"])
def opened(request):
    transport = sim.link.open(
        config=stub.CONFIG, board=BoardConfig.fast(), npu=stub.Stub(), engine=request.param
    )
    yield transport
    transport.close()


@pytest.fixture
def record(opened, tmp_path):
    """Runs a program with a timer in a window and gives its waveform."""

    def record(window):
        opened.reset()
        opened.capture(tmp_path / "run.vcd", window, afterwards=False)
        opened.control([Write(stub.SCRATCH, 0x55), Write(stub.TIMER, 20)])
        opened.run_until(interrupt=True, cycle=100)
        opened.run_until(interrupt=False, cycle=opened.now() + 5)
        opened.control([Write(stub.CLEAR, 0), Read(stub.IDENT)])
        opened.engine.close()
        return Waveform(tmp_path / "run.vcd")

    opened.reset()
    return record


def test_a_whole_recording_has_every_cycle_and_exact_changes(record, opened):
    wave = record(None)
    assert (wave.first, wave.last) == (0, opened.now() - 1)
    # Two writes of 3 cycles; the second is on the bus in cycle 4 and counts from cycle 5 on.
    assert wave.rising("irq") == [25]
    assert wave.intervals("irq") == [(25, 32)]
    assert wave.changes("npu.scratch") == [(0, 0), (2, 0x55)]
    assert wave.value("npu.timer", 5) == 20
    assert wave.value("npu.timer", 9) == 16
    assert wave.cycles("npu.written") == [1, 4, 31]
    assert wave.changes("npu.control__aw__payload.addr")[-1][1] in (stub.CLEAR, stub.IDENT)


def test_a_part_of_the_signals_can_be_read(record):
    path = record("3:6").path
    assert Waveform(path, signals=["irq"]).signals == ["irq"]
    some = Waveform(path, prefix="npu.s").signals
    assert {"npu.scratch", "npu.source", "npu.status"} <= set(some)
    assert all(name.startswith("npu.s") for name in some)
    field = "npu.memory__ar__payload.addr"
    assert Waveform(path, signals=[field]).signals == [field]
    assert field in Waveform(path, prefix="npu.memory").signals


def test_nothing_is_written_outside_a_window_of_cycles(record, opened):
    wave = record("10:15")
    assert (wave.first, wave.last) == (10, 14)
    assert wave.value("npu.scratch", 10) == 0x55
    assert wave.changes("npu.timer") == [(10 + i, 15 - i) for i in range(5)]
    times = {time for name in wave._vcd.signals for time, _ in wave._vcd[name].tv}
    period = 10**6
    assert min(times) == (10) * period
    assert max(times) < (15) * period


def test_a_window_follows_signals(record, opened):
    window = Window(None, None, ((("npu.timer", 3), ("npu.scratch", 0x55)), (("npu.timer", 2),)))
    wave = record(window)
    assert (wave.first, wave.last) == (22, 23)


def test_the_clock_and_labels_are_recorded(record, opened):
    wave = record("3:6")
    vcd = VCDVCD(str(wave.path))
    clock = vcd["bench.top.clk"].tv
    period = 10**6
    assert clock == [
        (time, value)
        for cycle in range(3, 6)
        for time, value in ((cycle * period, "1"), (cycle * period + period // 2, "0"))
    ]
    text = wave.path.read_text()
    assert "copier_state.label" in text
    assert "sIDLE" in text


def test_a_window_of_unknown_signals_is_refused(opened, tmp_path):
    with pytest.raises(ConfigError, match="no signal is called 'npu.nothing'"):
        opened.capture(tmp_path / "x.vcd", Window(None, None, ((("npu.nothing", 1),),)))


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("120000:121000", Window(120000, 121000)), ("5:", Window(5)), (":7", Window(0, 7)),
        (":", Window()), ("task:0x11", Window(None, None, task_conditions(17, ["copy0", "core0"]))),
    ],
)  # fmt: skip
def test_windows_are_parsed(text, window):
    assert Window.parse(text, engines=["copy0", "core0"]) == window


def test_windows_print_what_they_mean():
    assert str(Window(5, 9)) == "5:9"
    assert str(Window.parse("task:1", engines=["core0"])) == (
        "npu.trace_core0_busy = 1 and npu.trace_core0_task_id = 1"
    )


def test_questions_without_an_answer_say_so(record, tmp_path):
    wave = record("3:6")
    with pytest.raises(WaveError, match="no signal 'npu.none'"):
        wave.changes("npu.none")
    with pytest.raises(WaveError, match="is not in"):
        wave.value("irq", wave.last + 1)
    with pytest.raises(WaveError, match="cannot read"):
        Waveform(tmp_path / "missing.vcd")
    (tmp_path / "bad.vcd").write_text("not a waveform\n")
    with pytest.raises(WaveError, match="is no VCD file"):
        Waveform(tmp_path / "bad.vcd")


def test_a_viewer_setup_names_signals_as_the_recording_does(record):
    wave = record("3:6")
    file = io.StringIO()
    groups = {"timer": ["irq", "npu.timer"], "bus": ["npu.control__aw__payload.addr"]}
    viewer_setup(file, wave, groups)
    lines = file.getvalue().splitlines()
    assert "bench.top.irq" in lines
    assert "bench.top.npu.timer[31:0]" in lines
    assert r"bench.top.npu.\control__aw__payload.addr[15:0]" in lines
    assert any(line.startswith("-timer") for line in lines)
    with pytest.raises(WaveError, match="has no signal 'npu.none'"):
        viewer_setup(file, wave, {"x": ["npu.none"]})


def test_cycles_are_counted_with_the_clock_of_the_recording(record, tmp_path):
    lines = record("3:6").path.read_text().splitlines()
    slow = tmp_path / "slow.vcd"
    slow.write_text("\n".join(f"#{3 * int(x[1:])}" if x[0] == "#" else x for x in lines))
    assert (Waveform(slow).first, Waveform(slow).last) == (3, 5)
    single = record("7:8")
    assert (single.first, single.last) == (7, 7)


def test_intervals_of_any_value_but_zero_join(record):
    wave = record("10:")
    assert wave.intervals("npu.timer", 7) == [(18, 19)]
    assert wave.intervals("npu.timer", None) == [(10, 25)]
