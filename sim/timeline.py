"""What happened on streams, events and engines, read from a waveform alone.

Everything here comes from the trace signals of `Npu` in a VCD file, nothing from the device's
own timestamps: the two are independent measurements of the same run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hw.regs.fault import FaultCause
from hw.regs.stream import StreamState, Wait

from .wave import WaveError, Waveform, viewer_setup

__all__ = ["Record", "Run", "Timeline", "print_timeline", "write_viewer_setup"]

TRACE = "npu.trace_"
"""How the names of `Npu`'s trace signals begin."""
PORTS = {
    "control": {
        "aw": ("addr",), "w": ("data",), "b": ("resp",), "ar": ("addr",), "r": ("data", "resp"),
    },
    "memory": {
        "ar": ("addr", "len", "id"), "r": ("data", "resp", "last", "id"),
        "aw": ("addr", "len", "id"), "w": ("data", "strb", "last"), "b": ("resp", "id"),
    },
}  # fmt: skip
"""Fields of the channels of the NPU's ports that a viewer shows."""
WAITS = {
    Wait.EVENT.value: ("·", "an event"),
    Wait.NOTIFY.value: ("n", "a notify"),
    Wait.VALUE.value: ("v", "a value"),
    Wait.CALLBACK.value: ("h", "the host"),
    Wait.BARRIER.value: ("b", "a barrier"),
}
"""Mark and name of each thing that a stream waits for."""


@dataclass(frozen=True)
class Record:
    """An event record, in the cycle in which the event unit took it."""

    cycle: int
    slot: int
    generation: int

    def __str__(self) -> str:
        return f"event {self.slot}.{self.generation}"


@dataclass(frozen=True)
class Run:
    """A task on an engine, in cycles of the waveform."""

    engine: str
    stream: int
    task_id: int
    dispatched: int
    """First cycle in which the engine has it."""
    start: int | None
    """Cycle of the first bus address or instruction; None when none is recorded."""
    end: int | None
    """Cycle of the last write response; None when none is recorded."""
    released: int
    """First cycle in which the engine no longer has it, or the one after the recording."""
    event: Record | None = None
    """The record that ended its wait; None when it waited for none."""
    waited: tuple[int, int, int] | None = None
    """(start, stop, `Wait`): what it waited for beside events, as the next of a stream that ran
    nothing."""


