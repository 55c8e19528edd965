"""What a waveform tells of a run, compared with what the device says of it; viewer setups."""

import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from hw.regs.fault import FaultCause
from hw.regs.stream import Wait
from rt import Device
from rt.errors import DeviceFault, StreamAborted
from rt.ops import gemm
from sim.timeline import Timeline, print_timeline, write_viewer_setup
from sim.wave import WaveError

SETUP = Path(__file__).parents[2] / "waves" / "npu.gtkw"


def program(machine):
    """Copies, a kernel that waits for them, a copy that waits for it; what the device says."""
    a = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    with Device(machine, patience=20_000).session() as session:
        copies, kernels = session.stream(), session.stream()
        left, right = session.empty((4, 4), np.int8), session.empty((4, 4), np.int8)
        product = session.empty((4, 4), np.int32)
        ready, done = session.event(timing=True), session.event(timing=True)
        gemm(kernels, left, right, product)  # loads the code
        session.synchronise()
        with copies.batch():  # so that the kernel waits before the copies begin
            uploads = [copies.upload(each, a, profile=True) for each in (left, right)]
            copies.record(ready)
            kernels.wait(ready)
            (kernel,) = gemm(kernels, left, right, product, profile=True)
            kernels.record(done)
        copies.wait(done)
        download = copies.download(product, profile=True)
        session.synchronise()
        assert np.array_equal(download.result(), a.astype(np.int32) @ a)
        tasks = [*uploads, kernel, download]
        return SimpleNamespace(
            spans={task.id: (task.profile.start, task.profile.end) for task in tasks},
            engines={task.id: task.profile.engine for task in tasks},
            ready=ready.cycle, done=done.cycle, kernel=kernel.id, download=download.id,
            copies=copies.number, kernels=kernels.number,
        )  # fmt: skip


def record(machine, path, window=None):
    """Runs the program in a window: what the device says, and the recording."""
    machine.reset()
    machine.capture(path, window)
    said = program(machine)
    machine.end_capture()
    return said, path


@pytest.fixture(scope="module")
def whole(machine, tmp_path_factory):
    """The whole run."""
    said, path = record(machine, tmp_path_factory.mktemp("whole") / "run.vcd")
    return said, Timeline(path)


def shown(timeline, width=80):
    file = io.StringIO()
    print_timeline(timeline, Console(file=file, width=width, highlight=False))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_starts_and_ends_are_those_of_the_completion_entries(whole):
    said, timeline = whole
    for number, span in said.spans.items():
        run = timeline.run(number)
        assert (run.start, run.end) == span
        assert run.engine == said.engines[number]
        assert run.dispatched <= run.start <= run.end < run.released
    assert [run.dispatched for run in timeline.runs] == sorted(
        run.dispatched for run in timeline.runs
    )


def test_tasks_that_follow_each_other_at_once_on_an_engine_are_runs_of_their_own(
    machine, tmp_path
):
    machine.reset()
    with Device(machine, patience=20_000).session() as session:
        stream, buffer = session.stream(), session.empty(512, np.uint8)
        machine.capture(tmp_path / "run.vcd")
        with stream.batch():
            tasks = [stream.fill(buffer, value, profile=True) for value in range(3)]
        session.synchronise()
        machine.end_capture()
        runs = [Timeline(tmp_path / "run.vcd").run(task.id) for task in tasks]
        spans = [(task.profile.start, task.profile.end) for task in tasks]
    assert [(run.start, run.end) for run in runs] == spans
    assert [run.engine for run in runs] == ["copy0"] * 3
    assert [run.dispatched for run in runs[1:]] == [run.released for run in runs[:-1]]


