"""The waveform of a measured run: only what is looked up in it, and how that is found."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from hw.config import NpuConfig

from ..timeline import TRACE, Timeline
from ..wave import WaveError, Waveform

__all__ = ["Recording", "signals"]

CONTROL, READ = "npu.control__", "npu.memory__r"
HANDSHAKES = ("aw", "w", "ar", "r")
"""Channels of the control port that are recorded."""


def signals(config: NpuConfig) -> list[str]:
    """What has to be recorded."""
    names = ["irq", "record", "record_slot", "record_generation", "fault", "fault_cause"]
    for engine in config.engines:
        names += [f"{engine}_{what}" for what in ("busy", "stream", "task_id", "started", "ended")]
    for stream in range(config.streams):
        shown = ("state", "running", "waiting", "wait", "called")
        names += [f"stream{stream}_{what}" for what in shown]
    return [*(TRACE + name for name in names), *PORT_SIGNALS]


PORT_SIGNALS = [
    *(f"{CONTROL}{channel}__{way}" for channel in HANDSHAKES for way in ("valid", "ready")),
    *(f"{CONTROL}{channel}__payload" for channel in ("aw", "ar")),
    f"{READ}__valid", f"{READ}__ready",
]  # fmt: skip


class Recording:
    """What a waveform with `signals` shows. Nothing here comes from the device's own registers.

    Attributes
    ----------
    timeline: tasks, records, waits and faults.
    """

    def __init__(self, path: Path) -> None:
        self.timeline = Timeline(path)
        fields = [f"{name}.addr" if name.endswith("payload") else name for name in PORT_SIGNALS]
        self._ports = Waveform(path, signals=fields)
        self._cycles: dict[str, list[int]] = {}
        self._records = {
            (record.slot, record.generation): record.cycle for record in self.timeline.records
        }

    def start(self, task_id: int, turn: int = 0) -> int:
        """The cycle of a task's first bus address or instruction, in that turn of a replay."""
        runs = [run for run in self.timeline.runs if run.task_id == task_id]
        if turn >= len(runs):
            raise WaveError(f"task {task_id} runs {len(runs)} times; turn {turn} is not recorded")
        return _whole(runs[turn].start, task_id)

    def end(self, task_id: int) -> int:
        """The cycle of the last write response of a task's data."""
        return _whole(self.timeline.run(task_id).end, task_id)

    def record(self, slot: int, generation: int) -> int:
        """The cycle in which the event unit took a record."""
        if (slot, generation) not in self._records:
            raise WaveError(f"no record of event {slot}.{generation} is recorded")
        return self._records[slot, generation]

    def raised(self, after: int) -> int:
        """The first cycle behind `after` in which the interrupt line has risen."""
        return _first(after, [start for start, _ in self.timeline.interrupts], "interrupt")

    def released(self, stream: int, task_id: int) -> int:
        """The first cycle in which a stream no longer waits for the events of a task."""
        dispatched = self.timeline.run(task_id).dispatched
        stops = [stop for _, stop in self.timeline.waits(stream) if stop <= dispatched]
        if not stops:
            raise WaveError(f"task {task_id} of stream {stream} does not wait for an event")
        return stops[-1]

    def written(self, address: int, before: int) -> int:
        """The last cycle below `before` in which a write to a control address is taken."""
        cycles = self._accesses("aw", address)
        at = bisect_left(cycles, before)
        if not at:
            raise WaveError(f"no write to {address:#x} before cycle {before} is recorded")
        return cycles[at - 1]

    def answered(self, address: int, after: int) -> int:
        """The cycle in which the first read of a control address behind `after` is answered."""
        taken = _first(after, self._accesses("ar", address), f"read of {address:#x}")
        return _first(taken, self._passes(f"{CONTROL}r"), f"answer to the read of {address:#x}")

    def beats(self, first: int, stop: int) -> int:
        """Read beats on the memory bus from cycle `first` to before cycle `stop`."""
        cycles = self._passes(READ)
        return bisect_left(cycles, stop) - bisect_left(cycles, first)

    def busy(self, engine: str, first: int, stop: int) -> int:
        """Cycles in which an engine has a task, from `first` to before `stop`."""
        spans = (
            (run.dispatched, run.released) for run in self.timeline.runs if run.engine == engine
        )
        return sum(max(0, min(end, stop) - max(start, first)) for start, end in spans)

    def _accesses(self, channel: str, address: int) -> list[int]:
        """The cycles in which that address is taken on an address channel of the control port."""
        key = f"{channel}@{address}"
        if key not in self._cycles:
            bits = f"{CONTROL}{channel}__payload.addr"
            self._cycles[key] = [
                cycle
                for cycle in self._passes(f"{CONTROL}{channel}")
                if self._ports.value(bits, cycle) == address
            ]
        return self._cycles[key]

    def _passes(self, channel: str) -> list[int]:
        """The cycles in which an item passes on a channel."""
        if channel not in self._cycles:
            valid, ready = (
                self._ports.intervals(f"{channel}__{way}") for way in ("valid", "ready")
            )
            self._cycles[channel] = list(_common(valid, ready))
        return self._cycles[channel]


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> Iterator[int]:
    """The cycles that lie in spans of both lists, each in order of time."""
    place = 0
    for start, stop in one:
        while place < len(other) and other[place][1] <= start:
            place += 1
        at = place
        while at < len(other) and other[at][0] < stop:
            yield from range(max(start, other[at][0]), min(stop, other[at][1]))
            at += 1


def _first(after: int, cycles: list[int], what: str) -> int:
    at = bisect_right(cycles, after)
    if at == len(cycles):
        raise WaveError(f"no {what} behind cycle {after} is recorded")
    return cycles[at]


def _whole(cycle: int | None, task_id: int) -> int:
    if cycle is None:
        raise WaveError(f"task {task_id} is not recorded as a whole")
    return cycle
