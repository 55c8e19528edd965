"""Second stage of the compute unit: reads the activation rows of MATMULs."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..layout import struct
from ..regs.instruction import Matmul
from .accumulate import accumulate_row
from .operation import LOCAL_BITS, LocalRead, Operation
from .weights import Staged

__all__ = ["RowStage"]


class RowStage(wiring.Component):
    """Reads an activation row in each cycle, and says where its sums go.

    An operation taken in cycle t reads its first row in t + 1. The next is taken in the cycle of
    its last read, weights included. A row that accumulates to where one of the two rows before
    it went waits until their sums can be read.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    i: operations that have begun.
    weights_pending: some weight words of the operation are not read in this cycle either.
    read: the scratchpad.
    row: the `accumulate_row` of the row that is read in this cycle.
    bank, depth: the weights that multiply it.
    ended: pulse, the last read of `operation`.
    conflict: a row waits for sums.
    illegal: `operation` cannot go on, because its next activation or accumulator address is wrong.
    operation: the one in work.
    busy: there is one.
    stop: does nothing.
    clear: forgets the operation.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(Staged)),
            "weights_pending": In(1),
            "read": Out(LocalRead(config.scratchpad_words, config.word_bytes * 8)),
            "row": Out(accumulate_row(config)),
            "bank": Out(1),
            "depth": Out(range(config.rows + 1)),
            "ended": Out(1),
            "conflict": Out(1),
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
        activation = Signal(LOCAL_BITS)
        accumulator = Signal(LOCAL_BITS)
        tag = Signal.like(self.row.tag)
        recent = [Signal(LOCAL_BITS, name=f"recent_{k}") for k in range(2)]
        recent_valid = Signal(2)

        wanted = Signal()
        last_read = Signal()
        same = Cat(address == accumulator for address in recent)
        m.d.comb += [
            wanted.eq(self.busy & (left != 0)),
            self.conflict.eq(wanted & word.accumulate & (same & recent_valid).any()),
            self.illegal.eq(
                wanted
                & (
                    (activation >= config.scratchpad_words)
                    | (accumulator >= config.accumulator_rows)
                )
            ),
            self.read.enable.eq(wanted & ~self.conflict & ~self.illegal & ~self.stop),
            self.read.address.eq(activation),
            self.row.address.eq(accumulator),
            self.row.accumulate.eq(word.accumulate),
            self.row.signal.eq(word.signal_next & (left == 1)),
            self.row.tag.eq(tag),
            self.depth.eq(word.depth),
            last_read.eq((left == 0) | (self.read.enable & (left == 1))),
            self.ended.eq(self.busy & last_read & ~self.weights_pending & ~self.stop),
            self.i.ready.eq((~self.busy | self.ended) & ~self.stop),
        ]
        with m.If(self.read.enable):
            m.d.sync += [
                left.eq(left - 1),
                activation.eq(activation + word.pitch),
                accumulator.eq(accumulator + 1),
            ]
        with m.If(self.read.enable | recent_valid.any()):
            m.d.sync += [
                recent_valid.eq(Cat(self.read.enable, recent_valid)),
                Cat(recent).eq(Cat(accumulator, recent)),
            ]
        with m.If(self.ended):
            m.d.sync += self.busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            taken = data.View(struct(Matmul), self.i.p.operation.word)
            m.d.sync += [
                self.operation.eq(self.i.p.operation),
                self.busy.eq(1),
                self.bank.eq(self.i.p.bank),
                left.eq(taken.rows),
                activation.eq(self.i.p.operation.local[0]),
                accumulator.eq(self.i.p.operation.local[2]),
                tag.eq(tag + 1),
            ]
        with m.If(self.clear):
            m.d.sync += [self.busy.eq(0), recent_valid.eq(0)]
        return m
