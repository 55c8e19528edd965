"""Scratchpad and accumulators: local memories of whole words."""

from amaranth import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .operation import LocalRead, LocalWrite

__all__ = ["READ_LATENCY", "LocalMemory"]

READ_LATENCY = 2
"""Cycles from a read's enable to its data: one for the memory, one to decode ECC."""


class LocalMemory(wiring.Component):
    """Words with one write port and some read ports, ready for ECC.

    Words are only written whole. A read enabled in cycle t sees writes enabled up to t − 1 and
    gives its data in cycle t + 2, which stays until the cycle after the next enable's.

    It remembers how far it was written, over resets too, since words outlast them. So it can be
    scrubbed in as many cycles.

    Parameters
    ----------
    depth: words. width: bits of a word. readers: number of read ports.

    Members
    -------
    write: `LocalWrite`. reads: `LocalRead`, one for each reader.
    scrub: makes word `used` − 1 zero, and `used` less by one, instead of a write.
    used: words from this one on are zero. All are when it is switched on.
    """

    def __init__(self, depth, width, readers):
        self.depth = depth
        self.width = width
        super().__init__({
            "write": In(LocalWrite(depth, width)),
            "reads": In(LocalRead(depth, width)).array(readers),
            "scrub": In(1),
            "used": Out(range(depth + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=self.width, depth=self.depth, init=[])
        write = words.write_port()
        used = Signal(range(self.depth + 1), reset_less=True)
        m.d.comb += self.used.eq(used)
        with m.If(self.scrub):
            m.d.comb += [write.en.eq(used != 0), write.addr.eq(used - 1)]
            m.d.sync += used.eq(Mux(used == 0, 0, used - 1))
        with m.Else():
            m.d.comb += [
                write.en.eq(self.write.enable),
                write.addr.eq(self.write.address),
                write.data.eq(self.write.data),
            ]
            with m.If(self.write.enable & (self.write.address >= used)):
                m.d.sync += used.eq(self.write.address + 1)
        for i, port in enumerate(self.reads):
            read = words.read_port()
            fresh = Signal(name=f"fresh{i}")
            decoded = Signal(self.width, name=f"decoded{i}")
            m.d.comb += [read.en.eq(port.enable), read.addr.eq(port.address)]
            m.d.comb += port.data.eq(decoded)
            m.d.sync += fresh.eq(port.enable)
            with m.If(fresh):
                m.d.sync += decoded.eq(read.data)
        return m
