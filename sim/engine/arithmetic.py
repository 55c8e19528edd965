"""Arithmetic on numbers of any width, as nodes of 64 bits."""

from __future__ import annotations

from .graph import LIMB, Graph

__all__ = ["Arithmetic"]

Limbs = list[int]


class Arithmetic:
    """Numbers are lists of nodes ("limbs"), the lowest first, all but the last of 64 bits."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[tuple[object, ...], Limbs] = {}

    def operate(self, operator: str, inputs: list[Limbs], width: int) -> Limbs:
        """The result of an operator of Amaranth's netlist on operands of `width` bits."""
        key = operator, width, *(tuple(limbs) for limbs in inputs)
        if key not in self._known:
            self._known[key] = self._operate(operator, inputs, width)
        return self._known[key]

    def _operate(self, operator: str, inputs: list[Limbs], width: int) -> Limbs:
        graph = self.graph
        a = inputs[0]
        if len(inputs) == 1:
            if operator == "-":
                zero = [graph.const(graph.widths[limb], 0) for limb in a]
                return self._subtract(zero, a)
            return [self._reduce(operator, a)]
        b = inputs[1]
        if operator == "+":
            return self._add(a, b)
        if operator == "-":
            return self._subtract(a, b)
        if operator == "*":
            if len(a) == 1:
                return [graph.arithmetic("mul", a[0], b[0])]
            padded = [self._padded(limb) for limb in (*a, *b)]
            return self._cut(
                [graph.node("mul_limb", LIMB, limb, *padded) for limb in range(len(a))], width
            )
        if operator in ("u//", "s//", "u%", "s%"):
            return self._divide(operator, a, b, width)
        if operator in ("<<", "u>>", "s>>"):
            return self._shift(operator, a, b, width)
        if operator in ("==", "!="):
            same = graph.bitwise("and", [graph.equal(x, y) for x, y in zip(a, b, strict=True)])
            return [same if operator == "==" else graph.invert(same)]
        signed, relation = operator[0] == "s", operator[1:]
        if relation in (">", "<="):
            a, b = b, a
        less = self._less(a, b, signed)
        return [graph.invert(less) if relation in ("<=", ">=") else less]

    def _reduce(self, operator: str, limbs: Limbs) -> int:
        graph = self.graph
        if operator in ("b", "r|"):
            zero = [graph.equal(limb, graph.const(graph.widths[limb], 0)) for limb in limbs]
            return graph.invert(graph.bitwise("and", zero))
        if operator == "r&":
            return graph.bitwise(
                "and", [graph.equal(limb, graph.const(graph.widths[limb], -1)) for limb in limbs]
            )
        return graph.bitwise("xor", [graph.parity(limb) for limb in limbs])

    def _add(self, a: Limbs, b: Limbs) -> Limbs:
        graph, result = self.graph, []
        carry: int | None = None
        for x, y in zip(a, b, strict=True):
            total = graph.arithmetic("add", x, y)
            out = graph.less(total, x)
            if carry is not None:
                again = graph.arithmetic("add", total, graph.zext(carry, graph.widths[x]))
                out = graph.bitwise("or", (out, graph.less(again, total)))
                total = again
            result.append(total)
            carry = out
        return result

    def _subtract(self, a: Limbs, b: Limbs) -> Limbs:
        graph, result = self.graph, []
        borrow: int | None = None
        for x, y in zip(a, b, strict=True):
            total = graph.arithmetic("sub", x, y)
            out = graph.less(x, y)
            if borrow is not None:
                again = graph.arithmetic("sub", total, graph.zext(borrow, graph.widths[x]))
                out = graph.bitwise("or", (out, graph.less(total, again)))
                total = again
            result.append(total)
            borrow = out
        return result

    def _less(self, a: Limbs, b: Limbs, signed: bool) -> int:
        """Compares from the lowest limb up: a higher one decides unless it is equal."""
        graph = self.graph
        result = graph.const(1, 0)
        for at, (x, y) in enumerate(zip(a, b, strict=True)):
            less = graph.less(x, y, signed=signed and at == len(a) - 1)
            result = (
                graph.bitwise("or", (less, graph.bitwise("and", (graph.equal(x, y), result))))
                if at
                else less
            )
        return result

    def _divide(self, operator: str, a: Limbs, b: Limbs, width: int) -> Limbs:
        graph = self.graph
        name = {"u//": "div", "s//": "sdiv", "u%": "mod", "s%": "smod"}[operator]
        if len(a) == 1:
            return [graph.node(name, width, a[0], b[0])]
        extended = [
            *(self._extended(limb, name[0] == "s") for limb in a),
            *(self._extended(limb, name[0] == "s") for limb in b),
        ]
        kind = ("div", "sdiv", "mod", "smod").index(name)
        return self._cut(
            [graph.node("div_limb", LIMB, kind, limb, *extended) for limb in range(len(a))], width
        )

    def _shift(self, operator: str, a: Limbs, b: Limbs, width: int) -> Limbs:
        graph = self.graph
        if len(a) == 1:
            name = {"<<": "shl", "u>>": "shr", "s>>": "sar"}[operator]
            return [graph.shift(name, a[0], b[0] if len(b) == 1 else self._saturated(b, width))]
        amount = self._saturated(b, width)
        fill = graph.const(1, 0)
        if operator == "s>>":
            fill = graph.slice(a[-1], graph.widths[a[-1]] - 1, 1)
        padded = [self._extended(limb, operator == "s>>") for limb in a]
        result = []
        for at in range(0, width, LIMB):
            here = graph.const(LIMB, at)
            move = "sub" if operator == "<<" else "add"
            offset = graph.arithmetic(move, here, amount)
            result.append(self._window(offset, fill, padded))
        return self._cut(result, width)

    def part(
        self,
        value: Limbs,
        bits: int,
        offset: Limbs,
        stride: int,
        low: int,
        high: int,
        *,
        signed: bool,
    ) -> int:
        """Bits `low` to `high` − 1 of what begins `offset` × `stride` bits into the value."""
        graph = self.graph
        fill = graph.const(1, 0)
        if signed:
            fill = graph.slice(value[-1], graph.widths[value[-1]] - 1, 1)
        start = graph.arithmetic("mul", self._saturated(offset, bits), graph.const(LIMB, stride))
        padded = [self._extended(limb, signed) for limb in value]
        parts = []
        while low < high:
            size = min(LIMB, high - low)
            at = graph.arithmetic("add", start, graph.const(LIMB, low))
            parts.append(graph.slice(self._window(at, fill, padded), 0, size))
            low += size
        return graph.cat(parts)

    def position(
        self, number: Limbs, first: int, count: int, start: int, stride: int
    ) -> tuple[int, int]:
        """Whether a number is one of `count` from `first` on; and where that is.

        The first is at `start`, each other `stride` after the one before.
        """
        graph = self.graph
        low = self._saturated(number, first + count)
        inside = graph.less(low, graph.const(LIMB, first + count))
        if first:
            below = graph.less(low, graph.const(LIMB, first))
            inside = graph.bitwise("and", (inside, graph.invert(below)))
        scaled = graph.arithmetic("mul", low, graph.const(LIMB, stride))
        return inside, graph.arithmetic("add", scaled, graph.const(LIMB, start - first * stride))

    def place(self, value: Limbs, start: int, low: int, high: int) -> int:
        """At most 64 bits, from `low` to `high` − 1, of a value moved up by `start` bits."""
        graph = self.graph
        offset = graph.arithmetic("sub", graph.const(LIMB, low), start)
        padded = [self._padded(limb) for limb in value]
        if len(padded) == 1:
            padded.append(graph.const(LIMB, 0))  # a window may begin before its first limb
        window = self._window(offset, graph.const(1, 0), padded)
        return graph.slice(window, 0, high - low)

    def _window(self, offset: int, fill: int, limbs: Limbs) -> int:
        graph = self.graph
        constant = graph.value(offset)
        if constant is not None and constant + LIMB <= LIMB * len(limbs):
            at, bit = divmod(constant, LIMB)
            low = graph.slice(limbs[at], bit, LIMB - bit)
            return graph.cat((low, graph.slice(limbs[at + 1], 0, bit))) if bit else low
        if len(limbs) == 1:
            return graph.shift("shr" if graph.value(fill) == 0 else "sar", limbs[0], offset)
        return graph.node("window", LIMB, offset, fill, *limbs)

    def _saturated(self, limbs: Limbs, limit: int) -> int:
        """A number as 64 bits; one with higher bits becomes `limit`, which is as good."""
        graph = self.graph
        low = self._padded(limbs[0])
        if graph.widths[limbs[0]] >= 32:
            at_most = graph.const(LIMB, limit)
            low = graph.mux(graph.less(at_most, low), at_most, low)
        if len(limbs) == 1:
            return low
        zero = [graph.equal(limb, graph.const(graph.widths[limb], 0)) for limb in limbs[1:]]
        return graph.mux(graph.bitwise("and", zero), low, graph.const(LIMB, limit))

    def _padded(self, limb: int) -> int:
        return self.graph.zext(limb, LIMB)

    def _extended(self, limb: int, signed: bool) -> int:
        return self.graph.sext(limb, LIMB) if signed else self.graph.zext(limb, LIMB)

    def _cut(self, limbs: Limbs, width: int) -> Limbs:
        rest = width - LIMB * (len(limbs) - 1)
        return [*limbs[:-1], self.graph.slice(limbs[-1], 0, rest)]
