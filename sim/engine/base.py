"""What every engine offers, whatever it runs the gateware on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

__all__ = ["Capture", "Condition", "Engine"]

Condition = tuple[tuple[str, int], ...]
"""Pairs (name of a signal, value) that hold together."""


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


class Engine(Protocol):
    """A board that runs. One cycle is one rising edge of the clock domain `sync`.

    In cycle n, n edges have happened and all signals have settled. Signals are named by their
    path below the board, as in a waveform ("npu.queue.head"), or given as objects.
    """

    name: str
    """What `sim.open` calls it."""

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

    def run_until(self, signal: Any, cycle: int | None) -> bool:
        """Lets cycles pass until the signal is not zero (None: never) or that cycle is reached.

        Returns whether the signal is not zero. Takes no cycle if it is already so.
        """
        ...

    def peek(self, signal: Any) -> int:
        """Value of a signal in the current cycle."""
        ...

    def poke(self, signal: Any, value: int) -> None:
        """Sets an input or a register; what depends on it settles in the same cycle."""
        ...

    def memory(self, name: str) -> memoryview:
        """The bytes of a storage, without a copy."""
        ...

    def capture(self, path: Path, window: Capture) -> None:
        """Records a waveform into `path` during the window. One recording at a time."""
        ...

    def close(self) -> None:
        """Ends a recording and releases what the engine holds."""
        ...