class Timeline:
    """Runs, records, waits and faults of a waveform, in order of time.

    Parameters
    ----------
    path: VCD file that was recorded with ``--vcd``.
    """

    def __init__(self, path: str | Path) -> None:
        self.wave = Waveform(path, prefix=TRACE)
        names = {name.removeprefix(TRACE) for name in self.wave.signals}
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
        self.records = [
            Record(
                cycle,
                self._value("record_slot", cycle),
                self._value("record_generation", cycle),
            )
            for cycle in self.wave.cycles(TRACE + "record")
        ]
        self.faults = [
            (cycle, self._value("fault_cause", cycle))
            for cycle in self.wave.cycles(TRACE + "fault")
        ]
        self.interrupts = self.wave.intervals(TRACE + "irq")
        self._waits = {
            stream: self.wave.intervals(f"{TRACE}stream{stream}_waiting", None)
            for stream in self.streams
        }
        self._conditions = {
            stream: [
                (start, stop, kind)
                for kind in WAITS
                for start, stop in self.wave.intervals(f"{TRACE}stream{stream}_wait", kind)
            ]
            for stream in self.streams
        }
        self._active = {
            stream: self.wave.intervals(f"{TRACE}stream{stream}_state", StreamState.ACTIVE.value)
            for stream in self.streams
        }
        self.lists = {
            stream: self.wave.intervals(f"{TRACE}stream{stream}_called") for stream in self.streams
        }
        self.runs = list(self._released_runs())
        self._by_id = {run.task_id: run for run in self.runs}

    def run(self, task_id: int) -> Run:
        """The run of a task."""
        if task_id not in self._by_id:
            raise WaveError(f"task {task_id} does not run in {self.wave.path}")
        return self._by_id[task_id]

    def waits(self, stream: int) -> list[tuple[int, int]]:
        """(start, stop): the stream's next task waits for an event from start to before stop."""
        return self._waits[stream]

    def conditions(self, stream: int) -> list[tuple[int, int, int]]:
        """(start, stop, `Wait`): the stream's next task waits for that, whatever it is."""
        return self._conditions[stream]

    def event_latency(self, task_id: int) -> int:
        """Cycles from the record that released a waiting task to the task's start."""
        run = self.run(task_id)
        if run.start is None or run.event is None:
            raise WaveError(f"no event releases task {task_id} in {self.wave.path}")
        return run.start - run.event.cycle

    def _value(self, name: str, cycle: int) -> int:
        return self.wave.value(TRACE + name, cycle)

    def _released_runs(self) -> Iterator[Run]:
        """Every run, in order of dispatch, with the record that ended its wait."""
        runs = [run for engine in self.engines for run in self._runs(engine)]
        by_cycle = {record.cycle: record for record in self.records}
        before: dict[int, int] = {}
        idle: dict[int, int] = {}
        for run in sorted(runs, key=lambda run: run.dispatched):
            stops = [stop for _, stop in self._waits.get(run.stream, ())]
            last = bisect_right(stops, run.dispatched) - 1
            event = None
            if last >= 0 and stops[last] > before.get(run.stream, -1):
                event = by_cycle.get(stops[last] - 1)
            before[run.stream] = run.dispatched
            since = idle.get(run.stream, self.wave.first)
            idle[run.stream] = run.released
            yield replace(run, event=event, waited=self._waited(run, since))

    def _waited(self, run: Run, since: int) -> tuple[int, int, int] | None:
        """What a run waited for last beside events, after its stream had nothing to run.

        Not so a task of which an abort has made an end.
        """
        active = self._active.get(run.stream, ())
        since = max([since, *(start for start, stop in active if start <= run.dispatched < stop)])
        spans = [
            (max(start, since), stop, kind)
            for start, stop, kind in self._conditions.get(run.stream, ())
            if kind != Wait.EVENT.value and since < stop <= run.dispatched
        ]
        return max(spans, default=None)

    def _runs(self, engine: str) -> Iterator[Run]:
        prefix = f"{TRACE}{engine}_"
        started = self.wave.cycles(prefix + "started")
        ended = self.wave.cycles(prefix + "ended")
        for first, stop in self._spans(prefix):
            starts = started[bisect_left(started, first) : bisect_left(started, stop)]
            ends = ended[bisect_left(ended, first) : bisect_left(ended, stop)]
            yield Run(
                engine=engine,
                stream=self._value(f"{engine}_stream", first),
                task_id=self._value(f"{engine}_task_id", first),
                dispatched=first,
                start=starts[0] if starts else None,
                end=ends[-1] if ends else None,
                released=stop,
            )

    def _spans(self, prefix: str) -> Iterator[tuple[int, int]]:
        """From the first cycle of a task to before that of the next: an engine stays busy where
        one follows the other at once."""
        changes = [cycle for cycle, _ in self.wave.changes(prefix + "task_id")]
        for first, stop in self.wave.intervals(prefix + "busy"):
            inner = changes[bisect_right(changes, first) : bisect_left(changes, stop)]
            yield from pairwise((first, *inner, stop))


