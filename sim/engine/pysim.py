"""The board on Amaranth's own simulator, driven from outside, cycle by cycle.

All use of what Amaranth keeps private is here, in the schedule and in the recorder;
`amaranth~=0.5.10` is pinned for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Fragment, Value
from amaranth.hdl._ir import Design
from amaranth.sim._pyeval import eval_assign, eval_value

from hw.regs.errors import ConfigError

from .base import Capture, Condition, Snapshot, holds, violation
from .pages import PAGE, Pages
from .recorder import Recorder
from .schedule import Run, Schedule
from .script import Operation, Script, interpreted
from .variables import Variable, check_scopes, chosen, variables
from .wires import Part

__all__ = ["PysimEngine"]


class PysimEngine:
    """Engine on pysim. `board` is any component with a `storages` dictionary; see `Engine`.

    Parameters
    ----------
    board: what is simulated; elaborated once, here.
    clock_mhz: makes the time axis of waveforms.

    Members
    -------
    design: as it was elaborated.
    """

    name = "pysim"
    replays = False

    def __init__(self, board: Any, *, clock_mhz: int = 1000) -> None:
        self._period = 10**9 // clock_mhz
        self.design: Design = Fragment.get(board, None).prepare()
        self._schedule = Schedule(self.design)
        self._now = 0
        self._before = 0
        self._recorder: Recorder | None = None
        self._recorded = False
        self._capture: tuple[Path, Capture, list[Variable[Part]]] | None = None
        self._variables: list[Variable[Part]] | None = None
        self._names: dict[str, Any] | None = None
        self._storages: dict[str, Pages] = {}
        for name, storage in board.storages.items():
            self._storages[name] = Pages(storage.size)
            self._schedule.always.append(self._storage(storage, self._storages[name]))
        self.reset()

    def _storage(self, storage: Any, pages: Pages) -> Run:
        """The behaviour of a storage at a rising edge."""

        def slot(name: str) -> Any:
            return self._schedule.slot(getattr(storage, name))

        read_enable, read_address = slot("read_enable"), slot("read_address")
        write_enable, write_address = slot("write_enable"), slot("write_address")
        read_data, write_data, strobe = slot("read_data"), slot("write_data"), slot("write_strobe")
        width = storage.data_bytes
        full = (1 << width) - 1
        view, dirty = pages.view, pages.dirty.data

        def run() -> None:
            if read_enable.curr:
                at = read_address.curr * width
                read_data.update(int.from_bytes(view[at : at + width], "little"))
            if write_enable.curr:
                at = write_address.curr * width
                dirty[at // PAGE] = 1
                word = write_data.curr.to_bytes(width, "little")
                if strobe.curr == full:
                    view[at : at + width] = word
                else:
                    for lane in range(width):
                        if strobe.curr >> lane & 1:
                            view[at + lane] = word[lane]

        return run

    def _cycle(self) -> None:
        if self._capture is not None:
            self._record(*self._capture)
        with self._properties():
            self._schedule.edge()
        self._now += 1
        with self._properties():
            self._schedule.settle()

    @contextmanager
    def _properties(self) -> Iterator[None]:
        """Says when a property did not hold, and where it stands."""
        try:
            yield
        except AssertionError as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            source = trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            raise violation(str(error), self._now, source) from None

    # ------------------------------------------------------------------------------ Engine

    @property
    def now(self) -> int:
        return self._now

    @property
    def signals(self) -> list[str]:
        return list(self._known())

    def reset(self) -> None:
        self._before = 0 if self._recorder is None else self._before + self._now
        self._now = 0
        self._schedule.reset()

    def step(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            self._cycle()

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        if signal is None:
            assert cycle is not None, "neither a signal nor a cycle to wait for"
            self.step(max(0, cycle - self._now))
            return False
        slot = self._schedule.slot(self._find(signal))
        while slot.curr != value if value is not None else not slot.curr:
            if cycle is not None and self._now >= cycle:
                return False
            self._cycle()
        return True

    def seek(self, conditions: Sequence[Condition], cycle: int | None) -> bool:
        wanted = [
            [(self._schedule.slot(self._find(signal)), value) for signal, value in condition]
            for condition in conditions
        ]
        while cycle is None or self._now < cycle:
            if any(all(slot.curr == value for slot, value in pairs) for pairs in wanted):
                return True
            self._cycle()
        return False

    def peek(self, signal: Any) -> int:
        value: int = eval_value(self._schedule.state, Value.cast(self._find(signal)))
        return value

    def poke(self, signal: Any, value: int) -> None:
        target = Value.cast(self._find(signal))
        for part in target._lhs_signals():
            self._schedule.slot(part)
        eval_assign(self._schedule.state, target, value)
        with self._properties():
            self._schedule.settle()

    def script(self, operations: Sequence[Operation]) -> Script:
        return interpreted(self, operations)

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._storages[name].dirty

    def snapshot(self) -> Snapshot:
        images = {name: pages.snapshot() for name, pages in self._storages.items()}
        return Snapshot(self._now, self, (self._schedule.save(), images))

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.engine is not self:
            raise ConfigError("the snapshot is of another engine; take one of this engine")
        if self.capturing:
            raise ConfigError(
                "no snapshot can be restored while a waveform is recorded; end the recording"
            )
        values, images = snapshot.state
        self._schedule.load(values)
        for name, image in images.items():
            self._storages[name].restore(image)
        self._now = snapshot.cycle

    def capture(self, path: Path, window: Capture, scopes: Sequence[str] = ()) -> None:
        self._stop_recording()
        self._before = 0
        for name, _ in (pair for condition in window.conditions for pair in condition):
            self._find(name)
        if self._variables is None:
            self._variables = variables(self.design)
        check_scopes(self._variables, scopes)
        self._recorded = False
        self._capture = path, window, chosen(self._variables, scopes)

    @property
    def capturing(self) -> bool:
        return self._capture is not None

    def end_capture(self) -> bool:
        self._stop_recording()
        return self._recorded

    def close(self) -> None:
        self._stop_recording()

    # ------------------------------------------------------------------------------- names

    def _find(self, signal: Any) -> Any:
        if not isinstance(signal, str):
            return signal
        names = self._known()
        if signal not in names:
            raise ConfigError(
                f"no signal is called {signal!r}; names are those of a waveform, "
                "without the scopes bench and top"
            )
        return names[signal]

    def _known(self) -> dict[str, Any]:
        """All signals by name."""
        if self._names is None:
            self._names = {
                ".".join((*info.name[1:], name)): found
                for info in self.design.fragments.values()
                for found, name in info.signal_names.items()
            }
        return self._names

    # --------------------------------------------------------------------------- recording

    def _record(self, path: Path, window: Capture, shown: list[Variable[Part]]) -> None:
        """Called when a cycle is left, so that what was poked in it is recorded with it."""
        cycle = self._now
        if window.start is not None:
            inside = cycle >= window.start and (window.stop is None or cycle < window.stop)
        else:
            inside = holds(self, window.conditions)
        time = (self._before + cycle) * self._period
        schedule = self._schedule
        if self._recorder is not None and schedule.changed is not None:
            if inside:
                self._recorder.sample(time, schedule.changed)
                schedule.changed.clear()
            else:
                self._stop_recording()
        elif inside:
            self._recorder = Recorder(path, shown, schedule.state, self._period)
            self._recorder.start(time)
            self._recorded = True
            schedule.changed = set()

    def _stop_recording(self) -> None:
        """Ends the waveform with the cycle that was recorded last."""
        if self._recorder is not None:
            self._recorder.stop()
        self._recorder = self._capture = self._schedule.changed = None
