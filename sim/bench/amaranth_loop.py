"""The board in Amaranth's own simulator, with its own loop: what the compiled engine replaces."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Fragment
from amaranth.sim._pyclock import PyClockProcess
from amaranth.sim.pysim import PySimEngine, _PySignalState

from ..engine.pages import PAGE, Pages
from ..engine.script import Operation, Script, interpreted

__all__ = ["AmaranthLoop"]

PERIOD = 10**6
"""Femtoseconds of a cycle."""


class AmaranthLoop:
    """`Stepper` on Amaranth's `PySimEngine`, which does everything but the byte storages.

    Parameters
    ----------
    board: what is simulated.
    """

    name = "amaranth"

    def __init__(self, board: Any) -> None:
        design = Fragment.get(board, None).prepare()
        clock = design.fragment.domains["sync"].clk
        self._engine = PySimEngine(design)
        self._engine.add_clock_process(clock, phase=PERIOD // 2, period=PERIOD)
        (self._clock,) = (p for p in self._engine._processes if isinstance(p, PyClockProcess))
        self._storages: dict[str, Pages] = {}
        for name, storage in board.storages.items():
            self._storages[name] = Pages(storage.size)
            behaviour = _Behaviour(self._engine.state, clock, storage, self._storages[name])
            self._engine._processes.add(behaviour)
        self._names = {
            name: signal
            for signal, name in design.fragments[design.fragment].signal_names.items()
        }
        self._now = 0
        self._settled = False

    @property
    def now(self) -> int:
        return self._now

    def reset(self) -> None:
        self._engine.reset()
        self._now = 0
        self._settled = False

    def step(self, cycles: int = 1) -> None:
        self._begin()
        for _ in range(cycles):
            self._engine.advance()
            self._engine.advance()
            self._now += 1

    def run_until(self, signal: str | None, cycle: int | None, value: int | None = None) -> bool:
        while signal is None or not self._reached(signal, value):
            if cycle is not None and self._now >= cycle:
                return False
            self.step()
        return True

    def peek(self, signal: str) -> int:
        self._begin()
        value: int = self._engine.get_value(self._find(signal))
        return value

    def poke(self, signal: str, value: int) -> None:
        self._begin()
        self._engine.set_value(self._find(signal), value)
        # The next edge is due already; what was poked has to settle before it.
        self._clock.runnable = False
        self._engine.step_design()
        self._clock.runnable = True

    def script(self, operations: Sequence[Operation]) -> Script:
        return interpreted(self, operations)

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._storages[name].dirty

    def snapshot(self) -> Any:
        self._begin()
        values = [
            slot.curr if isinstance(slot, _PySignalState) else list(slot.data)
            for slot in self._engine.state.slots
        ]
        images = {name: pages.snapshot() for name, pages in self._storages.items()}
        return self._now, values, images

    def restore(self, snapshot: Any) -> None:
        self._now, values, images = snapshot
        for slot, value in zip(self._engine.state.slots, values, strict=True):
            if isinstance(slot, _PySignalState):
                slot.curr = slot.next = value
            else:
                slot.data = list(value)
        for name, image in images.items():
            self._storages[name].restore(image)

    def _find(self, signal: str) -> Any:
        """A signal of the board itself."""
        return self._names[signal]

    def _reached(self, signal: str, value: int | None) -> bool:
        found = self.peek(signal)
        return bool(found) if value is None else found == value

    def _begin(self) -> None:
        """Settles the first cycle, and brings time to the first edge of the clock."""
        if not self._settled:
            self._settled = True
            self._engine.advance()


class _Behaviour:
    """A storage as a clocked process of the engine."""

    critical = False

    def __init__(self, state: Any, clock: Any, storage: Any, pages: Pages) -> None:
        self.runnable = False
        self._slots = {
            name: state.slots[state.get_signal(getattr(storage, name))]
            for name in storage.signature.members
        }
        self._pages = pages
        self._word = storage.data_bytes

        def wake(before: int, after: int) -> bool:
            if after:
                self.runnable = True
            return True

        state.add_signal_waker(clock, wake)

    def reset(self) -> None:
        self.runnable = False

    def run(self) -> None:
        slots, word = self._slots, self._word
        view = self._pages.view
        if slots["read_enable"].curr:
            at = slots["read_address"].curr * word
            slots["read_data"].update(int.from_bytes(view[at : at + word], "little"))
        if slots["write_enable"].curr:
            at = slots["write_address"].curr * word
            self._pages.dirty[at // PAGE] = 1
            data = slots["write_data"].curr.to_bytes(word, "little")
            for lane in range(word):
                if slots["write_strobe"].curr >> lane & 1:
                    view[at + lane] = data[lane]
