"""How C text reaches the values of a design, and notes that they have changed."""

from __future__ import annotations

from collections.abc import Iterable

from .expressions import Expressions, literal
from .graph import mask
from .layout import Layout, Place, row_bytes
from .partition import Partition

__all__ = ["Access"]


class Access:
    """Places of a partition's values, as C text.

    Parameters
    ----------
    words: of flags, at the start of `v`.
    trace: whether what changes is noted in a list.
    profile: whether what each place costs is counted.

    Attributes
    ----------
    layout: of state and work area.
    pointers: offset in `v` of what the engine owns: the buffer of messages, external memories.
    pending: for each group that is a file, offset of the register that changes and its value.
    changes: offset of the list of changes.
    traced: numbers of stored nodes in the list of changes, where elements have their own.
    costs: offset of the counters of costs.
    """

    def __init__(self, partition: Partition, words: int, *, trace: bool, profile: bool) -> None:
        self.partition = partition
        self.netlist = partition.netlist
        self.graph = partition.netlist.graph
        self.trace = trace
        self.layout = Layout.of(partition, words)
        self.layout.store(sorted(partition.stored), self.graph.widths)
        self._storage = {node: _loaded(place) for node, place in self.layout.stored.items()}
        work = self.layout.work
        external = sum(memory.external is not None for memory in self.netlist.memories)
        self.pointers = work.take(8 * (2 * external + 4), 8)
        self.pending = {
            number: work.take(16, 8)
            for number, group in enumerate(partition.groups)
            if group.file is not None
        }
        elements = len(self.netlist.elements)
        self.traced = {n: elements + at for at, n in enumerate(sorted(partition.stored))}
        self.changes = work.take(16 + 8 * (elements + len(self.traced)), 8)
        places = len(partition.clusters) + len(partition.groups)
        self.costs = work.take(16 * places if profile else 0, 8)

    def expressions(self, own: int = -1) -> Expressions:
        """What writes expressions; of stored nodes, those of the cluster `own` are computed."""

        def load(node: int) -> str | None:
            if self.graph.ops[node] == "state":
                return _loaded(self.layout.elements[self.graph.args[node][0]])
            if self.partition.stored.get(node, own) != own:
                return self._storage[node]
            return None

        return Expressions(self.graph, load, self._row)

    def place_of(self, node: int) -> Place | None:
        """Where a register or a stored node is."""
        if self.graph.ops[node] == "state":
            return self.layout.elements[self.graph.args[node][0]]
        return self.layout.stored.get(node)

    def later(self, place: Place) -> Place:
        """Where a register's next value is."""
        return Place("v", self.layout.next_values + place.offset, place.size)

    def base(self, memory: int) -> str:
        """Pointer to a memory's first row."""
        offset = self.layout.memories[memory]
        if self.netlist.memories[memory].external is None:
            return f"(s + {offset})"
        return f"(*(u8 **)(v + {self.pointers + 32 + 16 * offset}))"

    def dirty(self, memory: int) -> str:
        """Pointer to the marks of an external memory's pages that have been written."""
        return f"(*(u8 **)(v + {self.pointers + 40 + 16 * self.layout.memories[memory]}))"

    def _row(self, memory: int, address: str, bits: int, bit: int, width: int) -> str:
        table = self.netlist.memories[memory]
        stride = row_bytes(table)
        size = min(8, stride)
        at = f"{self.base(memory)} + {stride}ull * {address} + {bit // 64 * 8}"
        text = f"*(u{8 * size} *)({at})"
        if bit % 64:
            text = f"({text} >> {bit % 64})"
        if width < 8 * size - bit % 64:
            text = f"({text} & {literal(width, mask(width))})"
        if table.depth < 1 << bits:
            text = f"{address} < {table.depth} ? {text} : 0"
        return text

    def change(self, number: str | int) -> str:
        """Adds to the list of what has changed, if there is one."""
        return f"changed(v + {self.changes}, {number}); " if self.trace else ""

    def note(self, numbers: Iterable[int]) -> str:
        """The same for several."""
        return "".join(self.change(number) for number in numbers)


def _loaded(place: Place) -> str:
    """Text that reads a value, in the type of variables."""
    return place.text() if place.size > 2 else f"(u32){place.text()}"
