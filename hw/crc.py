"""CRC-32 of a stream of wide words."""

import zlib

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Crc32"]

ONES = (1 << 32) - 1


def _step(state, word, data_bytes):
    """The register after one word, without the final inversion."""
    return zlib.crc32(word.to_bytes(data_bytes, "little"), state ^ ONES) ^ ONES


class Crc32(wiring.Component):
    """CRC-32 (ISO-HDLC, as zlib's) of one word a cycle.

    Amaranth's own processor nests its sums too deep for the simulator from 256 bits on; here
    each bit is one parity.

    Parameters
    ----------
    data_bytes: bytes of a word, least significant first.

    Members
    -------
    start: the sum begins anew, with the word of this cycle if there is one.
    valid, data: a word.
    crc: the sum up to the cycle before.
    """

    def __init__(self, data_bytes):
        self.data_bytes = data_bytes
        super().__init__({
            "start": In(1), "valid": In(1), "data": In(data_bytes * 8), "crc": Out(32),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        # The step is linear: what each input bit flips tells which inputs each sum bit is of.
        flips = [_step(1 << bit, 0, self.data_bytes) for bit in range(32)]
        flips += [_step(0, 1 << bit, self.data_bytes) for bit in range(self.data_bytes * 8)]
        masks = [
            sum(((flip >> bit) & 1) << place for place, flip in enumerate(flips))
            for bit in range(32)
        ]
        state = Signal(32, init=ONES)
        inputs = Cat(Mux(self.start, ONES, state), self.data)
        m.d.comb += self.crc.eq(~state)
        with m.If(self.valid):
            m.d.sync += state.eq(Cat((inputs & mask).xor() for mask in masks))
        with m.Elif(self.start):
            m.d.sync += state.eq(ONES)
        return m
