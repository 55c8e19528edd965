"""The variables of a waveform: what the signals of a design are called, and of which bits they are.

Recordings of every engine take them from here, and so agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Format, Value
from amaranth.hdl._mem import MemoryInstance
from vcd import VCDWriter

from .wires import Part, Wires

__all__ = ["Label", "Variable", "declare", "variables", "within"]

Path = tuple[str, ...]
LABELLED = 64
"""Bits of the widest value that has a label."""


def within(name: str, scopes: Sequence[str]) -> bool:
    """Whether the name of a signal is in one of the scopes, or is one; without any, always."""
    return not scopes or any(name == scope or name.startswith(f"{scope}.") for scope in scopes)


@dataclass(frozen=True)
class Label:
    """What a number is called: a name of an enumeration, a state of a state machine."""

    name: Callable[[int], Any]
    width: int
    signed: bool

    def text(self, bits: int) -> str:
        """The label of a value; "unknown" if it has none."""
        if self.signed and bits >> (self.width - 1):
            bits -= 1 << self.width
        try:
            return str(self.name(bits)).expandtabs().replace(" ", "_")
        except (LookupError, ValueError):
            return "unknown"


@dataclass
class Variable:
    """Something that is recorded, under one or several names.

    Attributes
    ----------
    parts: where its bits come from, lowest first.
    label: makes it the text that stands for the value.
    clock: it is the clock of the board, whose value does not count.
    names: scopes, and name within them.
    """

    parts: tuple[Part, ...]
    label: Label | None = None
    clock: bool = False
    names: list[Path] = field(default_factory=list)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    def value(self, bits: int) -> int | str:
        """What is written for bits."""
        return bits if self.label is None else self.label.text(bits)


def variables(design: Any, scopes: Sequence[str] = ()) -> list[Variable]:
    """All variables in some scopes, and the clock, in the order of a recording.

    Names are those of Amaranth's own writer (scopes bench, top, …; `signal.field` for fields of
    structures). An enumerated signal has its number under its name, and its label as a string
    under `signal.label`. Signals that are the same wires share a variable. Contents of memories
    are left out.
    """
    found = _Variables(design)
    names: dict[int, tuple[Any, list[Path]]] = {}
    for fragment, info in design.fragments.items():
        if isinstance(fragment, MemoryInstance):
            continue
        for signal, name in info.signal_names.items():
            board_clock = signal is found.clock and len(info.name) == 1
            if board_clock or within(".".join((*info.name[1:], name)), scopes):
                paths = names.setdefault(id(signal), (signal, []))[1]
                paths.append(("bench", *info.name, name))
    for signal, paths in names.values():
        found.signal(paths, signal)
    return list(found.known.values())


def declare(
    writer: VCDWriter, found: Iterable[Variable], value: Callable[[Variable], int]
) -> list[Any]:
    """Tells a writer about variables, with their initial values."""
    declared = []
    for variable in found:
        (first, *others) = variable.names
        kind, size = ("wire", variable.width) if variable.label is None else ("string", 1)
        initial = 1 if variable.clock else variable.value(value(variable))
        entry = writer.register_var(first[:-1], first[-1], kind, size=size, init=initial)
        for name in others:
            writer.register_alias(name[:-1], name[-1], entry)
        declared.append(entry)
    return declared


class _Variables:
    def __init__(self, design: Any) -> None:
        self._wires = Wires(design)
        domain = design.fragment.domains.get("sync")
        self.clock = None if domain is None else domain.clk
        self.known: dict[Any, Variable] = {}

    def signal(self, paths: list[Path], signal: Any) -> None:
        """Adds a signal and what belongs to it."""
        if signal is self.clock:
            self._add(paths, "", signal)
            return
        shown = signal._format
        self._wire(paths, "", signal, shown)
        if signal._decoder is not None and not isinstance(shown, Format.Enum):
            self._add(paths, ".label", signal, signal._decoder)

    def _wire(self, paths: list[Path], name: str, value: Any, shown: Any) -> None:
        if len(value) == 0:
            return
        self._add(paths, name, value)
        fields: Iterable[tuple[str, Any]] = ()
        if isinstance(shown, Format.Struct):
            fields = ((f"{name}.{key}", inner) for key, inner in shown._fields.items())
        elif isinstance(shown, Format.Array):
            fields = ((f"{name}[{index}]", inner) for index, inner in enumerate(shown._fields))
        for path, inner in fields:
            if not isinstance(inner, Format):
                self._wire(paths, path, inner._value, inner)
            elif len(inner._chunks) == 1 and isinstance(inner._chunks[0], tuple):
                self._wire(paths, path, inner._chunks[0][0], inner)
        if isinstance(shown, Format.Enum):
            self._add(paths, f"{name}.label", value, shown._variants)

    def _add(self, paths: list[Path], name: str, value: Any, names: Any = None) -> None:
        """Adds one variable under all the names of its signal, or these names to one like it."""
        parts = self._wires.parts(Value.cast(value))
        if parts is None or (names is not None and len(value) > LABELLED):
            return
        signed = value.shape().signed
        label = None
        key: Any = [part.key for part in parts]
        if names is not None:
            call = names if callable(names) else lambda n: names.get(n, "unknown")
            label = Label(call, len(value), signed)
            key += [signed, id(names) if callable(names) else tuple(names.items())]
        is_clock = label is None and len(parts) == 1 and parts[0].signal is self.clock
        entry = Variable(parts, label, is_clock and self.clock is not None)
        known = self.known.setdefault(tuple(key), entry)
        for *scope, last in paths:
            known.names.append((*scope, f"\\{last}{name}" if name else last))
