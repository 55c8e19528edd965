"""The store unit: CHANNEL and STORE."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import Out, connect, flipped

from ..interface import Status, WritePort, access_cause
from ..regs.fault import FaultCause
from ..regs.instruction import ChannelRecord, Opcode, OutputFormat, Store
from .memory import READ_LATENCY
from .operation import LOCAL_BITS, LocalRead, Operation, UnitSignature
from .requantise import REQUANTISE_LATENCY, Processing, Requantise
from .writer import RowWriter, row_layout

__all__ = ["StoreUnit"]

STORES = 4
"""STOREs whose writes may be in flight at once."""


def _field(word, field):
    """A field of an instruction word."""
    value = word[field.offset : field.offset + field.width]
    return value.as_signed() if field.signed else value


class StoreUnit(wiring.Component):
    """Reads sums, processes them and writes them to memory.

    A STORE that is taken in cycle 0 with its token there reads its rows from cycle 1 on, one a
    cycle while the bus keeps up; *previous* gets its token in the cycle of the last read, and the
    next operation is taken in that cycle while the writes go on. A row read in cycle t that
    completes a burst (INT8, or INT32 of no more than a beat) gives its request in t + 9. Rows
    that lie in memory without gaps are written as one long row.

    A CHANNEL that is taken in cycle 0 reads its n words in cycles 1 … n, as soon as no row is
    under way to its bytes; *previous* gets its token in cycle n, the next operation is taken in
    cycle n + 2. From `start` to the first one the table is all zeros.

    Faults: ILLEGAL_INSTRUCTION for rows = 0, columns = 0 or more than the array's, a row beyond
    the accumulators, a table beyond the scratchpad or with reserved bits set, low > high, and
    zero_point, low or high other than 0 with INT32; ARITHMETIC_OVERFLOW for an INT32 that wraps
    while `overflow` is set, six cycles after its row is read, of which nothing is written;
    ACCESS_VIOLATION, BUS_SLAVE_ERROR or BUS_DECODE_ERROR for a write, with its address.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    The members of `UnitSignature` (*previous* is compute, *next* is not used), and
    table: the scratchpad.
    accumulators: rows of int32.
    memory: `WritePort`.
    response: pulse, a burst is answered.
    """

    def __init__(self, config):
        self.config = config
        self.table_words = -(-ChannelRecord.BYTES * config.columns // config.word_bytes)
        super().__init__({
            **UnitSignature().members,
            "table": Out(LocalRead(config.scratchpad_words, config.word_bytes * 8)),
            "accumulators": Out(LocalRead(config.accumulator_rows, config.columns * 32)),
            "memory": Out(WritePort(config.data_bytes)),
            "response": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.requantise = requantise = Requantise(config)
        m.submodules.writer = writer = RowWriter(config)
        connect(m, flipped(self.memory), writer.memory)
        stopped = Signal()
        m.d.comb += [
            requantise.clear.eq(self.abort),
            writer.clear.eq(self.abort),
            writer.stop.eq(stopped),
        ]

        operation = Signal(Operation)
        word = operation.word
        valid = Signal()
        begun = Signal()
        placed = Signal()
        left = Signal(16)
        address = Signal(LOCAL_BITS)

        # The STOREs in flight are `stores` from `oldest` on; `tag` is that of the next or latest.
        origin = data.StructLayout({"word": 128, "index": 13})
        m.submodules.origins = origins = memory.Memory(shape=origin, depth=STORES, init=[])
        origin_write = origins.write_port()
        tag = Signal(range(STORES))
        oldest = Signal(range(STORES))
        stores = Signal(range(STORES + 1))

        is_store = Signal()
        illegal = Signal()
        permitted = Signal()
        begins = Signal()
        active = Signal()
        row_room = Signal()
        row_read = Signal()
        word_read = Signal()
        last_read = Signal()
        done = Signal()
        store_ends = Signal()
        rows_inside = Signal(READ_LATENCY)
        table_done, table_illegal = self._read_table(m, requantise.table, word_read, begins)
        m.d.comb += [
            is_store.eq(_field(word, Store.opcode) == Opcode.STORE),
            illegal.eq(valid & ~begun & self._illegal(operation, is_store)),
            permitted.eq(~_field(word, Store.wait_previous) | self.previous.available),
            self.waiting.eq(valid & ~begun & ~permitted & ~illegal & ~stopped),
            begins.eq(
                valid & ~begun & permitted & ~illegal & ~stopped
                & Mux(is_store, stores != STORES, ~(rows_inside.any() | requantise.busy))
            ),
            self.previous.take.eq(begins & _field(word, Store.wait_previous)),
            active.eq(begins | (valid & begun & ~stopped)),
            row_read.eq(active & is_store & (left != 0) & row_room),
            word_read.eq(active & ~is_store & (left != 0)),
            last_read.eq((row_read | word_read) & (left == 1)),
            self.previous.give.eq(last_read & _field(word, Store.signal_previous)),
            done.eq(
                active
                & Mux(
                    is_store,
                    (last_read | (left == 0)) & (placed | writer.patterns.ready),
                    table_done,
                )
            ),
            self.operations.ready.eq((~valid | done) & ~stopped),
            self.accumulators.enable.eq(row_read),
            self.accumulators.address.eq(address),
            self.table.enable.eq(word_read),
            self.table.address.eq(address),
            origin_write.en.eq(begins & is_store),
            origin_write.addr.eq(tag),
            origin_write.data.word.eq(word),
            origin_write.data.index.eq(operation.index),
            store_ends.eq(writer.response.valid & writer.response.last),
            self.busy.eq(valid | (stores != 0)),
            self.response.eq(writer.response.valid),
            self.progress.eq(
                row_read | word_read | self.response
                | (self.memory.data.valid & self.memory.data.ready)
            ),
        ]  # fmt: skip
        with m.If(begins):
            m.d.sync += begun.eq(1)
        with m.If(writer.patterns.valid & writer.patterns.ready):
            m.d.sync += placed.eq(1)
        with m.If(row_read | word_read):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1)]
        m.d.sync += stores.eq(stores + (begins & is_store) - store_ends)
        with m.If(store_ends):
            m.d.sync += oldest.eq(oldest + 1)
        with m.If(done):
            m.d.sync += [valid.eq(0), tag.eq(tag + is_store)]
        with m.If(self.operations.valid & self.operations.ready):
            taken = self.operations.p.word
            takes_store = _field(taken, Store.opcode) == Opcode.STORE
            m.d.sync += [
                operation.eq(self.operations.p),
                valid.eq(1),
                begun.eq(0),
                placed.eq(0),
                left.eq(Mux(takes_store, _field(taken, Store.rows), self.table_words)),
                address.eq(self.operations.p.local[0]),
            ]

        self._place(m, writer.patterns, operation, active & is_store & ~placed)
        self._process_rows(m, requantise, writer, word, tag, row_read, rows_inside, row_room)
        self._report_faults(m, stopped, operation, illegal | table_illegal, origins, oldest,
                            writer.response, requantise.o)  # fmt: skip
        with m.If(self.start):
            m.d.sync += requantise.table.eq(0)
        with m.If(self.abort):
            m.d.sync += [
                valid.eq(0), rows_inside.eq(0), tag.eq(0), oldest.eq(0), stores.eq(0),
            ]  # fmt: skip
        return m

    def _illegal(self, operation, is_store):
        """Whether the operation's fields or operand are out of range."""
        word = operation.word
        config = self.config
        rows, columns = _field(word, Store.rows), _field(word, Store.columns)
        low, high = _field(word, Store.low), _field(word, Store.high)
        clamp = Cat(_field(word, Store.zero_point), low, high)
        store = (
            (rows == 0)
            | (columns == 0)
            | (columns > config.columns)
            | (operation.local[0] + rows > config.accumulator_rows)
            | Mux(_field(word, Store.format) == OutputFormat.INT8, low > high, clamp.any())
        )
        return Mux(is_store, store, operation.local[0] > config.scratchpad_words - self.table_words)

    def _read_table(self, m, table, word_read, begins):
        """Takes the words into `table`; returns when the last is taken, and if one is wrong."""
        width = self.config.word_bytes * 8
        used = sum(
            ChannelRecord.MASK << c * ChannelRecord.WIDTH for c in range(self.config.columns)
        )
        arriving = Signal(READ_LATENCY)
        index = Signal(range(self.table_words + 1))
        done = Signal()
        wrong = Signal()
        with m.If(word_read | arriving.any()):
            m.d.sync += arriving.eq(Cat(word_read, arriving))
        with m.If(begins):
            m.d.sync += index.eq(0)
        with m.If(arriving[-1]):
            m.d.sync += index.eq(index + 1)
            m.d.comb += done.eq(index == self.table_words - 1)
            with m.Switch(index):
                for k in range(self.table_words):
                    part = table.as_value()[k * width : (k + 1) * width]
                    every = (1 << len(part)) - 1
                    mask = (used >> (k * width)) & every
                    word = self.table.data[: len(part)]
                    with m.Case(k):
                        m.d.sync += part.eq(word & mask)
                        m.d.comb += wrong.eq((word & (mask ^ every)).any())
        with m.If(self.abort):
            m.d.sync += arriving.eq(0)
        return done & ~wrong, wrong

    def _place(self, m, patterns, operation, valid):
        """Where the rows of the operation go."""
        word = operation.word
        pitch = _field(word, Store.pitch)
        rows = _field(word, Store.rows)
        is_int8 = _field(word, Store.format) == OutputFormat.INT8
        row_bytes = Signal(range(4 * self.config.columns + 1))
        dense = Signal()
        m.d.comb += [
            row_bytes.eq(_field(word, Store.columns) << Mux(is_int8, 0, 2)),
            dense.eq(pitch == row_bytes),
            patterns.valid.eq(valid),
            patterns.p.address.eq(operation.memory),
            patterns.p.pitch.eq(pitch),
            patterns.p.row_bytes.eq(Mux(dense, row_bytes * rows, row_bytes)),
            patterns.p.rows.eq(Mux(dense, 1, rows)),
            patterns.p.context.eq(self.context),
        ]

    def _process_rows(self, m, requantise, writer, word, tag, row_read, rows_inside, row_room):
        """Rows go through post-processing to a queue that has room for all that are under way."""
        processing = Signal(Processing)
        m.d.comb += [
            processing.output.eq(_field(word, Store.format)),
            processing.bias.eq(_field(word, Store.bias)),
            processing.zero_point.eq(_field(word, Store.zero_point)),
            processing.low.eq(_field(word, Store.low)),
            processing.high.eq(_field(word, Store.high)),
            processing.columns.eq(_field(word, Store.columns)),
            processing.tag.eq(tag),
        ]
        stages = [Signal(Processing, name=f"processing_{k}") for k in range(READ_LATENCY)]
        with m.If(row_read | rows_inside.any()):
            m.d.sync += [
                rows_inside.eq(Cat(row_read, rows_inside)),
                Cat(stages).eq(Cat(processing, stages)),
            ]
        m.d.comb += [
            requantise.i.valid.eq(rows_inside[-1]),
            requantise.i.processing.eq(stages[-1]),
            requantise.i.lanes.eq(self.accumulators.data),
        ]

        row = row_layout(self.config)
        depth = READ_LATENCY + REQUANTISE_LATENCY + 2
        results = SyncFIFO(width=row.size, depth=depth)
        m.submodules.results = ResetInserter(self.abort)(results)
        result = Signal(row)
        room = Signal(range(depth + 1), init=depth)
        leaves = results.r_en & results.r_rdy
        columns = requantise.o.processing.columns
        is_int8 = requantise.o.processing.output == OutputFormat.INT8
        m.d.comb += [
            row_room.eq(room != 0),
            result.bytes.eq(requantise.o.bytes),
            result.count.eq(columns << Mux(is_int8, 0, 2)),
            results.w_en.eq(requantise.o.valid),
            results.w_data.eq(result),
            writer.rows.valid.eq(results.r_rdy),
            writer.rows.p.eq(results.r_data),
            results.r_en.eq(writer.rows.ready),
        ]
        m.d.sync += room.eq(room - row_read + leaves)
        with m.If(self.abort):
            m.d.sync += room.eq(depth)

    def _report_faults(self, m, stopped, operation, illegal, origins, oldest, response, row):
        """A failed write is of the oldest operation, an illegal one the latest.

        A row that wrapped knows its own by its tag.
        """
        fault = self.fault
        written, wrapped = (origins.read_port(domain="comb") for _ in range(2))
        m.d.comb += [written.addr.eq(oldest), wrapped.addr.eq(row.processing.tag)]
        with m.If(~stopped):
            with m.If(response.valid & (response.status != Status.OKAY)):
                m.d.comb += [
                    fault.valid.eq(1),
                    fault.cause.eq(access_cause(response.status)),
                    fault.address.eq(response.address),
                    fault.write.eq(1),
                    fault.index.eq(written.data.index),
                    fault.word.eq(written.data.word),
                ]
            with m.Elif(row.valid & row.overflow & self.overflow):
                m.d.comb += [
                    fault.valid.eq(1),
                    fault.cause.eq(FaultCause.ARITHMETIC_OVERFLOW),
                    fault.index.eq(wrapped.data.index),
                    fault.word.eq(wrapped.data.word),
                ]
            with m.Elif(illegal):
                m.d.comb += [
                    fault.valid.eq(1),
                    fault.cause.eq(FaultCause.ILLEGAL_INSTRUCTION),
                    fault.index.eq(operation.index),
                    fault.word.eq(operation.word),
                ]
        with m.If(fault.valid):
            m.d.sync += stopped.eq(1)
        with m.If(self.abort):
            m.d.sync += stopped.eq(0)
