"""Writes rows of bytes to memory in bursts whose data is secured."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from ..bus.funnel import ByteFunnel
from ..bus.pattern import BurstGenerator, Pattern
from ..interface import BurstRequest, Status, WritePort

__all__ = ["RowWriter", "row_layout"]


def row_layout(config):
    """The first `count` bytes of `bytes`, as many as a row of int32 has at most."""
    return data.StructLayout({
        "bytes": 32 * config.columns, "count": range(4 * config.columns + 1),
    })  # fmt: skip


class RowWriter(wiring.Component):
    """Cuts rows into beats, beats into bursts, and asks for a burst once its last beat waits.

    A row of at most `data_bytes` bytes is taken in each cycle if the bus takes a beat in each.
    Bytes taken in cycle t that complete a burst give its request in t + 2; its first beat
    follows in the cycle after the request is accepted.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    patterns: where rows go, in order; a pattern has exactly as many bytes as its rows.
    rows: `row_layout`.
    memory: `WritePort`.
    response: the answer to a burst in this cycle: {valid, last of its pattern, status, address}.
    stop: asks for nothing more.
    clear: forgets everything.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "patterns": In(stream.Signature(Pattern)),
            "rows": In(stream.Signature(row_layout(config))),
            "memory": Out(WritePort(config.data_bytes)),
            "response": Out(data.StructLayout({
                "valid": 1, "last": 1, "status": Status,
                "address": BurstRequest.as_shape()["address"].shape,
            })),
            "stop": In(1),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        width = config.data_bytes
        m.submodules.generator = generator = BurstGenerator(config.burst_bytes)
        m.submodules.funnel = funnel = ByteFunnel(width, width)
        beat = data.StructLayout({"data": width * 8, "strobe": width, "last": 1})
        beats = SyncFIFO(width=beat.size, depth=2 * config.burst_beats)
        lasts = SyncFIFO(width=1, depth=config.outstanding + 2)
        m.submodules.beats = ResetInserter(self.clear)(beats)
        m.submodules.lasts = ResetInserter(self.clear)(lasts)
        connect(m, flipped(self.patterns), generator.i)
        m.d.comb += [
            generator.clear.eq(self.clear),
            funnel.clear.eq(self.clear),
            self.memory.abort.eq(self.clear),
        ]
        self._cut_rows(m, funnel)

        # The next beat of the chunk that the generator shows.
        chunk = generator.o
        request = self.memory.requests
        request_valid = Signal()
        packed = Signal(13)
        left = Signal(13)
        lane = Signal(range(width))
        room = Signal(range(width + 1))
        count = Signal(range(width + 1))
        ends = Signal()
        packs = Signal()
        packing = Signal(beat)
        m.d.comb += [
            left.eq(chunk.p.bytes - packed),
            lane.eq(Mux(packed == 0, chunk.p.address, 0)),
            room.eq(width - lane),
            ends.eq(left <= room),
            count.eq(Mux(ends, left, room)),
            packs.eq(
                chunk.valid
                & (funnel.level >= count)
                & beats.w_rdy
                & (~ends | ((~request_valid | request.ready) & lasts.w_rdy))
                & ~self.stop
            ),
            chunk.ready.eq(packs & ends),
            funnel.pop.eq(Mux(packs, count, 0)),
            packing.data.eq(funnel.data << (lane << 3)),
            packing.strobe.eq(((1 << count) - 1) << lane),
            packing.last.eq(ends),
            beats.w_en.eq(packs),
            beats.w_data.eq(packing),
            lasts.w_en.eq(packs & ends),
            lasts.w_data.eq(chunk.p.last),
            request.valid.eq(request_valid & ~self.stop),
        ]
        with m.If(request.valid & request.ready):
            m.d.sync += request_valid.eq(0)
        with m.If(packs):
            m.d.sync += packed.eq(Mux(ends, 0, packed + count))
            with m.If(ends):
                m.d.sync += [
                    request_valid.eq(1),
                    request.p.address.eq(chunk.p.address),
                    request.p.bytes.eq(chunk.p.bytes),
                    request.p.context.eq(chunk.p.context),
                ]

        # Beats of accepted bursts only.
        owed = Signal(range(2 * config.burst_beats + 1))
        sending = data.View(beat, beats.r_data)
        sends = self.memory.data.valid & self.memory.data.ready
        m.d.comb += [
            self.memory.data.valid.eq(beats.r_rdy & (owed != 0) & ~self.stop),
            self.memory.data.p.data.eq(sending.data),
            self.memory.data.p.strobe.eq(sending.strobe),
            beats.r_en.eq(sends),
        ]
        m.d.sync += owed.eq(owed + (request.valid & request.ready) - (sends & sending.last))

        answer = self.memory.responses
        m.d.comb += [
            answer.ready.eq(1),
            lasts.r_en.eq(answer.valid),
            self.response.eq(Cat(answer.valid, lasts.r_data, answer.p.status, answer.p.address)),
        ]
        with m.If(self.clear):
            m.d.sync += [request_valid.eq(0), packed.eq(0), owed.eq(0)]
        return m

    def _cut_rows(self, m, funnel):
        """Rows enter the funnel in pieces of a beat's size."""
        width = self.config.data_bytes
        row = self.rows.p
        piece = Signal(range(max(2, len(row.bytes) // (width * 8))))
        left = Signal.like(row.count)
        m.d.comb += [
            left.eq(row.count - piece * width),
            funnel.i.valid.eq(self.rows.valid),
            funnel.i.p.data.eq(row.bytes.word_select(piece, width * 8)),
            funnel.i.p.count.eq(Mux(left < width, left, width)),
            self.rows.ready.eq(funnel.i.ready & (left <= width)),
        ]
        with m.If(funnel.i.valid & funnel.i.ready):
            m.d.sync += piece.eq(Mux(self.rows.ready, 0, piece + 1))
        with m.If(self.clear):
            m.d.sync += piece.eq(0)