class _Chart:
    """Spans of cycles as rows of characters, from cycle `first` to `last`."""

    def __init__(self, first: int, last: int, width: int) -> None:
        self.step = -(-(last - first + 1) // width)
        self.width = -(-(last - first + 1) // self.step)
        self._first = first

    def scale(self) -> str:
        """A cycle number every twelve columns, above the column that it begins."""
        marks = (self._first + at * self.step for at in range(0, max(1, self.width - 8), 12))
        return "".join(f"{cycle:<12}" for cycle in marks).rstrip()

    def row(self, spans: Iterable[tuple[int, int, str]]) -> str:
        """(start, stop, mark): the columns from cycle start to before stop show the mark."""
        row = [" "] * self.width
        for start, stop, mark in spans:
            first, last = ((at - self._first) // self.step for at in (start, stop - 1))
            row[first : last + 1] = mark * (last + 1 - first)
        return "".join(row)


def print_timeline(timeline: Timeline, console: Console) -> None:
    """Prints a chart of engines and streams over time, as wide as the console; then each task."""
    first, last = timeline.wave.first, timeline.wave.last
    label = max(len("interrupt"), *(len(engine) for engine in timeline.engines))
    chart = _Chart(first, last, max(24, console.width - label - 1))
    console.print(
        f"{timeline.wave.path}: cycles {first} … {last}, "
        f"one column is {_cycles(chart.step)}", markup=False, soft_wrap=True,
    )  # fmt: skip

    def show(name: str, row: str, style: str) -> None:
        console.print(Text.assemble(f"{name:<{label}} ", (row, style)), soft_wrap=True)

    show("", chart.scale(), "dim")
    for engine in timeline.engines:
        if engine != "control":
            runs = [run for run in timeline.runs if run.engine == engine]
            show(engine, chart.row((*_active(run), str(run.stream % 10)) for run in runs), "green")
    seen: set[int] = set()
    for stream in timeline.streams:
        conditions = timeline.conditions(stream)
        runs = [run for run in timeline.runs if run.stream == stream]
        if conditions or runs:
            seen |= {kind for _, _, kind in conditions}
            waits = [(start, stop, WAITS[kind][0]) for start, stop, kind in conditions]
            row = chart.row(waits + [(run.dispatched, run.released, "█") for run in runs])
            show(f"stream {stream}", row, "cyan")
    marks = [(record.cycle, record.cycle + 1, "▲") for record in timeline.records]
    show("events", chart.row(marks), "yellow")
    show("interrupt", chart.row((*span, "▔") for span in timeline.interrupts), "magenta")
    if timeline.faults:
        show("faults", chart.row((cycle, cycle + 1, "✗") for cycle, _ in timeline.faults), "red")
    marks_of_waits = ", ".join("{} for {}".format(*WAITS[kind]) for kind in sorted(seen))
    waits_for = f", waits: {marks_of_waits}" if seen else ""
    console.print(
        f"engines: the stream they work for\nstreams: █ runs{waits_for}\n",
        style="dim", markup=False, soft_wrap=True,
    )  # fmt: skip
    console.print(_tasks_table(timeline))


def _cycles(count: int) -> str:
    return "1 cycle" if count == 1 else f"{count} cycles"


def _active(run: Run) -> tuple[int, int]:
    """From a run's start to behind its end, as far as they are recorded."""
    return (
        run.dispatched if run.start is None else run.start,
        run.released if run.end is None else run.end + 1,
    )


def _tasks_table(timeline: Timeline) -> Table:
    """Tasks by start, each with what it waited for and recorded; other records; faults."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("task", "stream", "engine", "start", "end", "cycles", "what"):
        table.add_column(name, justify="left" if name in ("engine", "what") else "right")
    by_cycle = {record.cycle: record for record in timeline.records}
    called = {
        stream: {stop: start for start, stop in lists if stop <= timeline.wave.last}
        for stream, lists in timeline.lists.items()
    }
    rows: list[tuple[int, tuple[str, str, str, str, str, str, str]]] = []
    for run in timeline.runs:
        start = "–" if run.start is None else str(run.start)
        end = "–" if run.end is None else str(run.end)
        length = ""
        notes = []
        if run.start is not None and run.end is not None:
            length = str(run.end - run.start + 1)
        if run.start is not None and run.event is not None:
            notes.append(f"starts {run.start - run.event.cycle} cycles after {run.event}")
        if run.engine == "control" and run.end in by_cycle:
            notes.append(f"records {by_cycle.pop(run.end)}")
        if run.waited is not None:
            since, until, kind = run.waited
            notes.append(f"waited {_cycles(until - since)} for {WAITS[kind][1]}")
        if run.start in called.get(run.stream, {}):
            notes.append(f"ends the list begun in {called[run.stream][run.start]}")
        where = (str(run.task_id), str(run.stream), run.engine)
        rows.append((_active(run)[0], (*where, start, end, length, ", ".join(notes))))
    rows += [
        (cycle, ("", "", "", str(cycle), "", "", f"{record} recorded"))
        for cycle, record in by_cycle.items()
    ]
    known = {cause.value: cause.name for cause in FaultCause}
    rows += [
        (cycle, ("", "", "", str(cycle), "", "", f"fault {known.get(cause, cause)}"))
        for cycle, cause in timeline.faults
    ]
    for _, cells in sorted(rows, key=lambda row: row[0]):
        table.add_row(*cells)
    return table


def write_viewer_setup(timeline: Timeline, file: TextIO) -> None:
    """Writes a GTKWave setup: events, streams, engines and both ports of the NPU."""
    trace: dict[str, list[str]] = {
        "clock": ["clk", TRACE + "irq"],
        "events and faults": [
            TRACE + name
            for name in ("record", "record_slot", "record_generation", "fault", "fault_cause")
        ],
    }
    for stream in timeline.streams:
        trace[f"stream {stream}"] = [
            f"{TRACE}stream{stream}_{name}"
            for name in ("state", "running", "waiting", "wait", "called")
        ]
    for engine in timeline.engines:
        trace[engine] = [
            f"{TRACE}{engine}_{name}" for name in ("busy", "stream", "task_id", "started", "ended")
        ]
    for port, channels in PORTS.items():
        for channel, fields in channels.items():
            path = f"npu.{port}__{channel}"
            trace[f"{port} {channel}"] = [
                f"{path}__valid", f"{path}__ready",
                *(f"{path}__payload.{field}" for field in fields),
            ]  # fmt: skip
    names = [name for group in trace.values() for name in group]
    viewer_setup(file, Waveform(timeline.wave.path, signals=names), trace)
