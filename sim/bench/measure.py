"""Measures all engines on the same workload, in rounds, each in a process of its own."""

from __future__ import annotations

import pickle
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hw.config import NpuConfig

from ..engines import ENGINES
from .child import Child
from .peers import PEERS, build
from .toolchain import Missing, PeerError
from .workload import Workload, load

__all__ = ["IN_PYTHON", "Measured", "Preset", "Settings", "Spread", "engines", "measure"]

IN_PYTHON = {
    "pysim": "pysim",
    "amaranth": "Amaranth's loop",
}
"""Engines that are too slow for the whole workload, with their titles."""
LEAD = 1000
"""Cycles from the start of the first kernel to the window that they are measured in."""
RECORDED = 30_000
"""Cycles of a waveform, at most, from the start of that window."""
BUSY_SECONDS = 0.2
"""CPU seconds that a fast engine is given for a window."""


def engines() -> dict[str, str]:
    """All that can be measured, by name, with titles: ours, then the peers."""
    ours = {name: name for name in ENGINES if name not in ("auto", "pysim")}
    return {**IN_PYTHON, **ours, **{peer.name: peer.title for peer in PEERS.values()}}


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    presets: tuple[str, ...] = ("small", "base", "large")
    engines: tuple[str, ...] = ()
    """Names of `engines`; all if empty."""
    rounds: int = 5
    cycles: int = 2000
    """Length of the window for engines in Python."""
    size: int = 256
    """Rows and columns of the matrices."""


