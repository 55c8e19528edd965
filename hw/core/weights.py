"""First stage of the compute unit: takes MATMULs and reads their weights."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..layout import struct
from ..regs.instruction import Matmul
from .operation import LOCAL_BITS, LocalRead, Operation

__all__ = ["Staged", "WeightStage"]


class Staged(data.Struct):
    """An operation whose weights are in place or on their way to `bank`."""

    operation: Operation
    bank: 1


class WeightStage(wiring.Component):
    """Reads the weights of an operation while the one before streams its activations.

    An operation taken in cycle t begins in t + 1 if its tokens are there: it takes them, reads
    its first weight word and is offered at `o`. The next is taken in the cycle in which its
    last weight word is read, or in which it leaves by `o` if that is later.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    i: operations.
    available, take: tokens of (previous, next).
    o: operations that have begun. Each uses the other bank than the one before it, unless it
        keeps the weights.
    read: the scratchpad.
    row, bank: where the weight word that is read in this cycle belongs.
    pending: some weight words of the operation that left last are not read in this cycle either.
    waiting: a token is missing.
    illegal: `operation` cannot go on, because its fields or its next weight address are wrong.
    operation: the one in work.
    busy: there is one.
    stop: does nothing.
    clear: forgets the operation, and that there are weights to keep.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(Operation)),
            "available": In(2),
            "take": Out(2),
            "o": Out(stream.Signature(Staged)),
            "read": Out(LocalRead(config.scratchpad_words, config.word_bytes * 8)),
            "row": Out(range(config.rows)),
            "bank": Out(1),
            "pending": Out(1),
            "waiting": Out(1),
            "illegal": Out(1),
            "operation": Out(Operation),
            "busy": Out(1),
            "stop": In(1),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        word = data.View(struct(Matmul), self.operation.word)
        left = Signal(16)
        address = Signal(LOCAL_BITS)
        kept_depth = Signal(range(config.rows + 1))
        begun = Signal()
        handed = Signal()

        begins = Signal()
        active = Signal()
        permitted = Signal()
        last_read = Signal()
        done = Signal()
        m.d.comb += [
            permitted.eq(
                (~word.wait_previous | self.available[0]) & (~word.wait_next | self.available[1])
            ),
            self.illegal.eq(
                self.busy
                & (
                    (word.rows == 0)
                    | (word.depth == 0)
                    | (word.depth > config.rows)
                    | (~begun & word.keep & (word.depth > kept_depth))
                    | ((left != 0) & (address >= config.scratchpad_words))
                )
            ),
            self.waiting.eq(self.busy & ~begun & ~permitted & ~self.illegal & ~self.stop),
            begins.eq(self.busy & ~begun & permitted & ~self.illegal & ~self.stop),
            active.eq(begins | (self.busy & begun & ~self.illegal & ~self.stop)),
            self.take[0].eq(begins & word.wait_previous),
            self.take[1].eq(begins & word.wait_next),
            self.read.enable.eq(active & (left != 0)),
            self.read.address.eq(address),
            last_read.eq((left == 0) | (active & (left == 1))),
            self.pending.eq(handed & ~last_read),
            self.o.valid.eq(active & ~handed),
            self.o.p.operation.eq(self.operation),
            self.o.p.bank.eq(self.bank),
            done.eq(active & last_read & (handed | self.o.ready)),
            self.i.ready.eq((~self.busy | done) & ~self.stop),
        ]
        with m.If(begins):
            m.d.sync += begun.eq(1)
            with m.If(~word.keep):
                m.d.sync += kept_depth.eq(word.depth)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += handed.eq(1)
        with m.If(self.read.enable):
            m.d.sync += [
                left.eq(left - 1),
                address.eq(address + word.weight_pitch),
                self.row.eq(self.row + 1),
            ]
        with m.If(done):
            m.d.sync += self.busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            taken = data.View(struct(Matmul), self.i.p.word)
            m.d.sync += [
                self.operation.eq(self.i.p),
                self.busy.eq(1),
                begun.eq(0),
                handed.eq(0),
                left.eq(Mux(taken.keep, 0, taken.depth)),
                address.eq(self.i.p.local[1]),
                self.row.eq(0),
                self.bank.eq(self.bank ^ ~taken.keep),
            ]
        with m.If(self.clear):
            m.d.sync += [self.busy.eq(0), kept_depth.eq(0)]
        return m
