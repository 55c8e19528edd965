"""``npu latency`` on `tiny`, from the command line to its files."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import sim.latency.cli
import sim.latency.measure
from sim.latency.measure import measure
from sim.latency.recording import Recording
from sim.latency.sheet import Difference, Sample, Sheet, Target
from sim.timeline import Timeline
from sim.wave import WaveError


@pytest.fixture(scope="module")
def measured(machine, tmp_path_factory):
    """One round on the machine: the sheet, the differences, and the waveform."""
    path = tmp_path_factory.mktemp("latency") / "run.vcd"
    machine.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "close", machine.end_capture)
        sheet, differences = measure(machine, path, rounds=1, seed=3)
    return sheet, differences, path


@pytest.fixture
def found(machine, measured, monkeypatch):
    """Lets the command find `machine`, and what was measured; `found.boards` is what it built, and
    `found.asked` the rounds, the seed, and whether long runs were wanted."""

    def opened(preset, *, board, engine, record):
        assert (preset, record) == ("tiny", False)
        opened.boards.append(board)
        return machine

    def known(transport, vcd, *, rounds, seed, loads, progress):
        opened.asked.append((rounds, seed, loads))
        vcd.write_bytes(measured[2].read_bytes())
        return opened.sheet, opened.differences

    opened.boards, opened.asked = [], []
    opened.sheet, opened.differences, _ = measured
    monkeypatch.setattr(sim.latency.cli, "open_simulation", opened)
    monkeypatch.setattr(sim.latency.cli, "measure", known)
    monkeypatch.setattr(machine, "close", lambda: None)
    return opened


LINE = "latency --preset tiny --rounds 2 --seed 7"


def test_device_and_waveform_agree_on_every_sample_of_every_path(measured):
    sheet, differences, _ = measured
    assert differences == []
    assert {group: [name for other, name in sheet.measures if other == group]
            for group, _ in sheet.measures} == {
        "record → start of the task that waits, on the same engine or another": [
            "kernel → kernel, same", "kernel → copy, other", "copy → kernel, other",
            "copy → copy, same", "1 dependency", "2 dependencies", "3 dependencies",
            "4 dependencies",
        ],
        "record that 1 to 3 streams wait for →": [
            "stream ready", "first to last ready", "engine's first start",
        ],
        "doorbell taken → start, empty stream": ["copy", "kernel"],
        "end → start of the next task of a stream": [
            "kernel → kernel", "kernel → copy", "copy → kernel", "copy → copy",
        ],
        "→ the host has read who interrupts": ["end of a task", "line of a fault"],
        "replay of a graph of empty kernels": ["a node"],
        "a function of the host between two copies": ["end → start"],
        "16 uploads and 16 kernels, equally long": [
            "one stream", "two streams", "one ÷ two streams",
        ],
        "copies and kernels at once": ["core busy", "read channel beats"],
    }  # fmt: skip
    assert [measure.title for measure in sheet.measures.values() if not measure.met] == []


def test_a_waveform_that_is_a_cycle_off_differs_in_every_sample(measured, monkeypatch):
    sheet, _, path = measured
    recording = Recording(path)
    for name in ("start", "end", "record", "raised", "released", "written", "answered"):
        found = getattr(Recording, name)
        monkeypatch.setattr(
            Recording, name, lambda *args, found=found, **named: found(*args, **named) + 1
        )
    times = [
        sample for measure in sheet.measures.values() if measure.unit != "%"
        for sample in measure.samples
    ]  # fmt: skip
    assert len(sheet.differences(recording)) == len(times)


def test_what_a_waveform_does_not_have_is_said(measured):
    recording = Recording(measured[2])
    last = recording.timeline.wave.last
    for look, text in (
        (lambda: recording.record(99, 1), "no record of event 99.1 is recorded"),
        (lambda: recording.raised(after=last), f"no interrupt behind cycle {last} is recorded"),
        (lambda: recording.written(0x18, before=0), "no write to 0x18 before cycle 0"),
        (lambda: recording.answered(0xFFC, after=0), "no read of 0xffc behind cycle 0"),
        (lambda: recording.start(recording.timeline.runs[0].task_id, 1), "runs 1 times; turn 1"),
        (lambda: recording.released(0, recording.timeline.runs[0].task_id), "does not wait"),
    ):
        with pytest.raises(WaveError, match=text):
            look()


def test_the_waveform_has_what_npu_wave_shows(measured):
    assert len(Timeline(measured[2]).runs) > 100


def test_the_command_prints_a_table_and_writes_rows_and_a_picture(npu, found, tmp_path):
    data, drawing = tmp_path / "a.json", tmp_path / "a.svg"
    result = npu(f"{LINE} --latency 8 --host-latency 9 --json {data} --plot {drawing}")
    assert (result.status, result.err) == (0, "")
    assert found.asked == [(2, 7, True)]
    (board,) = found.boards
    assert (board.device_latency, board.host_latency, board.host_interval) == (8, 9, 1)
    assert result.out.startswith("tiny, compiled; device memory 8, host memory 9 cycles\n\n")
    assert max(map(len, result.out.splitlines())) <= 80
    rows = {row["name"]: row for row in json.loads(data.read_text())}
    assert rows["preset"] == {"name": "preset", "value": "tiny", "unit": ""}
    name = "record → start of the task that waits, on the same engine or another: 4 dependencies"
    assert rows[f"{name}, max"]["target"] == "≤ 4"
    assert rows[f"{name}, max"]["unit"] == "cycles"
    count = sum(len(measure.samples) for measure in found.sheet.measures.values())
    assert rows["samples that device and waveform agree on"] == {
        "name": "samples that device and waveform agree on", "value": count, "unit": "samples",
        "target": f"= {count}",
    }  # fmt: skip
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


def test_the_slow_engine_does_one_round_on_tiny_without_long_runs_unless_told(npu, found):
    assert npu("latency --engine pysim").status == 0
    assert npu("latency --engine pysim --rounds 3 --loads --seed 5").status == 0
    assert found.asked == [(1, 1, False), (3, 5, True)]


def test_a_folder_gets_waveform_figures_and_picture(npu, found, tmp_path):
    result = npu(f"{LINE} -d", tmp_path)
    assert result.status == 0
    assert result.out.endswith(f"waveform, figures and picture: {tmp_path}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "latency.json", "latency.svg", "latency.vcd"
    ]  # fmt: skip


def test_a_missed_target_ends_with_1_and_is_named(npu, found):
    found.sheet = Sheet()
    found.sheet.add("a", "b", Sample((1, 7), None), Target(5))
    result = npu(LINE)
    assert (result.status, result.complaint) == (1, "target missed: a: b, max")
    assert "≤ 5 ✗" in result.out


def test_sources_that_disagree_end_with_1_and_are_shown(npu, found):
    found.differences = [Difference("a: b", 4, (1, 2), (1, 3))]
    result = npu(LINE)
    assert result.status == 1
    assert result.complaint == "target missed: samples that device and waveform agree on"
    assert "a: b, sample 4: the device says (1, 2), the waveform (1, 3)" in result.out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--rounds 0", "--rounds is 0; it must be at least 1"),
        ("--latency 1", "device_latency is 1; it must lie within 2 … 1048576"),
        ("--host-latency 1", "host_latency is 1; it must lie within 2 … 1048576"),
        ("--preset huge", "no preset is called 'huge'; choose one of tiny, small, base, large"),
        ("--engine fast", "no engine is called 'fast'; choose one of auto, compiled, pysim"),
        ("--json no/x.json", "cannot write no/x.json: no is no folder; create it first"),
        ("--plot no/x.svg", "cannot write no/x.svg: no is no folder; create it first"),
        ("--plot x.gif", "cannot draw x.gif: its name must end with .svg or .png"),
        ("-d no", "cannot write into no: it is no folder; create it first"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(npu, tmp_path, monkeypatch, options, complaint):
    monkeypatch.chdir(tmp_path)
    result = npu(f"latency {options}")
    assert (result.status, result.out, result.complaint) == (2, "", complaint)
    assert list(tmp_path.iterdir()) == []
