"""A word-level graph of a design: nodes of at most 64 bits, shared and simplified when made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .nodes import LIMB, Nodes, mask

__all__ = ["LIMB", "Graph", "mask"]


class Graph(Nodes):
    """Makes the simplest nodes it knows for a value."""

    # --------------------------------------------------------------------------- bits

    def slice(self, a: int, bit: int, width: int) -> int:
        """`width` bits of `a` from `bit` on."""
        op, whole, args = self.ops[a], self.widths[a], self.args[a]
        if bit == 0 and width == whole:
            return a
        if op == "const":
            return self.const(width, args[0] >> bit)
        if op == "slice":
            return self.slice(args[0], args[1] + bit, width)
        if op == "memory":
            return self.node("memory", width, args[0], args[1], args[2] + bit)
        if op == "zext":
            inner = self.widths[args[0]]
            if bit >= inner:
                return self.const(width, 0)
            if bit + width <= inner:
                return self.slice(args[0], bit, width)
            return self.zext(self.slice(args[0], bit, inner - bit), width)
        if op == "sext" and bit < self.widths[args[0]]:
            inner = self.widths[args[0]]
            if bit + width <= inner:
                return self.slice(args[0], bit, width)
            return self.sext(self.slice(args[0], bit, inner - bit), width)
        if op == "cat":
            parts, position = [], 0
            for part in args:
                size = self.widths[part]
                low, high = max(bit, position), min(bit + width, position + size)
                if low < high:
                    parts.append(self.slice(part, low - position, high - low))
                position += size
            return self.cat(parts)
        if op == "not":
            return self.invert(self.slice(args[0], bit, width))
        if op in ("and", "or", "xor") and all(
            self.ops[x] in ("const", "cat", "zext") for x in args
        ):
            return self.bitwise(op, [self.slice(x, bit, width) for x in args])
        if bit == 0 and op in ("add", "sub", "mul"):
            low_a, low_b = (self.slice(x, 0, width) for x in args)
            return self.arithmetic(op, low_a, low_b)
        return self.node("slice", width, a, bit)

    def cat(self, parts: Iterable[int]) -> int:
        """The parts side by side, the first lowest."""
        merged: list[int] = []
        for part in parts:
            if self.ops[part] == "cat":
                pieces = self.args[part]
            elif self.ops[part] == "zext":
                inner = self.args[part][0]
                rest = self.const(self.widths[part] - self.widths[inner], 0)
                pieces = (*(self.args[inner] if self.ops[inner] == "cat" else (inner,)), rest)
            else:
                pieces = (part,)
            for piece in pieces:
                if merged and (joined := self._join(merged[-1], piece)) is not None:
                    merged[-1] = joined
                else:
                    merged.append(piece)
        if len(merged) == 1:
            return merged[0]
        width = sum(self.widths[part] for part in merged)
        if self.value(merged[-1]) == 0:
            return self.zext(self.cat(merged[:-1]), width)
        return self.node("cat", width, *merged)

    def _join(self, low: int, high: int) -> int | None:
        """Two neighbours as one node, if that is simpler."""
        width = self.widths[low] + self.widths[high]
        op_low, op_high = self.ops[low], self.ops[high]
        if op_low == "const" and op_high == "const":
            value = self.args[low][0] | self.args[high][0] << self.widths[low]
            return self.const(width, value)
        if op_high == "slice":
            source, bit = self.args[high]
            if op_low == "slice" and self.args[low] == (source, bit - self.widths[low]):
                return self.slice(source, bit - self.widths[low], width)
        if high == low and self.widths[high] == 1:
            return self.sext(high, 2)
        if op_low == "sext" and self.args[low] == (high,) and self.widths[high] == 1:
            return self.sext(high, width)
        if op_low == op_high == "memory" and self.args[low][:2] == self.args[high][:2]:
            memory, address, bit = self.args[low]
            if bit + self.widths[low] == self.args[high][2] and width <= LIMB - bit % LIMB:
                return self.node("memory", width, memory, address, bit)
        return None

    def zext(self, a: int, width: int) -> int:
        op = self.ops[a]
        if self.widths[a] == width:
            return a
        if op == "const":
            return self.const(width, self.args[a][0])
        if op == "zext":
            return self.zext(self.args[a][0], width)
        return self.node("zext", width, a)

    def sext(self, a: int, width: int) -> int:
        op = self.ops[a]
        if self.widths[a] == width:
            return a
        if op == "const":
            value = self.args[a][0]
            if value >> (self.widths[a] - 1):
                value -= 1 << self.widths[a]
            return self.const(width, value)
        if op == "sext":
            return self.sext(self.args[a][0], width)
        if op == "zext":
            return self.zext(self.args[a][0], width)
        return self.node("sext", width, a)

    # -------------------------------------------------------------------------- logic

    def invert(self, a: int) -> int:
        op = self.ops[a]
        if op == "const":
            return self.const(self.widths[a], ~self.args[a][0])
        if op == "not":
            return self.args[a][0]
        return self.node("not", self.widths[a], a)

    def bitwise(self, op: str, operands: Iterable[int]) -> int:
        """`and`, `or` or `xor` of operands of one width; without any, of one bit."""
        result: int | None = None
        for operand in operands:
            result = operand if result is None else self._pair(op, result, operand)
        return self.const(1, op == "and") if result is None else result

    def _pair(self, op: str, a: int, b: int) -> int:
        width = self.widths[a]
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.const(width, {"and": x & y, "or": x | y, "xor": x ^ y}[op])
        if x is not None:
            a, b, y = b, a, x
        opposite = self.args[a] == (b,) and self.ops[a] == "not"
        opposite = opposite or (self.args[b] == (a,) and self.ops[b] == "not")
        ones = mask(width)
        if op == "xor":
            if a == b:
                return self.const(width, 0)
            if opposite or y == ones:
                return self.const(width, ones) if opposite else self.invert(a)
            return a if y == 0 else self.node(op, width, min(a, b), max(a, b))
        neutral, absorbing = (ones, 0) if op == "and" else (0, ones)
        if a == b or y == neutral:
            return a
        if y == absorbing or opposite:
            return self.const(width, absorbing)
        if op == "and" and y is not None and y & (y + 1) == 0:
            return self.zext(self.slice(a, 0, y.bit_length()), width)
        return self.node(op, width, min(a, b), max(a, b))

    def mux(self, condition: int, a: int, b: int) -> int:
        """`a` if the condition holds, else `b`."""
        width = self.widths[a]
        if a == b:
            return a
        if (constant := self.value(condition)) is not None:
            return a if constant else b
        if self.ops[condition] == "not":
            return self.mux(self.args[condition][0], b, a)
        if self.ops[a] == "mux" and self.args[a][0] == condition:
            return self.mux(condition, self.args[a][1], b)
        if self.ops[b] == "mux" and self.args[b][0] == condition:
            return self.mux(condition, a, self.args[b][2])
        if width == 1:
            if self.value(a) is not None:
                if self.value(a):
                    return self.bitwise("or", (condition, b))
                return self.bitwise("and", (self.invert(condition), b))
            if self.value(b) is not None:
                if self.value(b):
                    return self.bitwise("or", (self.invert(condition), a))
                return self.bitwise("and", (condition, a))
        return self.node("mux", width, condition, a, b)

    def select(self, a: int, others: int, values: Mapping[int, int]) -> int:
        """The value for the number `a`."""
        different = {n: v for n, v in sorted(values.items()) if v != others}
        if (constant := self.value(a)) is not None:
            return different.get(constant, others)
        if not different:
            return others
        if len(different) == 1:
            ((number, value),) = different.items()
            return self.mux(self.equal(a, self.const(self.widths[a], number)), value, others)
        cases = *different, *different.values()
        return self.node("select", self.widths[others], len(different), a, others, *cases)

    # --------------------------------------------------------------------- arithmetic

    def arithmetic(self, op: str, a: int, b: int) -> int:
        """`add`, `sub` or `mul` of operands of one width."""
        width = self.widths[a]
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.const(width, {"add": x + y, "sub": x - y, "mul": x * y}[op])
        if op != "sub" and (x is not None or (y is None and a > b)):
            a, b, x, y = b, a, y, x
        if y == 0:
            return b if op == "mul" else a
        if y == 1 and op == "mul":
            return a
        return self.node(op, width, a, b)

    def equal(self, a: int, b: int) -> int:
        if a == b:
            return self.const(1, 1)
        if self.value(a) is not None:
            a, b = b, a
        x, y = self.value(a), self.value(b)
        if x is not None:
            return self.const(1, x == y)
        width = self.widths[a]
        if width == 1:
            if y is not None:
                return a if y else self.invert(a)
            return self.invert(self.bitwise("xor", (a, b)))
        if y is not None:
            if self.ops[a] == "zext":
                inner = self.args[a][0]
                if y >> self.widths[inner]:
                    return self.const(1, 0)
                return self.equal(inner, self.const(self.widths[inner], y))
            if self.ops[a] == "cat":
                position, tests = 0, []
                for part in self.args[a]:
                    size = self.widths[part]
                    tests.append(self.equal(part, self.const(size, y >> position)))
                    position += size
                if any(self.value(test) is not None for test in tests):
                    return self.bitwise("and", tests)
        return self.node("eq", 1, *sorted((a, b)))

    def less(self, a: int, b: int, *, signed: bool = False) -> int:
        if a == b:
            return self.const(1, 0)
        x, y = self.value(a), self.value(b)
        if not signed:
            if y == 0 or x == mask(self.widths[a]):
                return self.const(1, 0)
            if y == 1:
                return self.equal(a, self.const(self.widths[a], 0))
            if x is not None and y is not None:
                return self.const(1, x < y)
        return self.node("slt" if signed else "lt", 1, a, b)

    def shift(self, op: str, a: int, amount: int) -> int:
        """`shl`, `shr` or `sar` by an amount of any width."""
        width = self.widths[a]
        constant = self.value(amount)
        if constant is None:
            return self.node(op, width, a, amount)
        if op == "shl":
            if constant >= width:
                return self.const(width, 0)
            if not constant:
                return a
            return self.cat((self.const(constant, 0), self.slice(a, 0, width - constant)))
        if constant >= width:
            if op == "shr":
                return self.const(width, 0)
            constant = width - 1
        rest = self.slice(a, constant, width - constant)
        return self.sext(rest, width) if op == "sar" else self.zext(rest, width)

    def parity(self, a: int) -> int:
        if (constant := self.value(a)) is not None:
            return self.const(1, constant.bit_count() & 1)
        return a if self.widths[a] == 1 else self.node("parity", 1, a)
