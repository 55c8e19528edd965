"""Writes the signals of a design on pysim as a VCD file, from any cycle on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from vcd import VCDWriter

from .variables import Variable, declare
from .wires import Part

__all__ = ["Recorder"]


class Recorder:
    """One settled value of each signal for each cycle; nothing between.

    Equal runs give equal files: changes of a cycle come in the order of declaration. What there is
    to record, and its names: see `variables`.

    Parameters
    ----------
    path: of the file.
    found: what is recorded.
    state: of the simulation.
    period: femtoseconds of a cycle. Cycle n begins, with the rising edge, at n × period.
    """

    def __init__(
        self, path: Path, found: Sequence[Variable[Part]], state: Any, period: int
    ) -> None:
        self._found = found
        self._state = state
        self._period = period
        self._time = 0
        self._path = path

    def start(self, time: int) -> None:
        """Opens the file and writes the values of the cycle that begins at `time`."""
        self._file = self._path.open("w", encoding="utf-8", newline="\n")
        self._writer = VCDWriter(
            self._file, timescale="1 fs", date="", init_timestamp=time, check_values=False
        )
        found = self._found
        self._time = time
        declared = declare(self._writer, found, self._bits)
        self._variables = list(zip(declared, found, strict=True))
        self._clocks = [entry for entry, variable in self._variables if variable.clock]
        self._readers: dict[int, list[int]] = {}
        for number, variable in enumerate(found):
            for part in () if variable.clock else variable.parts:
                if part.signal is not None:
                    self._readers.setdefault(id(self._slot(part)), []).append(number)
        self._writer.flush()

    def sample(self, time: int, changed: Iterable[Any]) -> None:
        """Writes what has changed for the cycle that begins at `time`."""
        change = self._writer.change
        if time != self._time:
            self._fall()
            for clock in self._clocks:
                change(clock, time, 1)
            self._time = time
        numbers = {number for slot in changed for number in self._readers.get(id(slot), ())}
        for number in sorted(numbers):
            entry, variable = self._variables[number]
            change(entry, time, variable.value(self._bits(variable)))

    def stop(self) -> None:
        """Ends the file half a cycle after the last edge."""
        self._fall()
        self._writer.close(self._time + self._period // 2)
        self._file.close()

    def _fall(self) -> None:
        for clock in self._clocks:
            self._writer.change(clock, self._time + self._period // 2, 0)

    def _slot(self, part: Part) -> Any:
        return self._state.slots[self._state.get_signal(part.signal)]

    def _bits(self, variable: Variable[Part]) -> int:
        value = position = 0
        for part in variable.parts:
            bits = part.start if part.signal is None else self._slot(part).curr >> part.start
            value |= (bits & ((1 << part.width) - 1)) << position
            position += part.width
        return value
