"""Nodes of a graph as C statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .graph import LIMB, Graph, mask

__all__ = ["Expressions", "ctype", "literal", "size_of"]

BITWISE = {"and": "&", "or": "|", "xor": "^"}


def size_of(width: int) -> int:
    """Bytes in which a value is stored."""
    return 1 if width <= 8 else 2 if width <= 16 else 4 if width <= 32 else 8


def ctype(width: int) -> str:
    """Type of a variable for a value."""
    return "u32" if width <= 32 else "u64"


def literal(width: int, value: int) -> str:
    return f"{value:#x}u" if width <= 32 else f"{value:#x}ull"


class Expressions:
    """Writes what a set of nodes needs, operands first.

    Parameters
    ----------
    load: text that reads a register, or a node that is stored elsewhere; None: computed here.
    row: text that reads bits of a memory: memory, address, bit, width.
    """

    def __init__(
        self,
        graph: Graph,
        load: Callable[[int], str | None],
        row: Callable[[int, str, int, int, int], str],
    ) -> None:
        self._graph = graph
        self._load = load
        self._row = row
        self._names: dict[int, str] = {}

    def write(self, roots: Iterable[int]) -> list[str]:
        """Statements for all nodes that `roots` need and that have no name yet."""
        graph = self._graph
        needed: set[int] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in needed or node in self._names:
                continue
            loaded = self._load(node)
            if graph.ops[node] == "const":
                self._names[node] = literal(graph.widths[node], graph.args[node][0])
            elif loaded is not None:
                self._names[node] = loaded
            else:
                needed.add(node)
                waiting += graph.operands(node)
        lines = []
        for node in sorted(needed):
            name = f"x{node}"
            if graph.ops[node] == "select":
                lines += self._select(node, name)
                self._names[node] = name
                continue
            text = self.text(node)
            lines.append(f"const {ctype(graph.widths[node])} {name} = {text};")
            self._names[node] = name
        return lines

    def _select(self, node: int, name: str) -> list[str]:
        """A switch."""
        graph = self._graph
        count, a, others, *rest = graph.args[node]
        alike: dict[int, list[int]] = {}
        for number, value in zip(rest[:count], rest[count:], strict=True):
            alike.setdefault(value, []).append(number)
        cases = [
            "".join(f"case {literal(graph.widths[a], number)}: " for number in numbers)
            + f"{name} = {self._names[value]}; break;"
            for value, numbers in alike.items()
        ]
        return [
            f"{ctype(graph.widths[node])} {name};",
            f"switch ({self._names[a]}) {{",
            *cases,
            f"default: {name} = {self._names[others]};",
            "}",
        ]

    def name(self, node: int) -> str:
        """The text that stands for a node that has been written."""
        return self._names[node]

    def text(self, node: int) -> str:
        """The node computed from the names of its operands."""
        graph = self._graph
        op, width, args = graph.ops[node], graph.widths[node], graph.args[node]
        operands = [self._names[operand] for operand in graph.operands(node)]
        if op in ("and", "or", "xor"):
            return f"{operands[0]} {BITWISE[op]} {operands[1]}"
        if op == "not":
            return self._masked(f"~{operands[0]}", width)
        if op in ("add", "sub", "mul"):
            sign = {"add": "+", "sub": "-", "mul": "*"}[op]
            return self._masked(f"({operands[0]} {sign} {operands[1]})", width)
        if op == "eq":
            return f"{operands[0]} == {operands[1]}"
        if op == "lt":
            return f"{operands[0]} < {operands[1]}"
        if op == "slt":
            inner = graph.widths[args[0]]
            return f"SIGNED({operands[0]}, {inner}) < SIGNED({operands[1]}, {inner})"
        if op == "mux":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        if op == "slice":
            source, bit = args
            shifted = f"({operands[0]} >> {bit})" if bit else operands[0]
            if bit + width == graph.widths[source]:
                return self._cast(shifted, width)
            wide = max(width, 33 if graph.widths[source] > 32 else 0)
            return self._cast(f"({shifted} & {literal(wide, mask(width))})", width)
        if op == "cat":
            return self._cat(args, operands, width)
        if op == "zext":
            return operands[0]
        if op == "sext":
            return self._masked(f"SIGNED({operands[0]}, {graph.widths[args[0]]})", width, cast=True)
        if op in ("shl", "shr", "sar"):
            return self._shift(op, width, operands)
        if op == "parity":
            return f"__builtin_parityll({operands[0]})"
        if op in ("div", "mod"):
            sign = "/" if op == "div" else "%"
            return f"{operands[1]} ? {operands[0]} {sign} {operands[1]} : 0"
        if op in ("sdiv", "smod"):
            a, b = (f"SIGNED({operand}, {width})" for operand in operands)
            return self._masked(f"{op}({a}, {b})", width, cast=True)
        if op == "memory":
            memory, address, bit = args
            return self._row(memory, operands[0], graph.widths[address], bit, width)
        if op == "window":
            offset, fill, *limbs = operands
            return f"window((i64){offset}, {fill}, {len(limbs)}, {self._array(limbs)})"
        half = len(operands) // 2
        a, b = self._array(operands[:half]), self._array(operands[half:])
        if op == "mul_limb":
            return f"mul_limb({half}, {args[0]}, {a}, {b})"
        assert op == "div_limb", op
        return f"div_limb({half}, {args[0]}, {args[1]}, {a}, {b})"

    @staticmethod
    def _array(limbs: list[str]) -> str:
        return f"(const u64[]){{{', '.join(limbs)}}}"

    @staticmethod
    def _cast(text: str, width: int) -> str:
        return f"({ctype(width)}){text}"

    @staticmethod
    def _masked(text: str, width: int, *, cast: bool = False) -> str:
        if width == LIMB:
            return f"(u64)({text})" if cast else text
        if width == 32:
            return f"(u32)({text})"
        if width == 16 or width == 8:
            return f"(u{width})({text})"
        return f"({ctype(width)})({text}) & {literal(width, mask(width))}"

    def _cat(self, parts: tuple[int, ...], operands: list[str], width: int) -> str:
        position, texts = 0, []
        for part, operand in zip(parts, operands, strict=True):
            if self._graph.value(part) != 0:
                text = f"({ctype(width)}){operand}"
                texts.append(f"{text} << {position}" if position else text)
            position += self._graph.widths[part]
        return " | ".join(texts)

    def _shift(self, op: str, width: int, operands: list[str]) -> str:
        a, amount = operands
        if op == "sar":
            text = f"SIGNED({a}, {width}) >> ({amount} < 63 ? {amount} : 63)"
            return self._masked(text, width, cast=True)
        if op == "shr":
            return f"{amount} < {width} ? {a} >> {amount} : 0"
        shifted = self._masked(f"({ctype(width)}){a} << {amount}", width)
        return f"{amount} < {width} ? ({shifted}) : 0"
