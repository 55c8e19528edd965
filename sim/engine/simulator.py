"""The compiled engine for Amaranth's own simulator: `Simulator(design, engine=CompiledEngine)`.

The design runs in native code; testbenches, processes and clocks are Amaranth's own, and so are
the waveform writer and the evaluation of expressions. `amaranth~=0.5.10` is pinned for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.hdl._ir import Design, DriverConflict
from amaranth.sim._async import AsyncProcess
from amaranth.sim._pyclock import PyClockProcess
from amaranth.sim.pysim import PySimEngine

from .model import Model
from .program import ALL, compile
from .simulator_state import SimulatorState

__all__ = ["CompiledEngine"]


class CompiledEngine(PySimEngine):  # type: ignore[misc]
    """Simulates a design in native code, with the same results as Amaranth's engine.

    In one delta cycle active triggers sample, processes run and queue what they set, registers
    take their next values, what was queued takes effect, and all logic settles. So nobody sees
    logic that has not settled: transient values that Amaranth's engine shows to processes and
    in waveforms do not appear, and a register never samples one.

    Parameters
    ----------
    design: a prepared design, as `Simulator` passes it.

    Attributes
    ----------
    optimise: level of the C compiler. Testbenches in Python take most of the time, so that
        compiling for longer rarely pays.
    """

    optimise = 1

    def __init__(self, design: Design) -> None:
        self._design = design
        model = Model(compile(design, keep=ALL), optimise=self.optimise)
        self._state = SimulatorState(design, model)
        self._processes: list[Any] = []  # a list, so that their order never varies
        self._testbenches: list[Any] = []
        self._delta_cycles = 0
        self._vcd_writers: list[Any] = []
        self._active_triggers: set[Any] = set()

    def reset(self) -> None:
        self._active_triggers.clear()
        super().reset()

    def add_clock_process(self, clock: Any, *, phase: int, period: int) -> None:
        if self._state.slots[self._state.get_signal(clock)].is_comb:
            raise DriverConflict("Clock signal is already driven by combinational logic")
        self._processes.append(PyClockProcess(self._state, clock, phase=phase, period=period))

    def add_async_process(self, simulator: Any, process: Callable[..., Any]) -> None:
        self._processes.append(
            AsyncProcess(self._design, self, process, testbench=False, background=True)
        )

    def step_design(self) -> None:
        converged = False
        while not converged:
            for trigger in self._active_triggers:
                trigger.run()
            self._active_triggers.clear()
            for process in self._processes:
                if process.runnable:
                    process.runnable = False
                    process.run()
            converged = self._state.commit()
            self._delta_cycles += 1
            if self._vcd_writers:
                self._dump()

    @contextmanager
    def write_vcd(self, **options: Any) -> Iterator[None]:
        with super().write_vcd(**options):
            self._state.trace(True)
            try:
                yield
            finally:
                self._state.trace(len(self._vcd_writers) > 1)

    def _dump(self) -> None:
        """Tells the waveform writers what changed in this delta cycle."""
        signals, rows = self._state.changes()
        for writer in self._vcd_writers:
            time = self._now_plus_deltas(writer.fs_per_delta)
            for signal in signals:
                writer.update_signal(time, signal)
            for memory, row in rows:
                writer.update_memory(time, memory, row)
