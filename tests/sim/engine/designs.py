"""Random designs of Amaranth as source text, small and shrinkable.

What a design may not do is where pysim follows the order of its delta cycles or resets what the
netlist does not; `test_semantics_pysim.py` names these places.
"""

import linecache
import warnings
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    EnableInserter,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
    SyntaxWarning,
    unsigned,
)
from amaranth.lib.memory import Memory
from hypothesis import strategies as st

from .blocks import Target, block, fsm
from .expressions import NAMES, Term, constants, expressions, fitted, shapes
from .memories import write_memory
from .regular import declare_regular

__all__ = ["RandomDesign", "designs"]

GLOBALS = NAMES | {
    "ClockDomain": ClockDomain, "ClockSignal": ClockSignal, "Memory": Memory, "Module": Module,
    "EnableInserter": EnableInserter, "ResetInserter": ResetInserter,
    "ResetSignal": ResetSignal, "Signal": Signal,
}  # fmt: skip
numbers = count()


@dataclass(frozen=True)
class RandomDesign:
    """Source of a design whose top is the module `m`, and what of it a stimulus may drive."""

    source: str
    inputs: tuple[str, ...]
    clocks: tuple[str, ...]
    resets: tuple[str, ...]
    registers: tuple[str, ...]

    def build(self):
        """Names of the source: Amaranth's objects."""
        name = f"<design {next(numbers)}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        names = dict(GLOBALS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what a person would not write
            exec(compile(self.source, name, "exec"), names)
        return names

    def __repr__(self):
        drives = {
            name: getattr(self, name) for name in ("inputs", "clocks", "resets", "registers")
        }
        return f"\n{self.source}# {drives}\n"


@dataclass
class Domain:
    """A clock domain. `before`: domains whose registers have changed when its clock does."""

    name: str
    reset: str
    home: str | None = None
    derived: bool = False
    before: frozenset[str] = frozenset()
    late_reset: bool = False


