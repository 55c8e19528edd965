"""What every engine offers, whatever it runs the gateware on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hw.regs.errors import NpuError

from .script import Operation, Script

__all__ = [
    "Capture", "Condition", "Engine", "EngineError", "Snapshot", "Stepper", "holds", "violation",
]  # fmt: skip

Condition = tuple[tuple[Any, int], ...]
"""Pairs (signal or its name, value) that hold together."""


class EngineError(NpuError, AssertionError):
    """What runs has broken a rule of its own: an `Assert` or `Assume` in it does not hold."""


class Capture(Protocol):
    """Says in which cycles a waveform is recorded; see `sim.wave.Window`."""

    @property
    def start(self) -> int | None:
        """First cycle, or None when `conditions` decide."""
        ...

    @property
    def stop(self) -> int | None:
        """First cycle that is not recorded any more, or None."""
        ...

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Recorded from the first cycle in which any holds to the last one in a row."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """Everything that a board is in a cycle: registers, memories, storages and inputs."""

    cycle: int
    engine: Any
    """The engine that it is of, and that alone can restore it."""
    state: Any
    """Private to the engine; never changed once it is taken."""


class Stepper(Protocol):
    """What a host needs of an engine. One cycle is one rising edge of the clock domain `sync`.

    In cycle n, n edges have happened and all signals have settled. Signals are named by their
    path below the board, as in a waveform ("npu.queue.head"), or given as objects where the
    engine has been given the board itself.

    What the board prints appears on stdout; `EngineError` says which of its own rules it broke.
    """

    @property
    def now(self) -> int:
        """The current cycle."""
        ...

    def reset(self) -> None:
        """Back to cycle 0 with initial values; storages keep their bytes."""
        ...

    def step(self, cycles: int = 1) -> None:
        """Lets cycles pass."""
        ...

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        """Lets cycles pass until the signal is `value` or that cycle is reached (None: never).

        Without a value, until the signal is not zero; without a signal, until the cycle. Returns
        whether the signal is as wanted. Takes no cycle if it is already so.
        """
        ...

    def peek(self, signal: Any) -> int:
        """Value of a signal in the current cycle."""
        ...

    def poke(self, signal: Any, value: int) -> None:
        """Sets an input or a register; what depends on it settles in the same cycle."""
        ...

    def script(self, operations: Sequence[Operation]) -> Script:
        """A function that does all of that, one after the other; see `sim.engine.script`.

        It is prepared here once, so that a call costs little beyond the cycles that pass in it.
        """
        ...

    def memory(self, name: str) -> memoryview:
        """The bytes of a storage, without a copy; `numpy.frombuffer` makes an array of it.

        Who writes through it also sets the bytes of `dirty`.
        """
        ...

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        """One byte per page (`pages.PAGE`) of a storage; see `pages.Pages`.

        The engine sets those of the pages that the gateware writes.
        """
        ...


class Engine(Stepper, Protocol):
    """A board that runs."""

    name: str
    """What `sim.open` calls it."""
    replays: bool
    """Cycles with recording take it so much longer that a window is better recorded afterwards:
    at the end of a run, by a replay of that window alone."""

    @property
    def signals(self) -> list[str]:
        """Names of all signals that can be looked at."""
        ...

    def seek(self, conditions: Sequence[Condition], cycle: int | None) -> bool:
        """Lets cycles pass until one of the conditions holds in a cycle before `cycle`.

        Returns whether one does; otherwise `cycle` is reached, which is not looked at.
        """
        ...

    def snapshot(self) -> Snapshot:
        """The whole state. Of storages it costs what changed since the last snapshot."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Back to a snapshot of this engine: the same calls then give the same cycles again.

        Refused with `ConfigError` while a waveform is recorded.
        """
        ...

    def capture(self, path: Path, window: Capture, scopes: Sequence[str] = ()) -> None:
        """Records a waveform into `path` during the window. One recording at a time.

        A cycle is recorded, and looked at for the window, when it is left: with all that was
        poked in it. Scopes limit the recording to the clock and to signals whose name is, or
        begins with, one of them ("npu.core0").
        """
        ...

    @property
    def capturing(self) -> bool:
        """A recording goes on, or waits for its window."""
        ...

    def end_capture(self) -> bool:
        """Ends a recording; returns whether the last one has recorded any cycle."""
        ...

    def close(self) -> None:
        """Ends a recording and releases what the engine holds."""
        ...


def holds(engine: Stepper, conditions: Sequence[Condition]) -> bool:
    """Whether one of the conditions holds in the current cycle."""
    return any(all(engine.peek(name) == value for name, value in pairs) for pairs in conditions)


def violation(
    what: str, cycle: int, source: tuple[str, int] | None, module: str = ""
) -> EngineError:
    """The error for a property that does not hold in a cycle."""
    where = f" in {module}" if module else ""
    line = f" ({source[0]}:{source[1]})" if source else ""
    return EngineError(
        f"{what}; cycle {cycle}{where}{line}: the gateware is at fault, or was given what it "
        "excludes"
    )
