"""Designs whose clocks and resets a testbench drives itself."""

from amaranth.hdl import Cat, ClockDomain, Module
from amaranth.lib.memory import Memory

from tests.simulation import simulator_of

__all__ = ["clocked", "memory", "pulse", "run"]


def run(m, bench):
    """Runs one testbench, without clocks of its own."""
    simulator = simulator_of(m)
    simulator.add_testbench(bench)
    simulator.run()


def clocked(*names, **kinds):
    """A module and its clock domains, of which there is one called `sync` if none is named."""
    m = Module()
    domains = [ClockDomain(name, **kinds) for name in names or ("sync",)]
    m.domains += domains
    return m, *domains


async def pulse(ctx, *domains):
    """One whole cycle of all these clocks at once."""
    clocks = Cat(domain.clk for domain in domains)
    ctx.set(clocks, (1 << len(domains)) - 1)
    ctx.set(clocks, 0)


def memory(m, *, shape=8, depth=5, init=(), **ports):
    """A memory, its write port in `sync`, and read ports by name, of the domains given.

    The one called `through` is transparent.
    """
    m.submodules.memory = found = Memory(shape=shape, depth=depth, init=init)
    writer = found.write_port()
    readers = {
        name: found.read_port(
            domain=domain, transparent_for=[writer] if name == "through" else []
        )
        for name, domain in ports.items()
    }
    return found, writer, readers
