"""The variables of a waveform: what the signals of a design are called, and of which bits they are.

Recordings of every engine take them from here, and so agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from amaranth.hdl import Format, Value
from amaranth.hdl._mem import MemoryInstance
from vcd import VCDWriter

from hw.regs.errors import ConfigError

from .wires import Part, Wires

__all__ = [
    "LONGEST", "Label", "Variable", "check_scopes", "chosen", "declare", "tabulated", "variables",
    "within",
]  # fmt: skip

P = TypeVar("P")
Name = tuple[str, ...]
TOP = 4
"""Length of the name of a signal of the board itself."""
LONGEST = 256
"""Characters of a label, at most."""
TABULATED = 12
"""Bits of the widest value whose labels are made a table of."""
LABELLED = 64
"""Bits of the widest value that has a label."""


def within(name: str, scopes: Sequence[str]) -> bool:
    """Whether the name of a signal is in one of the scopes, or is one; without any, always."""
    return not scopes or any(name == scope or name.startswith(f"{scope}.") for scope in scopes)


@dataclass(frozen=True)
class Label:
    """What a number is called: a name of an enumeration, a state of a state machine."""

    names: Mapping[int, Any] | Callable[[int], Any]
    width: int
    signed: bool

    def text(self, bits: int) -> str:
        """The label of a value; "unknown" if it has none."""
        if self.signed and bits >> (self.width - 1):
            bits -= 1 << self.width
        try:
            name = self.names(bits) if callable(self.names) else self.names[bits]
        except (LookupError, ValueError):
            return "unknown"
        return str(name).expandtabs().replace(" ", "_")[:LONGEST]

    def tabulated(self) -> Label:
        """The same with a table of all names. ConfigError: of too many bits for that."""
        if not callable(self.names):
            return self
        if self.width > TABULATED:
            raise ConfigError(
                f"a signal of {self.width} bits has a function as decoder, which cannot be kept "
                f"in a file; give it an enumeration, or at most {TABULATED} bits"
            )
        texts = {bits: self.text(bits) for bits in range(1 << self.width)}
        return Label(texts, self.width, signed=False)


@dataclass
class Variable(Generic[P]):
    """Something that is recorded, under one or several names.

    Attributes
    ----------
    width: bits.
    parts: where they come from, lowest first.
    label: makes it the text that stands for the value.
    clock: it is the clock of the board, whose value does not count.
    names: each as scopes, name of a signal, and what follows that.
    """

    width: int
    parts: tuple[P, ...]
    label: Label | None = None
    clock: bool = False
    names: list[Name] = field(default_factory=list)

    def value(self, bits: int) -> int | str:
        """What is written for bits."""
        return bits if self.label is None else self.label.text(bits)


def variables(design: Any) -> list[Variable[Part]]:
    """All variables of a design, in the order in which a recording has them.

    Names are those of Amaranth's own writer (scopes bench, top, …; `signal.field` for fields of
    structures). An enumerated signal has its number under its name, and its label as a string
    under `signal.label`. Signals that are the same wires share a variable. Contents of memories
    are left out.
    """
    found = _Variables(design)
    names: dict[int, tuple[Any, list[tuple[str, ...]]]] = {}
    for fragment, info in design.fragments.items():
        if isinstance(fragment, MemoryInstance):
            continue
        for signal, name in info.signal_names.items():
            paths = names.setdefault(id(signal), (signal, []))[1]
            paths.append(("bench", *info.name, name))
    for signal, paths in names.values():
        found.signal(paths, signal)
    return list(found.known.values())


def chosen(found: Iterable[Variable[P]], scopes: Sequence[str]) -> list[Variable[P]]:
    """Those in some scopes, and the clock of the board, as they are called there."""
    result = []
    for variable in found:
        names = [
            name for name in variable.names
            if within(".".join(name[2:-1]), scopes) or (variable.clock and len(name) == TOP)
        ]  # fmt: skip
        if names:
            result.append(replace(variable, names=names))
    return result


def check_scopes(found: Iterable[Variable[P]], scopes: Sequence[str]) -> None:
    """ConfigError: one of the scopes has nothing."""
    known = {".".join(name[2:-1]) for variable in found for name in variable.names}
    for scope in scopes:
        if not any(within(name, [scope]) for name in known):
            raise ConfigError(
                f"no scope is called {scope!r}; scopes are those of a waveform below "
                "bench.top, such as npu"
            )


def tabulated(found: Iterable[Variable[P]]) -> list[Variable[P]]:
    """The same with tables instead of functions, so that they can be pickled."""
    return [
        variable if variable.label is None else replace(variable, label=variable.label.tabulated())
        for variable in found
    ]


def declare(
    writer: VCDWriter, found: Iterable[Variable[P]], value: Callable[[Variable[P]], int]
) -> list[Any]:
    """Tells a writer about variables, with their initial values."""
    declared = []
    for variable in found:
        kind, size = ("wire", variable.width) if variable.label is None else ("string", 1)
        initial = 1 if variable.clock else variable.value(value(variable))
        entry = None
        for *scopes, name, more in variable.names:
            full = f"\\{name}{more}" if more else name
            if entry is None:
                entry = writer.register_var(scopes, full, kind, size=size, init=initial)
            else:
                writer.register_alias(scopes, full, entry)
        declared.append(entry)
    return declared


class _Variables:
    def __init__(self, design: Any) -> None:
        self._wires = Wires(design)
        domain = design.fragment.domains.get("sync")
        self.clock = None if domain is None else domain.clk
        self.known: dict[Any, Variable[Part]] = {}

    def signal(self, paths: list[tuple[str, ...]], signal: Any) -> None:
        """Adds a signal and what belongs to it."""
        if signal is self.clock:
            self._add(paths, "", signal)
            return
        shown = signal._format
        self._wire(paths, "", signal, shown)
        if signal._decoder is not None and not isinstance(shown, Format.Enum):
            self._add(paths, ".label", signal, signal._decoder)

    def _wire(self, paths: list[tuple[str, ...]], name: str, value: Any, shown: Any) -> None:
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

    def _add(self, paths: list[tuple[str, ...]], name: str, value: Any, names: Any = None) -> None:
        """Adds one variable under all the names of its signal, or these names to one like it."""
        parts = self._wires.parts(Value.cast(value))
        if parts is None or (names is not None and len(value) > LABELLED):
            return
        width = len(value)
        label = None
        key: Any = [part.key for part in parts]
        if names is not None:
            label = Label(names, width, value.shape().signed)
            key += [label.signed, id(names) if callable(names) else tuple(names.items())]
        is_clock = label is None and len(parts) == 1 and parts[0].signal is self.clock
        entry = Variable(width, parts, label, is_clock and self.clock is not None)
        known = self.known.setdefault(tuple(key), entry)
        known.names += [(*path, name) for path in paths]
