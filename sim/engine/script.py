"""Several things that a host does on an engine, described once and done in one call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from hw.regs.errors import ConfigError

from .graph import mask

if TYPE_CHECKING:
    from .base import Stepper
    from .model import Model
    from .slots import Slot

__all__ = [
    "DONE", "INTERRUPTED", "Native", "Operation", "Peek", "Poke", "Script", "Step",
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
    """Lets cycles pass until a signal is not zero; the script ends after so many without it.

    The number of cycles is the next argument of the call if it is not given.
    """

    signal: str
    cycles: int | None = None


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
                case Until(signal, limit):
                    cycles = next(values) if limit is None else limit
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
        for name in ("kind", "element", "index", "position", *UNTIL_FIELDS)
    ]


POKE, STEP, UNTIL, PEEK = range(4)
DONE, MISSED, INTERRUPTED = range(3)
"""How a native script ends: MISSED is a signal that did not come, INTERRUPTED a message."""
def _given(operation: Operation) -> int | None:
    """The number that an operation stands with in the script."""
    match operation:
        case Poke(_, number) | Step(number) | Until(_, number):
            return number
    return None


HEADER = struct.Struct("8Q")
"""`struct script`."""


class Native:
    """A script in native code, on the only clock of a model.

    Parameters
    ----------
    model: it runs on. find: where a signal of that name is.
    """

    def __init__(
        self, model: Model, operations: Sequence[Operation], find: Callable[[str], Slot]
    ) -> None:
        self._model = model
        self._call = model.script
        given = [_given(op) for op in operations]
        looks = [isinstance(op, Peek) for op in operations]
        taken = [not look and number is None for look, number in zip(looks, given, strict=True)]
        constants = [number for number in given if number is not None]
        # In one buffer: results, header, arguments, constants; all are values but the header.
        header = 8 * sum(looks)
        self._arguments_at = header + HEADER.size
        end = self._arguments_at + 8 * sum(taken)
        self._pack = struct.Struct(f"{sum(taken)}Q").pack_into
        self._unpack = struct.Struct(f"{sum(looks) + 1}Q").unpack_from
        result, argument, constant = count(), count(self._arguments_at // 8), count(end // 8)
        rows: list[_Operation] = []
        for op, look, take in zip(operations, looks, taken, strict=True):
            rows += self._rows(op, next(result if look else argument if take else constant), find)
        self._operations = (_Operation * len(rows))(*rows)
        self._buffer = bytearray(end + 8 * len(constants))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        HEADER.pack_into(
            self._buffer, header, 0, 0, 0, *model.addresses, len(rows),
            ctypes.addressof(self._operations), base,
        )  # fmt: skip
        struct.pack_into(f"{len(constants)}Q", self._buffer, end, *constants)
        self._header = header
        self._address = ctypes.c_void_p(base + header)

    def _rows(
        self, operation: Operation, index: int, find: Callable[[str], Slot]
    ) -> list[_Operation]:
        if isinstance(operation, Step):
            return [_Operation(kind=STEP, index=index)]
        slot = find(operation.signal)
        if slot.width > 64:
            raise ConfigError(
                f"{operation.signal} has {slot.width} bits; a script takes at most 64 at once"
            )
        if isinstance(operation, Until):
            until = self._model.until(slot, 0, equal=False)
            part = {name: getattr(until, name) for name in UNTIL_FIELDS}
            return [_Operation(kind=UNTIL, index=index, **part)]
        kind = PEEK if isinstance(operation, Peek) else POKE
        if kind == POKE:
            self._model.check_settable(slot)
        rows: list[_Operation] = []
        for piece in slot.pieces:
            row = _Operation(
                kind=kind, index=index, position=piece.position, element=piece.element or 0,
                mask=mask(piece.width), value=piece.constant,
            )  # fmt: skip
            if piece.place is not None:
                row.area, row.offset = piece.place.area == "v", piece.place.offset
                row.size, row.shift = piece.place.size, piece.shift
            rows.append(row)
        return rows

    def start(self, arguments: Sequence[int]) -> int:
        """Begins with arguments; returns how it ended."""
        self._pack(self._buffer, self._arguments_at, *arguments)
        status: int = self._call(self._address)
        return status

    def go_on(self) -> int:
        """Goes on after it was interrupted."""
        status: int = self._call(self._address)
        return status

    def abandon(self) -> None:
        """Does not go on: the next run begins at the beginning."""
        struct.pack_into("3Q", self._buffer, self._header, 0, 0, 0)

    def outcome(self) -> tuple[int, ...]:
        """The results so far, and behind them the cycles that the last call took."""
        return self._unpack(self._buffer)
