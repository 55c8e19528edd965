"""The load unit: rows of bytes from memory to scratchpad words."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import Out

from ..bus.funnel import ByteFunnel
from ..bus.pattern import BurstGenerator
from ..interface import ReadPort, Status, access_cause
from ..layout import struct
from ..regs.fault import FaultCause
from ..regs.instruction import Load
from .operation import LocalWrite, UnitSignature

__all__ = ["LoadUnit"]


class Filling(data.Struct):
    """A LOAD whose bursts are asked for and whose words are still to come."""

    word: 128
    index: 13
    local: 16


class LoadUnit(wiring.Component):
    """Performs LOAD: asks for bursts ahead, up to four instructions, and fills words in order.

    An instruction taken in cycle t (with its token, if it waits for one) offers its first burst
    in t + 1. A beat taken in cycle t that completes a word gives a write in t + 1, one word a
    cycle; the token is given in the cycle of the last write, `busy` ends in the next.

    Faults: rows or row_bytes 0, or words outside the scratchpad: ILLEGAL_INSTRUCTION, nothing of
    it is asked for. A beat that was not OKAY: ACCESS_VIOLATION, BUS_SLAVE_ERROR or
    BUS_DECODE_ERROR with its address, when the words before it are written.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    The members of `UnitSignature` (`previous` and `start` are not used), and
    memory: `ReadPort`.
    write: `LocalWrite` to the scratchpad.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            **UnitSignature().members,
            "memory": Out(ReadPort(config.data_bytes)),
            "write": Out(LocalWrite(config.scratchpad_words, config.word_bytes * 8)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        lanes = config.word_bytes
        shift = (lanes - 1).bit_length()
        beats = self.memory.beats

        m.submodules.generator = generator = BurstGenerator(config.burst_bytes)
        m.submodules.funnel = funnel = ByteFunnel(config.data_bytes, lanes)
        fillings = SyncFIFO(width=Filling.as_shape().size, depth=4)
        m.submodules.fillings = ResetInserter(self.abort)(fillings)

        stopped = Signal()
        with m.If(self.abort):
            m.d.sync += stopped.eq(0)
        with m.Elif(self.fault.valid):
            m.d.sync += stopped.eq(1)

        # Taking an instruction: its token, its ranges, its bursts.
        operation = self.operations.p
        load = data.View(struct(Load), operation.word)
        row_words = Signal(33 - shift)
        end = Signal(50)
        illegal = Signal()
        permitted = Signal()
        m.d.comb += [
            row_words.eq((load.row_bytes + (lanes - 1)) >> shift),
            # Rows longer than the scratchpad count as its size plus one: a small multiplier.
            end.eq(
                operation.local[0]
                + load.rows * Mux(row_words > config.scratchpad_words,
                                  config.scratchpad_words + 1, row_words[:17])
            ),
            illegal.eq(
                (load.rows == 0) | (load.row_bytes == 0) | (end > config.scratchpad_words)
            ),
            permitted.eq(~load.wait_next | self.next.available),
            self.waiting.eq(self.operations.valid & ~permitted & ~stopped),
            self.operations.ready.eq(
                permitted & ~illegal & generator.i.ready & fillings.w_rdy & ~stopped
            ),
            self.next.take.eq(self.operations.valid & self.operations.ready & load.wait_next),
            generator.i.valid.eq(
                self.operations.valid & permitted & ~illegal & fillings.w_rdy & ~stopped
            ),
            generator.i.p.address.eq(operation.memory),
            generator.i.p.pitch.eq(load.pitch),
            generator.i.p.row_bytes.eq(load.row_bytes),
            generator.i.p.rows.eq(load.rows),
            generator.i.p.context.eq(self.context),
            generator.clear.eq(self.abort),
            fillings.w_en.eq(self.operations.valid & self.operations.ready),
            fillings.w_data.eq(Cat(operation.word, operation.index, operation.local[0][:16])),
            self.memory.requests.valid.eq(generator.o.valid & ~stopped),
            self.memory.requests.p.address.eq(generator.o.p.address),
            self.memory.requests.p.bytes.eq(generator.o.p.bytes),
            self.memory.requests.p.context.eq(generator.o.p.context),
            generator.o.ready.eq(self.memory.requests.ready & ~stopped),
            self.memory.abort.eq(self.abort),
        ]

        # Filling words with what comes.
        active = Signal()
        filling = Signal(Filling)
        shape = data.View(struct(Load), filling.word)
        row_left = Signal(32)
        rows_left = Signal(16)
        address = Signal(range(config.scratchpad_words))
        piece = Signal(range(lanes + 1))
        row_ends = Signal()
        fills = Signal()
        finishes = Signal()
        m.d.comb += [
            row_ends.eq(row_left <= lanes),
            piece.eq(Mux(row_ends, row_left, lanes)),
            fills.eq(active & (funnel.level >= piece) & ~stopped),
            finishes.eq(fills & row_ends & (rows_left == 1)),
            funnel.pop.eq(Mux(fills, piece, 0)),
            funnel.clear.eq(self.abort),
            self.write.enable.eq(fills),
            self.write.address.eq(address),
            self.next.give.eq(finishes & shape.signal_next),
            self.progress.eq(fills),
            self.busy.eq(active | fillings.r_rdy),
            fillings.r_en.eq(~active | finishes),
        ]
        for lane in range(lanes):
            bits = slice(lane * 8, lane * 8 + 8)
            m.d.comb += self.write.data[bits].eq(Mux(lane < piece, funnel.data[bits], 0))
        with m.If(fills):
            m.d.sync += [address.eq(address + 1), row_left.eq(row_left - lanes)]
            with m.If(row_ends):
                m.d.sync += [row_left.eq(shape.row_bytes), rows_left.eq(rows_left - 1)]
        with m.If(fillings.r_en):
            following = data.View(Filling, fillings.r_data)
            following_load = data.View(struct(Load), following.word)
            m.d.sync += active.eq(fillings.r_rdy)
            with m.If(fillings.r_rdy):
                m.d.sync += [
                    filling.eq(following),
                    address.eq(following.local),
                    row_left.eq(following_load.row_bytes),
                    rows_left.eq(following_load.rows),
                ]
        with m.If(self.abort):
            m.d.sync += active.eq(0)

        # A bad beat waits until all before it is written: then it belongs to the one in work.
        okay = Signal()
        failed = Signal()
        m.d.comb += [
            okay.eq(beats.p.status == Status.OKAY),
            failed.eq(beats.valid & ~okay & active & ~fills & ~stopped),
            funnel.i.valid.eq(beats.valid & okay & ~stopped),
            funnel.i.p.data.eq(beats.p.data),
            funnel.i.p.offset.eq(beats.p.offset),
            funnel.i.p.count.eq(beats.p.count),
            beats.ready.eq(stopped | (okay & funnel.i.ready)),
        ]
        refused = Signal()
        m.d.comb += refused.eq(self.operations.valid & permitted & illegal & ~self.busy & ~stopped)
        m.d.comb += self.fault.valid.eq(failed | refused)
        with m.If(failed):
            m.d.comb += [
                self.fault.address.eq(beats.p.address),
                self.fault.index.eq(filling.index),
                self.fault.word.eq(filling.word),
                self.fault.cause.eq(access_cause(beats.p.status)),
            ]
        with m.Elif(refused):
            m.d.comb += [
                self.fault.cause.eq(FaultCause.ILLEGAL_INSTRUCTION),
                self.fault.index.eq(operation.index),
                self.fault.word.eq(operation.word),
            ]
        return m
