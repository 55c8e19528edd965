"""The values of Amaranth's netlist as nodes of a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from amaranth.hdl import _nir as nir

from .arithmetic import Arithmetic
from .choices import LEAST, Choice, choice
from .graph import LIMB, Graph
from .nets import Nets, runs
from .parts import Part, parts
from .tables import Unsupported

__all__ = ["Cells"]


class Cells:
    """Makes nodes on demand, only for the bits that are asked for.

    Parameters
    ----------
    raw: Amaranth's netlist, all nets resolved.
    graph: to which nodes are added.

    Attributes
    ----------
    pieces: for each cell with state, its pieces (first bit, bit after the last, element).
    """

    def __init__(self, raw: Any, graph: Graph) -> None:
        self.raw = raw
        self.graph = graph
        self.pieces: dict[int, list[tuple[int, int, int]]] = {}
        self.memories: dict[int, int] = {}
        self._made: dict[tuple[int, int, int], int] = {}
        self._values: dict[Nets, int] = {}
        self._choices: dict[int, Choice | None] = {}
        self._apart: dict[tuple[int, int], bool] = {}
        self._arithmetic = Arithmetic(graph)

    def limbs(self, nets: Nets) -> list[int]:
        """The nodes of a value, 64 bits each but the last."""
        return [self.value(nets[at : at + LIMB]) for at in range(0, len(nets), LIMB)]

    def net(self, net: int) -> int:
        """The node of one bit."""
        if net < 2:
            return self.graph.const(1, net)
        return self._range(net >> 16, net & 0xFFFF, (net & 0xFFFF) + 1)

    def value(self, nets: Nets) -> int:
        """The node of a value of 1 … 64 bits."""
        found = self._values.get(nets)
        if found is None:
            found = self._values[nets] = self._value(nets)
        return found

    def _value(self, nets: Nets) -> int:
        graph = self.graph
        parts: list[int] = []
        for kind, bits, what, first in runs(nets):
            if kind == "constant":
                parts.append(graph.const(bits, what))
            elif kind == "repeat":
                parts.append(graph.sext(self.net(what), bits))
            elif kind == "cell":
                parts.append(self._range(what, first, first + bits))
            else:
                below = graph.cat(parts)
                parts = [graph.sext(below, graph.widths[below] + bits)]
        return graph.cat(parts)

    def _range(self, index: int, low: int, high: int) -> int:
        """The node of bits `low` to `high` − 1 of the output of a cell."""
        key = index, low, high
        found = self._made.get(key)
        if found is None:
            self._made[key] = -1
            cell = self.raw.cells[index]
            before, self.graph.home = self.graph.home, cell.module_idx
            found = self._make(index, cell, low, high)
            self.graph.home = before
            self._made[key] = found
        elif found < 0:
            self._loop(index, low)
        return found

    def _loop(self, index: int, bit: int) -> None:
        cell = self.raw.cells[index]
        path = ".".join(self.raw.modules[cell.module_idx].name)
        where = f" (from {cell.src_loc[0]}:{cell.src_loc[1]})" if cell.src_loc else ""
        raise Unsupported(
            f"bit {bit} of a value in {path}{where} depends on itself without a register "
            "between: break the combinational loop"
        )

    def _make(self, index: int, cell: Any, low: int, high: int) -> int:
        pieces = self.pieces.get(index)
        if pieces is not None:
            return self._state(pieces, low, high)
        if isinstance(cell, nir.Operator):
            return self._operator(cell, low, high)
        if isinstance(cell, nir.AssignmentList):
            return self.assignments(cell.default, cell.assignments, low, high, select=True)
        if isinstance(cell, nir.Matches):
            return self._matches(cell)
        if isinstance(cell, nir.PriorityMatch):
            return self.graph.cat([self._priority(cell, bit) for bit in range(low, high)])
        if isinstance(cell, nir.Part):
            return self._part(cell, low, high)
        if isinstance(cell, nir.AsyncReadPort):
            memory = self.memories[cell.memory]
            address = self.limbs(cell.addr) or [self.graph.const(1, 0)]
            return self.row(memory, address, low, high)
        raise Unsupported(f"{type(cell).__name__} at {cell.src_loc} cannot be simulated")

    def _state(self, pieces: list[tuple[int, int, int]], low: int, high: int) -> int:
        graph, parts = self.graph, []
        for first, end, element in pieces:
            start, stop = max(first, low), min(end, high)
            if start < stop:
                state = graph.node("state", end - first, element)
                parts.append(graph.slice(state, start - first, stop - start))
        return graph.cat(parts)

    def row(self, memory: int, address: list[int], low: int, high: int) -> int:
        """Bits of the row of a memory."""
        graph = self.graph
        beyond = [graph.equal(limb, graph.const(graph.widths[limb], 0)) for limb in address[1:]]
        parts = []
        while low < high:
            end = min(high, low // LIMB * LIMB + LIMB)
            parts.append(graph.node("memory", end - low, memory, address[0], low))
            low = end
        value = graph.cat(parts)
        if beyond:
            inside = graph.bitwise("and", beyond)
            value = graph.mux(inside, value, graph.const(graph.widths[value], 0))
        return value

    # ----------------------------------------------------------------- control structures

    def assignments(
        self,
        default: Nets,
        assigned: Sequence[Any],
        low: int,
        high: int,
        *,
        select: bool = False,
    ) -> int:
        """Bits of a value that later assignments override.

        select: whether cases of a switch become one node; registers rather keep conditions.
        """
        graph = self.graph
        borders = {low, high}
        relevant = []
        for assignment in parts(self.raw, assigned):
            start, joined = assignment.start, isinstance(assignment, Part)
            stop = assignment.stop if joined else start + len(assignment.value)
            if start < high and stop > low:
                relevant.append((assignment, start, stop))
                borders.update(border for border in (start, stop) if low < border < high)
        found = []
        edges = sorted(borders)
        for first, end in zip(edges, edges[1:], strict=False):
            value = self.value(default[first:end])
            whole = [
                (assignment, start) for assignment, start, stop in relevant
                if start <= first and end <= stop
            ]  # fmt: skip
            for _, group in groupby(whole, lambda pair: self._switch(pair[0]) if select else None):
                cases = [
                    (assignment.cond, assignment, start) if not isinstance(assignment, Part)
                    else (0, assignment, start)
                    for assignment, start in group
                ]  # fmt: skip
                value = self._cases(cases, first, end, value, select)
            found.append(value)
        return graph.cat(found)

    def _switch(self, assignment: Any) -> int | None:
        """Number of the cell whose cases an assignment belongs to."""
        if isinstance(assignment, Part) or assignment.cond < 2:
            return None
        index = assignment.cond >> 16
        return index if choice(self.raw, index, self._choices) is not None else None

    def _cases(
        self, cases: list[tuple[int, Any, int]], first: int, end: int, value: int, select: bool
    ) -> int:
        """Bits `first` to `end` − 1 after assignments; those of one switch together."""
        graph = self.graph
        chosen = self._switch(cases[0][1]) if select and len(cases) >= LEAST else None
        if chosen is None:
            for condition, assignment, start in cases:
                if isinstance(assignment, Part):
                    value = self._placed(assignment, first, end, value)
                else:
                    new = self.value(assignment.value[first - start : end - start])
                    value = graph.mux(self.net(condition), new, value)
            return value
        found = choice(self.raw, chosen, self._choices)
        assert found is not None
        new_values = {
            found.numbers[condition & 0xFFFF]: self.value(
                assignment.value[first - start : end - start]
            )
            for condition, assignment, start in cases
        }
        others = new_values.pop(None, value)
        named = {number: new_values.get(number, value) for number in found.numbers
                 if number is not None}  # fmt: skip
        selected = graph.select(self.value(found.value), others, named)
        return graph.mux(self.net(found.enable), selected, value)

    def _placed(self, part: Part, low: int, high: int, value: int) -> int:
        """Bits of a value of which a part at a computed offset is assigned."""
        graph = self.graph
        offset = self.limbs(part.offset) or [graph.const(1, 0)]
        inside, start = self._arithmetic.position(
            offset, part.first, part.count, part.start, part.stride
        )
        new = self._arithmetic.place(self.limbs(part.value), start, low, high)
        ones = self.limbs((1,) * len(part.value))
        kept = graph.invert(self._arithmetic.place(ones, start, low, high))
        new = graph.bitwise("or", (graph.bitwise("and", (value, kept)), new))
        return graph.mux(graph.bitwise("and", (self.net(part.enable), inside)), new, value)

    def _matches(self, cell: Any) -> int:
        graph = self.graph
        limbs = self.limbs(cell.value)
        found = graph.const(1, 0)
        for pattern in cell.patterns:
            digits = pattern[::-1]
            test = graph.const(1, 1)
            for at, limb in zip(range(0, len(digits), LIMB), limbs, strict=True):
                test = graph.bitwise("and", (test, self._match(limb, digits[at : at + LIMB])))
            found = graph.bitwise("or", (found, test))
        return found

    def _match(self, value: int, digits: str) -> int:
        """Whether a value has these digits, the lowest first; "-" is any."""
        graph = self.graph
        cared = digits.strip("-")
        first = digits.find(cared) if cared else 0
        value = graph.slice(value, first, len(cared)) if cared else value
        if "-" in cared:
            care = int(cared[::-1].replace("0", "1").replace("-", "0"), 2)
            value = graph.bitwise("and", (value, graph.const(len(cared), care)))
        if not cared:
            return graph.const(1, 1)
        number = int(cared[::-1].replace("-", "0"), 2)
        return graph.equal(value, graph.const(len(cared), number))

    def _priority(self, cell: Any, bit: int) -> int:
        """Whether input `bit` is the first that holds, while the cell is enabled."""
        graph = self.graph
        mine = cell.inputs[bit]
        result = graph.bitwise("and", (self.net(cell.en), self.net(mine)))
        before = [net for net in cell.inputs[:bit] if not self._disjoint(net, mine)]
        if before:
            any_before = graph.bitwise("or", [self.net(net) for net in before])
            result = graph.bitwise("and", (result, graph.invert(any_before)))
        return result

    def _disjoint(self, a: int, b: int) -> bool:
        """Whether two nets are matches of one value that cannot hold together."""
        if a < 2 or b < 2:
            return False
        key = a, b
        if key not in self._apart:
            one, two = self.raw.cells[a >> 16], self.raw.cells[b >> 16]
            self._apart[key] = (
                isinstance(one, nir.Matches)
                and isinstance(two, nir.Matches)
                and one.value == two.value
                and all(
                    any("-" not in pair and pair[0] != pair[1] for pair in zip(p, q, strict=True))
                    for p in one.patterns
                    for q in two.patterns
                )
            )
        return self._apart[key]

    # -------------------------------------------------------------------------- operators

    def _part(self, cell: Any, low: int, high: int) -> int:
        """A slice at an offset that is computed."""
        value = self.limbs(cell.value) or [self.graph.const(1, 0)]
        offset = self.limbs(cell.offset) or [self.graph.const(1, 0)]
        bits = len(cell.value)
        return self._arithmetic.part(
            value, bits, offset, cell.stride, low, high, signed=cell.value_signed
        )

    def _operator(self, cell: Any, low: int, high: int) -> int:
        graph, operator, inputs = self.graph, cell.operator, cell.inputs
        if operator == "~":
            return graph.invert(self.value(inputs[0][low:high]))
        if operator == "m":
            condition = self.net(inputs[0][0])
            return graph.mux(
                condition, self.value(inputs[1][low:high]), self.value(inputs[2][low:high])
            )
        if operator in ("&", "|", "^"):
            name = {"&": "and", "|": "or", "^": "xor"}[operator]
            return graph.bitwise(name, [self.value(operand[low:high]) for operand in inputs])
        if operator in ("+", "-", "*", "<<"):
            # The bits above are not needed for those below.
            demanded = [operand[:high] for operand in inputs]
            if operator == "<<":
                demanded[1] = inputs[1]
        else:
            demanded = list(inputs)
        limbs = [self.limbs(operand) for operand in demanded]
        if operator in ("<<", "u>>", "s>>") and not limbs[1]:
            limbs[1] = [graph.const(1, 0)]
        width = len(demanded[0])
        result = self._arithmetic.operate(operator, limbs, width)
        first = low // LIMB
        bits = result[first : (high - 1) // LIMB + 1]
        parts = []
        for at, limb in zip(range(first * LIMB, high, LIMB), bits, strict=True):
            start = max(0, low - at)
            parts.append(graph.slice(limb, start, min(high - at, graph.widths[limb]) - start))
        return graph.cat(parts)
