"""Waveforms: what part of a run is recorded, how a viewer shows it, what can be measured in it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from vcd.gtkw import GTKWSave
from vcdvcd import VCDVCD

from hw.regs.errors import ConfigError, NpuError

from .engine.base import Condition

__all__ = ["WaveError", "Waveform", "Window", "task_conditions", "viewer_setup"]


class WaveError(NpuError):
    """A waveform file that cannot be read, or does not have what is asked for."""


def task_conditions(task_id: int, engines: Sequence[str]) -> tuple[Condition, ...]:
    """True while a task with that id runs on any of the engines: `Npu`'s trace signals."""
    return tuple(
        ((f"npu.trace_{engine}_busy", 1), (f"npu.trace_{engine}_task_id", task_id))
        for engine in engines
    )


@dataclass(frozen=True)
class Window:
    """The part of a run that is recorded: from cycle `start` to before cycle `stop`.

    Without a start, `conditions` decide: from the first cycle in which the signals of one of
    them have its values, as long as that is so, once.
    """

    start: int | None = 0
    stop: int | None = None
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, text: str, *, engines: Sequence[str] = ()) -> Window:
        """A window from "120000:121000" (either end may be missing) or "task:17"."""
        if match := re.fullmatch(r"task:(0x[0-9a-fA-F]+|[0-9]+)", text):
            return cls(None, None, task_conditions(int(match[1], 0), engines))
        match = re.fullmatch(r"([0-9]*):([0-9]*)", text)
        if match is None:
            raise ConfigError(
                f"the window is {text!r}; write FIRST:STOP in cycles, such as 120000:121000, "
                "or task:ID, such as task:17"
            )
        start = int(match[1] or 0)
        stop = int(match[2]) if match[2] else None
        if stop is not None and stop <= start:
            raise ConfigError(f"the window {text!r} is empty; its second cycle must be greater")
        return cls(start, stop)

    def __str__(self) -> str:
        if self.start is None:
            return " or ".join(
                " and ".join(f"{name} = {value}" for name, value in condition)
                for condition in self.conditions
            )
        return f"{self.start}:{'' if self.stop is None else self.stop}"


