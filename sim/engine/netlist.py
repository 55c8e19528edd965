"""Reads a design: from what Amaranth keeps private to a `Graph` and tables of what has state.

All contact with Amaranth's netlist is here; `amaranth~=0.5.10` is pinned for it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from amaranth.hdl import Fragment, Value, _ir
from amaranth.hdl import _nir as nir
from amaranth.hdl._ast import SignalSet

from .cells import Cells
from .states import States
from .tables import Netlist

__all__ = ["deep", "read"]

T = TypeVar("T")


class _Emitter(_ir.NetlistEmitter):  # type: ignore[misc]
    """Amaranth's own, which also notes what a netlist does not say."""

    def __init__(self, netlist: Any, design: Any) -> None:
        super().__init__(netlist, design, all_undef_to_ff=True)
        self.memories: dict[int, tuple[Any, str]] = {}
        self.read_resets: dict[int, tuple[Any, int]] = {}

    def emit_memory(self, module_idx: int, fragment: Any, name: str) -> int:
        index: int = super().emit_memory(module_idx, fragment, name)
        path = ".".join(self.design.fragments[fragment].name[1:])
        self.memories[index] = fragment._data, path
        return index

    def emit_read_port(
        self, module_idx: int, fragment: Any, port: Any, memory: int, write_ports: list[int]
    ) -> None:
        super().emit_read_port(module_idx, fragment, port, memory, write_ports)
        if port._domain != "comb":
            domain = fragment.domains[port._domain]
            if domain.rst is not None and not domain.async_reset:
                (reset,) = self.emit_signal(domain.rst)
                self.read_resets[len(self.netlist.cells) - 1] = reset, 0


def read(
    design: Any, storages: Iterable[tuple[str, Any]] = (), *, keep: Sequence[Any] | None = None
) -> Netlist:
    """The tables of a design.

    Parameters
    ----------
    design: prepared `Design` of Amaranth, or what can be elaborated.
    storages: components like `sim.board.storage.Storage`, by name; their bytes are the engine's.
    keep: combinational signals that `signals` has besides all others, or their names, where *
        stands for anything; None: all.

    Raises
    ------
    Unsupported: for instances, I/O buffers, formal values and combinational loops.
    """
    if not isinstance(design, _ir.Design):
        design = Fragment.get(design, None).prepare()
    return deep(lambda: _read(design, tuple(storages), keep))


def deep(function: Callable[[], T]) -> T:
    """Runs a function that recurses along the longest combinational path."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(function())
        except BaseException as error:
            failure.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(512 << 20)
    sys.setrecursionlimit(max(limit, 1_000_000))
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    if failure:
        raise failure[0]
    return result[0]


def _read(
    design: Any, storages: tuple[tuple[str, Any], ...], keep: Sequence[Any] | None
) -> Netlist:
    raw = nir.Netlist()
    emitter = _Emitter(raw, design)
    emitter.emit_fragment(design.fragment, None)
    raw.resolve_all_nets()
    netlist = Netlist(modules=[".".join(module.name[1:]) for module in raw.modules])
    resets = {
        raw.resolve_net(emitter.emit_signal(domain.rst)[0])
        for fragment in design.fragments
        for domain in fragment.domains.values()
        if domain.rst is not None and domain.rst in raw.signals
    }
    cells = Cells(raw, netlist.graph)
    states = States(raw, netlist, cells, resets)
    states.read(emitter.memories, emitter.read_resets, storages)
    for info in design.fragments.values():
        for signal, name in info.signal_names.items():
            netlist.names[".".join((*info.name[1:], name))] = signal
    kept = _find(keep or (), netlist.names)
    for signal, nets in raw.signals.items():
        if keep is None or signal in kept or states.hold(nets):
            netlist.signals[signal] = cells.limbs(nets)
    return netlist


def _find(keep: Iterable[Any], names: Mapping[str, Any]) -> Any:
    """The signals that are meant."""
    patterns = [each for each in keep if isinstance(each, str)]
    found = SignalSet(Value.cast(each) for each in keep if not isinstance(each, str))
    for pattern in patterns:
        chosen = re.compile(".*".join(map(re.escape, pattern.split("*"))))
        found.update(signal for name, signal in names.items() if chosen.fullmatch(name))
    return found
