"""What has state in a netlist: registers, inputs, memories, and what happens at clock edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from amaranth.hdl import Value
from amaranth.hdl import _nir as nir

from .cells import Cells
from .graph import LIMB, mask
from .nets import Nets, cut, operands, runs, stretches
from .tables import Check, Clocking, Element, Memory, Netlist, Unsupported, Write

__all__ = ["States"]

MESSAGES = nir.SyncPrint | nir.AsyncPrint | nir.SyncProperty | nir.AsyncProperty
REFUSED = {
    nir.Instance: "an instance of {cell.type} at {where}: simulate a model of it in its place",
    nir.IOBuffer: "an I/O buffer at {where}: simulate what is inside of it",
    nir.AnyValue: "AnyConst or AnySeq at {where}, which are for formal proofs",
    nir.Initial: "Initial at {where}, which is for formal proofs",
}


class States:
    """Fills the tables of a `Netlist`.

    Parameters
    ----------
    raw: Amaranth's netlist, resolved.
    netlist: is filled.
    cells: nodes of values.
    resets: nets of synchronous resets.
    """

    def __init__(self, raw: Any, netlist: Netlist, cells: Cells, resets: set[int]) -> None:
        self._raw = raw
        self._netlist = netlist
        self._cells = cells
        self._resets = resets
        self._clockings: dict[tuple[int, str, int], int] = {}

    def read(
        self,
        memories: Mapping[int, tuple[Any, str]],
        read_resets: Mapping[int, tuple[int, int]],
        storages: Iterable[tuple[str, Any]],
    ) -> None:
        """Reads all tables.

        Parameters
        ----------
        memories: object and name of each memory cell.
        read_resets: net and initial value of read ports that are reset.
        storages: see `netlist.read`.
        """
        raw, cells = self._raw, self._cells
        for cell in raw.cells:
            for kind, text in REFUSED.items():
                if isinstance(cell, kind):
                    where = f"{cell.src_loc[0]}:{cell.src_loc[1]}" if cell.src_loc else "?"
                    raise Unsupported(f"cannot simulate {text.format(cell=cell, where=where)}")
        for index, (data, name) in memories.items():
            cell = raw.cells[index]
            cells.memories[index] = len(self._netlist.memories)
            self._netlist.memories.append(Memory(name, cell.width, cell.depth, cell.init, data))
        self._split()
        self._storages(storages)
        for index, cell in enumerate(raw.cells):
            cells.graph.home = getattr(cell, "module_idx", 0)
            if isinstance(cell, nir.FlipFlop):
                self._register(index, cell)
            elif isinstance(cell, nir.SyncReadPort):
                self._read_port(index, cell, read_resets.get(index))
            elif isinstance(cell, nir.SyncWritePort):
                self._write_port(cell)
            elif isinstance(cell, MESSAGES):
                self._check(cell)

    def hold(self, nets: Nets) -> bool:
        """Whether a value is only registers, inputs, read ports and constants."""
        return all(net < 2 or net >> 16 in self._cells.pieces for net in nets)

    # ----------------------------------------------------------------------------- pieces

    def _split(self) -> None:
        """Cuts registers into elements: where others cut them, if that gives no crumbs."""
        stateful = {
            index: len(cell.data) if isinstance(cell, nir.FlipFlop) else cell.width
            for index, cell in enumerate(self._raw.cells)
            if isinstance(cell, nir.FlipFlop | nir.SyncReadPort) and self._width(cell)
        }
        cuts: dict[int, set[int]] = {
            index: {0, width} for index, width in stateful.items() if width > LIMB
        }
        for cell in self._raw.cells if cuts else ():
            for nets in operands(cell):
                for kind, bits, what, first in runs(nets):
                    if kind == "cell" and what in cuts:
                        cuts[what] |= {first, first + bits}
        names = {
            nets[0] >> 16: signal.name for signal, nets in self._raw.signals.items() if len(nets)
        }
        for index, width in stateful.items():
            cell = self._raw.cells[index]
            borders = sorted(cuts.get(index, {0, width}))
            if isinstance(cell, nir.SyncReadPort) or len(borders) - 1 > max(1, width // 8):
                borders = [0, width]
            init = cell.init if isinstance(cell, nir.FlipFlop) else 0
            pieces = []
            for low, high in zip(borders, borders[1:], strict=False):
                for start in range(low, high, LIMB):
                    end = min(high, start + LIMB)
                    value = init >> start & mask(end - start)
                    pieces.append((start, end, len(self._netlist.elements)))
                    name = f"{names.get(index, '')} {start}"
                    self._netlist.elements.append(
                        Element(end - start, value, cell.module_idx, name)
                    )
            self._cells.pieces[index] = pieces
        inputs = []
        for start, width in self._raw.top.ports_i.values():
            for low in range(start, start + width, LIMB):
                high = min(start + width, low + LIMB)
                inputs.append((low, high, len(self._netlist.elements)))
                self._netlist.elements.append(Element(high - low, 0, 0))
        self._cells.pieces[0] = inputs

    @staticmethod
    def _width(cell: Any) -> int:
        return len(cell.data) if isinstance(cell, nir.FlipFlop) else int(cell.width)

    # -------------------------------------------------------------------------- registers

    def _clocking(self, clock: int, edge: str, reset: int) -> int:
        key = clock, edge, reset
        if key not in self._clockings:
            self._clockings[key] = len(self._netlist.clockings)
            asynchronous = None if reset == 0 else self._cells.net(reset)
            self._netlist.clockings.append(
                Clocking(self._cells.net(clock), edge == "pos", asynchronous)
            )
        return self._clockings[key]

    def _register(self, index: int, cell: Any) -> None:
        if cell.clk < 2:
            if cell.arst >= 2:
                raise Unsupported(
                    f"a register at {cell.src_loc} has an asynchronous reset and no clock"
                )
            return
        clocking = self._clocking(cell.clk, cell.clk_edge, cell.arst)
        reset, data = None, None
        source = self._assignment_list(cell.data)
        if source is not None:
            default, assigned = source.default, list(source.assignments)
            reset = self._reset(assigned, len(cell.data))
            if reset is not None:
                assigned.pop()
            data = default, assigned
        for low, high, number in self._cells.pieces.get(index, ()):
            element = self._netlist.elements[number]
            element.clocking = clocking
            element.reset = reset
            if data is None:
                element.next = self._cells.value(cell.data[low:high])
            else:
                element.next = self._cells.assignments(*data, low, high)

    def _assignment_list(self, nets: Nets) -> Any:
        """The cell that a value is the whole output of, if it is an assignment list."""
        index = nets[0] >> 16 if len(nets) else 0
        cell = self._raw.cells[index] if index > 0 else None
        if not isinstance(cell, nir.AssignmentList) or len(cell.default) != len(nets):
            return None
        whole = all(net == (index << 16) + bit for bit, net in enumerate(nets))
        return cell if whole else None

    def _reset(self, assigned: list[Any], width: int) -> int | None:
        """Node of the synchronous reset, if the last assignment is one."""
        if not assigned or assigned[-1].start or len(assigned[-1].value) != width:
            return None
        net = assigned[-1].cond
        cell = self._raw.cells[net >> 16] if net >= 2 else None
        if not isinstance(cell, nir.PriorityMatch) or len(cell.inputs) != 1 or cell.en != 1:
            return None
        net = cell.inputs[0]
        cell = self._raw.cells[net >> 16] if net >= 2 else None
        if not isinstance(cell, nir.Matches) or cell.patterns != ("1",):
            return None
        return self._cells.net(cell.value[0]) if cell.value[0] in self._resets else None

    # --------------------------------------------------------------------------- memories

    def _read_port(self, index: int, cell: Any, reset: tuple[int, int] | None) -> None:
        graph, cells = self._cells.graph, self._cells
        clocking = self._clocking(cell.clk, cell.clk_edge, 0)
        address = cells.limbs(cell.addr) or [graph.const(1, 0)]
        enable = cells.net(cell.en)
        memory = cells.memories[cell.memory]
        for low, high, number in cells.pieces.get(index, ()):
            value = cells.row(memory, address, low, high)
            for port in cell.transparent_for:
                write = self._raw.cells[port]
                same = graph.bitwise(
                    "and",
                    [
                        graph.equal(x, y)
                        for x, y in zip(
                            address, cells.limbs(write.addr) or [graph.const(1, 0)], strict=True
                        )
                    ],
                )
                parts = []
                for first, end, net in stretches(write.en, low, high):
                    written = graph.bitwise("and", (same, cells.net(net)))
                    old = graph.slice(value, first - low, end - first)
                    parts.append(graph.mux(written, cells.value(write.data[first:end]), old))
                value = graph.cat(parts)
            held = graph.node("state", high - low, number)
            if reset is not None:
                held = graph.mux(
                    cells.net(self._raw.resolve_net(reset[0])),
                    graph.const(high - low, reset[1] >> low),
                    held,
                )
            element = self._netlist.elements[number]
            element.clocking = clocking
            element.next = graph.mux(enable, value, held)

    def _write_port(self, cell: Any) -> None:
        cells = self._cells
        address = cells.limbs(cell.addr) or [cells.graph.const(1, 0)]
        inside = [
            cells.graph.equal(x, cells.graph.const(cells.graph.widths[x], 0)) for x in address[1:]
        ]
        chunks = []
        for low, high, net in stretches(cell.en, 0, len(cell.data)):
            enable = cells.net(net)
            for test in inside:
                enable = cells.graph.bitwise("and", (enable, test))
            for start in range(low, high, LIMB):
                # No chunk crosses a word of the row.
                for first, end in cut(start, min(high, start + LIMB)):
                    chunks.append((first, enable, cells.value(cell.data[first:end])))
        self._netlist.writes.append(
            Write(
                cells.memories[cell.memory],
                self._clocking(cell.clk, cell.clk_edge, 0),
                address[0],
                chunks,
                cell.module_idx,
            )
        )

    def _storages(self, storages: Iterable[tuple[str, Any]]) -> None:
        """Byte storages: memories whose ports are signals of the design, in domain sync."""
        for name, storage in storages:
            memory = len(self._netlist.memories)
            bits = storage.data_bytes * 8
            self._netlist.memories.append(
                Memory(name, bits, storage.size // storage.data_bytes, (), external=name)
            )
            self._storage(memory, storage, bits)

    def _storage(self, memory: int, storage: Any, bits: int) -> None:
        graph, cells = self._cells.graph, self._cells

        def nets(port: str) -> Any:
            return self._raw.signals[Value.cast(getattr(storage, port))]

        clocking = self._storage_clocking
        (address,) = cells.limbs(nets("read_address"))
        enable = cells.net(nets("read_enable")[0])
        position = 0
        for kind, size, index, _ in runs(nets("read_data")):
            assert kind == "cell"
            for low, high, number in cells.pieces[index]:
                element = self._netlist.elements[number]
                element.clocking = clocking
                value = cells.row(memory, [address], position + low, position + high)
                held = graph.node("state", high - low, number)
                element.next = graph.mux(enable, value, held)
            position += size
        strobe, data = nets("write_strobe"), nets("write_data")
        write_enable = cells.net(nets("write_enable")[0])
        chunks = [
            (
                lane * 8,
                graph.bitwise("and", (write_enable, cells.net(strobe[lane]))),
                cells.value(data[lane * 8 : lane * 8 + 8]),
            )
            for lane in range(bits // 8)
        ]
        (address,) = cells.limbs(nets("write_address"))
        self._netlist.writes.append(Write(memory, clocking, address, chunks, 0))

    @property
    def _storage_clocking(self) -> int:
        """That of most registers: a board has one clock domain."""
        counts: dict[tuple[int, str], int] = {}
        for cell in self._raw.cells:
            if isinstance(cell, nir.FlipFlop) and cell.clk >= 2:
                key = cell.clk, cell.clk_edge
                counts[key] = counts.get(key, 0) + 1
        clock, edge = max(counts, key=lambda key: counts[key])
        return self._clocking(clock, edge, 0)

    # ----------------------------------------------------------------------------- checks

    def _check(self, cell: Any) -> None:
        cells = self._cells
        clocked = isinstance(cell, nir.SyncPrint | nir.SyncProperty)
        is_print = isinstance(cell, nir.SyncPrint | nir.AsyncPrint)
        message: list[str | tuple[list[int], str, bool]] = [
            chunk
            if isinstance(chunk, str)
            else (cells.limbs(chunk.value), chunk.format_desc, chunk.signed)
            for chunk in (cell.format.chunks if cell.format is not None else ())
        ]
        self._netlist.checks.append(
            Check(
                "print" if is_print else cell.kind,
                cells.net(cell.en),
                None if is_print else cells.net(cell.test),
                self._clocking(cell.clk, cell.clk_edge, 0) if clocked else None,
                message,
                cell.src_loc,
                cell.module_idx,
            )
        )