def test_records_and_latencies_are_those_of_the_timestamps(whole):
    said, timeline = whole
    kernel, download = timeline.run(said.kernel), timeline.run(said.download)
    assert kernel.event in timeline.records
    assert (kernel.event.cycle, download.event.cycle) == (said.ready, said.done)
    assert timeline.event_latency(said.kernel) == said.spans[said.kernel][0] - said.ready == 2
    assert timeline.event_latency(said.download) == said.spans[said.download][0] - said.done
    with pytest.raises(WaveError, match=f"no event releases task {min(said.spans)} in "):
        timeline.event_latency(min(said.spans))
    with pytest.raises(WaveError, match="task 999 does not run in "):
        timeline.run(999)


def test_a_stream_waits_until_the_cycle_after_the_record(whole):
    said, timeline = whole
    assert [stop for _, stop in timeline.waits(said.kernels)] == [said.ready + 1]
    assert [stop for _, stop in timeline.waits(said.copies)] == [said.done + 1]


def test_what_streams_wait_for_and_lists_are_shown(machine, tmp_path):
    machine.reset()
    machine.capture(tmp_path / "run.vcd")
    with Device(machine, patience=20_000).session() as session:
        first, second = session.stream(), session.stream()
        words, notify, fork = session.buffer(np.zeros(8)), session.notify(), session.event()
        waits = [second.wait_notify(notify)]
        first.fill(words, 0)
        first.notify(notify)
        waits.append(second.wait_value(words, 0, 2))
        first.synchronise()
        time = machine.now()
        first.write_value(words, 0, 2)
        session.synchronise()
        waits.append(first.callback(lambda: None))
        session.synchronise()
        with first.capture() as graph:
            first.fill(words, 0)
            first.record(fork)
        replay = first.replay(graph)
        waits.append(second.barrier())
        session.synchronise()
        first.wait_notify(notify)
        first.flush()
        machine.run_until(interrupt=False, cycle=machine.now() + 1000)
        first.abort()
        with pytest.raises(StreamAborted):
            first.synchronise()
        after = first.callback(lambda: None)
        session.synchronise()
    assert replay.done
    machine.end_capture()
    timeline = Timeline(tmp_path / "run.vcd")
    kinds = [timeline.run(task.id).waited[2] for task in (*waits, after)]
    assert kinds == [Wait.NOTIFY, Wait.VALUE, Wait.CALLBACK, Wait.BARRIER, Wait.CALLBACK]
    _, stop, _ = timeline.run(waits[1].id).waited
    assert time < stop <= timeline.run(waits[1].id).start
    ((begun, ended),) = timeline.lists[first.number]
    lines = shown(timeline, 200)
    assert lines[lines.index("") - 1] == (
        "streams: █ runs, waits: n for a notify, v for a value, h for the host, b for a barrier"
    )
    (row,) = (line for line in lines if line.startswith(f"stream {second.number} "))
    assert {"n", "v", "b"} < set(row.removeprefix("stream"))
    (line,) = (line for line in lines if line.endswith(f"ends the list begun in {begun}"))
    assert int(line.split()[3]) == ended
    kinds = [re.search(r"waited \d+ cycles? for (.*)", line) for line in lines]
    assert [match[1] for match in kinds if match] == [
        "a notify", "a value", "the host", "a barrier", "the host"
    ]  # fmt: skip


