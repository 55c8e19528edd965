"""What happened on streams, events and engines, read from a waveform alone.

Everything here comes from the trace signals of `Npu` in a VCD file, nothing from the device's
own timestamps: the two are independent measurements of the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hw.regs.fault import FaultCause

from .wave import WaveError, Waveform

__all__ = ["Record", "Run", "Timeline", "print_timeline"]

WIDTH = 72
"""Columns of the chart."""


@dataclass(frozen=True)
class Run:
    """A task on an engine, in cycles of the waveform."""

    engine: str
    stream: int
    task_id: int
    dispatched: int
    """First cycle in which the engine has it."""
    start: int | None
    """Cycle of the first bus address or instruction."""
    end: int | None
    """Cycle of the last write response."""
    released: int
    """First cycle in which the engine no longer has it."""


@dataclass(frozen=True)
class Record:
    """An event record, in the cycle in which the event unit took it."""

    cycle: int
    slot: int
    generation: int


class Timeline:
    """Runs, records, waits and faults of a waveform, in order of time.

    Parameters
    ----------
    path: VCD file that was recorded with ``--vcd``.
    """

    def __init__(self, path: str | Path) -> None:
        self.wave = Waveform(path, prefix="npu.trace_")
        names = {name.removeprefix("npu.trace_") for name in self.wave.signals}
        self.engines = sorted(
            (name.removesuffix("_busy") for name in names if name.endswith("_busy")),
            key=lambda name: (name == "control", name),
        )
        self.streams = sorted(
            int(name[len("stream") : -len("_waiting")])
            for name in names
            if name.startswith("stream") and name.endswith("_waiting")
        )
        if not self.engines:
            raise WaveError(f"{path} has no trace signals of an NPU; record it with npu run --vcd")
        self.runs = sorted(
            (run for engine in self.engines for run in self._runs(engine)),
            key=lambda run: run.dispatched,
        )
        self.records = [
            Record(
                cycle,
                self._value("record_slot", cycle),
                self._value("record_generation", cycle),
            )
            for cycle in self.wave.cycles("npu.trace_record")
        ]
        self.faults = [
            (cycle, self._value("fault_cause", cycle))
            for cycle in self.wave.cycles("npu.trace_fault")
        ]

    def run(self, task_id: int) -> Run:
        """The run of a task."""
        for run in self.runs:
            if run.task_id == task_id:
                return run
        raise WaveError(f"task {task_id} does not run in {self.wave.path}")

    def waits(self, stream: int) -> list[tuple[int, int]]:
        """(start, stop): the stream's next task waits for an event from start to before stop."""
        intervals = [
            span
            for value in range(1, 16)
            for span in self.wave.intervals(f"npu.trace_stream{stream}_waiting", value)
        ]
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(intervals):
            if joined and joined[-1][1] == start:
                joined[-1] = joined[-1][0], stop
            else:
                joined.append((start, stop))
        return joined

    def event_latency(self, task_id: int) -> int:
        """Cycles from the record that released a waiting task to the task's start."""
        run = self.run(task_id)
        before = max(
            (other.dispatched for other in self.runs
             if other.stream == run.stream and other.dispatched < run.dispatched),
            default=-1,
        )  # fmt: skip
        released = [stop for _, stop in self.waits(run.stream) if before < stop <= run.dispatched]
        records = [record.cycle for record in self.records if released]
        if run.start is None or released[-1:] == [] or released[-1] - 1 not in records:
            raise WaveError(f"no event releases task {task_id} in {self.wave.path}")
        return run.start - (released[-1] - 1)

    def _value(self, name: str, cycle: int) -> int:
        return self.wave.value(f"npu.trace_{name}", cycle)

    def _runs(self, engine: str) -> Iterator[Run]:
        prefix = f"npu.trace_{engine}_"
        started = self.wave.cycles(prefix + "started")
        ended = self.wave.cycles(prefix + "ended")
        for first, stop in self.wave.intervals(prefix + "busy"):
            yield Run(
                engine=engine,
                stream=self._value(f"{engine}_stream", first),
                task_id=self._value(f"{engine}_task_id", first),
                dispatched=first,
                start=next((at for at in started if first <= at < stop), None),
                end=next((at for at in reversed(ended) if first <= at < stop), None),
                released=stop,
            )


