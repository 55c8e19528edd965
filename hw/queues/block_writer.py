"""Writes a block of 16 or 64 bytes to memory and waits for the answer."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import Status, WritePort

__all__ = ["Block", "BlockWriter"]

LONG_BYTES, SHORT_BYTES = 64, 16


class Block(data.Struct):
    """A block at an address that is a multiple of its size; a short one is 16 bytes of 64."""

    address: ADDRESS_BITS
    context: 4
    short: 1
    content: LONG_BYTES * 8


class BlockWriter(wiring.Component):
    """Writes one block after the other.

    The request is valid in the cycle in which the block is; beats follow from the cycle after it
    was taken, one a cycle. A block is taken in the cycle of its (last) answer. A long block is one
    burst, or several of `burst_bytes` if that is less.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    blocks: what to write.
    status, address: of the first failed burst of the block that is being taken.
    memory: writes.
    """

    def __init__(self, config):
        self.data_bytes = config.data_bytes
        self.line = min(LONG_BYTES, config.burst_bytes)
        self.unit = min(LONG_BYTES, config.data_bytes)
        assert self.line >= SHORT_BYTES
        super().__init__({
            "blocks": In(stream.Signature(Block)),
            "status": Out(Status),
            "address": Out(ADDRESS_BITS),
            "memory": Out(WritePort(config.data_bytes)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        memory, block = self.memory, self.blocks.p
        all_lines = LONG_BYTES // self.line
        line_beats = self.line // self.unit
        asked = Signal(range(all_lines + 1))
        owed = Signal(range(all_lines + 1))
        beat = Signal(range(LONG_BYTES // self.unit))
        beats_left = Signal(range(LONG_BYTES // self.unit + 1))
        line_accepted = Signal()
        beat_accepted = Signal()
        last_asked = Signal()
        m.d.comb += [
            last_asked.eq(asked == Mux(block.short, 1, all_lines)),
            memory.requests.valid.eq(self.blocks.valid & ~last_asked),
            memory.requests.p.address.eq(block.address + asked * self.line),
            memory.requests.p.bytes.eq(Mux(block.short, SHORT_BYTES, self.line)),
            memory.requests.p.context.eq(block.context),
            memory.data.valid.eq(beats_left != 0),
            memory.responses.ready.eq(1),
            line_accepted.eq(memory.requests.valid & memory.requests.ready),
            beat_accepted.eq(memory.data.valid & memory.data.ready),
            self.blocks.ready.eq(memory.responses.valid & last_asked & (owed == 1)),
        ]
        short_beats = max(1, SHORT_BYTES // self.unit)
        m.d.sync += [
            asked.eq(asked + line_accepted),
            owed.eq(owed + line_accepted - memory.responses.valid),
            beat.eq(beat + beat_accepted),
            beats_left.eq(
                beats_left
                + Mux(line_accepted, Mux(block.short, short_beats, line_beats), 0)
                - beat_accepted
            ),
        ]
        with m.If(self.blocks.ready):
            m.d.sync += [asked.eq(0), beat.eq(0)]
        self._lanes(m, beat)
        self._failure(m)
        return m

    def _lanes(self, m, beat):
        block, port = self.blocks.p, self.memory.data.p
        lane = block.address[: (self.data_bytes - 1).bit_length()]
        word = block.content.word_select(beat, self.unit * 8)
        m.d.comb += [
            port.data.eq(word.replicate(self.data_bytes // self.unit)),
            port.strobe.eq(((1 << self.unit) - 1) << (lane if self.unit < self.data_bytes else 0)),
        ]
        if self.unit > SHORT_BYTES:
            with m.If(block.short):
                m.d.comb += [
                    port.data.eq(
                        block.content[: SHORT_BYTES * 8].replicate(self.data_bytes // SHORT_BYTES)
                    ),
                    port.strobe.eq(((1 << SHORT_BYTES) - 1) << lane),
                ]

    def _failure(self, m):
        answer = self.memory.responses
        earlier = Signal(data.StructLayout({"status": Status, "address": ADDRESS_BITS}))
        failure = Cat(self.status, self.address)
        with m.If(earlier.status == Status.OKAY):
            m.d.comb += failure.eq(Cat(answer.p.status, answer.p.address))
        with m.Else():
            m.d.comb += failure.eq(earlier)
        with m.If(self.blocks.ready):
            m.d.sync += earlier.eq(0)
        with m.Elif(answer.valid):
            m.d.sync += earlier.eq(failure)
