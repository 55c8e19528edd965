"""The board as native code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Value
from amaranth.hdl import _ast as ast

from hw.regs.errors import ConfigError

from .base import Capture, Condition, Snapshot, holds
from .model import Model
from .pages import Pages
from .program import ALL, Program, Slot, compile

__all__ = ["CompiledBoard"]

FOREVER = (1 << 63) - 1


class CompiledBoard:
    """Engine that compiles a board; see `Engine`. Same cycles as pysim, thousands of times faster.

    Parameters
    ----------
    board: component with a `storages` dictionary.
    clock_mhz: makes the time axis of waveforms.
    keep: combinational signals that are to be at hand without a second build.
    """

    name = "compiled"
    replays = True

    def __init__(self, board: Any, *, clock_mhz: int = 1000, keep: Any = ALL) -> None:
        self._period = 10**9 // clock_mhz
        self._storages = {name: Pages(storage.size) for name, storage in board.storages.items()}
        self.program: Program = compile(board, keep=keep, storages=board.storages.items())
        self.model = Model(self.program, self._storages)
        self._now = 0

    @property
    def now(self) -> int:
        return self._now

    def reset(self) -> None:
        self._now = 0
        self.model.reset()

    def step(self, cycles: int = 1) -> None:
        self._now += self.model.step(cycles)

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        limit = FOREVER if cycle is None else max(0, cycle - self._now)
        if signal is None:
            assert cycle is not None, "neither a signal nor a cycle to wait for"
            self.step(limit)
            return False
        until = self.model.until(self._slot(signal), value or 0, equal=value is not None)
        self._now += self.model.run_until([until], limit)
        return self.model.holds(until)

    def seek(self, conditions: Sequence[Condition], cycle: int | None) -> bool:
        while cycle is None or self._now < cycle:
            if holds(self, conditions):
                return True
            self.step()
        return False

    def peek(self, signal: Any) -> int:
        if isinstance(signal, str):
            return self.model.get(self._slot(signal))
        return self._evaluate(Value.cast(signal))

    def _evaluate(self, value: Any) -> int:
        """A signal, or parts of signals."""
        if isinstance(value, ast.Signal):
            return self.model.get(self._slot(value))
        if isinstance(value, ast.Slice):
            return self._evaluate(value.value) >> value.start & ((1 << len(value)) - 1)
        if isinstance(value, ast.Operator) and value.operator in ("u", "s"):
            return self._evaluate(value.operands[0])
        raise ConfigError(f"{value!r} is neither a signal nor a part of one")

    def poke(self, signal: Any, value: int) -> None:
        target = Value.cast(self._signal(signal) if isinstance(signal, str) else signal)
        low, width = 0, len(target)
        while not isinstance(target, ast.Signal):
            if isinstance(target, ast.Slice):
                low += target.start
                target = target.value
            elif isinstance(target, ast.Operator) and target.operator in ("u", "s"):
                target = target.operands[0]
            else:
                raise ConfigError(f"{target!r} is neither a signal nor a part of one")
        slot = self._slot(target)
        bits = (1 << width) - 1
        whole = self.model.get(slot)
        self.model.set(slot, whole & ~(bits << low) | (value & bits) << low)
        self.model.settle()

    def _signal(self, name: str) -> Any:
        try:
            return self.program.names[name]
        except KeyError:
            raise ConfigError(
                f"no signal is called {name!r}; names are those of a waveform, "
                "without the scopes bench and top"
            ) from None

    def _slot(self, signal: Any) -> Slot:
        slot = self.program.slot(self._signal(signal) if isinstance(signal, str) else signal)
        if slot is None:
            raise ConfigError(f"{signal!r} is not kept in this build")
        return slot

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._storages[name].dirty

    def snapshot(self) -> Snapshot:
        images = {name: pages.snapshot() for name, pages in self._storages.items()}
        return Snapshot(self._now, self, (self.model.snapshot(), images))

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.engine is not self:
            raise ConfigError("the snapshot is of another engine; take one of this engine")
        state, images = snapshot.state
        for name, image in images.items():
            self._storages[name].restore(image)
        self.model.restore(state)
        self._now = snapshot.cycle

    def capture(self, path: Path, window: Capture, scopes: Sequence[str] = ()) -> None:
        raise NotImplementedError

    @property
    def capturing(self) -> bool:
        return False

    def end_capture(self) -> bool:
        return False

    def close(self) -> None:
        return None
