"""Writes the signals of a design as a VCD file, from any cycle on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from amaranth.hdl import Format
from amaranth.hdl._mem import MemoryInstance
from amaranth.sim._pyeval import eval_value
from vcd import VCDWriter

__all__ = ["Recorder", "within"]


def within(name: str, scopes: Sequence[str]) -> bool:
    """Whether the name of a signal is in one of the scopes, or is one; without any, always."""
    return not scopes or any(name == scope or name.startswith(f"{scope}.") for scope in scopes)


@dataclass(frozen=True)
class _Label:
    """What a number is called: a name of an enumeration, a state of a state machine."""

    value: Any
    name: Callable[[int], Any]

    def text(self, number: int) -> str:
        return str(self.name(number)).expandtabs().replace(" ", "_")


class Recorder:
    """One settled value of each signal for each cycle; nothing between.

    Names are those of Amaranth's own writer (scopes bench, top, …; `signal.field` for fields of
    structures). An enumerated signal has its number under its name, and its label as a string
    under `signal.label`. Contents of memories are left out. Equal runs give equal files.

    Parameters
    ----------
    path: of the file.
    design, state: of the simulation.
    period: femtoseconds of a cycle. Cycle n begins, with the rising edge, at n × period.
    scopes: only signals in these are recorded, besides the clock of the board; see `within`.
    """

    def __init__(
        self, path: Path, design: Any, state: Any, period: int, scopes: Sequence[str] = ()
    ) -> None:
        self._design = design
        self._state = state
        self._period = period
        self._time = 0
        self._path = path
        self._scopes = scopes

    def start(self, time: int) -> None:
        """Opens the file and writes the values of the cycle that begins at `time`."""
        self._file = self._path.open("w")
        self._writer = VCDWriter(
            self._file, timescale="1 fs", date="", init_timestamp=time, check_values=False
        )
        clock = self._design.fragment.domains["sync"].clk
        self._variables: dict[int, tuple[int, list[tuple[Any, Any]]]] = {}
        self._clocks: list[Any] = []
        self._time = time
        names: dict[int, tuple[Any, list[tuple[str, ...]]]] = {}
        for fragment, info in self._design.fragments.items():
            if isinstance(fragment, MemoryInstance):
                continue
            for signal, name in info.signal_names.items():
                board_clock = signal is clock and len(info.name) == 1
                if not board_clock and not within(
                    ".".join((*info.name[1:], name)), self._scopes
                ):
                    continue
                entry = names.setdefault(id(signal), (signal, []))
                entry[1].append(("bench", *info.name, name))
        for signal, paths in names.values():
            if signal is clock:
                self._clocks.append(self._variable(paths, "", "wire", 1, 1))
            else:
                index = self._state.get_signal(signal)
                slot = self._state.slots[index]
                variables = list(self._wires(paths, "", signal, signal._format))
                if signal._decoder is not None and not isinstance(signal._format, Format.Enum):
                    variables.append(self._label(paths, "", _Label(signal, signal._decoder)))
                self._variables[id(slot)] = len(self._variables), variables
        self._writer.flush()

    def sample(self, time: int, changed: Iterable[Any]) -> None:
        """Writes what has changed for the cycle that begins at `time`."""
        change = self._writer.change
        if time != self._time:
            for clock in self._clocks:
                change(clock, self._time + self._period // 2, 0)
            for clock in self._clocks:
                change(clock, time, 1)
            self._time = time
        known = self._variables
        found = [known[id(slot)] for slot in changed if id(slot) in known]
        for _, variables in sorted(found, key=itemgetter(0)):
            for variable, source in variables:
                change(variable, time, self._value(source))

    def stop(self) -> None:
        """Ends the file half a cycle after the last edge."""
        for clock in self._clocks:
            self._writer.change(clock, self._time + self._period // 2, 0)
        self._writer.close(self._time + self._period // 2)
        self._file.close()

    def _value(self, source: Any) -> int | str:
        if isinstance(source, _Label):
            return source.text(eval_value(self._state, source.value))
        value: int = eval_value(self._state, source)
        return value

    def _variable(
        self, paths: list[tuple[str, ...]], field: str, kind: str, size: int, value: int | str
    ) -> Any:
        """Registers one variable under all the names of its signal."""
        variable = None
        for *scope, name in paths:
            full = f"\\{name}{field}" if field else name
            if variable is None:
                variable = self._writer.register_var(scope, full, kind, size=size, init=value)
            else:
                self._writer.register_alias(scope, full, variable)
        return variable

    def _wires(
        self, paths: list[tuple[str, ...]], field: str, value: Any, shown: Any
    ) -> Iterable[tuple[Any, Any]]:
        """Variables of a signal, of its label if it has one, and of its fields."""
        size = len(value)
        if size == 0:
            return
        yield self._variable(paths, field, "wire", size, self._value(value)), value
        if isinstance(shown, Format.Struct):
            fields = [(f"{field}.{name}", inner) for name, inner in shown._fields.items()]
        elif isinstance(shown, Format.Array):
            fields = [(f"{field}[{index}]", inner) for index, inner in enumerate(shown._fields)]
        else:
            fields = []
        for name, inner in fields:
            if isinstance(inner, Format):
                (source, _), *_ = inner._chunks
            else:
                source = inner._value
            yield from self._wires(paths, name, source, inner)
        if isinstance(shown, Format.Enum):
            names = shown._variants
            yield self._label(paths, field, _Label(value, lambda n: names.get(n, "unknown")))

    def _label(self, paths: list[tuple[str, ...]], field: str, label: _Label) -> tuple[Any, Any]:
        return self._variable(paths, f"{field}.label", "string", 1, self._value(label)), label
