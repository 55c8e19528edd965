"""Completion writer: timed records, and completion entries in the rings of the contexts."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arbiter import Arbiter
from ..config import ADDRESS_BITS
from ..interface import CreditSignature, FaultEvent, Retirement, Status, WritePort, access_cause
from ..layout import struct
from ..regs.descriptor import Completion, TimedRecord
from ..regs.fault import FaultCause, FaultUnit
from .block_writer import BlockWriter
from .ring import CompletionRing, CompletionSignature

__all__ = ["CompletionWriter"]

COPIED = ("stream", "engine", "context", "task_id", "start", "end", "counters")


class CompletionWriter(wiring.Component):
    """Writes what retired tasks leave behind, one at a time.

    Each context has a short queue, and the queues are served round-robin. None waits for room in
    its ring, as `CompletionRing` gives credit for tasks that have it. Of a retirement, the timed
    record is written first; the entry follows when the record is answered.

    A failed write is a fault. After a failed record the entry is written whether it was asked for
    or not, with the fault's cause as its status; a failed entry is dropped and `tail` stays.
    Retirements of contexts that the device does not have are dropped.

    A retirement taken in cycle t, with an idle writer, has its first request valid in t + 2. Its
    beats follow from the cycle after the request was taken. With the answer in cycle a, `written`
    pulses in a + 1. The next request is valid in a + 1 (the entry behind its record), a + 2 (behind
    an entry) or a + 3 (behind a record alone). So on a bus that answers in the cycle after the last
    beat, an entry of n beats takes n + 3 cycles from request to request.
    Writes are bursts of 64 bytes, or of `burst_bytes` if that is less.

    Parameters
    ----------
    config: sizes.
    depth: retirements that the queue of a context holds, a power of two.

    Members
    -------
    entries: retirements; ready if there is room in the queue of the context offered.
    room: one bit for each context: its queue has room.
    queues: the ring of each context; see `CompletionSignature`.
    credits: of each context; see `CreditSignature`.
    holds: one bit for each stream: a retirement of it is held, from the cycle after it was taken
        to that of its last answer. A stream has retirements of one context only at a time.
    memory: writes.
    fault: a failed write, in the cycle of its answer.
    """

    def __init__(self, config, depth=4):
        assert depth & (depth - 1) == 0
        self.config = config
        self.depth = depth
        super().__init__({
            "entries": In(stream.Signature(Retirement)),
            "room": Out(config.contexts),
            "queues": In(CompletionSignature()).array(config.contexts),
            "credits": Out(CreditSignature()).array(config.contexts),
            "holds": Out(config.streams),
            "memory": Out(WritePort(config.data_bytes)),
            "fault": Out(FaultEvent),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.turns = turns = Arbiter(self.config.contexts)
        m.submodules.writer = writer = BlockWriter(self.config)
        connect(m, writer.memory, flipped(self.memory))

        rings = []
        for i, (queue, credit) in enumerate(zip(self.queues, self.credits, strict=True)):
            m.submodules[f"ring{i}"] = ring = CompletionRing(self.depth + 1)
            connect(m, flipped(queue), ring.registers)
            connect(m, ring.credit, flipped(credit))
            rings.append(ring)
        busy = Signal()
        ends = Signal()
        m.d.comb += turns.accept.eq(~busy)
        work = self._queues(m, turns, rings, busy)
        self._writing(m, turns, rings, work, busy, ends, writer)
        self._held(m, work, ends)
        return m

    def _queues(self, m, turns, rings, busy):
        """The retirement that was chosen in the cycle before, until the next choice."""
        contexts = self.config.contexts
        depth_bits = (self.depth - 1).bit_length()
        m.submodules.pending = pending = memory.Memory(
            shape=Retirement, depth=contexts * self.depth, init=[]
        )
        write, read = pending.write_port(), pending.read_port()
        pushed = Array(Signal(depth_bits + 1, name=f"pushed{i}") for i in range(contexts))
        popped = Array(Signal(depth_bits + 1, name=f"popped{i}") for i in range(contexts))
        context = self.entries.p.context
        m.d.comb += [
            self.entries.ready.eq(1),
            write.data.eq(self.entries.p),
            write.addr.eq(Cat(pushed[context][:depth_bits], context)),
            write.en.eq(self.entries.valid & self.entries.ready & (context < contexts)),
            read.addr.eq(Cat(popped[turns.index][:depth_bits], turns.index)),
            read.en.eq(turns.valid & turns.accept),
        ]
        for i, ring in enumerate(rings):
            level = Signal(depth_bits + 1, name=f"level{i}")
            m.d.comb += [
                level.eq(pushed[i] - popped[i]),
                self.room[i].eq(level != self.depth),
                turns.requests[i].eq(level != 0),
                ring.held.eq(level + (busy & (read.data.context == i))),
            ]
            with m.If(context == i):
                m.d.comb += self.entries.ready.eq(self.room[i])
                with m.If(write.en):
                    m.d.sync += pushed[i].eq(pushed[i] + 1)
            with m.If(read.en & turns.grant[i]):
                m.d.sync += popped[i].eq(popped[i] + 1)
        return read.data

    def _held(self, m, work, ends):
        """Counts what is held of each stream."""
        pushes = Signal()
        entry = self.entries.p
        m.d.comb += pushes.eq(
            self.entries.valid & self.entries.ready & (entry.context < self.config.contexts)
        )
        for s in range(self.config.streams):
            held = Signal(range(self.depth + 2), name=f"held{s}")
            m.d.comb += self.holds[s].eq(held != 0)
            m.d.sync += held.eq(
                held + (pushes & (entry.stream == s)) - (ends & (work.stream == s))
            )

    def _writing(self, m, turns, rings, work, busy, ends, writer):
        chosen = [
            Array(getattr(ring, name) for ring in rings)[turns.index]
            for name in ("exists", "place", "phase")
        ]
        has_ring = Signal()
        place = Signal(ADDRESS_BITS)
        phase = Signal()
        recorded = Signal()
        cause = Signal(8)
        with m.If(turns.accept & turns.valid):
            m.d.sync += [
                busy.eq(1),
                Cat(has_ring, place, phase).eq(Cat(chosen)),
                recorded.eq(0),
                cause.eq(FaultCause.NONE),
            ]

        record = Signal(struct(TimedRecord))
        entry = Signal(struct(Completion))
        record_next = Signal()
        entry_next = Signal()
        block = writer.blocks
        m.d.comb += [
            record.generation.eq(work.generation),
            record.timestamp.eq(work.timestamp),
            entry.phase.eq(phase),
            entry.status.eq(Mux(cause == FaultCause.NONE, work.status, cause)),
            *(entry[name].eq(work[name]) for name in COPIED),
            record_next.eq(busy & work.timed & ~recorded),
            entry_next.eq(
                busy
                & ~record_next
                & has_ring
                & (work.completion | (cause != FaultCause.NONE))
            ),
            block.valid.eq(record_next | entry_next),
            block.p.context.eq(work.context),
            block.p.short.eq(record_next),
            block.p.address.eq(Mux(record_next, work.address, place)),
            block.p.content.eq(Mux(record_next, record, entry)),
            ends.eq(busy & ~record_next & (block.ready | ~entry_next)),
        ]  # fmt: skip
        for i, ring in enumerate(rings):
            m.d.comb += ring.count.eq(
                entry_next & block.ready & (writer.status == Status.OKAY) & (work.context == i)
            )
        with m.If(block.ready):
            m.d.sync += [recorded.eq(1), cause.eq(access_cause(writer.status))]
        with m.If(ends):
            m.d.sync += busy.eq(0)

        report = self.fault.report
        m.d.comb += [
            self.fault.valid.eq(block.ready & (writer.status != Status.OKAY)),
            self.fault.context.eq(work.context),
            self.fault.stream.eq(work.stream),
            self.fault.engine.eq(FaultUnit.COMPLETION),
            self.fault.task_id.eq(work.task_id),
            report.cause.eq(access_cause(writer.status)),
            report.address.eq(writer.address),
            report.write.eq(1),
        ]
