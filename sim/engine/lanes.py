"""Loops over registers that are alike, in a form that a C compiler turns into vector code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .expressions import Expressions, size_of
from .families import Family, Signatures
from .graph import Graph, mask
from .layout import Place

__all__ = ["Lanes"]


@dataclass(frozen=True)
class _Pattern:
    """A number for each lane: base + row × down + column × across."""

    base: int
    down: int
    across: int

    def text(self, unit: int = 1) -> str:
        terms = [str(self.base // unit)]
        if self.down:
            terms.append(f"{self.down // unit} * row")
        if self.across:
            terms.append(f"{self.across // unit} * column")
        return " + ".join(terms)


class Lanes:
    """Writes the loop of a family.

    Lanes are looked at as a rectangle of rows and columns, in which the place of an operand
    usually grows evenly with both. What does not is gathered into an array first.

    Parameters
    ----------
    signatures: give operands of commutative operations the same order in all lanes.
    expressions: computes what is the same for all lanes.
    place: where a node is stored, if it is.
    """

    def __init__(
        self,
        graph: Graph,
        signatures: Signatures,
        expressions: Expressions,
        place: Callable[[int], Place | None],
    ) -> None:
        self._graph = graph
        self._signatures = signatures
        self._expressions = expressions
        self._place = place

    def loop(self, family: Family, elements: Sequence[Place], next_values: int) -> list[str] | None:
        """Statements that compute all next values, and whether any differs: `difference`.

        None: the registers do not lie evenly.
        """
        self._before: list[str] = []
        self._inside: list[str] = []
        self._known: dict[tuple[int, ...], str] = {}
        self._spread: dict[tuple[int, int], str] = {}
        lanes = family.lanes
        self._count = len(lanes)
        values = tuple(lane.value for lane in lanes)
        guards = tuple(lane.guard for lane in lanes if lane.guard is not None)
        offsets = [place.offset for place in elements]
        self._columns = self._shape(offsets, [values, guards] if guards else [values])
        self._bits = 8 * size_of(max(self._widest(values), self._widest(guards) if guards else 1))
        size = elements[0].size
        here = self._pattern(offsets)
        if here is None:
            return None
        kind = f"u{8 * size}"
        value = self._pack(values)
        at = here.text(size)
        self._inside.append(f"const {kind} old = (({kind} *)s)[{at}];")
        if guards and len(set(guards)) > 1:
            value = f"{self._pack(guards)} ? {value} : old"
        later = _Pattern(here.base + next_values, here.down, here.across).text(size)
        rows = self._count // self._columns
        return [
            *self._before,
            f"{kind} difference = 0;",
            f"for (int row = 0; row < {rows}; row++)",
            f"    for (int column = 0; column < {self._columns}; column++) {{",
            *(f"        {line}" for line in self._inside),
            f"        const {kind} new = ({kind})({value});",
            f"        (({kind} *)v)[{later}] = new;",
            "        difference |= new ^ old;",
            "    }",
        ]

    # ------------------------------------------------------------------------------ shape

    def _shape(self, offsets: list[int], columns: list[tuple[int, ...]]) -> int:
        """Columns of the rectangle in which most operands grow evenly."""
        found = [offsets]
        for column in columns:
            self._offsets(column, found)
        best, most = self._count, 0
        for size in range(self._count, 3, -1):
            if self._count % size == 0:
                self._columns = size
                fitting = sum(self._pattern(numbers) is not None for numbers in found)
                if fitting > most and self._pattern(offsets) is not None:
                    best, most = size, fitting
        self._columns = best
        return best

    def _offsets(self, nodes: tuple[int, ...], found: list[list[int]]) -> None:
        if len(set(nodes)) < 2:
            return
        places = [self._place(node) for node in nodes]
        op = self._graph.ops[nodes[0]]
        if None not in places:
            found.append([place.offset for place in places if place is not None])
        elif op == "const":
            found.append([self._graph.args[node][0] for node in nodes])
        elif op == "slice":
            found.append([self._graph.args[node][1] for node in nodes])
        elif any(places) or len({self._graph.ops[node] for node in nodes}) > 1:
            return
        else:
            operands = [self._signatures.operands(node) for node in nodes]
            for column in zip(*operands, strict=True):
                self._offsets(column, found)

    def _pattern(self, numbers: Sequence[int]) -> _Pattern | None:
        size = self._columns
        across = numbers[1] - numbers[0] if size > 1 else 0
        down = numbers[size] - numbers[0] if len(numbers) > size else 0
        for at, number in enumerate(numbers):
            if number != numbers[0] + at // size * down + at % size * across:
                return None
        return _Pattern(numbers[0], down, across)

    def _widest(self, nodes: tuple[int, ...]) -> int:
        """Bits of the widest value that the lanes compute."""
        graph = self._graph
        widest = graph.widths[nodes[0]]
        if len(set(nodes)) < 2 or any(self._place(node) for node in nodes):
            return widest
        if len({graph.ops[node] for node in nodes}) > 1:
            return widest
        if graph.ops[nodes[0]] == "slice":
            sources = tuple(graph.args[node][0] for node in nodes)
            return max(widest, self._widest(sources)) if len(set(sources)) > 1 else widest
        columns = zip(*(self._signatures.operands(node) for node in nodes), strict=True)
        return max(widest, *(self._widest(column) for column in columns), 1)

    # ---------------------------------------------------------------------------- operands

    def _pack(self, nodes: tuple[int, ...]) -> str:
        """Text for one lane's value of a node of each lane."""
        found = self._known.get(nodes)
        if found is None:
            text = self._text(nodes)
            found = f"y{len(self._known)}"
            self._inside.append(f"const {self._type} {found} = {text};")
            self._known[nodes] = found
        return found

    @property
    def _type(self) -> str:
        return f"u{self._bits}"

    def _text(self, nodes: tuple[int, ...]) -> str:
        graph, first = self._graph, nodes[0]
        if len(set(nodes)) == 1:
            self._before += self._expressions.write([first])
            name = f"z{len(self._known)}_{len(self._inside)}"
            self._before.append(f"const {self._type} {name} = {self._expressions.name(first)};")
            return name
        places = [self._place(node) for node in nodes]
        if None not in places:
            return self._load([place for place in places if place is not None]) or (
                self._gather(nodes)
            )
        ops = {graph.ops[node] for node in nodes}
        if any(places) or len(ops) > 1:
            return self._gather(nodes)
        op, width, args = graph.ops[first], graph.widths[first], graph.args[first]
        if op == "const":
            pattern = self._pattern([graph.args[node][0] for node in nodes])
            return pattern.text() if pattern is not None else self._gather(nodes)
        if op == "slice":
            return self._slice(nodes, width)
        operands = [
            self._pack(column)
            for column in zip(*(self._signatures.operands(n) for n in nodes), strict=True)
        ]
        return self._operation(op, width, args, operands)

    def _load(self, places: list[Place]) -> str | None:
        if len({(place.area, place.size) for place in places}) > 1:
            return None
        pattern = self._pattern([place.offset for place in places])
        size = places[0].size
        if pattern is None or any(n % size for n in (pattern.base, pattern.down, pattern.across)):
            return None
        return f"((const u{8 * size} *){places[0].area})[{pattern.text(size)}]"

    def _slice(self, nodes: tuple[int, ...], width: int) -> str:
        graph = self._graph
        sources = tuple(graph.args[node][0] for node in nodes)
        bits = [graph.args[node][1] for node in nodes]
        pattern = self._pattern(bits)
        if pattern is None:
            return self._gather(nodes)
        if len(set(sources)) > 1:
            return f"({self._pack(sources)} >> {pattern.text()}) & {mask(width):#x}u"
        # Bits of one register are spread out first.
        key = sources[0], width
        if key not in self._spread:
            self._before += self._expressions.write(sources[:1])
            name = self._spread[key] = f"spread{len(self._spread)}"
            source, count = self._expressions.name(sources[0]), graph.widths[sources[0]]
            self._before += [
                f"{self._type} {name}[{count}];",
                f"for (int bit = 0; bit < {count}; bit++)",
                f"    {name}[bit] = (u64){source} >> bit & {mask(width):#x}u;",
            ]
        return f"{self._spread[key]}[{pattern.text()}]"

    def _gather(self, nodes: tuple[int, ...]) -> str:
        """Puts the lanes' values into an array before the loop."""
        name = f"lanes{len(self._known)}_{len(self._before)}"
        self._before += self._expressions.write(nodes)
        values = ", ".join(self._expressions.name(node) for node in nodes)
        self._before.append(f"const {self._type} {name}[] = {{{values}}};")
        return f"{name}[{self._columns} * row + column]"

    def _operation(self, op: str, width: int, args: tuple[int, ...], operands: list[str]) -> str:
        bits = self._bits
        signs = {"and": "&", "or": "|", "xor": "^", "add": "+", "sub": "-", "mul": "*"}
        if op in signs:
            text = f"{operands[0]} {signs[op]} {operands[1]}"
            return text if op in ("and", "or", "xor") else self._cut(text, width)
        if op == "not":
            return self._cut(f"~{operands[0]}", width)
        if op == "zext":
            return operands[0]
        if op == "sext":
            return self._cut(self._signed(operands[0], self._graph.widths[args[0]]), width)
        if op == "mux":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        if op in ("eq", "lt"):
            return f"{operands[0]} {'==' if op == 'eq' else '<'} {operands[1]}"
        if op == "slt":
            inner = self._graph.widths[args[0]]
            return f"{self._signed(operands[0], inner)} < {self._signed(operands[1], inner)}"
        if op == "cat":
            position, parts = 0, []
            for part, operand in zip(args, operands, strict=True):
                parts.append(f"({self._type}){operand} << {position}")
                position += self._graph.widths[part]
            return " | ".join(parts)
        a, amount = operands
        if op == "sar":
            limit = bits - 1
            shifted = f"{self._signed(a, width)} >> ({amount} < {limit} ? {amount} : {limit})"
            return self._cut(shifted, width)
        assert op in ("shl", "shr"), op
        sign = "<<" if op == "shl" else ">>"
        return f"{amount} < {width} ? {self._cut(f'({self._type}){a} {sign} {amount}', width)} : 0"

    def _signed(self, text: str, width: int) -> str:
        kind = f"int{self._bits}_t"
        if width in (8, 16, 32, 64):
            return f"({kind})(int{width}_t){text}"
        shift = self._bits - width
        return f"(({kind})({self._type})({text} << {shift}) >> {shift})"

    def _cut(self, text: str, width: int) -> str:
        if width == self._bits:
            return f"({self._type})({text})"
        return f"({self._type})({text}) & {mask(width):#x}"
