"""What a design consists of, once it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl._ast import SignalDict

from hw.regs.errors import ConfigError

from .graph import Graph

__all__ = ["Check", "Clocking", "Element", "Memory", "Netlist", "Unsupported", "Write"]


class Unsupported(ConfigError):
    """A design has something that is not simulated."""


@dataclass(frozen=True)
class Clocking:
    """When registers take their next value: at an edge, or at once while `reset` holds."""

    clock: int
    """Node of one bit."""
    rising: bool
    reset: int | None = None
    """Node of the asynchronous reset."""


@dataclass
class Element:
    """At most 64 bits of state: of a register, of the data of a read port, or of an input."""

    width: int
    init: int
    module: int
    name: str = ""
    """Of the signal, and the first bit of it."""
    clocking: int | None = None
    """Index of its `Clocking`; None: an input, or a signal that nothing drives."""
    next: int = -1
    """Node of the next value, the synchronous reset left out."""
    reset: int | None = None
    """Node of the synchronous reset."""


@dataclass
class Memory:
    """Words of gateware, or bytes that belong to the engine when `external` names them."""

    name: str
    width: int
    depth: int
    init: tuple[int, ...]
    data: Any = None
    """Amaranth's object."""
    external: str | None = None


@dataclass
class Write:
    """A write port: at an edge, the chunks (lowest bit, enable, data) of a row are written."""

    memory: int
    clocking: int
    address: int
    chunks: list[tuple[int, int, int]]
    module: int


@dataclass
class Check:
    """A `Print` or a property. `test` is None for a `Print`; clocking None: combinational."""

    kind: str
    enable: int
    test: int | None
    clocking: int | None
    message: list[str | tuple[list[int], str, bool]]
    """Texts, and values: nodes, format, whether signed."""
    source: Any
    module: int


@dataclass
class Netlist:
    """A design as tables.

    Attributes
    ----------
    graph: of all combinational logic, with `elements` as its states.
    signals: the nodes of each signal, the lowest 64 bits first.
    names: signals by their path below the top, joined by points.
    """

    graph: Graph = field(default_factory=Graph)
    elements: list[Element] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    clockings: list[Clocking] = field(default_factory=list)
    signals: Any = field(default_factory=SignalDict)
    names: dict[str, Any] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