@dataclass(frozen=True)
class Spread:
    """Several measurements of the same."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def as_dict(self) -> dict[str, float | list[float]]:
        low, high = min(self.values), max(self.values)
        return {"median": self.median, "low": low, "high": high, "values": list(self.values)}


@dataclass
class Measured:
    """What was measured of an engine. Speeds are simulated cycles per CPU second."""

    name: str
    title: str
    missing: str = ""
    """Why it is not there; then there is nothing else."""
    speed: Spread | None = None
    """Over the whole workload."""
    busy: Spread | None = None
    """In the window, in which the array works; of each round the next such window."""
    idle: Spread | None = None
    recording: Spread | None = None
    """From the start of the window on, with a waveform of everything."""
    recorded: dict[str, int] = field(default_factory=dict)
    """Signals and bytes of that waveform."""
    access: Spread | None = None
    """Seconds for a register access from Python beyond its simulated cycles; of ours."""
    build: dict[str, float] = field(default_factory=dict)
    """Seconds and CPU seconds of the steps from nothing to a model."""
    warm: dict[str, float] = field(default_factory=dict)
    """The same of the process start when the cache has all."""
    memory: int = 0
    """Bytes, at most."""

    def as_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: value.as_dict() if isinstance(value, Spread) else value
            for name, value in found.items()
            if value
        }


@dataclass
class Preset:
    """All engines on one NPU."""

    name: str
    workload: Workload
    window: tuple[int, int]
    engines: dict[str, Measured]

    def as_dict(self) -> dict[str, Any]:
        first, last = self.workload.kernels
        return {
            "preset": self.name,
            "config": self.workload.config.as_dict(),
            "gemm": self.workload.size,
            "cycles": self.workload.cycles,
            "kernel_cycles": last - first,
            "utilisation": self.workload.utilisation(self.workload.cycles),
            "kernel_utilisation": self.workload.utilisation(last - first),
            "window": self.window,
            "engines": [engine.as_dict() for engine in self.engines.values()],
        }


def measure(settings: Settings, say: Callable[[str], None] = lambda text: None) -> list[Preset]:
    """Measures; `say` is told what happens."""
    return [_Bench(settings, preset, say).run() for preset in settings.presets]


class _Bench:
    """The measurements of one preset."""

    def __init__(self, settings: Settings, preset: str, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._preset = preset
        self._tell = say
        self._say("workload")
        workload = load(preset, settings.size)
        length = settings.rounds * settings.cycles
        start = max(0, min(workload.kernels[0] + LEAD, workload.cycles - length))
        known = engines()
        self._result = Preset(
            preset, workload, (start, start + settings.cycles),
            {name: Measured(name, known[name]) for name in settings.engines or known},
        )  # fmt: skip

    def _say(self, text: str) -> None:
        self._tell(f"{self._preset}: {text}")

    def run(self) -> Preset:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._workload = folder / "workload.pickle"
            self._workload.write_bytes(pickle.dumps(self._result.workload))
            self._speeds(folder)
            self._recordings()
        return self._result

    def _speeds(self, folder: Path) -> None:
        children = {}
        with ExitStack() as stack:
            for name, measured in self._result.engines.items():
                self._say(f"building {measured.title}")
                try:
                    self._build(measured, folder / name)
                    child = children[name] = stack.enter_context(self._child(name))
                    if name in IN_PYTHON:
                        measured.build = {"seconds": child.seconds, "cpu": child.cpu_seconds}
                except Missing as missing:
                    measured.missing = f"not installed: {missing}"
                except PeerError as error:
                    measured.missing = f"not built: {error}"
            self._rounds(children)
            for name, child in children.items():
                self._result.engines[name].memory = child.ask("usage")["memory"]

    def _build(self, measured: Measured, cache: Path) -> None:
        """What it takes from nothing, and with a cache that has all."""
        if measured.name in IN_PYTHON:
            return
        if measured.name in PEERS:
            built = build(PEERS[measured.name], NpuConfig.preset(self._preset))
            for step in built.steps:
                measured.build |= {
                    step.name: step.seconds, f"{step.name}, cpu": step.cpu_seconds
                }  # fmt: skip
            measured.build["seconds"] = sum(step.seconds for step in built.steps)
            measured.build["cpu"] = sum(step.cpu_seconds for step in built.steps)
            return
        cache.mkdir()
        for times in (measured.build, measured.warm):
            with Child(measured.name, self._preset, cache=cache) as child:
                times |= {"seconds": child.seconds, "cpu": child.cpu_seconds}

    def _child(self, name: str, *, trace: bool = False) -> Child:
        child = Child(name, self._preset, trace=trace)
        child.ask("workload", path=str(self._workload))
        return child

    def _rounds(self, children: dict[str, Child]) -> None:
        first, _ = self._result.window
        cycles = self._settings.cycles
        found: dict[tuple[str, str], list[float]] = {}

        def note(name: str, what: str, value: float) -> None:
            found.setdefault((name, what), []).append(value)

        # Engines in Python cannot go back: they idle first, and each round goes on from the last.
        for name, child in children.items():
            if name in IN_PYTHON:
                self._say(f"idle, {name}")
                still = child.ask("idle", cycles=cycles)
                note(name, "idle", still["cycles"] / still["cpu"])
        for turn in range(self._settings.rounds):
            start = first + turn * cycles
            stop = start + cycles
            for name, child in children.items():
                self._say(f"round {turn + 1} of {self._settings.rounds}, {name}")
                repeat = 1
                if name not in IN_PYTHON:
                    whole = child.ask("run")
                    speed = whole["cycles"] / whole["cpu"]
                    note(name, "speed", speed)
                    repeat = max(1, round(BUSY_SECONDS * speed / (stop - start)))
                    still = child.ask("idle", cycles=round(BUSY_SECONDS * speed))
                    note(name, "idle", still["cycles"] / still["cpu"])
                if name not in PEERS:
                    busy = child.ask("window", start=start, stop=stop, repeat=repeat)
                    note(name, "busy", busy["cycles"] / busy["cpu"])
                if name not in PEERS and name not in IN_PYTHON:
                    note(name, "access", child.ask("access", count=2000)["seconds"])
        for (name, what), values in found.items():
            setattr(self._result.engines[name], what, Spread(tuple(values)))

    def _recordings(self) -> None:
        """Waveforms, by the engines that are fast; a peer is built again for it."""
        start, _ = self._result.window
        stop = min(start + RECORDED, self._result.workload.cycles)
        with ExitStack() as stack:
            children = {}
            for name, measured in self._result.engines.items():
                traced = name not in PEERS or PEERS[name].traced is not None
                if traced and not measured.missing and name not in IN_PYTHON:
                    self._say(f"building {measured.title} with waveforms")
                    child = children[name] = stack.enter_context(self._child(name, trace=True))
                    # The first may compile, which is no part of the speed.
                    child.ask("record", start=start, stop=start + 1)
            speeds: dict[str, list[float]] = {name: [] for name in children}
            for turn in range(self._settings.rounds):
                for name, child in children.items():
                    self._say(f"waveform {turn + 1} of {self._settings.rounds}, {name}")
                    done = child.ask("record", start=start, stop=stop)
                    speeds[name].append(done["cycles"] / done["cpu"])
                    recorded = {part: done[part] for part in ("signals", "bytes")}
                    self._result.engines[name].recorded = recorded
        for name, values in speeds.items():
            self._result.engines[name].recording = Spread(tuple(values))