def test_every_task_and_record_is_printed_once(whole):
    said, timeline = whole
    lines = shown(timeline)
    assert max(map(len, lines[1:])) <= 80
    table = lines[lines.index("") + 2 :]
    assert len(table) == len(timeline.runs)
    for number, (start, end) in said.spans.items():
        run = timeline.run(number)
        (line,) = (line for line in table if line.split()[0] == str(number))
        cells = [number, run.stream, run.engine, start, end, end - start + 1]
        assert line.split()[:6] == list(map(str, cells))
    kernel = timeline.run(said.kernel)
    assert any(line.endswith(f"starts 2 cycles after {kernel.event}") for line in table)
    assert sum(f"records {kernel.event}" in line for line in table) == 1


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_the_chart_fills_the_console_and_shows_each_span_where_it_is(whole, width):
    said, timeline = whole
    head, scale, *rows = shown(timeline, width)
    step = int(re.search(r"one column is (\d+) cycle", head)[1])
    assert (timeline.wave.last + 1) / step <= width - 10 < (timeline.wave.last + 1) / (step - 1)
    for mark in re.finditer(r"\d+", scale):
        assert int(mark[0]) == (mark.start() - 10) * step
    row = next(row for row in rows if row.startswith("core0"))
    start, end = said.spans[said.kernel]
    assert row[10 + start // step : 10 + end // step + 1] == (
        str(said.kernels) * (end // step - start // step + 1)
    )


def test_a_window_of_a_task_is_its_time_on_the_engine(whole, machine, tmp_path):
    said, timeline = whole
    again, path = record(machine, tmp_path / "task.vcd", f"task:{said.kernel}")
    assert again == said
    part = Timeline(path)
    run = timeline.run(said.kernel)
    assert (part.wave.first, part.wave.last) == (run.dispatched, run.released - 1)
    seen = part.run(said.kernel)
    assert (seen.start, seen.end, seen.engine) == (run.start, run.end, run.engine)
    assert set(part._by_id) == {said.kernel}


def test_a_window_of_cycles_holds_just_these(whole, machine, tmp_path):
    said, timeline = whole
    first, stop = said.ready - 5, said.spans[said.kernel][0] + 5
    _, path = record(machine, tmp_path / "cycles.vcd", f"{first}:{stop}")
    part = Timeline(path)
    assert (part.wave.first, part.wave.last) == (first, stop - 1)
    assert [record.cycle for record in part.records] == [said.ready]
    assert part.event_latency(said.kernel) == 2
    assert part.run(said.kernel).end is None
    (line,) = (line for line in shown(part) if line.split()[:1] == [str(said.kernel)])
    assert line.split()[3:5] == [str(said.spans[said.kernel][0]), "–"]


def test_a_fault_shows_with_its_cause_in_its_cycle(machine, tmp_path):
    machine.reset()
    machine.capture(tmp_path / "fault.vcd")
    machine.inject("read", 0, machine.device_bytes - 1)
    with Device(machine, patience=20_000).session() as session:
        stream = session.stream()
        source, target = session.empty((64,), np.int8), session.empty((64,), np.int8)
        stream.copy(target, source)
        with pytest.raises(DeviceFault) as caught:
            session.synchronise()
        session.recover()
    machine.end_capture()
    machine.inject("read", 0, 0, None)
    timeline = Timeline(tmp_path / "fault.vcd")
    record = caught.value.record
    assert timeline.faults == [(record.timestamp, FaultCause.BUS_SLAVE_ERROR.value)]
    lines = shown(timeline)
    assert any(line.endswith("fault BUS_SLAVE_ERROR") for line in lines)
    assert any(line.startswith("faults ") and "✗" in line for line in lines)


def test_the_viewer_setup_is_what_the_code_writes_and_its_signals_exist(whole):
    _, timeline = whole
    file = io.StringIO()
    write_viewer_setup(timeline, file)
    assert file.getvalue() == SETUP.read_text(), "write it anew: npu wave FILE --gtkw " + str(SETUP)

    known = {}
    scopes = []
    for line in timeline.wave.path.read_text().split("$enddefinitions")[0].splitlines():
        match line.split():
            case ["$scope", _, name, "$end"]:
                scopes.append(name)
            case ["$upscope", "$end"]:
                scopes.pop()
            case ["$var", "wire", width, _, name, "$end"]:
                known[".".join([*scopes, name])] = int(width)
    signals = [line for line in SETUP.read_text().splitlines() if line.startswith("bench.")]
    assert len(signals) > 50
    for signal in signals:
        name, _, bits = signal.partition("[")
        assert bits == ("" if known[name] == 1 else f"{known[name] - 1}:0]")
