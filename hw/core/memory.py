"""Scratchpad and accumulators: local memories of whole words."""

from amaranth import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from .operation import LocalRead, LocalWrite

__all__ = ["READ_LATENCY", "LocalMemory"]

READ_LATENCY = 2
"""Cycles from a read's enable to its data: one for the memory, one to decode ECC."""


class LocalMemory(wiring.Component):
    """Words with one write port and some read ports, ready for ECC.

    Words are only written whole. A read enabled in cycle t sees writes enabled up to t − 1 and
    gives its data in cycle t + 2, which stays until the cycle after the next enable's.

    Parameters
    ----------
    depth: words. width: bits of a word. readers: number of read ports.

    Members
    -------
    write: `LocalWrite`. reads: `LocalRead`, one for each reader.
    """

    def __init__(self, depth, width, readers):
        self.depth = depth
        self.width = width
        super().__init__({
            "write": In(LocalWrite(depth, width)),
            "reads": In(LocalRead(depth, width)).array(readers),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=self.width, depth=self.depth, init=[])
        write = words.write_port()
        m.d.comb += [
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
        ]
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
