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

__all__ = ["TOP", "Exported", "Port", "export", "header"]

TOP = "board"


@dataclass(frozen=True)
class Port:
    """A port of the exported board."""

    name: str
    width: int


@dataclass(frozen=True)
class Exported:
    """The board as RTLIL: module `board`, with clock `clk` and reset `rst`."""

    rtlil: str
    ports: tuple[Port, ...]


def export(board: Any) -> Exported:
    """Elaborates and converts a `Board`.

    Contents of the storages are not in it: what simulates it drives ``device_read_data`` and
    ``host_read_data`` from the other ports, as `Storage` says.
    """
    inward, outward = PortDirection.Input, PortDirection.Output
    found = {
        name: (value, inward if driven else outward) for name, value, driven in _members(board)
    }
    for side, storage in board.storages.items():
        for name, value, driven in _members(storage):
            found[f"{side}_{name}"] = value, outward if driven else inward
    text = rtlil.convert(board, name=TOP, ports=found, emit_src=False)
    return Exported(text, tuple(Port(name, len(value)) for name, (value, _) in found.items()))


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
    """Name and value of each port, and whether it is driven from outside."""
    for path, member, value in component.signature.flatten(component):
        yield "_".join(map(str, path)), Value.cast(value), member.flow is In
