"""Random memories as source text."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Signal

from .expressions import NAMES, Term, constants, expressions, shapes

__all__ = ["write_memory"]


def write_memory(writer, index):
    """A memory, all of whose write ports are in one domain; its data is readable from here on.

    Parameters
    ----------
    writer: of the design.
    """
    usable = [domain for domain in writer.domains if domain.reset != "async"]
    if not usable:
        return
    domain = writer.pick(*usable)
    shape, depth = writer.draw(shapes()), writer.pick(2, 4, 5, 1, 3, 8, 9)
    kind = eval(shape, NAMES)
    rows = [writer.draw(constants(kind)) for _ in range(writer.number(0, depth))]
    memory = _Memory(writer, f"mem{index}", domain, writer.module_of(domain), shape)
    writer.say(
        f"{memory.home}.submodules.{memory.name} = {memory.name} = "
        f"Memory(shape={shape}, depth={depth}, init={rows})"
    )
    ports = [memory.write_port(number) for number in range(writer.number(1, 2))]
    for number in range(writer.number(1, 2)):
        memory.read_port(number, ports)


@dataclass
class _Memory:
    """A memory in the module `home`, written from one domain."""

    writer: Any
    name: str
    domain: Any
    home: str
    shape: str
    address: Any = None

    def write_port(self, number):
        """Name of a new port."""
        writer, port = self.writer, f"{self.name}_w{number}"
        width = eval(self.shape, NAMES).width
        granularity = None
        if self.shape.startswith("u") and writer.maybe(2):
            granularity = writer.pick(*(g for g in range(1, width + 1) if width % g == 0))
        writer.say(
            f"{port} = {self.name}.write_port("
            f"domain={self.domain.name!r}, granularity={granularity})"
        )
        pool = writer.steady(self.domain)
        self._connect_address(port, self.domain, pool)
        self._connect(f"{port}.data", pool)
        if writer.maybe(4):
            writer.say(f"{self.home}.d.comb += {port}.en.eq(-1)")
        else:
            self._connect(f"{port}.en", pool)
        return port

    def read_port(self, number, ports):
        """`ports`: those to which it may be transparent."""
        writer, port = self.writer, f"{self.name}_r{number}"
        reader = writer.pick(None, *filter(self._can_read, writer.domains))
        through = writer.pick([], ports, ports[:1]) if reader is self.domain else []
        writer.say(
            f"{port} = {self.name}.read_port("
            f"domain={reader.name if reader else 'comb'!r}, transparent_for=[{', '.join(through)}])"
        )
        data = Signal(eval(self.shape, NAMES))
        if reader is None:
            late = self._connect_address(port, self.domain, writer.pool)
            writer.pool.append(Term(f"{port}.data", data, late | {self.domain.name}))
            return
        self._connect_address(port, reader, writer.steady(reader))
        if writer.maybe(2):
            self._connect(f"{port}.en", writer.steady(reader))
        writer.pool.append(Term(f"{port}.data", data, domain=reader.name))

    def _can_read(self, domain):
        """At its edges, the order of reads and writes is the same in every simulator."""
        return (
            domain.reset != "async"
            and domain.home in (None, self.home)
            and (not domain.derived or domain is self.domain or not self.domain.derived)
        )

    def _connect_address(self, port, domain, pool):
        """Often that of the first port, so that ports meet in one row; gives what it follows."""
        writer = self.writer
        if self.address is not None and domain is self.domain and writer.maybe(2):
            writer.say(f"{self.home}.d.comb += {port}.addr.eq({self.address.text})")
            return self.address.late
        term = writer.draw(expressions(pool, 2))
        writer.say(f"{self.home}.d.comb += {port}.addr.eq({term.text})")
        self.address = self.address or term
        return term.late

    def _connect(self, target, pool):
        """Drives an input of a port."""
        term = self.writer.draw(expressions(pool, 2))
        self.writer.say(f"{self.home}.d.comb += {target}.eq({term.text})")
