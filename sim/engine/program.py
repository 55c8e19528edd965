"""A design as C text, with the tables that say where its values are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from amaranth.hdl import Signal, Value
from amaranth.hdl._ast import SignalDict

from .control import Control
from .functions import Functions
from .garbage import paused
from .graph import mask
from .layout import Place, row_bytes
from .netlist import deep, read
from .partition import partition
from .slots import CheckInfo, MemoryInfo, Piece, Slot
from .tables import Check, Netlist
from .wakes import WORD

__all__ = ["ALL", "Program", "compile"]

ALL = "all"
SOURCES = 4
"""C files that a large program is divided into, for the compiler to work on in parallel."""
SMALL = 200_000
"""Characters of C below which there is one file."""


@dataclass
class Program:
    """What `Model` runs.

    Attributes
    ----------
    sources: C files. header: what they include.
    slots: of the signals that are kept. paths: the same by hierarchical name.
    image: initial bytes of the state, memories left out when they are zero.
    wake: bytes of `v` that wake everything.
    """

    sources: list[str]
    header: str
    state_bytes: int
    work_bytes: int
    register_bytes: int
    messages: int
    slots: Any
    paths: dict[str, Slot]
    names: dict[str, Signal]
    memories: list[MemoryInfo]
    clocks: list[Slot]
    checks: list[CheckInfo]
    image: list[tuple[int, bytes]]
    wake: bytes
    modules: list[str] = field(default_factory=list)
    changes: int = 0
    """Offset in `v` of the list of changes: length, capacity, numbers (4 bytes each)."""
    numbers: list[Place] = field(default_factory=list)
    """What the numbers in that list stand for; none if the program does not note changes."""

    def slot(self, signal: Any) -> Slot | None:
        """Where a signal, or that of a name, is; None if it is not kept, or not of this design."""
        if isinstance(signal, str):
            return self.paths.get(signal)
        found: Slot | None = self.slots.get(Value.cast(signal)) if self.names else None
        return found

    def detached(self) -> Program:
        """The same without the objects of the design, to be pickled: signals have only names."""
        memories = [replace(memory, data=None) for memory in self.memories]
        return replace(self, slots={}, names={}, memories=memories)


def compile(
    design: Any,
    *,
    keep: str | Iterable[Any] = ALL,
    storages: Iterable[tuple[str, Any]] = (),
    trace: bool = False,
) -> Program:
    """Compiles a design to C.

    Parameters
    ----------
    design: prepared `Design` of Amaranth, or what can be elaborated.
    keep: combinational signals whose values are wanted, or ALL: objects, or names as in `paths`,
        where * stands for anything. Registers always have a slot.
    storages: components whose bytes belong to the engine, by name; see `sim.board.storage`.
    trace: whether what changes is noted in a list, for waveforms.

    Raises
    ------
    Unsupported: see `netlist.read`.
    """
    every = keep == ALL
    with paused():
        netlist = read(design, storages, keep=None if every else tuple(keep))
        return deep(lambda: _Program(netlist, trace=trace).program())


class _Program:
    def __init__(self, netlist: Netlist, *, trace: bool) -> None:
        self.netlist = netlist
        self.graph = netlist.graph
        each = [limb for limbs in netlist.signals.values() for limb in limbs]
        kept = [node for limb in each for node in self._parts(limb)]
        self.partition = partition(netlist, kept)
        self.functions = Functions(self.partition, trace=trace)
        self.access = self.functions.access
        self.layout = self.access.layout

    def _parts(self, node: int) -> Iterable[int]:
        """The nodes that a value is put together from."""
        op = self.graph.ops[node]
        if op in ("cat", "zext"):
            for operand in self.graph.operands(node):
                yield from self._parts(operand)
        elif op == "slice" and self.graph.ops[self.graph.args[node][0]] == "state":
            yield self.graph.args[node][0]
        else:
            yield node

    def _pieces(self, node: int, position: int) -> Iterable[Piece]:
        graph = self.graph
        op, width, args = graph.ops[node], graph.widths[node], graph.args[node]
        if op == "const":
            yield Piece(position, width, None, constant=args[0])
        elif op == "state":
            yield Piece(position, width, self.layout.elements[args[0]], element=args[0])
        elif op == "slice" and graph.ops[args[0]] == "state":
            number = graph.args[args[0]][0]
            yield Piece(position, width, self.layout.elements[number], args[1], element=number)
        elif op in ("cat", "zext"):
            start = position
            for operand in graph.operands(node):
                yield from self._pieces(operand, position)
                position += graph.widths[operand]
            if position < start + width:
                yield Piece(position, start + width - position, None)
        else:
            yield Piece(position, width, self.layout.stored[node])

    def program(self) -> Program:
        functions, access, layout = self.functions, self.access, self.layout
        functions.write()
        slots = SignalDict()
        for signal, limbs in self.netlist.signals.items():
            pieces = [p for at, limb in enumerate(limbs) for p in self._pieces(limb, 64 * at)]
            slots[signal] = Slot(len(signal), tuple(pieces))
        memories = [
            MemoryInfo(
                memory.name, memory.width, memory.depth, row_bytes(memory), layout.memories[n],
                memory.data, memory.external, tuple(functions.readers.memories[n]),
            )
            for n, memory in enumerate(self.netlist.memories)
        ]  # fmt: skip
        header = resources.files(__package__).joinpath("runtime.h").read_text()
        if access.trace:
            header = f"#define CHANGES {access.changes}\n{header}"
        control = Control(functions)
        return Program(
            sources=self._divide(control.text()),
            header=header,
            state_bytes=layout.state.size,
            work_bytes=(layout.work.size + 63) // 64 * 64,
            register_bytes=layout.clocks,
            messages=access.pointers,
            slots=slots,
            paths={
                name: slots[signal]
                for name, signal in self.netlist.names.items()
                if signal in slots
            },
            names=self.netlist.names,
            memories=memories,
            clocks=[Slot(1, tuple(self._pieces(node, 0))) for node in control.clocks],
            checks=[self._check(check) for check in self.netlist.checks],
            image=self._image(),
            wake=self._wake(),
            modules=self.netlist.modules,
            changes=access.changes,
            numbers=[*layout.elements, *(layout.stored[node] for node in access.traced)]
            if access.trace
            else [],
        )

    def _check(self, check: Check) -> CheckInfo:
        chunks: list[str | tuple[int, str, bool]] = []
        for chunk in check.message:
            if isinstance(chunk, str):
                chunks.append(chunk)
            else:
                nodes, form, signed = chunk
                chunks.append((sum(self.graph.widths[node] for node in nodes), form, signed))
        source = (check.source[0], check.source[1]) if check.source else None
        module = self.netlist.modules[check.module]
        return CheckInfo(check.kind, tuple(chunks), source, module, check.clocking is not None)

    def _divide(self, control: str) -> list[str]:
        texts = self.functions.texts
        count = 1 if sum(map(len, texts)) < SMALL else SOURCES
        sources: list[list[str]] = [[] for _ in range(count)]
        sizes = [0] * count
        for text in sorted(texts, key=len, reverse=True):
            smallest = sizes.index(min(sizes))
            sources[smallest].append(text)
            sizes[smallest] += len(text)
        tables = ["extern const struct wake wakes[];", "extern const struct element elements[];"]
        heads = ['#include "program.h"\n', *tables, *self.functions.prototypes, ""]
        files = ["\n".join([*heads, *source]) for source in sources]
        files[-1] = "\n".join([files[-1], control])
        return files

    def _image(self) -> list[tuple[int, bytes]]:
        image = []
        for place, element in zip(self.layout.elements, self.netlist.elements, strict=True):
            if element.init:
                image.append((place.offset, element.init.to_bytes(place.size, "little")))
        for memory, offset in zip(self.netlist.memories, self.layout.memories, strict=True):
            if memory.external is None and any(memory.init):
                stride = row_bytes(memory)
                rows = [
                    (row & mask(memory.width)).to_bytes(stride, "little") for row in memory.init
                ]
                image.append((offset, b"".join(rows)))
        return image

    def _wake(self) -> bytes:
        flags = self.functions.flags
        awake = 0
        for index in range(len(self.partition.clusters)):
            awake |= 1 << index
        for number, flag in flags.of_group.items():
            awake |= 1 << flag
            if self.partition.groups[number].guard is None:
                awake |= 1 << flag + WORD * flags.group_words
        return awake.to_bytes(8 * flags.words, "little")
