"""The bytes of a memory: ports only, the contents belong to the engine that runs the board."""

from amaranth import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Storage"]


class Storage(wiring.Component):
    """Byte storage, a primitive: each engine implements it, so it has no logic of its own.

    Contents start as zero and survive a reset of the simulation. They lie in
    `sim.engine.pages.Pages`: the engine marks each page that it writes, so that a snapshot costs
    what changed.

    Parameters
    ----------
    size: bytes; a multiple of `data_bytes`.
    data_bytes: bytes of a word; a power of two.

    Members
    -------
    read_enable, read_address: with enable in cycle t, `read_data` has the word in cycle t + 1 and
        keeps it until the cycle after the next enable. A read does not see a write of its cycle.
    write_enable, write_address, write_data, write_strobe: writes the bytes with a strobe.
    """

    def __init__(self, size, data_bytes):
        assert size % data_bytes == 0
        assert data_bytes & (data_bytes - 1) == 0
        self.size = size
        self.data_bytes = data_bytes
        address = range(size // data_bytes)
        super().__init__({
            "read_enable": In(1),
            "read_address": In(address),
            "read_data": Out(unsigned(data_bytes * 8)),
            "write_enable": In(1),
            "write_address": In(address),
            "write_data": In(unsigned(data_bytes * 8)),
            "write_strobe": In(unsigned(data_bytes)),
        })  # fmt: skip

    def elaborate(self, platform):
        return Module()
