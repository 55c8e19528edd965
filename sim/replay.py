"""Engines that watch how far a replay has got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .engine.base import Condition, Engine
from .engine.script import Operation, Script, interpreted

__all__ = ["Finder", "Follower", "Reached"]

CHUNK = 1024
"""Cycles after which a follower looks whether the recording is over."""


class Reached(Exception):  # noqa: N818 - no error
    """The replay has got where it should."""


class _Watcher:
    """A `Stepper` that hands all but the passing of time on to an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def now(self) -> int:
        return self._engine.now

    def reset(self) -> None:
        self._engine.reset()

    def peek(self, signal: Any) -> int:
        return self._engine.peek(signal)

    def poke(self, signal: Any, value: int) -> None:
        self._engine.poke(signal, value)

    def memory(self, name: str) -> memoryview:
        return self._engine.memory(name)

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._engine.dirty(name)

    def script(self, operations: Sequence[Operation]) -> Script:
        return interpreted(self, operations)

    def step(self, cycles: int = 1) -> None:
        self.run_until(None, self.now + cycles)

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        raise NotImplementedError


class Finder(_Watcher):
    """Raises `Reached` in the first cycle that would be left while one of the conditions holds.

    Signals that it waits for have one bit.
    """

    def __init__(self, engine: Engine, conditions: Sequence[Condition]) -> None:
        super().__init__(engine)
        self._conditions = tuple(conditions)

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        conditions = self._conditions
        if signal is None:
            found = self._engine.seek(conditions, cycle)
        else:
            wanted = 1 if value is None else value
            found = self._engine.seek((((signal, wanted),), *conditions), cycle)
            if self._engine.peek(signal) == wanted:
                return True
        if found:
            raise Reached
        return False


class Follower(_Watcher):
    """Raises `Reached` soon after the recording of the engine is over.

    Parameters
    ----------
    stop: cycle behind the recording, where that is known.
    """

    def __init__(self, engine: Engine, stop: int | None) -> None:
        super().__init__(engine)
        self._stop = stop

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        engine = self._engine
        while True:
            pause = engine.now + CHUNK
            if self._stop is not None and engine.now <= self._stop:
                pause = min(pause, self._stop + 1)
            if cycle is not None:
                pause = min(pause, cycle)
            if engine.run_until(signal, pause, value):
                return True
            if not engine.capturing:
                raise Reached
            if pause == cycle:
                return False