@dataclass
class Writer:
    """The design so far."""

    draw: Any
    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=lambda: dict(GLOBALS))
    pool: list[Term] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)
    modules: list[str] = field(default_factory=lambda: ["m"])
    parents: dict[str, str] = field(default_factory=dict)
    drives: dict[str, list[str]] = field(
        default_factory=lambda: {"inputs": [], "clocks": [], "resets": [], "registers": []}
    )

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def maybe(self, one_in):
        """Seldom true."""
        return self.number(0, one_in - 1) == one_in - 1

    def say(self, line):
        self.lines.append(line)

    def do(self, line):
        """Appends a declaration and makes it known to expressions."""
        exec(line, self.names)
        self.say(line)

    def term(self, text, late=(), domain=None):
        return Term(text, eval(text, self.names), frozenset(late), domain)

    def readable(self, domain):
        """What the logic of a domain (None: combinational) may read."""
        if domain is None:
            return self.pool
        if not domain.derived:
            return [term for term in self.pool if "clock" not in term.late]
        steady = {
            other.name
            for other in self.domains
            if other.name in domain.before or not (other.derived or other.late_reset)
        }
        return [
            term
            for term in self.pool
            if term.late <= {domain.name}
            and (term.domain is None or term.domain in steady | {domain.name})
        ]

    def steady(self, domain):
        """What a combinational signal may read that this domain reads in turn."""
        if not domain.derived:
            return self.readable(domain) and [t for t in self.pool if "clock" not in t.follows]
        return [term for term in self.pool if term.follows <= {domain.name}]

    def module_of(self, domain):
        """A module that knows the domain."""
        if domain is None or domain.home is None:
            return self.pick(*self.modules)
        return domain.home

    # -------------------------------------------------------------------------- declarations

    def declare_modules(self):
        self.say("m = Module()")
        for index in range(1, 1 + self.number(0, 2)):
            parent = self.pick(*self.modules)
            self.say(f"m{index} = Module()")
            self.modules.append(f"m{index}")
            self.parents[f"m{index}"] = parent

    def declare_domains(self):
        if self.maybe(2):
            self.domains.append(Domain("sync", "input"))
            self.drives["clocks"].append("ClockSignal('sync')")
            self.drives["resets"].append("ResetSignal('sync')")
        for name in "abc"[: self.number(0 if self.domains else 1, 3)]:
            self.declare_domain(name)

    def declare_domain(self, name):
        kind = self.pick("none", "sync", "async")
        home = self.pick(*self.modules)
        local = self.maybe(4)
        if local:
            name = f"local_{name}"
        self.do(
            f"{name} = ClockDomain({name!r}, clk_edge={self.pick('pos', 'neg')!r}, "
            f"reset_less={kind == 'none'}, async_reset={kind == 'async'}, local={local})"
        )
        self.say(f"{home}.domains += {name}")
        domain = Domain(name, kind, home if local else None)
        parents = [other for other in self.domains if other.home is None]
        if parents and self.maybe(2):
            parent = self.pick(*parents)
            domain.derived = True
            domain.before = parent.before | {parent.name}
            self.drive_clock(name, parent)
        else:
            self.drives["clocks"].append(f"{name}.clk")
        if kind != "none":
            outside = [other for other in self.domains if not other.derived and not other.home]
            if kind == "async" and outside and self.maybe(3):
                source = self.pick(*outside)
                self.do(f"{name}_count = Signal(3)")
                self.say(f"m.d.{source.name} += {name}_count.eq({name}_count + 1)")
                self.say(f"m.d.{source.name} += {name}.rst.eq({name}_count == 6)")
                domain.late_reset = True
            else:
                self.drives["resets"].append(f"{name}.rst")
        self.domains.append(domain)

    def drive_clock(self, name, parent):
        if self.maybe(2):
            width = self.number(1, 2)
            self.do(f"{name}_div = Signal({width})")
            self.say(f"m.d.{parent.name} += {name}_div.eq({name}_div + 1)")
            self.say(f"m.d.comb += {name}.clk.eq({name}_div[-1])")
        else:
            self.say(f"m.d.{parent.name} += {name}.clk.eq(~{name}.clk)")

    def declare_signal(self, name, *, reset_less=False, most=130):
        shape = self.draw(shapes(most))
        init = 0
        if self.maybe(2):
            init = self.draw(constants(eval(shape, NAMES)))
        self.do(f"{name} = Signal({shape}, init={init}, reset_less={reset_less})")
        return self.names[name]

    def declare_inputs(self):
        for index in range(self.number(1, 3)):
            self.declare_signal(f"i{index}")
            self.pool.append(self.term(f"i{index}"))
            self.drives["inputs"].append(f"i{index}")
        if self.maybe(3):
            self.pool += [self.term(text, domain="clock") for text in self.drives["clocks"]]

    def declare_registers(self):
        """Targets by domain, each driven from one module."""
        targets = []
        for index in range(self.number(1, 4)):
            name = f"r{index}"
            domain = self.pick(*self.domains)
            lossy = domain.reset != "async" and self.maybe(4)
            signal = self.declare_signal(name, reset_less=lossy)
            if len(signal) > 1 and self.maybe(4):
                at = self.number(1, len(signal) - 1)
                other = self.pick(*self.domains)
                for part, owner in ((f"{name}[:{at}]", domain), (f"{name}[{at}:]", other)):
                    if lossy and owner.reset == "async":
                        owner = domain
                    targets.append((Target(part, self.names), owner, self.module_of(owner)))
                owners = {owner.name for _, owner, _ in targets[-2:]}
                self.pool.append(self.term(name, late=owners))
            else:
                targets.append((Target(name, self.names), domain, self.module_of(domain)))
                self.pool.append(self.term(name, domain=domain.name))
        return targets

    # ---------------------------------------------------------------------------- statements

    def write_comb(self, index):
        """A combinational signal, readable from here on."""
        name = f"c{index}"
        signal = self.declare_signal(name)
        module = self.pick(*self.modules)
        if len(signal) > 1 and self.maybe(5):
            late = self.write_chain(name, module, len(signal))
        elif len(signal) > 1 and self.maybe(5):
            at = self.number(1, len(signal) - 1)
            late = frozenset()
            for part in (f"{name}[:{at}]", f"{name}[{at}:]"):
                late |= self.write(block, [part], "comb", self.pick(*self.modules), self.pool)
        else:
            late = self.write(block, [name], "comb", module, self.pool)
        self.pool.append(self.term(name, late=late))

    def write_chain(self, name, module, width):
        """A signal each of whose bits reads the one below it."""
        term = self.draw(expressions(self.pool, 1))
        operator = self.pick("&", "|", "^")
        number = self.draw(constants(unsigned(width)))
        self.say(f"{module}.d.comb += {name}[0].eq({term.text})")
        self.say(f"for k in range({width - 1}):\n"
                 f"    {module}.d.comb += {name}[k + 1].eq(~{name}[k] {operator} "
                 f"Cat({term.text}, C({number}, {width}))[k])")  # fmt: skip
        return term.late

    def write(self, kind, parts, domain, module, pool):
        targets = [part if isinstance(part, Target) else Target(part, self.names) for part in parts]
        lines, late = self.draw(kind(targets, domain, module, tuple(pool)))
        if lines:
            self.say("\n".join(lines))
        return late

    def write_registers(self, targets):
        """All of them, some together in one group of statements."""
        while targets:
            first, domain, module = targets.pop(0)
            group = [first]
            for other in list(targets):
                if other[1:] == (domain, module) and self.maybe(2):
                    group.append(other[0])
                    targets.remove(other)
            if domain.reset != "async" and "[" not in first.text and self.maybe(2):
                self.write_whole(first.text, domain, module)
            kind = fsm if self.maybe(4) else block
            self.write(kind, group, domain.name, module, self.readable(domain))

    def write_submodules(self):
        """Puts the modules together; in some, registers are enabled or reset by a condition."""
        shared = [domain for domain in self.domains if domain.home is None]
        for name, parent in self.parents.items():
            text = name
            if shared and self.maybe(3):
                domain = self.pick(*shared)
                term = fitted(self.draw(expressions(self.readable(domain), 2)), 1)
                inserter = self.pick("EnableInserter", "ResetInserter")
                text = f"{inserter}({{{domain.name!r}: {term.text}.any()}})({name})"
            self.say(f"{parent}.submodules.{name} = {text}")

    def write_whole(self, name, domain, module):
        """Assigns all of a register, which a stimulus then may set: a reset resets all of it."""
        term = self.draw(expressions(self.readable(domain), 2))
        self.say(f"{module}.d.{domain.name} += {name}.eq({term.text})")
        self.drives["registers"].append(name)


@st.composite
def designs(draw):
    """A `RandomDesign`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return _design(Writer(draw))


def _design(writer):
    writer.declare_modules()
    writer.declare_domains()
    writer.declare_inputs()
    targets = writer.declare_registers()
    regular = declare_regular(writer)
    memories = iter(range(2))
    for index in range(writer.number(0, 5)):
        if writer.maybe(4) and (memory := next(memories, None)) is not None:
            write_memory(writer, memory)
        else:
            writer.write_comb(index)
    writer.write_registers(targets)
    for write in regular:
        write()
    writer.write_submodules()
    drives = {name: tuple(texts) for name, texts in writer.drives.items()}
    return RandomDesign("\n".join(writer.lines) + "\n", **drives)
