"""The compute unit: MATMUL on the systolic array."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import Out, connect, flipped

from ..layout import struct
from ..regs.fault import FaultCause
from ..regs.instruction import Matmul
from .accumulate import Accumulate
from .array import SystolicArray
from .memory import READ_LATENCY
from .operation import LocalRead, LocalWrite, UnitSignature
from .rows import RowStage
from .weights import WeightStage

__all__ = ["ComputeUnit"]


class ComputeUnit(wiring.Component):
    """Runs MATMULs in two stages: one reads weights while the one before streams activations.

    A MATMUL that is taken in cycle 0 with its tokens there reads its weights in cycles
    1 … depth and its activations in cycles 2 … rows + 1. The sums of row r are written in cycle
    r + 3 + array rows + array columns. If operations wait, the next one's activations follow
    without a bubble when `rows` is at least the next one's depth, otherwise its weights do.
    A row that accumulates to where one of the two rows before it went waits for that sum.

    Tokens are taken together, in the cycle of the first read. *previous* gets its token in the
    cycle of the operation's last read, *next* in that of its last write.

    Faults: ILLEGAL_INSTRUCTION for rows = 0, for a depth of 0 or more than the array's rows, for
    `keep` with more depth than the weights in place have (none after `start` and abort), and for
    an operand beyond its memory, in the cycle in which it would be used; ARITHMETIC_OVERFLOW for
    a sum that wraps while `overflow` is set. Operands that `keep` does not need are not checked.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    The members of `UnitSignature` (*previous* is load, *next* is store), and
    activations, weights: the scratchpad. Lane i of an activation word is K index i, lane c of
        a weight word is column c.
    read, write: the accumulators.
    row: an activation row enters the array in this cycle.
    macs: multiply-accumulates that it makes: its depth × columns; else 0.
    weight_wait: weights are read while no activation row can be.
    """

    def __init__(self, config):
        self.config = config
        scratchpad = LocalRead(config.scratchpad_words, config.word_bytes * 8)
        super().__init__({
            **UnitSignature().members,
            "activations": Out(scratchpad),
            "weights": Out(scratchpad),
            "read": Out(LocalRead(config.accumulator_rows, config.columns * 32)),
            "write": Out(LocalWrite(config.accumulator_rows, config.columns * 32)),
            "row": Out(1),
            "macs": Out(range(config.rows * config.columns + 1)),
            "weight_wait": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.weight_stage = weights = WeightStage(config)
        m.submodules.row_stage = rows = RowStage(config)
        m.submodules.array = array = SystolicArray(config)
        m.submodules.accumulate = accumulate = Accumulate(config)
        word = data.View(struct(Matmul), rows.operation.word)
        connect(m, flipped(self.operations), weights.i)
        connect(m, weights.o, rows.i)
        connect(m, flipped(self.weights), weights.read)
        connect(m, flipped(self.activations), rows.read)
        connect(m, flipped(self.read), accumulate.read)
        connect(m, flipped(self.write), accumulate.write)
        m.d.comb += [
            rows.weights_pending.eq(weights.pending),
            accumulate.valid.eq(rows.read.enable),
            accumulate.row.eq(rows.row),
            accumulate.sums.eq(array.sums),
            weights.available.eq(Cat(self.previous.available, self.next.available)),
            Cat(self.previous.take, self.next.take).eq(weights.take),
            self.previous.give.eq(rows.ended & word.signal_previous),
            self.next.give.eq(accumulate.written.signal),
            self.waiting.eq(weights.waiting),
            self.busy.eq(weights.busy | rows.busy | accumulate.busy),
            self.progress.eq(weights.read.enable | rows.read.enable | accumulate.write.enable),
            self.weight_wait.eq(weights.read.enable & ~rows.read.enable & ~rows.conflict),
        ]
        self._enter_array(m, array, weights, rows)
        self._report_faults(m, weights, rows, accumulate)
        m.d.comb += weights.clear.eq(self.abort | self.start)
        for part in (rows, array, accumulate):
            m.d.comb += part.clear.eq(self.abort)
        return m

    def _enter_array(self, m, array, weights, rows):
        """Words from the scratchpad meet what is known of them."""
        config = self.config
        weight = data.StructLayout({"valid": 1, "row": range(config.rows), "bank": 1})
        weights_read = Signal(data.ArrayLayout(weight, READ_LATENCY))
        row = data.StructLayout({"valid": 1, "bank": 1, "depth": range(config.rows + 1)})
        rows_read = Signal(data.ArrayLayout(row, READ_LATENCY))
        m.d.sync += [
            weights_read.eq(Cat(weights.read.enable, weights.row, weights.bank, weights_read)),
            rows_read.eq(Cat(rows.read.enable, rows.bank, rows.depth, rows_read)),
        ]
        with m.If(self.abort):
            m.d.sync += [at.valid.eq(0) for at in (*weights_read, *rows_read)]

        entering = rows_read[-1]
        m.d.comb += [
            array.weights.valid.eq(weights_read[-1].valid),
            array.weights.row.eq(weights_read[-1].row),
            array.weights.bank.eq(weights_read[-1].bank),
            array.weights.lanes.eq(self.weights.data),
            array.activations.valid.eq(entering.valid),
            array.activations.bank.eq(entering.bank),
            self.row.eq(entering.valid),
            self.macs.eq(Mux(entering.valid, entering.depth * config.columns, 0)),
        ]
        for i, lane in enumerate(array.activations.lanes):
            with m.If(i < entering.depth):
                m.d.comb += lane.eq(self.activations.data.word_select(i, 8).as_signed())

    def _report_faults(self, m, weights, rows, accumulate):
        """The oldest operation at fault is reported; sums know theirs by its tag."""
        stopped = Signal()
        with m.If(self.fault.valid):
            m.d.sync += stopped.eq(1)
        with m.If(self.abort):
            m.d.sync += stopped.eq(0)
        m.d.comb += [weights.stop.eq(stopped), rows.stop.eq(stopped)]

        origin = data.StructLayout({"word": 128, "index": 13})
        m.submodules.origins = origins = memory.Memory(
            shape=origin, depth=1 << len(rows.row.tag), init=[]
        )
        write = origins.write_port()
        read = origins.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(rows.read.enable),
            write.addr.eq(rows.row.tag),
            write.data.word.eq(rows.operation.word),
            write.data.index.eq(rows.operation.index),
            read.addr.eq(accumulate.written.tag),
        ]
        with m.If(~stopped):
            with m.If(accumulate.overflow & self.overflow):
                m.d.comb += [
                    self.fault.valid.eq(1),
                    self.fault.cause.eq(FaultCause.ARITHMETIC_OVERFLOW),
                    self.fault.index.eq(read.data.index),
                    self.fault.word.eq(read.data.word),
                ]
            for stage in (rows, weights):
                with m.Elif(stage.illegal):
                    m.d.comb += [
                        self.fault.valid.eq(1),
                        self.fault.cause.eq(FaultCause.ILLEGAL_INSTRUCTION),
                        self.fault.index.eq(stage.operation.index),
                        self.fault.word.eq(stage.operation.word),
                    ]
