"""Random statements of Amaranth as source text: assignments to given targets under conditions."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from .expressions import expressions, fitted, patterns

__all__ = ["Target", "block", "fsm"]


@dataclass(frozen=True)
class Target:
    """A signal, or bits of one, that one module drives from one domain."""

    text: str
    names: Any

    @property
    def width(self):
        return len(eval(self.text, self.names))


class _Statements:
    """Draws statements; collects what they follow."""

    def __init__(self, draw, targets, domain, module, pool):
        self.draw = draw
        self.targets = targets
        self.domain = domain
        self.module = module
        self.pool = pool
        self.late = frozenset()

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def term(self, depth):
        term = self.draw(expressions(self.pool, depth))
        self.late |= term.late
        return term

    def block(self, depth, least=1):
        """Lines of some statements."""
        lines = []
        for _ in range(self.number(least, 2)):
            kind = self.pick("assign", "assign", "if", "switch") if depth else "assign"
            if kind == "assign":
                value = self.term(3).text
                lines.append(f"{self.module}.d.{self.domain} += {self.left()}.eq({value})")
            else:
                lines += self.choice_if(depth - 1) if kind == "if" else self.switch(depth - 1)
        return lines

    def inner(self, depth):
        """Lines of a block one level in."""
        return [f"    {line}" for line in self.block(depth) or ["pass"]]

    def condition(self, depth):
        term = self.term(depth)
        return f"{term.text}.bool()" if term.signed else term.text

    def choice_if(self, depth):
        lines = [f"with {self.module}.If({self.condition(2)}):", *self.inner(depth)]
        for _ in range(self.number(0, 2)):
            lines += [f"with {self.module}.Elif({self.condition(2)}):", *self.inner(depth)]
        if self.number(0, 1):
            lines += [f"with {self.module}.Else():", *self.inner(depth)]
        return lines

    def switch(self, depth):
        test = self.term(2)
        if self.number(0, 1):
            test = fitted(test, self.number(1, 8))
        lines = [f"with {self.module}.Switch({test.text}):"]
        for _ in range(self.number(1, 3)):
            cases = [repr(self.draw(patterns(test.width))) for _ in range(self.number(1, 2))]
            lines.append(f"    with {self.module}.Case({', '.join(cases)}):")
            lines += [f"    {line}" for line in self.inner(depth)]
        if self.number(0, 1):
            lines.append(f"    with {self.module}.Default():")
            lines += [f"    {line}" for line in self.inner(depth)]
        return lines

    def left(self):
        """The left side of an assignment."""
        target = self.pick(*self.targets)
        texts = [each.text for each in self.targets]
        text, width = target.text, target.width
        if len(self.targets) > 1 and self.number(0, 1):
            width = sum(each.width for each in self.targets)
            text = f"Cat({', '.join(texts)})"
            if self.number(0, 1):
                text = f"Array([{', '.join(texts)}])[{fitted(self.term(1), 9).text}]"
                if len({each.width for each in self.targets}) > 1:
                    return text
                width = target.width
        kind = self.pick("whole", "slice", "bit_select", "word_select", "as", "part of slice")
        if kind == "part of slice" and width:
            text, width = self.cut(text, width)
            kind = self.pick("bit_select", "word_select")
        if kind == "slice":
            text, width = self.cut(text, width)
        elif kind in ("bit_select", "word_select") and width:
            offset = fitted(self.term(2), self.number(0, 8))
            text = f"{text}.{kind}({offset.text}, {self.number(1, width)})"
            if self.number(0, 3) == 3:
                text = f"{text}[{self.number(0, 1)}:]"
        elif kind == "as" and width and not text.startswith("Array"):
            text = f"{text}.as_{self.pick('signed', 'unsigned')}()"
        return text

    def cut(self, text, width):
        start = self.number(0, width - 1) if width else 0
        stop = self.number(min(start + 1, width), width)
        return f"{text}[{start}:{stop}]", stop - start

    def fsm(self):
        """Lines of a state machine."""
        states = "ABC"[: self.number(2, 3)]
        first = self.pick(*states)
        name = f"fsm_{self.targets[0].text.partition('[')[0]}"
        lines = [f"with {self.module}.FSM(domain={self.domain!r}, init={first!r}, name={name!r}):"]
        for state in states:
            lines.append(f"    with {self.module}.State({state!r}):")
            lines += [f"    {line}" for line in self.inner(1)]
            for following in self.pick(states[1:], states[:1], states):
                lines.append(f"        with {self.module}.If({self.condition(1)}):")
                lines.append(f"            {self.module}.next = {following!r}")
        return lines


@st.composite
def block(draw, targets, domain, module, pool):
    """Lines of statements, and what they follow."""
    made = _Statements(draw, targets, domain, module, pool)
    return made.block(2, least=0), made.late


@st.composite
def fsm(draw, targets, domain, module, pool):
    """Lines of a state machine that assigns the targets, and what it follows."""
    made = _Statements(draw, targets, domain, module, pool)
    return made.fsm(), made.late
