"""What drives a signal of a design, and what that reads: to explain a difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Value
from amaranth.hdl._ast import Assign, SignalSet, Switch
from amaranth.hdl._mem import MemoryInstance

__all__ = ["Driver", "drivers", "names"]


@dataclass(frozen=True)
class Driver:
    """A statement, or a port of a memory, that gives bits of a signal their value."""

    place: str
    """File and line, and the memory if it is one."""
    domain: str
    """Of the clock, or "comb"."""
    reads: tuple[Any, ...]
    """Signals: the right side, offsets and indices of the left side, and the conditions."""


def names(design: Any) -> dict[str, Any]:
    """All signals of a prepared design by their path below the top, the highest of each."""
    found: dict[str, Any] = {}
    known = SignalSet()
    for info in design.fragments.values():
        for signal, name in info.signal_names.items():
            if signal not in known:
                known.add(signal)
                found[".".join((*info.name[1:], name))] = signal
    return found


def drivers(design: Any, signal: Any) -> list[Driver]:
    """All that drives the signal. None: it is an input."""
    found: list[Driver] = []
    for fragment, info in design.fragments.items():
        for domain, statements in fragment.statements.items():
            for statement, conditions in _assigns(statements, ()):
                if signal in statement.lhs._lhs_signals():
                    values = (statement.rhs, *_selectors(statement.lhs), *conditions)
                    reads = tuple(SignalSet(s for value in values for s in value._rhs_signals()))
                    found.append(Driver(_place(statement.src_loc), domain, reads))
        if isinstance(fragment, MemoryInstance):
            path = ".".join(info.name[1:])
            for port in fragment._read_ports:
                if signal in port._data._lhs_signals():
                    reads = tuple(port._addr._rhs_signals() | port._en._rhs_signals())
                    place = f"{_place(fragment.src_loc)} (memory {path})"
                    found.append(Driver(place, port._domain, reads))
    return found


def _assigns(statements: Any, conditions: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Assignments with the values that decide whether they are done."""
    for statement in statements:
        if isinstance(statement, Assign):
            yield statement, conditions
        elif isinstance(statement, Switch):
            for _, inner, _ in statement.cases:
                yield from _assigns(inner, (*conditions, statement.test))


def _selectors(left: Any) -> Iterator[Any]:
    """What chooses the bits or the element that an assignment changes."""
    for member in ("offset", "test"):
        if hasattr(left, member):
            yield getattr(left, member)
    inner: list[Any] = []
    for member in ("value", "parts", "operands"):
        found = getattr(left, member, ())
        inner += [found] if isinstance(found, Value) else found
    inner += [value for _, value in getattr(left, "cases", ())]
    for value in inner:
        yield from _selectors(value)


def _place(src_loc: tuple[str, int] | None) -> str:
    return "?" if src_loc is None else f"{src_loc[0]}:{src_loc[1]}"
