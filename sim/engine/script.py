"""Several things that a host does on an engine, described once and done in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hw.regs.errors import ConfigError

from .graph import mask

if TYPE_CHECKING:
    from .base import Stepper
    from .model import Model
    from .program import Slot

__all__ = [
    "CYCLES", "DONE", "INTERRUPTED", "Native", "Operation", "Peek", "Poke", "Script", "Step",
    "Until", "interpreted",
]  # fmt: skip


@dataclass(frozen=True)
class Poke:
    """Sets an input or a register: to `value`, else to the next argument of the call."""

    signal: str
    value: int | None = None


@dataclass(frozen=True)
class Step:
    """Lets cycles pass."""

    cycles: int = 1


@dataclass(frozen=True)
class Until:
    """Lets cycles pass until a signal is not zero; the script ends after so many without it."""

    signal: str
    cycles: int


@dataclass(frozen=True)
class Peek:
    """Adds the value of a signal, of at most 64 bits, to the results."""

    signal: str


Operation = Poke | Step | Until | Peek
Script = Callable[..., tuple[int, ...] | None]
"""Takes arguments and gives results; None when a signal that it waited for did not come."""


def interpreted(engine: Stepper, operations: Sequence[Operation]) -> Script:
    """A script on the methods of an engine."""

    def perform(*arguments: int) -> tuple[int, ...] | None:
        values = iter(arguments)
        results = []
        for operation in operations:
            match operation:
                case Poke(signal, value):
                    engine.poke(signal, next(values) if value is None else value)
                case Step(cycles):
                    engine.step(cycles)
                case Until(signal, cycles):
                    if not engine.run_until(signal, engine.now + cycles):
                        return None
                case Peek(signal):
                    results.append(engine.peek(signal))
        return tuple(results)

    return perform


UNTIL_FIELDS = "area", "offset", "size", "shift", "mask", "value", "equal", "more"


class _Operation(ctypes.Structure):
    """`struct operation` of script.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("kind", "cycles", "element", "index", "position", *UNTIL_FIELDS)
    ]


POKE, STEP, UNTIL, PEEK = range(4)
DONE, MISSED, INTERRUPTED = range(3)
"""How a native script ends: MISSED is a signal that did not come, INTERRUPTED a message."""
CYCLES, AT, LEFT, STATE, WORK, COUNT, OPERATIONS, VALUES, HEADER = range(9)
"""Words of `struct script`."""


class Native:
    """A script in native code, on the only clock of a model.

    Parameters
    ----------
    model: it runs on. find: where a signal of that name is.

    Attributes
    ----------
    view: `struct script`, with the cycles of the last call in its word `CYCLES`.
    """

    def __init__(
        self, model: Model, operations: Sequence[Operation], find: Callable[[str], Slot]
    ) -> None:
        self._model = model
        self._call = model.script
        self._constants: list[int] = []
        self._arguments: list[int] = []
        self._results: list[int] = []
        rows = [row for operation in operations for row in self._rows(operation, find)]
        self._rows_buffer = (_Operation * len(rows))(*rows)
        self._words = np.zeros(HEADER + len(self._constants), np.uint64)
        base = self._words.ctypes.data
        self._words[STATE:HEADER] = (
            *model.addresses, len(rows), ctypes.addressof(self._rows_buffer), base + 8 * HEADER,
        )  # fmt: skip
        self._words[HEADER:] = self._constants
        self.view: memoryview[int] = self._words.data
        self._address = ctypes.c_void_p(base)

    def _rows(self, operation: Operation, find: Callable[[str], Slot]) -> list[_Operation]:
        if isinstance(operation, Step):
            return [_Operation(kind=STEP, cycles=operation.cycles)]
        slot = find(operation.signal)
        if slot.width > 64:
            raise ConfigError(
                f"{operation.signal} has {slot.width} bits; a script takes at most 64 at once"
            )
        if isinstance(operation, Until):
            until = self._model.until(slot, 0, equal=False)
            part = {name: getattr(until, name) for name in UNTIL_FIELDS}
            return [_Operation(kind=UNTIL, cycles=operation.cycles, **part)]
        index = HEADER + len(self._constants)
        if isinstance(operation, Peek):
            self._results.append(index)
            self._constants.append(0)
        else:
            self._model.check_settable(slot)
            if operation.value is None:
                self._arguments.append(index)
            self._constants.append(operation.value or 0)
        rows = []
        for piece in slot.pieces:
            row = _Operation(
                kind=PEEK if isinstance(operation, Peek) else POKE, index=index - HEADER,
                position=piece.position, mask=mask(piece.width), value=piece.constant,
            )  # fmt: skip
            if piece.place is not None:
                row.area, row.offset = piece.place.area == "v", piece.place.offset
                row.size, row.shift = piece.place.size, piece.shift
            row.element = piece.element or 0
            rows.append(row)
        return rows

    def start(self, arguments: Sequence[int]) -> int:
        """Begins with arguments; returns how it ended."""
        view = self.view
        view[AT] = view[LEFT] = 0
        for index, value in zip(self._arguments, arguments, strict=True):
            view[index] = value
        status: int = self._call(self._address)
        return status

    def go_on(self) -> int:
        """Goes on after it was interrupted."""
        status: int = self._call(self._address)
        return status

    @property
    def results(self) -> tuple[int, ...]:
        """Of a script that is done."""
        return tuple(map(self.view.__getitem__, self._results))


