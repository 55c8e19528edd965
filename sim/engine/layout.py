"""Where each value lies: the state `s`, and the work area `v` of one build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .expressions import size_of
from .partition import Partition
from .tables import Memory

__all__ = ["Area", "Layout", "Place", "row_bytes", "spans_of"]

ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Bytes at an offset: of the state ("s"), or of the work area ("v")."""

    area: str
    offset: int
    size: int

    def text(self) -> str:
        """What reads or writes it in C."""
        return f"U{8 * self.size}({self.area}, {self.offset})"


@dataclass
class Area:
    """Hands out bytes."""

    name: str
    size: int = 0

    def take(self, size: int, alignment: int | None = None) -> int:
        """Offset of `size` free bytes."""
        alignment = alignment or size
        offset = (self.size + alignment - 1) // alignment * alignment
        self.size = offset + size
        return offset

    def place(self, width: int) -> Place:
        size = size_of(width)
        return Place(self.name, self.take(size), size)


@dataclass
class Layout:
    """The state is the same for every build of a design: what is kept does not move it.

    ::

        s   registers and inputs, those of a group side by side │ clocks before │ memories
        v   awake words │ changed words │ next values, like s │ stored nodes │ pointers

    Attributes
    ----------
    elements: place of each element. next_values: offset of the copy of `s` in `v`.
    spans: stretches of the registers of each group: first byte, bytes.
    memories: offset of each memory in `s`, or index of its pointer for external ones.
    """

    state: Area = field(default_factory=lambda: Area("s"))
    work: Area = field(default_factory=lambda: Area("v"))
    elements: list[Place] = field(default_factory=list)
    spans: list[list[tuple[int, int]]] = field(default_factory=list)
    clocks: int = 0
    memories: list[int] = field(default_factory=list)
    next_values: int = 0
    stored: dict[int, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, partition: Partition, words: int) -> Layout:
        """The layout of a design, with `words` words of 64 flags each at the start of `v`."""
        layout = cls()
        netlist = partition.netlist
        places: list[Place | None] = [None] * len(netlist.elements)
        for numbers in partition.arrays:
            layout.state.take(0, ALIGNMENT)
            for number in numbers:
                places[number] = layout.state.place(netlist.elements[number].width)
        for group in partition.groups:
            layout.state.take(0, 8)
            order = sorted(group.elements, key=lambda e: -size_of(netlist.elements[e[0]].width))
            for number, _ in order:
                if places[number] is None:
                    places[number] = layout.state.place(netlist.elements[number].width)
        for number, element in enumerate(netlist.elements):
            if places[number] is None:
                places[number] = layout.state.place(element.width)
        layout.elements = [place for place in places if place is not None]
        layout.spans = [
            spans_of(layout.elements[number] for number, _ in group.elements)
            for group in partition.groups
        ]
        registers = layout.state.take(0, ALIGNMENT)
        layout.clocks = layout.state.take(2 * len(netlist.clockings) + 1, 1)
        pointers = 0
        for memory in netlist.memories:
            if memory.external is None:
                size = max(1, row_bytes(memory) * memory.depth)
                layout.memories.append(layout.state.take(size, ALIGNMENT))
            else:
                layout.memories.append(pointers)
                pointers += 1
        layout.state.take(0, ALIGNMENT)
        layout.work.take(8 * words, 8)
        layout.next_values = layout.work.take(registers, ALIGNMENT)
        return layout

    def store(self, nodes: Iterable[int], widths: list[int]) -> None:
        """Finds room in `v` for nodes."""
        for node in nodes:
            self.stored[node] = self.work.place(widths[node])


def spans_of(places: Iterable[Place]) -> list[tuple[int, int]]:
    """Stretches of bytes without a gap."""
    spans: list[tuple[int, int]] = []
    for place in sorted(places, key=lambda place: place.offset):
        if spans and sum(spans[-1]) == place.offset:
            spans[-1] = spans[-1][0], spans[-1][1] + place.size
        else:
            spans.append((place.offset, place.size))
    return spans


def row_bytes(memory: Memory) -> int:
    """Bytes from row to row."""
    return size_of(memory.width) if memory.width <= 64 else (memory.width + 63) // 64 * 8
