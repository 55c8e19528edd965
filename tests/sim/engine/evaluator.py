"""What the nodes of a `Graph` are worth, after the table of operations in its docstring."""

from sim.engine.graph import LIMB, mask

__all__ = ["evaluate", "floored", "joined_limbs", "signed_of"]


def signed_of(value, width):
    """A number of two's complement."""
    return value - (value >> (width - 1) << width)


def floored(kind, a, b):
    """Quotient or remainder as Amaranth rounds: 0 when the divisor is 0."""
    if b == 0:
        return 0
    return a // b if kind.endswith("div") else a % b


def joined_limbs(limbs):
    return sum(limb << LIMB * at for at, limb in enumerate(limbs))


def evaluate(graph, node, states, memories=(), known=None):
    """The value of a node when the elements are `states`, and the memories lists of rows."""
    known = {} if known is None else known
    if node in known:
        return known[node]
    op, width, args = graph.ops[node], graph.widths[node], graph.args[node]
    operands = graph.operands(node)
    wide = graph.widths[operands[0]] if operands else width

    def value(operand):
        return evaluate(graph, operand, states, memories, known)

    a, b = (*map(value, operands[:2]), 0, 0)[:2]
    if op == "const":
        result = args[0]
    elif op == "state":
        result = states[args[0]]
    elif op == "memory":
        rows = memories[args[0]]
        result = rows[a] >> args[2] if a < len(rows) else 0
    elif op == "mux":
        result = value(args[1] if a else args[2])
    elif op == "select":
        count = args[0]
        chosen = dict(zip(args[3 : 3 + count], args[3 + count :], strict=True))
        result = value(chosen.get(a, args[2]))
    elif op == "cat":
        result, position = 0, 0
        for part in args:
            result |= value(part) << position
            position += graph.widths[part]
    elif op == "window":
        offset, whole = signed_of(a, LIMB), joined_limbs(map(value, args[2:]))
        whole |= -b << LIMB * len(args[2:])
        result = whole >> offset if offset >= 0 else whole << min(-offset, LIMB)
    elif op in ("mul_limb", "div_limb"):
        numbers = [value(operand) for operand in operands]
        half = len(numbers) // 2
        x, y = joined_limbs(numbers[:half]), joined_limbs(numbers[half:])
        limb = args[0] if op == "mul_limb" else args[1]
        if op == "mul_limb":
            whole = x * y
        else:
            kind = ("div", "sdiv", "mod", "smod")[args[0]]
            if kind[0] == "s":
                x, y = signed_of(x, LIMB * half), signed_of(y, LIMB * half)
            whole = floored(kind, x, y)
        result = whole >> LIMB * limb
    elif op in ("sdiv", "smod"):
        result = floored(op, signed_of(a, width), signed_of(b, width))
    else:
        result = {
            "not": lambda: ~a,
            "and": lambda: a & b,
            "or": lambda: a | b,
            "xor": lambda: a ^ b,
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "shl": lambda: a << min(b, width),
            "shr": lambda: a >> b,
            "sar": lambda: signed_of(a, width) >> b,
            "eq": lambda: a == b,
            "lt": lambda: a < b,
            "slt": lambda: signed_of(a, wide) < signed_of(b, wide),
            "div": lambda: floored("div", a, b),
            "mod": lambda: floored("mod", a, b),
            "parity": lambda: a.bit_count() & 1,
            "slice": lambda: a >> args[1],
            "zext": lambda: a,
            "sext": lambda: signed_of(a, wide),
        }[op]()
    known[node] = result & mask(width)
    return known[node]