def print_timeline(timeline: Timeline, console: Console) -> None:
    """Prints a chart of engines and streams over time, then each task and record."""
    first, last = timeline.wave.first, timeline.wave.last
    step = max(1, -(-(last - first + 1) // WIDTH))

    def column(cycle: int) -> int:
        return min(WIDTH - 1, (cycle - first) // step)

    console.print(
        f"{timeline.wave.path}: cycles {first} … {last}, one column is {step} "
        f"cycle{'s' if step > 1 else ''}"
    )
    chart = Table.grid(padding=(0, 1))
    scale = "".join(f"{first + at * step:<12}" for at in range(0, WIDTH, 12))[:WIDTH]
    chart.add_row("", Text(scale, style="dim"))
    for engine in timeline.engines:
        if engine == "control":
            continue
        bar = [" "] * WIDTH
        for run in timeline.runs:
            if run.engine == engine:
                begin = run.dispatched if run.start is None else run.start
                stop = run.released if run.end is None else run.end + 1
                for at in range(column(begin), column(stop - 1) + 1):
                    bar[at] = str(run.stream % 10)
        chart.add_row(engine, Text("".join(bar), style="green"))
    for stream in timeline.streams:
        bar = [" "] * WIDTH
        for start, stop in timeline.waits(stream):
            for at in range(column(start), column(stop - 1) + 1):
                bar[at] = "·"
        for run in timeline.runs:
            if run.stream == stream:
                for at in range(column(run.dispatched), column(run.released - 1) + 1):
                    bar[at] = "█"
        if any(mark != " " for mark in bar):
            chart.add_row(f"stream {stream}", Text("".join(bar), style="cyan"))
    marks = [" "] * WIDTH
    for record in timeline.records:
        marks[column(record.cycle)] = "▲"
    chart.add_row("records", Text("".join(marks), style="yellow"))
    console.print(chart)
    console.print(
        "engines: the stream whose task they run; streams: █ runs, · waits for an event\n",
        style="dim",
    )
    console.print(_events_table(timeline))


def _events_table(timeline: Timeline) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("cycle", "stream", "engine", "task"):
        table.add_column(name, justify="right" if name in ("cycle", "task") else "left")
    table.add_column("what")
    rows: list[tuple[int, tuple[str, str, str, str]]] = []
    for run in timeline.runs:
        where = (str(run.stream), run.engine, str(run.task_id))
        span = "" if run.start is None or run.end is None else f"{run.end - run.start + 1} cycles"
        waited = [stop for _, stop in timeline.waits(run.stream) if stop <= run.dispatched]
        released = [r for r in timeline.records if waited and r.cycle == waited[-1] - 1]
        cause = ""
        if released and run.start is not None and waited[-1] == run.dispatched - 1:
            event = released[0]
            cause = (
                f", {run.start - event.cycle} cycles after event {event.slot}.{event.generation}"
            )
        start = run.dispatched if run.start is None else run.start
        rows.append((start, (*where, f"starts{cause}")))
        end = run.released - 1 if run.end is None else run.end
        rows.append((end, (*where, f"ends{', ' + span if span else ''}")))
    rows += [
        (record.cycle, ("", "event", "", f"event {record.slot}.{record.generation} recorded"))
        for record in timeline.records
    ]
    known = {cause.value: cause.name for cause in FaultCause}
    rows += [
        (cycle, ("", "fault", "", f"fault {known.get(cause, cause)}"))
        for cycle, cause in timeline.faults
    ]
    for cycle, cells in sorted(rows, key=lambda row: row[0]):
        table.add_row(str(cycle), *cells)
    return table
