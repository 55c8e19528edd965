"""The board on two engines at once, which must agree in every cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .changes import Changes
from .compiled import CompiledBoard
from .drivers import names
from .lockstep import Comparison, Difference, Read
from .pages import PAGE
from .program import ALL
from .pysim import PysimEngine
from .script import Operation, Script, interpreted

__all__ = ["BoardPair"]

FULL_EVERY = 256
"""Cycles after which all is compared, memories of the gateware included, not what changed."""


class BoardPair:
    """A board on pysim and compiled: in every cycle all signals with a name must be equal.

    A `Stepper`, so that any program of a host runs in lockstep. The host's view of storages is
    that of pysim's; what it writes is copied when time passes.

    Parameters
    ----------
    board: component with a `storages` dictionary. It is elaborated twice.
    keep: combinational signals that are compared; all registers are. See `compile`.
    """

    name = "lockstep"

    def __init__(self, board: Any, *, keep: str | Iterable[Any] = ALL) -> None:
        self.expected = PysimEngine(board)
        self.actual = CompiledBoard(board, keep=keep)
        self._storages = list(board.storages)
        self._comparison = Comparison(
            self.expected.design, _Expected(self.expected), _Actual(self.actual)
        )
        self._poked = True

    @property
    def compared(self) -> int:
        """Number of values that are compared, rows of memories included."""
        return len(self._comparison.names)

    @property
    def now(self) -> int:
        return self.expected.now

    def reset(self) -> None:
        self.expected.reset()
        self.actual.reset()
        self._poked = True

    def step(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            self._check_pokes()
            self._copy()
            self.expected.step()
            self.actual.step()
            self._check()

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        assert signal is not None or cycle is not None, "neither a signal nor a cycle to wait for"
        while True:
            if signal is not None:
                found = self.peek(signal)
                if found == value if value is not None else found:
                    return True
            if cycle is not None and self.now >= cycle:
                return False
            self.step()

    def peek(self, signal: Any) -> int:
        self._check_pokes()
        return self.expected.peek(signal)

    def poke(self, signal: Any, value: int) -> None:
        self.expected.poke(signal, value)
        self.actual.poke(signal, value)
        self._poked = True

    def script(self, operations: Sequence[Operation]) -> Script:
        return interpreted(self, operations)

    def memory(self, name: str) -> memoryview:
        return self.expected.memory(name)

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self.expected.dirty(name)

    def close(self) -> None:
        """Compares all once more, memories of the gateware included."""
        self._comparison.check(f"cycle {self.now}")
        self.expected.close()
        self.actual.close()

    # ------------------------------------------------------------------------- comparison

    def _check_pokes(self) -> None:
        if self._poked:
            self._comparison.check(f"cycle {self.now}, before its edge", full=False)
            self._poked = False

    def _check(self) -> None:
        when = f"cycle {self.now}"
        assert self.expected.now == self.actual.now, when
        self._comparison.check(when, full=self.now % FULL_EVERY == 0)
        for name in self._storages:
            pages = np.flatnonzero(self.expected.dirty(name) | self.actual.dirty(name))
            for page in pages.tolist():
                part = slice(page * PAGE, (page + 1) * PAGE)
                pair = bytes(self.expected.memory(name)[part]), self.actual.memory(name)[part]
                if pair[0] != pair[1]:
                    raise _bytes_differ(name, part.start, when, *pair)

    def _copy(self) -> None:
        """Gives the host's bytes to the other engine; what the gateware wrote is equal already."""
        for name in self._storages:
            dirty = self.expected.dirty(name)
            for page in np.flatnonzero(dirty).tolist():
                part = slice(page * PAGE, (page + 1) * PAGE)
                self.actual.memory(name)[part] = self.expected.memory(name)[part]
            dirty[:] = 0
            self.actual.dirty(name)[:] = 0


def _bytes_differ(
    name: str, start: int, when: str, expected: bytes, actual: memoryview
) -> Difference:
    pairs = enumerate(zip(expected, actual, strict=True))
    offset, (right, wrong) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
    return Difference(f"{name}[{start + offset:#x}]", when, right, wrong, "a byte of a storage")


class _Expected:
    """Reads the board on pysim."""

    def __init__(self, engine: PysimEngine) -> None:
        self._engine = engine
        self._schedule = engine._schedule
        self._schedule.changed = set()
        self._names = {
            id(self._schedule.slot(signal)): name for name, signal in names(engine.design).items()
        }

    def reader(self, name: str, signal: Any) -> Read:
        slot = self._schedule.slot(signal)
        return lambda: int(slot.curr)

    def row(self, path: str, data: Any, index: int) -> Read:
        return partial(self._engine.peek, data[index])

    def changed(self) -> Iterable[str]:
        slots = self._schedule.changed
        assert slots is not None, "no waveform is recorded of a pair"
        found = [self._names[id(slot)] for slot in slots if id(slot) in self._names]
        slots.clear()
        return found


class _Actual:
    """Reads the compiled board, by names: it was elaborated apart."""

    def __init__(self, engine: CompiledBoard) -> None:
        program = engine.program
        self._model = engine.model
        self._paths = program.paths
        self._memories = {info.name: info for info in program.memories}
        self._names = {id(program.names[name]): name for name in self._paths}
        self._changes = Changes(engine.model, program.names.values())

    def reader(self, name: str, signal: Any) -> Read | None:
        slot = self._paths.get(name)
        return None if slot is None else partial(self._model.get, slot)

    def row(self, path: str, data: Any, index: int) -> Read | None:
        info = self._memories.get(path)
        return None if info is None else partial(self._model.read_memory, info, index)

    def changed(self) -> Iterable[str]:
        return [self._names[id(signal)] for signal in self._changes.signals()]
