"""Random expressions of Amaranth as source text, small and shrinkable."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, C, Cat, Mux, Value, signed, unsigned
from amaranth.hdl._ast import Operator
from hypothesis import strategies as st

__all__ = ["NAMES", "Term", "constants", "expressions", "fitted", "patterns", "shapes"]

NAMES = {"Array": Array, "C": C, "Cat": Cat, "Mux": Mux, "signed": signed, "unsigned": unsigned}
"""What the text of an expression refers to besides its signals."""

WIDTHS = (1, 8, 2, 4, 7, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130)
WIDEST = 300
"""Results that are wider are cut, so that nesting does not explode."""


@dataclass(frozen=True)
class Term:
    """A readable value.

    `late` names the domains whose registers it follows through combinational logic: at an edge
    of a clock that is itself made by gateware, pysim may not yet have computed it.
    """

    text: str
    value: Any
    late: frozenset[str] = frozenset()
    domain: str | None = None
    """Of a register: the domain that clocks it."""

    @property
    def width(self):
        return len(self.value)

    @property
    def signed(self):
        return self.value.shape().signed

    @property
    def follows(self):
        """What combinational logic is late for that reads this."""
        return self.late if self.domain is None else self.late | {self.domain}


def widths(most=130):
    """Mostly those at which implementations change their ways."""
    return st.sampled_from([w for w in WIDTHS if w <= most]) | st.integers(1, most)


@st.composite
def shapes(draw, most=130):
    """Source of a shape."""
    width = draw(widths(most))
    return f"signed({width})" if draw(st.booleans()) else f"unsigned({width})"


@st.composite
def constants(draw, shape):
    """An integer that the shape can hold; often one of its ends."""
    width = shape.width
    low = -(1 << (width - 1)) if shape.signed else 0
    high = low + (1 << width) - 1
    bit = draw(st.sampled_from((31, 32, 63, 64)))
    ends = (0, 1, -1, high, low, high >> 1, high - 1, 1 << bit, (1 << bit) - 1, -1 << bit)
    ends = [value for value in ends if low <= value <= high]
    return draw(st.sampled_from(ends) | st.integers(low, high))


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
"""Often with an operand that is near the other one, as only then all bits matter."""
BINARY = ("+", "-", "&", "|", "^", "*", "//", "%", *COMPARISONS)
UNARY = (
    "(~{})", "(-{})", "{}.any()", "{}.all()", "{}.xor()", "{}.bool()", "abs({})",
    "{}.as_signed()", "{}.as_unsigned()", "(~{}.bool())",
)  # fmt: skip
KINDS = (
    "leaf", "constant", "binary", "unary", "mux", "slice", "cat", "shift left", "shift right",
    "bit_select", "word_select", "rotate", "shift by constant", "replicate", "array", "matches",
    "bit",
)  # fmt: skip


class _Expressions:
    """Draws an expression over a pool of terms."""

    def __init__(self, draw, pool):
        self.draw = draw
        self.pool = pool
        self.late = frozenset()

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def make(self, depth):
        """Text and value."""
        kind = self.pick(*KINDS) if depth else self.pick("leaf", "leaf", "leaf", "constant")
        text, value = getattr(self, f"_{kind.replace(' ', '_')}")(depth - 1)
        if len(value) > WIDEST:
            text, value = f"{text}[:{WIDEST}]", value[:WIDEST]
        return text, value

    def _evaluated(self, text, **parts):
        """The text with operands put in, and its value; parts are (text, value)."""
        value = eval(
            text.format(**{name: name for name in parts}),
            NAMES | {name: value for name, (_, value) in parts.items()},
        )
        return text.format(**{name: part[0] for name, part in parts.items()}), Value.cast(value)

    def _leaf(self, depth):
        if not self.pool:
            return self._constant(depth)
        term = self.pick(*self.pool)
        self.late |= term.follows
        return term.text, term.value

    def _constant(self, depth):
        shape = self.draw(shapes())
        number = self.draw(constants(eval(shape, NAMES)))
        return self._evaluated(f"C({number}, {shape})")

    def _binary(self, depth):
        operator, a = self.pick(*BINARY), self.make(depth)
        if operator in COMPARISONS and self.number(0, 1):
            near = self._evaluated("({a} + {c})", a=a, c=self._constant(depth))
            return self._evaluated(f"({{a}} {operator} {{b}})", a=a, b=near)
        return self._evaluated(f"({{a}} {operator} {{b}})", a=a, b=self.make(depth))

    def _unary(self, depth):
        text, value = self.pick(*UNARY).format("{a}"), self.make(depth)
        if "signed" in text and not len(value[1]):
            return value
        return self._evaluated(text, a=value)

    def _mux(self, depth):
        test, a, b = self.make(depth), self.make(depth), self.make(depth)
        return self._evaluated("Mux({t}, {a}, {b})", t=test, a=a, b=b)

    def _slice(self, depth):
        text, value = self.make(depth)
        start = self.number(0, len(value))
        stop = self.number(start, len(value))
        return self._evaluated(f"{{a}}[{start}:{stop}]", a=(text, value))

    def _bit(self, depth):
        text, value = self.make(depth)
        if not len(value):
            return text, value
        index = self.number(-len(value), len(value) - 1)
        return self._evaluated(f"{{a}}[{index}]", a=(text, value))

    def _cat(self, depth):
        parts = {f"p{i}": self.make(depth) for i in range(self.number(1, 3))}
        return self._evaluated(f"Cat({', '.join(f'{{{name}}}' for name in parts)})", **parts)

    def amount(self, depth, most):
        """An unsigned operand of few bits."""
        text, value = self.make(depth)
        if len(value) > most:
            return self._evaluated(f"{{a}}[:{self.number(0, most)}]", a=(text, value))
        return self._evaluated("{a}.as_unsigned()", a=(text, value))

    def _shift_left(self, depth):
        return self._evaluated("({a} << {b})", a=self.make(depth), b=self.amount(depth, 6))

    def _shift_right(self, depth):
        return self._evaluated("({a} >> {b})", a=self.make(depth), b=self.amount(depth, 140))

    def whole(self, depth):
        """An operand whose bits beyond its width are the same in every simulator."""
        text, value = self.make(depth)
        if isinstance(value, Operator) and value.operator in ("~", "u", "s"):
            return self._evaluated("Cat({a})", a=(text, value))
        return text, value

    def _bit_select(self, depth):
        a, b = self.whole(depth), self.amount(depth, 140)
        return self._evaluated(f"{{a}}.bit_select({{b}}, {self.width_of_part(a)})", a=a, b=b)

    def _word_select(self, depth):
        a, b = self.whole(depth), self.amount(depth, 70)
        if not len(a[1]):
            return a
        return self._evaluated(f"{{a}}.word_select({{b}}, {self.width_of_part(a)})", a=a, b=b)

    def width_of_part(self, part):
        return self.number(min(1, len(part[1])), len(part[1]))

    def _rotate(self, depth):
        side, by = self.pick("left", "right"), self.number(-3, 140)
        return self._evaluated(f"{{a}}.rotate_{side}({by})", a=self.make(depth))

    def _shift_by_constant(self, depth):
        side, by = self.pick("left", "right"), self.number(-3, 66)
        return self._evaluated(f"{{a}}.shift_{side}({by})", a=self.make(depth))

    def _replicate(self, depth):
        return self._evaluated(f"{{a}}.replicate({self.number(0, 3)})", a=self.make(depth))

    def _array(self, depth):
        parts = {f"p{i}": self.make(depth) for i in range(self.number(1, 4))}
        elements = ", ".join(f"{{{name}}}" for name in parts)
        index = self.make(depth)
        return self._evaluated(f"Array([{elements}])[{{i}}].as_value()", **parts, i=index)

    def _matches(self, depth):
        text, value = self.make(depth)
        cases = ", ".join(repr(self.draw(patterns(len(value)))) for _ in range(self.pick(1, 2)))
        return self._evaluated(f"{{a}}.matches({cases})", a=(text, value))


@st.composite
def patterns(draw, width):
    """A pattern of Case or matches; mostly of don't-care bits when it is long."""
    text = draw(st.text("-01", min_size=min(width, 6), max_size=min(width, 6)))
    at = draw(st.integers(0, width - len(text)))
    return "-" * (width - at - len(text)) + text + "-" * at


@st.composite
def expressions(draw, pool, depth=3):
    """A `Term` over the terms in the pool, at most that many operators deep."""
    maker = _Expressions(draw, pool)
    text, value = maker.make(draw(st.integers(0, depth)))
    return Term(text, value, maker.late)


def fitted(term, width):
    """The term cut to unsigned values of that many bits, for offsets and indices."""
    if term.width > width:
        return Term(f"{term.text}[:{width}]", term.value[:width], term.late)
    return Term(f"{term.text}.as_unsigned()", term.value.as_unsigned(), term.late)

