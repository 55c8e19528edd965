"""The board for other simulators: RTLIL whose ports include those of the byte storages."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In

__all__ = ["TOP", "Port", "header", "ports_of", "to_rtlil"]

TOP = "board"


@dataclass(frozen=True)
class Port:
    """A port of the exported board."""

    name: str
    width: int
    value: Any
    """The signal that it is."""
    inward: bool
    """It is driven from outside."""


def ports_of(board: Any) -> tuple[Port, ...]:
    """Ports of an exported `Board`. The board is not elaborated for it."""
    found = [Port(name, len(value), value, inward) for name, value, inward in _members(board)]
    for side, storage in board.storages.items():
        found += [
            Port(f"{side}_{name}", len(value), value, not inward)
            for name, value, inward in _members(storage)
        ]
    return tuple(found)


def to_rtlil(board: Any, ports: tuple[Port, ...]) -> str:
    """Elaborates a `Board` into RTLIL: module `board` with clock `clk` and reset `rst`.

    Contents of the storages are not in it: what simulates it drives ``device_read_data`` and
    ``host_read_data`` from the other ports, as `Storage` says.
    """
    named = {
        port.name: (port.value, PortDirection.Input if port.inward else PortDirection.Output)
        for port in ports
    }
    text: str = rtlil.convert(board, name=TOP, ports=named, emit_src=False)
    return text


def header(ports: tuple[Port, ...], *, double: bool = False) -> str:
    """C macro PORTS(X) with name, mangled name and width of each port.

    double: the simulator writes an underscore as two, as CXXRTL does.
    """
    lines = []
    for port in ports:
        mangled = port.name.replace("_", "__") if double else port.name
        lines.append(f"X({port.name}, {mangled}, {port.width})")
    return "#define PORTS(X) \\\n    " + " \\\n    ".join(lines) + "\n"


def _members(component: Any) -> Iterator[tuple[str, Any, bool]]:
    for path, member, value in component.signature.flatten(component):
        yield "_".join(map(str, path)), Value.cast(value), member.flow is In
