"""The board on Amaranth's own simulator, driven from outside, cycle by cycle.

All use of what Amaranth keeps private is in this file and its recorder; `amaranth~=0.5.10` is
pinned for it. Amaranth compiles each fragment and domain into a Python function; this engine
keeps those functions and the signal states and replaces what is around them: instead of looking
at every process in every delta cycle, each signal knows the functions that read it, and only the
rising edge of the clock is simulated.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.hdl import Fragment, Value
from amaranth.hdl._ir import Design
from amaranth.sim._pyeval import eval_assign, eval_value
from amaranth.sim.pysim import PySimEngine, _PySignalState

from hw.regs.errors import ConfigError

from .base import Capture
from .recorder import Recorder

__all__ = ["PysimEngine"]

_Run = Callable[[], None]


class PysimEngine:
    """Engine on pysim. `board` is any component with a `storages` dictionary; see `Engine`.

    Parameters
    ----------
    board: what is simulated; elaborated once, here.
    clock_mhz: makes the time axis of waveforms.
    """

    def __init__(self, board: Any, *, clock_mhz: int = 1000) -> None:
        self._period = 10**9 // clock_mhz
        self._design: Design = Fragment.get(board, None).prepare()
        compiled = PySimEngine(self._design)
        self._state = compiled._state
        self._processes = list(compiled._processes)
        self._on_edge: list[_Run] = []
        self._ready: set[_Run] = set()
        self._now = 0
        self._before = 0
        self._recorder: Recorder | None = None
        self._capture: tuple[Path, Capture] | None = None
        self._changed: set[Any] | None = None
        self._names: dict[str, Any] | None = None
        self._memories: dict[str, mmap.mmap] = {}
        self._rewire(self._design.fragment.domains["sync"].clk)
        for name, storage in board.storages.items():
            self._memories[name] = mmap.mmap(-1, storage.size)
            self._on_edge.append(self._storage(storage, memoryview(self._memories[name])))
        self.reset()

    def _rewire(self, clock: Any) -> None:
        """Turns the wakers of each signal and memory into the functions that they wake."""
        for slot in self._state.slots:
            readers = []
            for waker in slot.wakers:
                names = waker.__code__.co_freevars
                process = waker.__closure__[names.index("process")].cell_contents
                if "polarity" in names:
                    assert slot.signal is clock, "one clock domain, synchronous reset"
                    self._on_edge.append(process.run)
                else:
                    readers.append(process.run)
            slot.wakers = tuple(readers)

    def _storage(self, storage: Any, view: memoryview) -> _Run:
        """The behaviour of a storage at a rising edge."""

        def slot(name: str) -> Any:
            signal = Value.cast(getattr(storage, name))
            return self._state.slots[self._state.get_signal(signal)]

        read_enable, read_address = slot("read_enable"), slot("read_address")
        write_enable, write_address = slot("write_enable"), slot("write_address")
        read_data, write_data, strobe = slot("read_data"), slot("write_data"), slot("write_strobe")
        width = storage.data_bytes
        full = (1 << width) - 1

        def run() -> None:
            if read_enable.curr:
                at = read_address.curr * width
                read_data.update(int.from_bytes(view[at : at + width], "little"))
            if write_enable.curr:
                at = write_address.curr * width
                word = write_data.curr.to_bytes(width, "little")
                if strobe.curr == full:
                    view[at : at + width] = word
                else:
                    for lane in range(width):
                        if strobe.curr >> lane & 1:
                            view[at + lane] = word[lane]

        return run

    def _settle(self) -> None:
        """Runs what is ready and commits, until nothing changes any more."""
        ready, pending, changed = self._ready, self._state.pending, self._changed
        while True:
            for run in ready:
                run()
            ready.clear()
            if not pending:
                return
            if changed is not None:
                changed.update(pending)
            for slot in pending:
                if type(slot) is _PySignalState:
                    if slot.curr != slot.next:
                        slot.curr = slot.next
                        ready.update(slot.wakers)
                else:
                    for address, value in slot.write_queue.items():
                        slot.data[address] = value
                    slot.write_queue.clear()
                    ready.update(slot.wakers)
            pending.clear()

    def _cycle(self) -> None:
        if self._capture is not None:
            self._record(*self._capture)
        for run in self._on_edge:
            run()
        self._settle()
        self._now += 1

    # ------------------------------------------------------------------------------ Engine

    @property
    def now(self) -> int:
        return self._now

    def reset(self) -> None:
        self._before = 0 if self._recorder is None else self._before + self._now
        self._now = 0
        self._state.reset()
        self._ready.update(process.run for process in self._processes if process.is_comb)
        if self._changed is not None:
            self._changed.update(self._state.slots)
        self._settle()

    def step(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            self._cycle()

    def run_until(self, signal: Any, cycle: int | None) -> bool:
        if signal is None:
            assert cycle is not None, "neither a signal nor a cycle to wait for"
            self.step(max(0, cycle - self._now))
            return False
        slot = self._slot(signal)
        while not slot.curr:
            if cycle is not None and self._now >= cycle:
                return False
            self._cycle()
        return True

    def peek(self, signal: Any) -> int:
        value: int = eval_value(self._state, Value.cast(self._find(signal)))
        return value

    def poke(self, signal: Any, value: int) -> None:
        eval_assign(self._state, Value.cast(self._find(signal)), value)
        self._settle()

    def memory(self, name: str) -> memoryview:
        return memoryview(self._memories[name])

    def capture(self, path: Path, window: Capture) -> None:
        self._stop_recording()
        self._before = 0
        for name, _ in (pair for condition in window.conditions for pair in condition):
            self._find(name)
        self._capture = path, window

    def close(self) -> None:
        self._stop_recording()

    # ------------------------------------------------------------------------------- names

    def _find(self, signal: Any) -> Any:
        if not isinstance(signal, str):
            return signal
        if self._names is None:
            self._names = {
                ".".join((*info.name[1:], name)): found
                for info in self._design.fragments.values()
                for found, name in info.signal_names.items()
            }
        if signal not in self._names:
            raise ConfigError(
                f"no signal is called {signal!r}; names are those of a waveform, "
                "without the scopes bench and top"
            )
        return self._names[signal]

    def _slot(self, signal: Any) -> Any:
        return self._state.slots[self._state.get_signal(Value.cast(self._find(signal)))]

    # --------------------------------------------------------------------------- recording

    def _record(self, path: Path, window: Capture) -> None:
        """Called when a cycle is left, so that what was poked in it is recorded with it."""
        cycle = self._now
        if window.start is not None:
            inside = cycle >= window.start and (window.stop is None or cycle < window.stop)
        else:
            inside = any(
                all(self.peek(name) == value for name, value in condition)
                for condition in window.conditions
            )
        time = (self._before + cycle) * self._period
        if self._recorder is not None and self._changed is not None:
            if inside:
                self._recorder.sample(time, self._changed)
                self._changed.clear()
            else:
                self._stop_recording()
        elif inside:
            self._recorder = Recorder(path, self._design, self._state, self._period)
            self._recorder.start(time)
            self._changed = set()

    def _stop_recording(self) -> None:
        """Ends the waveform with the cycle that was recorded last."""
        if self._recorder is not None:
            self._recorder.stop()
        self._recorder = self._capture = self._changed = None
