"""Copy engine: MEMCPY and MEMSET, rows of any alignment."""

from amaranth import Assert, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import Out

from .bus.beats import BeatSplitter, span_layout
from .bus.funnel import ByteFunnel, piece_layout
from .bus.pattern import BurstGenerator
from .interface import EngineSignature, ReadPort, Status, WritePort, access_cause
from .layout import struct
from .regs.descriptor import CopyPayload, TaskType

__all__ = ["Dma"]

WRITES_AHEAD = 4
"""Write bursts that may be requested ahead of the one whose data is sent."""


class Dma(wiring.Component):
    """Copies rows, or fills them; reads run ahead of writes as far as the data queue has room.

    The reads' beats wait in a queue of `outstanding` (at least 2) × `burst_beats` beats, where
    room for a whole burst is set aside before it is requested, so that read data never waits on
    the bus. A write burst is requested once all its bytes have arrived. Source and destination
    must not overlap, rows of the destination neither.

    A task offered in cycle t to an idle engine has its first burst requested in t + 1 and thus
    on the bus in t + 2. A write is requested in the cycle after its last byte arrived. `done` is
    valid in the cycle of the last response, or, after a fault or an abort, in the first one in
    which all is drained. In the cycle in which it is accepted the next task is taken.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    engine: `EngineSignature`; tasks are MEMCPY and MEMSET, with checked fields. A fault has the
        address of the beat or write burst. `ended` of a task that failed is when all is drained.
    read, write: ports to memory.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "engine": Out(EngineSignature()),
            "read": Out(ReadPort(config.data_bytes)),
            "write": Out(WritePort(config.data_bytes)),
        })

    def elaborate(self, platform):
        m = Module()
        engine = self.engine
        copy = Signal(struct(CopyPayload))
        take = Signal()
        stop = Signal()
        fill_task = Signal()
        filling = Signal()
        fill_byte = Signal(8)
        m.d.comb += [
            copy.eq(engine.tasks.p.payload),
            take.eq(engine.tasks.valid & engine.tasks.ready),
            fill_task.eq(engine.tasks.p.type == TaskType.MEMSET),
        ]
        with m.If(take):
            m.d.sync += [filling.eq(fill_task), fill_byte.eq(copy.source)]

        m.submodules.reader = reader = BurstGenerator(self.config.burst_bytes)
        m.submodules.writer = writer = BurstGenerator(self.config.burst_bytes)
        sides = (
            (reader, copy.source, copy.source_pitch),
            (writer, copy.destination, copy.destination_pitch),
        )
        for generator, address, pitch in sides:
            m.d.comb += [
                generator.i.p.address.eq(address),
                generator.i.p.pitch.eq(pitch),
                generator.i.p.row_bytes.eq(copy.row_bytes),
                generator.i.p.rows.eq(copy.rows),
                generator.i.p.context.eq(engine.tasks.p.context),
                generator.clear.eq(stop),
            ]
        m.d.comb += [
            reader.i.valid.eq(take & ~fill_task),
            writer.i.valid.eq(take),
            self.read.abort.eq(stop),
            self.write.abort.eq(stop),
        ]
        arrived, funnel = self._read_side(m, reader.o, stop)
        self._write_side(m, writer.o, stop, filling, fill_byte, arrived, funnel)
        self._control(m, writer.o, take, stop, filling)
        return m

    def _read_side(self, m, chunks, stop):
        """Requests reads; returns the bytes that arrive in this cycle and their funnel."""
        width = self.config.data_bytes
        depth = max(self.config.outstanding, 2) * self.config.burst_beats
        read = self.read
        layout = piece_layout(width)
        m.submodules.pieces = pieces = ResetInserter(stop)(
            fifo.SyncFIFOBuffered(width=layout.size, depth=depth)
        )
        m.submodules.funnel = funnel = ByteFunnel(width, width)
        arriving = Signal(layout)
        waiting = data.View(layout, pieces.r_data)
        room = Signal(range(depth + 1), init=depth)  # beats that no request has spoken for
        asked = Signal(range(self.config.burst_beats + 1))
        arrived = Signal(range(width + 1))
        m.d.comb += [
            read.requests.valid.eq(chunks.valid & (room >= self.config.burst_beats)),
            read.requests.p.address.eq(chunks.p.address),
            read.requests.p.bytes.eq(chunks.p.bytes),
            read.requests.p.context.eq(chunks.p.context),
            chunks.ready.eq(read.requests.valid & read.requests.ready),
            read.beats.ready.eq(1),
            arriving.data.eq(read.beats.p.data),
            arriving.offset.eq(read.beats.p.offset),
            arriving.count.eq(read.beats.p.count),
            pieces.w_data.eq(arriving),
            pieces.w_en.eq(read.beats.valid),
            pieces.r_en.eq(funnel.i.ready),
            funnel.i.valid.eq(pieces.r_rdy),
            funnel.i.p.eq(waiting),
            funnel.clear.eq(stop),
        ]
        with m.If(chunks.ready):
            m.d.comb += asked.eq(self._beats(chunks.p))
        with m.If(read.beats.valid):
            m.d.comb += arrived.eq(read.beats.p.count)
        m.d.sync += Assert(~read.beats.valid | pieces.w_rdy, "a read beat finds no room")
        m.d.sync += room.eq(room - asked + (pieces.r_rdy & pieces.r_en))
        with m.If(stop):
            m.d.sync += room.eq(depth)
        return arrived, funnel

    def _span(self, chunk):
        """The first and the last byte of a burst within its block."""
        first = chunk.address[: (self.config.burst_bytes - 1).bit_length()]
        return first, (first + chunk.bytes - 1)[: len(first)]

    def _beats(self, chunk):
        lane_bits = (self.config.data_bytes - 1).bit_length()
        first, last = self._span(chunk)
        return last[lane_bits:] - first[lane_bits:] + 1

    def _write_side(self, m, chunks, stop, filling, fill_byte, arrived, funnel):
        """Requests writes whose bytes have arrived, and sends their data."""
        config = self.config
        write = self.write
        layout = span_layout(config.burst_bytes)
        m.submodules.bursts = bursts = ResetInserter(stop)(
            fifo.SyncFIFO(width=layout.size, depth=WRITES_AHEAD)
        )
        m.submodules.splitter = splitter = BeatSplitter(config.data_bytes, config.burst_bytes)
        capacity = max(config.outstanding, 2) * config.burst_bytes + funnel.capacity
        secured = Signal(range(capacity + 1))  # bytes that arrived, not spoken for by a write
        spoken_for = Signal(range(config.burst_bytes + 1))
        span = Signal(layout)
        m.d.comb += [
            write.requests.valid.eq(
                chunks.valid & bursts.w_rdy & (filling | (secured >= chunks.p.bytes))
            ),
            write.requests.p.address.eq(chunks.p.address),
            write.requests.p.bytes.eq(chunks.p.bytes),
            write.requests.p.context.eq(chunks.p.context),
            chunks.ready.eq(write.requests.valid & write.requests.ready),
            Cat(span.first, span.last).eq(Cat(*self._span(chunks.p))),
            bursts.w_data.eq(span),
            bursts.w_en.eq(chunks.ready),
        ]  # fmt: skip
        with m.If(chunks.ready & ~filling):
            m.d.comb += spoken_for.eq(chunks.p.bytes)
        m.d.sync += secured.eq(secured + arrived - spoken_for)
        with m.If(stop):
            m.d.sync += secured.eq(0)

        beat = splitter.o.p
        strobe = write.data.p.strobe
        lanes = Signal(config.data_bytes * 8)
        m.d.comb += [
            splitter.clear.eq(stop),
            splitter.i.valid.eq(bursts.r_rdy),
            splitter.i.p.eq(bursts.r_data),
            bursts.r_en.eq(splitter.i.ready),
            write.data.valid.eq(splitter.o.valid & (filling | (funnel.level >= beat.count))),
            splitter.o.ready.eq(write.data.valid & write.data.ready),
            strobe.eq(((1 << beat.count) - 1) << beat.offset),
            lanes.eq(Mux(
                filling,
                fill_byte.replicate(config.data_bytes),
                funnel.data << (beat.offset << 3),
            )),
            write.data.p.data.eq(lanes & Cat(bit.replicate(8) for bit in strobe)),
        ]  # fmt: skip
        with m.If(splitter.o.ready & ~filling):
            m.d.comb += funnel.pop.eq(beat.count)

    def _control(self, m, writes, take, stop, filling):
        """From one task to the next: what the scheduler sees."""
        engine, read, write = self.engine, self.read, self.write
        begun = Signal()
        all_requested = Signal()
        unanswered = Signal(range(self.config.outstanding + 1))
        read_failed, write_failed, finished = Signal(), Signal(), Signal()
        failed = Signal()
        requested = writes.valid & writes.ready
        answered = write.responses.valid & write.responses.ready
        issued = Signal()
        status = Signal(Status)
        report = engine.fault.report
        m.d.comb += [
            write.responses.ready.eq(1),
            issued.eq(Mux(filling, write.issued, read.issued)),
            read_failed.eq(read.beats.valid & (read.beats.p.status != Status.OKAY)),
            write_failed.eq(answered & (write.responses.p.status != Status.OKAY)),
            finished.eq(answered & all_requested & (unanswered == 1)),
            status.eq(Mux(
                read_failed,
                read.beats.p.status.as_value(),
                write.responses.p.status.as_value(),
            )),
            engine.done.p.failed.eq(failed),
            engine.tasks.ready.eq(~engine.busy | (engine.done.valid & engine.done.ready)),
            engine.progress.eq(
                (read.beats.valid & read.beats.ready) | (write.data.valid & write.data.ready)
                | answered
            ),
        ]  # fmt: skip
        m.d.sync += unanswered.eq(unanswered + requested - answered)
        with m.If(stop):
            m.d.sync += unanswered.eq(0)
        with m.If(requested & writes.p.last):
            m.d.sync += all_requested.eq(1)
        with m.If(issued):
            m.d.sync += begun.eq(1)

        with m.FSM(name="state"):
            with m.State("IDLE"):
                with m.If(take):
                    m.next = "COPY"
            with m.State("COPY"):
                m.d.comb += [
                    engine.busy.eq(1),
                    engine.started.eq(issued & ~begun),
                    engine.fault.valid.eq(read_failed | write_failed),
                    stop.eq(engine.fault.valid | engine.abort),
                ]
                with m.If(engine.fault.valid):
                    m.d.comb += [
                        report.cause.eq(access_cause(status)),
                        report.write.eq(~read_failed),
                        report.address.eq(Mux(
                            read_failed, read.beats.p.address, write.responses.p.address
                        )),
                    ]  # fmt: skip
                with m.If(stop):
                    m.d.sync += failed.eq(1)
                    m.next = "DRAIN"
                with m.Elif(finished):
                    m.d.comb += engine.ended.eq(1)
                    self._leave(m, take)
            with m.State("DRAIN"):
                m.d.comb += engine.busy.eq(1)
                with m.If(read.idle & write.idle):
                    m.d.comb += engine.ended.eq(1)
                    self._leave(m, take)
            with m.State("DONE"):
                m.d.comb += engine.busy.eq(1)
                self._leave(m, take)
        with m.If(take):
            m.d.sync += [begun.eq(0), all_requested.eq(0), failed.eq(0)]

    def _leave(self, m, take):
        """The task is done; another may be taken in the cycle in which that is accepted."""
        m.d.comb += self.engine.done.valid.eq(1)
        m.next = "DONE"
        with m.If(self.engine.done.ready):
            m.next = "IDLE"
        with m.If(take):
            m.next = "COPY"