class Waveform:
    """A recorded waveform, by cycle. Signals are named by their path below the board.

    Cycles are counted with the recording's own clock.

    Parameters
    ----------
    path: VCD file of an engine.
    signals: reads only these, when given; faster on long recordings.
    prefix: reads only signals whose name begins so, as an alternative.
    """

    PREFIX = "bench.top."
    CLOCK = "clk"

    def __init__(
        self,
        path: str | Path,
        *,
        signals: Iterable[str] | None = None,
        prefix: str | None = None,
    ) -> None:
        self.path = Path(path)
        wanted = None
        if signals is not None:
            wanted = "|".join(f"{_pattern(name)}$" for name in (self.CLOCK, *signals))
        elif prefix is not None:
            wanted = f"{_pattern(prefix)}|{_pattern(self.CLOCK)}$"
        chosen = wanted and [re.compile(f"{_pattern(self.PREFIX)}(?:{wanted})")]
        try:
            with self.path.open() as file:
                if not file.read(4096).lstrip().startswith("$"):
                    raise ValueError("no keyword begins the file")
            self._vcd = VCDVCD(str(path), signal_res=chosen)
        except OSError as error:
            raise WaveError(f"cannot read {path}: {error.strerror}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise WaveError(f"{path} is no VCD file; record one with --vcd") from error
        self._period = self._measure()
        self._changes: dict[str, tuple[list[int], list[int]]] = {}
        self._names: dict[str, str] = {
            name.removeprefix(self.PREFIX).replace("\\", ""): name for name in self._vcd.signals
        }
        if prefix is not None or (signals is not None and self.CLOCK not in signals):
            del self._names[self.CLOCK]

    def _measure(self) -> int:
        """Duration of a cycle, from the first edges of the clock."""
        clock = self.PREFIX + self.CLOCK
        if not self._vcd.signals and not self._vcd.timescale:
            raise WaveError(f"{self.path} is no VCD file; record one with --vcd")
        edges = self._vcd[clock].tv[:3] if clock in self._vcd.signals else []
        if len(edges) < 2:
            raise WaveError(f"{self.path} has no clock {clock}; record it with --vcd")
        times = [int(time) for time, _ in edges]
        return times[2] - times[0] if len(times) > 2 else 2 * (times[1] - times[0])

    @property
    def signals(self) -> list[str]:
        """Names of all the signals that were read."""
        return list(self._names)

    @property
    def first(self) -> int:
        """First cycle that was recorded."""
        return int(self._vcd.begintime) // self._period

    @property
    def last(self) -> int:
        """Last cycle that was recorded."""
        return int(self._vcd.endtime) // self._period

    def changes(self, signal: str) -> list[tuple[int, int]]:
        """(cycle, value): the value at the beginning, then each new one."""
        return list(zip(*self._find(signal), strict=True))

    def value(self, signal: str, cycle: int) -> int:
        """Value of a signal in a cycle; a signed one as its bits."""
        if not self.first <= cycle <= self.last:
            raise WaveError(
                f"cycle {cycle} is not in {self.path}, which has {self.first} … {self.last}"
            )
        cycles, values = self._find(signal)
        return values[bisect.bisect_right(cycles, cycle) - 1]

    def rising(self, signal: str) -> list[int]:
        """Cycles in which a signal becomes other than zero."""
        edges = self.changes(signal)
        pairs = zip(edges, edges[1:], strict=False)
        return [at for (_, old), (at, new) in pairs if new and not old]

    def cycles(self, signal: str, value: int = 1) -> list[int]:
        """Every cycle in which a signal has that value: pulses in a row count one by one."""
        return [
            cycle
            for start, stop in self.intervals(signal, value)
            for cycle in range(start, stop)
        ]  # fmt: skip

    def intervals(self, signal: str, value: int | None = 1) -> list[tuple[int, int]]:
        """(start, stop): from cycle start to before cycle stop, a signal has that value.

        None stands for any value but 0.
        """
        spans: list[tuple[int, int]] = []
        edges = [*self.changes(signal), (self.last + 1, 0)]
        for (at, held), (end, _) in zip(edges, edges[1:], strict=False):
            if held != value and (value is not None or not held):
                continue
            if spans and spans[-1][1] == at:
                at = spans.pop()[0]
            spans.append((at, end))
        return spans

    def reference(self, signal: str) -> str:
        """A signal as viewers know it: its full path and its bits."""
        name = self._name(signal)
        width = int(self._vcd[name].size)
        return name + (f"[{width - 1}:0]" if width > 1 else "")

    def _name(self, signal: str) -> str:
        """The name of a signal in the file."""
        if signal not in self._names:
            raise WaveError(f"{self.path} has no signal {signal!r}")
        return self._names[signal]

    def _find(self, signal: str) -> tuple[list[int], list[int]]:
        if signal not in self._changes:
            name = self._name(signal)
            cycles: list[int] = []
            values: list[int] = []
            for time, text in self._vcd[name].tv:
                if set(text) - set("01"):
                    continue
                cycle, value = int(time) // self._period, int(text, 2)
                if cycles and cycles[-1] == cycle:
                    values[-1] = value
                elif not values or values[-1] != value:
                    cycles.append(cycle)
                    values.append(value)
            if not cycles:
                raise WaveError(f"{signal!r} has no numbers in {self.path}")
            self._changes[signal] = cycles, values
        return self._changes[signal]


def _pattern(name: str) -> str:
    """Finds a name of which the file may escape parts: those with the fields of a structure."""
    return r"\\?" + re.escape(name).replace(r"\.", r"\.\\?")


def viewer_setup(file: TextIO, wave: Waveform, groups: Mapping[str, Sequence[str]]) -> None:
    """Writes a GTKWave setup that shows groups of signals of `wave`, and fits others like it."""
    save = GTKWSave(file)
    save.treeopen(wave.PREFIX[:-1])
    save.sst_expanded(True)
    for title, signals in groups.items():
        with save.group(title):
            for name in signals:
                path = wave.reference(name)
                save.trace(path, datafmt="hex" if path.endswith("]") else "bin")
