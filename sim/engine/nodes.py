"""Nodes of at most 64 bits, shared."""

from __future__ import annotations

__all__ = ["LIMB", "Nodes", "mask"]

LIMB = 64
"""Bits of the widest node. Wider values are lists of nodes, the lowest first, all but the last of
64 bits."""


def mask(width: int) -> int:
    """The highest number of `width` bits."""
    return (1 << width) - 1


class Nodes:
    """Nodes are numbers; equal nodes are the same number, and operands are made before users.

    ==========  =======================  ======================================================
    operation   arguments                value, cut to the width of the node
    ==========  =======================  ======================================================
    const       number
    state       element                  a register, an input, a read port: see `layout`
    memory      memory, address, bit     bits of a row from `bit` on; 0 beyond the last row
    not         a
    and or xor  a, b
    add sub mul a, b
    shl shr     a, amount                0 when the amount reaches the width
    sar         a, amount                a is signed
    eq lt slt   a, b                     1 bit; slt compares signed
    div mod     a, b                     of unsigned numbers; 0 when b is 0
    sdiv smod   a, b                     rounds down, the modulus has the sign of b; 0 when b is 0
    mux         condition, a, b          a if the condition (1 bit) holds, else b
    select      count, a, others,        the value that stands for the number a, of `count` numbers
                number, …, value, …      and their values; `others` for all other numbers
    parity      a                        1 bit
    slice       a, bit                   bits of a from `bit` on
    cat         a, b, …                  the lowest first
    zext sext   a
    window      offset, fill, a, b, …    bits of the limbs a, b, … from bit `offset` on, which is a
                                         signed number of 64 bits; 0 below; above all, `fill`
    mul_limb    limb, a, …, b, …         64 bits of a product of numbers of many limbs
    div_limb    kind, limb, a, …, b, …   64 bits of a quotient or remainder, kind as above
    ==========  =======================  ======================================================

    Attributes
    ----------
    ops, widths, args: of each node.
    homes: module in which each node was first made.
    home: module of the nodes that are made next.
    """

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.widths: list[int] = []
        self.args: list[tuple[int, ...]] = []
        self.homes: list[int] = []
        self.home = 0
        self._known: dict[tuple[str, int, tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self.ops)

    def node(self, op: str, width: int, *args: int) -> int:
        """The node, without simplification."""
        key = op, width, args
        found = self._known.get(key)
        if found is None:
            found = len(self.ops)
            self._known[key] = found
            self.ops.append(op)
            self.widths.append(width)
            self.args.append(args)
            self.homes.append(self.home)
        return found

    def operands(self, node: int) -> tuple[int, ...]:
        """The nodes that a node is computed from."""
        op, args = self.ops[node], self.args[node]
        if op in ("const", "state"):
            return ()
        if op == "memory":
            return args[1:2]
        if op == "slice":
            return args[:1]
        if op == "mul_limb":
            return args[1:]
        if op == "select":
            return (*args[1:3], *args[3 + args[0] :])
        if op == "div_limb":
            return args[2:]
        return args

    def const(self, width: int, value: int) -> int:
        return self.node("const", width, value & mask(width))

    def value(self, node: int) -> int | None:
        """The number that a node always is, if it is one."""
        return self.args[node][0] if self.ops[node] == "const" else None
